"""The values that travel between the store and its callers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, get_args

Status = Literal["live", "done", "failed", "error", "cancelled", "lost", "drifted"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)


class RunHeader(NamedTuple):
    """All of a stored run but its blob; the key and the revision that a save must name.

    `row` is the row's key in the file. `revision` counts the writes of the row from 2^33.
    `due_ms` is the nearest timer, `limits.NO_TIMER_MS` if there is none. `ended_ms` is None
    while the run is live. A `parked` run only waits: nothing is in flight.

    Each save makes one, and a named tuple is made in a sixth of the time of a frozen dataclass.
    """

    row: int
    run_id: str
    machine: str
    digest: str
    status: Status
    reason: str | None
    revision: int
    created_ms: int
    updated_ms: int
    ended_ms: int | None
    due_ms: int
    parked: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """One row as it was read: `blob` is empty where the reader did not ask for it."""

    header: RunHeader
    blob: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingRuns:
    """Live runs of one machine in one shape that only wait: what is kept of them until an event.

    `due_ms` says when the nearest timer is due, by run id, of those that have one.
    """

    machine: str
    digest: str
    run_ids: list[str]
    due_ms: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRows:
    """A slice of the live rows: runs that only wait, and the others.

    `active` has the others' run ids by their rows.
    """

    waiting: tuple[WaitingRuns, ...]
    active: dict[int, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """Who owns a file: the `term` that its writes must carry, and the `holder` that raised it."""

    term: int
    holder: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingEntry:
    """What must be known of an entry of the mailbox before its turn comes.

    For which run it is, and its kind: one that ends a run cannot wait for what holds that run up.
    """

    entry: int
    run_id: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MailboxEntry:
    """What another process has handed in for a run.

    `entry` grows in the order of acceptance. `outcome` and `settled_ms` are None until it is
    settled. `delivery` is the sender's own id for it, if it gave one.
    """

    entry: int
    run_id: str
    kind: str
    data: bytes
    delivery: str | None
    created_ms: int
    outcome: str | None
    settled_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStats:
    """Numbers of one open file.

    `wal_bytes` is the length of the write-ahead log on disk. `longest_checkpoint_stall_ms`
    is the longest time that this process has held its saves back for a checkpoint.
    """

    page_bytes: int
    page_count: int
    free_pages: int
    wal_bytes: int
    checkpoints: int
    longest_checkpoint_stall_ms: float


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret that is kept elsewhere, never the secret itself.

    The codec refuses to save one, so that nothing secret is written by accident: save
    `ref`, and look the secret up where it is used.
    """

    ref: str
