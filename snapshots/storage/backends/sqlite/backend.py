"""The bundle of capabilities in the file of the runs: its sweep, its sizes, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from snapshots import limits
from snapshots.database.slices import fitting
from snapshots.storage.backends.sqlite import keyed
from snapshots.storage.backends.sqlite.carry import SqliteCarryStates
from snapshots.storage.backends.sqlite.file import StorageFile
from snapshots.storage.backends.sqlite.keyed import SqliteKeyedStates
from snapshots.storage.backends.sqlite.leases import SqliteLeases, sweep_leases
from snapshots.storage.backends.sqlite.workspaces import SqliteWorkspaces
from snapshots.storage.rows import StorageStats

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.storage.scopes import Scope
    from snapshots.store import SqliteSnapshotStore


class SqliteBackend:
    """A `Backend` in a store's own file, for the store's thread; `open_storage` makes it.

    Writes join `store.transaction()` where one is open, so that a keyed write and a run's first
    save commit together, and they carry the store's term: each raises `FencedError` as soon
    as the file has another.
    """

    is_local: Final = True

    def __init__(self, store: SqliteSnapshotStore, *, clock: Clock, owns_store: bool) -> None:
        """Use the file of `store`, and close it in the end if it `owns_store`."""
        self._file = StorageFile(store)
        self._clock = clock
        self._owns_store = owns_store
        self.keyed = SqliteKeyedStates(self._file, clock)
        self.leases = SqliteLeases(self._file, clock)
        self.carry = SqliteCarryStates(self._file, clock)
        self.workspaces = SqliteWorkspaces(self._file, self.leases, clock)

    def __repr__(self) -> str:
        return f"<SqliteBackend {self.path!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The file's absolute path, or `:memory:`."""
        return self._file.path

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._file.transaction(scope)

    def sweep(self, *, slice_rows: int = limits.SWEEP_SLICE_ROWS) -> int:
        """See `Backend.sweep`; one transaction."""
        with self._file.sweeping() as database:
            now = self._clock.now_ms()
            rows = fitting(database.rows("sweep", keyed.SWEPT, (now, slice_rows)))
            database.run(keyed.SWEEP, (now, rows))
            swept = database.changes()
            return swept + sweep_leases(database, now, slice_rows - swept)

    def stats(self) -> StorageStats:
        """See `Backend.stats`; of the whole file, its runs included."""
        self._file.require_usable("read stats")
        stats = self._file.store.stats()
        return StorageStats(
            backend="sqlite",
            total_bytes=stats.page_bytes * stats.page_count,
            free_bytes=stats.page_bytes * stats.free_pages,
        )

    def close(self) -> None:
        """Close the file if this storage has opened it; a second time is harmless."""
        self._file.close()
        if self._owns_store:
            self._file.store.close()
