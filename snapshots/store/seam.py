"""The contract of a store of runs, for callers and for whoever writes another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from snapshots import limits

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager
    from types import TracebackType

    from snapshots.database.backup import Backup, Progress
    from snapshots.records import (
        LiveRows,
        Owner,
        RunHeader,
        Status,
        StoredRun,
        StoreStats,
    )

Blob = bytes | bytearray | memoryview
Stretch = tuple[int, int]
"""A part of a blob: where it begins, and where it ends."""


class SnapshotStore(Protocol):
    """Runs, one row each, written synchronously: what returns is committed.

    For one thread, the one that opened it. A blob is opaque here. Every method may raise a
    `StorageError`, and then has changed nothing, save that what a disk refused to sync can come
    back if the process dies before its next write; after `close()` it is `StorageClosedError`.
    Once `take_over` has been called every write carries the term that it returned, and
    raises `FencedError` as soon as the file has another.
    """

    @property
    def path(self) -> str:
        """Where the runs are: the file's absolute path, or `:memory:`."""
        ...

    @property
    def term(self) -> int | None:
        """The term that writes carry, None before `take_over`."""
        ...

    def create(
        self,
        *,
        run_id: str,
        machine: str,
        digest: str,
        shape: bytes,
        blob: Blob,
        due_ms: int = limits.NO_TIMER_MS,
        parked: bool = False,
        status: Status = "live",
        reason: str | None = None,
        now_ms: int | None = None,
    ) -> RunHeader:
        """Store a new run, and its machine's `shape` once per `digest`, in one transaction.

        Raises `RunExistsError` if the id is in use, `InvalidKeyError` for an id that no run
        may have, or a machine or digest with a lone surrogate, `LimitError` for a blob beyond
        `BLOB_BYTES_MAX`.
        """
        ...

    def save(
        self,
        header: RunHeader,
        blob: Blob,
        *,
        status: Status = "live",
        reason: str | None = None,
        due_ms: int = limits.NO_TIMER_MS,
        parked: bool = False,
        sync: bool = False,
        changed: Sequence[Stretch] | None = None,
    ) -> RunHeader:
        """Write a live run's whole state over the one that `header` names.

        Returns the header that the next save must name. A `status` other than live ends the
        run, and only such a save may have a `reason`. With `sync` it survives a power loss
        when it returns. `changed` is for whoever knows where `blob` differs from the one that
        `header` names: of a long row only that is written, which takes as long as that is, and
        what it leaves out stays as it was. Raises `RevisionConflictError` if the row is at
        another revision or not live, `RunNotFoundError`, `LimitError`.
        """
        ...

    def mark(self, header: RunHeader, status: Status, reason: str | None) -> RunHeader:
        """Change a run's status alone, from any to any; the blob stays.

        Marking it live revives it. Raises `RevisionConflictError` or `RunNotFoundError`.
        """
        ...

    def migrate(
        self,
        header: RunHeader,
        blob: Blob,
        *,
        machine: str,
        digest: str,
        shape: bytes,
        due_ms: int = limits.NO_TIMER_MS,
        parked: bool = False,
        status: Status = "live",
    ) -> RunHeader:
        """Write a run that now has another shape over the row that `header` names.

        Blob and digest change together, from whatever status, and the machine's `shape` is kept
        once per digest; the reason of the former status goes. Returns the header that the next
        save must name. Raises `RevisionConflictError` if the row is at another revision,
        `RunNotFoundError`, `LimitError`.
        """
        ...

    def load(self, run_id: str) -> StoredRun:
        """Return one run by its whole id, whatever its status; `RunNotFoundError` if none."""
        ...

    def find(self, prefix: str) -> tuple[str, ...]:
        """Return the first `FIND_RUNS_MAX` run ids that start with `prefix`, in order."""
        ...

    def resolve(self, prefix: str) -> str:
        """Return the one run id that is `prefix`, or else that starts with it.

        Raises `RunNotFoundError` for none and `AmbiguousRunError` for several.
        """
        ...

    def live(self) -> Iterator[StoredRun]:
        """Yield the live runs, oldest row first; a parked one has an empty blob.

        Read in slices of their own, so that the caller may write in between: a run that
        ends before its slice is read is not yielded. No row that is not live is read.
        """
        ...

    def live_at(self, row: int) -> StoredRun | None:
        """Return the live run of a row, None if there is none any more."""
        ...

    def survey(self) -> Iterator[LiveRows]:
        """Yield all live rows, in slices as `live`, with what a boot needs to know of each.

        No blob is read. The pages of the file are not kept in memory.
        """
        ...

    def headers(
        self, status: Status | None = None, limit: int = 100, before_row: int | None = None
    ) -> list[RunHeader]:
        """Return up to `limit` headers, newest row first; no blob is read.

        `before_row` continues a list at the row of its last header. Raises `LimitError` for
        more than `HEADERS_ROWS_MAX`.
        """
        ...

    def shape(self, digest: str) -> bytes | None:
        """Return the shape that was stored under `digest`, None if there is none."""
        ...

    def sweep(self, *, slice_rows: int = limits.SWEEP_SLICE_ROWS) -> int:
        """Delete up to `slice_rows` runs that ended more than a week ago: how many they were.

        The week is `RETENTION_DAYS`, for all: nothing chooses another one. One transaction, of
        fewer rows where they are long (`SWEEP_SLICE_BYTES`); call it until it returns 0. Shapes
        stay: there is one per deploy that changed a machine, and it is small.
        """
        ...

    def owner(self) -> Owner | None:
        """Return who owns the file now, None if nobody ever took it."""
        ...

    def take_over(self, holder: str) -> int:
        """Raise the file's term by one, in the name of `holder`, and return it.

        Every write of this store carries it from here on; every other owner is fenced.
        """
        ...

    @property
    def identity(self) -> str:
        """What tells this store's runs from those of any other: its path.

        A store in memory has a name of its own instead, which ends with it.
        """
        ...

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open on this store's connection, whoever has begun it."""
        ...

    @property
    def is_lent(self) -> bool:
        """Whether a storage beside the runs has a transaction open on this store's connection.

        What is saved now would be taken back with it, and its run would not know.
        """
        ...

    def transaction(self, *, sync: bool = False) -> AbstractContextManager[None]:
        """Return a context in which all writes of this store commit together, or not at all.

        They do not nest. `sync` is for the whole, its saves may not ask for it.
        """
        ...

    def stats(self) -> StoreStats:
        """Return the file's sizes, and the longest wait for a checkpoint."""
        ...

    def backup(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copy all that is committed to a new file at `target`, as of one moment; see `backup`.

        Unlike the rest it may be called from any thread while the store is open, and takes time
        in proportion to the file: from an event loop, in a thread.
        """
        ...

    def close(self) -> None:
        """Close the file; a second time is harmless."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
