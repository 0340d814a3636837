"""The floor of every save: an upsert of ready bytes through the driver, set up as the store is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from bench.payloads import blobs
from snapshots.database import pragmas

CREATE: Final = "create table raw (id integer primary key, blob blob not null) strict"
UPSERT: Final = """
insert into raw (id, blob) values (1, ?) on conflict (id) do update set blob = excluded.blob"""
READ: Final = "select blob from raw where id = 1"


class RawUpsert:
    """Writes bytes that lie ready over those of one row, each time in a commit of its own."""

    def __init__(self, connection: apsw.Connection, size_bytes: int) -> None:
        self.name = "raw upsert of ready bytes"
        self._connection = connection
        self._execute = connection.cursor().execute
        self._blobs = blobs(size_bytes)
        self._blob = next(self._blobs)

    def prepare(self) -> None:
        """Take the next bytes."""
        self._blob = next(self._blobs)

    def act(self) -> None:
        """Write them."""
        self._execute(UPSERT, (self._blob,))

    def check(self) -> None:
        """Assert that the row holds what was written last."""
        assert self._connection.execute(READ).fetchall() == [(self._blob,)]


@contextmanager
def raw_upsert(path: Path, size_bytes: int) -> Iterator[RawUpsert]:
    """Open a new file as a store's writer is set up, but for checkpoints, which stay SQLite's own.

    They fall into one commit of many, so a median does not show them.
    """
    connection = apsw.Connection(str(path))
    try:
        pragmas.wait_briefly_for_other_processes(connection)
        pragmas.use_small_pages(connection)
        pragmas.keep_temporary_data_in_memory(connection)
        pragmas.distrust_the_schema(connection)
        pragmas.never_map_the_file(connection)
        pragmas.keep_live_pages(connection)
        assert pragmas.is_wal(connection)
        pragmas.sync_at_checkpoints(connection)
        pragmas.cut_a_restarted_log(connection)
        connection.execute(CREATE)
        yield RawUpsert(connection, size_bytes)
    finally:
        connection.close()
