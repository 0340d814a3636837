"""A storage in the file of the runs, on their connection and in their transactions."""

from snapshots.storage.backends.sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
