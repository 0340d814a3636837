"""Whose file it is, found out without writing a byte to it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

import apsw

from snapshots import limits
from snapshots.database.places import wal_bytes
from snapshots.database.translation import translate
from snapshots.errors import (
    ForeignFileError,
    NewerFileError,
    StorageCorruptError,
    UnsupportedSqliteError,
)

# SQLite takes a file that is shorter than its smallest page for an empty one, and fills it.
_DATABASE_BYTES_MIN: Final = 512
_LOOKS_MAX: Final = 4
_NEXT_LOOK_S: Final = 0.05
_COUNT_TABLES: Final = "select count(*) from sqlite_schema"
# The head of a rollback journal, and where it says how many pages the file had before
# (https://sqlite.org/fileformat2.html, section 3).
_JOURNAL_MAGIC: Final = bytes.fromhex("d9d505f920a163d7")
_PAGES_BEFORE: Final = slice(16, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What a file says about itself; all zero for one that nobody has written yet."""

    application_id: int
    schema_version: int
    tables: int

    @property
    def is_blank(self) -> bool:
        """Whether nobody has put anything into the file."""
        return self == BLANK


BLANK: Final = Identity(application_id=0, schema_version=0, tables=0)


def require_sqlite(found: str, path: str) -> None:
    """Raise `UnsupportedSqliteError` if the library is older than `SQLITE_VERSION_MIN`.

    Before 3.51.3 a checkpoint by a second connection could corrupt the log, and here a
    second connection does every checkpoint (https://sqlite.org/wal.html, "The WAL-reset bug").
    """
    if _numbers(found) < _numbers(limits.SQLITE_VERSION_MIN):
        raise UnsupportedSqliteError(found, limits.SQLITE_VERSION_MIN, path)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


def require_ours(path: str, application_id: int, known: int) -> Identity:
    """Look at a file and raise unless it is blank or ours, and of a schema that we know.

    Raises `ForeignFileError`, `NewerFileError`, or `StorageCorruptError`. Such a verdict is looked
    at again: another process may be writing the file's first page at this moment, or copy its log
    into it as it closes, between whose pages this look came.
    """
    for _ in range(_LOOKS_MAX - 1):
        try:
            return _require_ours(path, application_id, known)
        except (ForeignFileError, StorageCorruptError):
            time.sleep(_NEXT_LOOK_S)
    return _require_ours(path, application_id, known)


def _require_ours(path: str, application_id: int, known: int) -> Identity:
    identity = identify(path)
    if identity.is_blank:
        return identity
    if identity.application_id != application_id:
        found = f"an SQLite database with application_id {identity.application_id:#x}"
        raise ForeignFileError(path, found)
    if identity.schema_version > known:
        raise NewerFileError(path, identity.schema_version, known)
    return identity


def identify(path: str) -> Identity:
    """Read a file's application_id and user_version, with what its log adds to them.

    The file is read through SQLite, never through a descriptor of ours: closing that would
    drop the locks of other connections of this process.
    """
    size = Path(path).stat().st_size
    if size == 0 or was_empty(path):
        return BLANK
    if size < _DATABASE_BYTES_MIN:
        raise ForeignFileError(path, f"a file of {size} bytes")
    try:
        connection = open_without_writing(path)
        try:
            return _read(connection)
        finally:
            connection.close()
    except apsw.NotADBError as error:
        raise ForeignFileError(path, "no SQLite database") from error
    except apsw.Error as error:
        raise translate(error, "open", path) from error


def was_empty(path: str) -> bool:
    """Whether the first transaction ever on the file has not ended: its first user undoes it.

    A power loss while the file is made leaves a first page of which any part is missing. Such a
    page says nothing, least of all whose file it is.
    """
    try:
        with Path(f"{path}-journal").open("rb") as journal:
            head = journal.read(_PAGES_BEFORE.stop)
    except OSError:
        return False
    return head.startswith(_JOURNAL_MAGIC) and head[_PAGES_BEFORE] == bytes(4)


def open_without_writing(path: str) -> apsw.Connection:
    """Connect for reading, and leave no new file beside this one.

    A reader of a file in WAL mode makes a -wal and a -shm file and cannot remove them. So
    a file without a log is read as one that nobody changes; one with a log is read through it.
    """
    uri = f"file:{quote(path)}?mode=ro&immutable={int(wal_bytes(path) == 0)}"
    connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    connection.set_busy_timeout(limits.BUSY_TIMEOUT_MS)
    return connection


def is_read_alone(connection: apsw.Connection) -> bool:
    """Whether `open_without_writing` made the connection: it may see no log that comes later."""
    return bool(connection.open_flags & apsw.SQLITE_OPEN_URI)


def _read(connection: apsw.Connection) -> Identity:
    # One transaction, so that the three answers are of one moment.
    connection.execute("begin")
    return Identity(
        tables=connection.execute(_COUNT_TABLES).get,
        application_id=connection.pragma("application_id"),
        schema_version=connection.pragma("user_version"),
    )
