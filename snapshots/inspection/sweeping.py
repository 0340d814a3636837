"""What a sweep takes out of a file: looked at beforehand, and done where no host does it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.clock import SystemClock
from snapshots.database import patiently
from snapshots.errors import SnapshotsError
from snapshots.inspection.limits import SWEEP_REST_FACTOR
from snapshots.mailbox import Mailbox
from snapshots.opening import open_storage
from snapshots.store.reading import text_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.inspection.queries.files import RunFile
    from snapshots.records import Owner
    from snapshots.store import SqliteSnapshotStore

# Oldest first, as they are swept. The length of a blob is told without reading it.
RUNS: Final = """
select cast(machine as blob), status, count(*), sum(length(blob)), min(ended_ms), max(ended_ms)
from runs indexed by runs_ended where status <> 'live' and ended_ms < ?
group by machine, status order by 5"""
MAIL: Final = """
select count(*) from mailbox indexed by mailbox_settled where settled_ms < ?"""
VALUES: Final = "select count(*) from keyed indexed by keyed_expiring where expires_ms <= ?"
LEASES: Final = "select count(*) from leases indexed by leases_expiring where expires_ms <= ?"
TABLES: Final = "select name from sqlite_schema where type in ('table', 'index')"

_OPERATION: Final = "look at what is old"


class TakenOverError(SnapshotsError):
    """A host has taken the file over while it was swept; it sweeps the rest by itself."""

    def __init__(self, path: str, holder: str, swept: int) -> None:
        """Say who has it now, and how many runs were deleted before."""
        super().__init__(path, holder, swept)
        self.path = path
        self.holder = holder
        self.swept = swept

    def __str__(self) -> str:
        return (
            f"{self.holder} has taken {self.path!r} over, after {self.swept} runs were swept:"
            " it sweeps the rest by itself"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OldRuns:
    """Runs of a machine that ended in one status and are old: how many, and between when."""

    machine: str
    status: str
    count: int
    bytes: int
    first_ended_ms: int
    last_ended_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Old:
    """What a sweep would delete: runs, settled mail, expired values and leases."""

    runs: tuple[OldRuns, ...]
    mail: int
    values: int
    leases: int

    @property
    def run_count(self) -> int:
        """How many runs there are in all."""
        return sum(found.count for found in self.runs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """How much a sweep has deleted: runs, settled mail, values and leases that had expired."""

    runs: int
    mail: int
    stored: int


def old_of(file: RunFile, *, now_ms: int) -> Old:
    """Return what a sweep at `now_ms` would delete; nothing is written.

    A file of an earlier release may have no mail, values or leases to be swept yet.
    """
    known = {name for (name,) in file.ask(_OPERATION, TABLES)}

    def count(index: str, sql: str, before_ms: int) -> int:
        return file.ask(_OPERATION, sql, (before_ms,))[0][0] if index in known else 0

    rows = file.ask(_OPERATION, RUNS, (now_ms - limits.RETENTION_MS,))
    return Old(
        runs=tuple(
            OldRuns(
                machine=text_of(machine),
                status=status,
                count=number,
                bytes=size,
                first_ended_ms=first,
                last_ended_ms=last,
            )
            for machine, status, number, size, first, last in rows
        ),
        mail=count("mailbox_settled", MAIL, now_ms - limits.MAILBOX_SETTLED_MS),
        values=count("keyed_expiring", VALUES, now_ms),
        leases=count("leases_expiring", LEASES, now_ms),
    )


def sweep(
    store: SqliteSnapshotStore, *, expected: int, progress: Callable[[int, int], None]
) -> Swept:
    """Delete what is old, as a host does: a slice a transaction, with room for others between.

    `progress` is told how many runs of the `expected` are gone. Raises `TakenOverError` if a host
    takes the file over meanwhile: from then on it alone may write.
    """
    owner = store.owner()
    storage, mailbox = open_storage(store), Mailbox(store)
    runs = mail = stored = 0

    def told(rows: int) -> None:
        progress(rows, expected)

    runs = _in_slices(store, owner, store.sweep, told, 0)
    before_ms = SystemClock().now_ms() - limits.MAILBOX_SETTLED_MS
    mail = _in_slices(store, owner, lambda: mailbox.sweep(before_ms), lambda _: None, runs)
    stored = _in_slices(store, owner, storage.sweep, lambda _: None, runs)
    return Swept(runs=runs, mail=mail, stored=stored)


def _in_slices(
    store: SqliteSnapshotStore,
    owner: Owner | None,
    delete: Callable[[], int],
    told: Callable[[int], None],
    runs: int,
) -> int:
    swept = 0

    def one_slice() -> int:
        # Whoever takes the file over raises the term first: seen here, or after the commit.
        with store.transaction():
            now = store.owner()
            if now != owner:
                holder = now.holder if now else "another process"
                raise TakenOverError(store.path, holder, runs or swept)
            return delete()

    while True:
        began_s = time.monotonic()
        rows = patiently(one_slice)
        if rows == 0:
            return swept
        swept += rows
        told(swept)
        time.sleep(SWEEP_REST_FACTOR * (time.monotonic() - began_s))
