"""The floor of every save: an upsert of ready bytes, through the driver, in a file as a store's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.payloads import blobs
from snapshots.database import Database, open_database

CREATE: Final = "create table raw (id integer primary key, blob blob not null) strict"
UPSERT: Final = """
insert into raw (id, blob) values (1, ?) on conflict (id) do update set blob = excluded.blob"""
READ: Final = "select blob from raw where id = 1"
_APPLICATION_ID: Final = 0x52617720
"""`Raw `: nothing else opens such a file."""


class RawUpsert:
    """Writes bytes that lie ready over those of one row, each time in a commit of its own."""

    def __init__(self, database: Database, size_bytes: int) -> None:
        assert database.checkpoints is not None, "a file has checkpoints"
        self.name = "raw upsert of ready bytes"
        self._connection = database.connection
        self._execute = database.connection.cursor().execute
        self._admit = database.checkpoints.admit
        self._blobs = blobs(size_bytes)
        self._blob = next(self._blobs)

    def prepare(self) -> None:
        """Take the next bytes, once the log has room for them: that bounds a store's log, too."""
        self._admit()
        self._blob = next(self._blobs)

    def act(self) -> None:
        """Write them."""
        self._execute(UPSERT, (self._blob,))

    def check(self) -> None:
        """Assert that the row holds what was written last."""
        assert self._connection.execute(READ).fetchall() == [(self._blob,)]


@contextmanager
def raw_upsert(path: Path, size_bytes: int) -> Iterator[RawUpsert]:
    """Open a new file with the pragmas of a store's writer, and with the checkpoints beside it.

    Without those the log would only grow, and a write behind its end takes half as long again as
    one over what a former turn of the log has left. SQLite's own would keep this arm's log at
    4 MB, a third of ours, which the processor's caches hold.
    """
    with open_database(path, application_id=_APPLICATION_ID, known_schema=0) as database:
        database.connection.execute(CREATE)
        yield RawUpsert(database, size_bytes)
