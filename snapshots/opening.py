"""The only place that picks a backend: a path becomes an open store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots.clock import Clock, SystemClock
from snapshots.database import open_database, patiently
from snapshots.schema import APPLICATION_ID, SCHEMA_VERSION, migrate, require_current
from snapshots.store import SqliteSnapshotStore

if TYPE_CHECKING:
    import os


def open_store(
    path: str | os.PathLike[str], *, clock: Clock | None = None, read_only: bool = False
) -> SqliteSnapshotStore:
    """Open the store in a file, which is created if there is none; close it, or use `with`.

    `:memory:` gives one that ends with the handle. With `read_only` the file must exist,
    nothing is written to it, and every write raises `StorageReadOnlyError`. `clock` is the
    wall clock unless a test turns its own.

    Raises, and has written nothing: `UnsupportedSqliteError`, `NetworkFileSystemError`,
    `ForeignFileError`, `NewerFileError`, `StorageForkedError` in a fork of a process that
    has the file open, or another `StorageError` that says what is in the way.
    """
    database = open_database(
        path,
        application_id=APPLICATION_ID,
        known_schema=SCHEMA_VERSION,
        read_only=read_only,
    )
    try:
        if read_only:
            require_current(database)
        else:
            patiently(lambda: migrate(database))
        return SqliteSnapshotStore(database, clock=clock or SystemClock())
    except BaseException:
        database.close()
        raise
