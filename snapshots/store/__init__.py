"""Runs as rows: the seam that everything above is written against, and SQLite behind it."""

from snapshots.store.copying import backup
from snapshots.store.seam import SnapshotStore
from snapshots.store.sqlite import SqliteSnapshotStore

__all__ = ["SnapshotStore", "SqliteSnapshotStore", "backup"]
