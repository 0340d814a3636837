"""A storage in a database of PostgreSQL, each workspace guarded by row-level security."""

from snapshots.storage.backends.postgres.backend import PostgresBackend
from snapshots.storage.backends.postgres.schema import prepare

__all__ = ["PostgresBackend", "prepare"]
