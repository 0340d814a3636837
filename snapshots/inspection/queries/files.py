"""What inspection asks of a file: read-only, within bounds, while its owner goes on writing."""

from __future__ import annotations

import math
import os
import shutil
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self, TypeVar

from snapshots.database import open_database
from snapshots.database.identity import is_read_alone
from snapshots.database.places import has_log_and_index, unreachable, wal_bytes
from snapshots.errors import (
    AmbiguousRunError,
    ForeignFileError,
    RunNotFoundError,
    StorageError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from snapshots.heads import HEAD, HEAD_OF_COLUMNS, HEADS_SINCE_SCHEMA
from snapshots.inspection.limits import MAIL_ROWS_MAX, PROGRESS_STEPS, READ_MS_MAX
from snapshots.inspection.reports.records import MailReport
from snapshots.limits import FIND_RUNS_MAX
from snapshots.schema import APPLICATION_ID, SCHEMA_VERSION
from snapshots.store.reading import after, header_of, is_text, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from snapshots.database import Database, Row
    from snapshots.records import RunHeader, StoreStats

T = TypeVar("T")

_MS_PER_S: Final = 1_000
_HEADER_COLUMNS: Final = 9
_READ: Final = "read"

# Texts that people chose are cast, so that damaged UTF-8 in one row hides no other.
FIND: Final = """
select id, cast(run_id as blob) from runs where run_id >= ? and run_id < ?
order by run_id limit ?"""

# One statement, so that the run and its shape are of one moment.
LOAD: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, runs.head, blob,
  (select shape from shapes where shapes.digest = runs.digest)
from runs where id = ? and cast(run_id as blob) = ?"""

# Settled entries go after a day, so that a look at all of them is short.
MAIL: Final = """
select id, cast(kind as blob), created_ms, cast(outcome as blob), settled_ms
from mailbox where run_id = ? order by id desc limit ?"""

# Both are read off an index, however large the rows are.
COUNTS: Final = """
select (select count(*) from runs indexed by runs_live where status = 'live'),
  (select count(*) from runs)"""

_SCHEMA: Final = "select user_version from pragma_user_version"
_COUNT_TABLES: Final = "select count(*) from sqlite_schema where name = 'runs'"


class TooLongError(StorageError):
    """A question to a file was given up: it took longer than `ms_max`, a field."""

    def __init__(self, operation: str, path: str, ms_max: int) -> None:
        self.ms_max = ms_max
        hint = "ask for less, with a lower --limit or without a filter"
        super().__init__(operation, path, hint, detail=f"it took more than {ms_max} ms")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRun:
    """One stored run, and the shape of the chart that wrote it, None if that is not stored.

    `mail` is what other processes handed in for it, the newest first, to a bound.
    """

    header: RunHeader
    blob: bytes
    shape: bytes | None
    mail: tuple[MailReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCounts:
    """How many runs a file has: those that are live, and those that are not."""

    live: int
    ended: int


class RunFile:
    """A file of runs, opened to be looked at; `open_run_file` makes it, `close` or `with` ends it.

    Each question is one statement that sees one moment of the file, keeps no writer waiting, and
    is given up after `read_ms_max`, by `TooLongError`. When the file fails, another `StorageError`
    is raised.
    """

    def __init__(
        self, database: Database, resources: ExitStack, *, is_copy: bool, read_ms_max: int
    ) -> None:
        """Use `database`; `resources` holds it and what else is to be closed with it.

        `is_copy` says that the file itself could not be opened where it lies.
        """
        self.is_copy = is_copy
        self._at_rest = _stamp(database.path) if is_read_alone(database.connection) else None
        self._database = database
        self._resources = resources
        self._limit = _Limit(database, read_ms_max)
        self._has_heads = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; a second time is harmless."""
        self._resources.close()

    def sizes(self) -> StoreStats:
        """Return the sizes of the file and its log."""
        return self._database.stats()

    def counts(self) -> RunCounts:
        """Return how many runs the file has."""
        live, stored = self._rows("count runs", COUNTS, ())[0]
        return RunCounts(live=live, ended=stored - live)

    def find(self, prefix: str) -> FoundRun:
        """Return the run whose id is `prefix`, or else the only one whose id starts so.

        Raises `RunNotFoundError` for none, `AmbiguousRunError` for several.
        """
        row, run_id = self._resolve(prefix)
        rows = self._rows("read run", LOAD, (row, run_id))
        if not rows:  # swept in this moment
            raise RunNotFoundError(prefix, self._database.path)
        found = rows[0]
        header = header_of(found)
        mail = self._rows("read mail", MAIL, (header.run_id, MAIL_ROWS_MAX))
        return FoundRun(
            header=header,
            blob=found[_HEADER_COLUMNS],
            shape=found[_HEADER_COLUMNS + 1],
            mail=tuple(map(_mail, mail)),
        )

    def version(self) -> int:
        """Return a number that changes whenever another connection has changed the file."""
        self._require_rest()
        return int(self._database.connection.pragma("data_version"))

    def ask(self, operation: str, sql: str, bindings: tuple[object, ...] = ()) -> list[Row]:
        """Answer a question of another module: one statement, within the bounds of this file."""
        return self._rows(operation, sql, bindings)

    def made(
        self,
        operation: str,
        sql: str,
        bindings: tuple[object, ...],
        make: Callable[[Iterable[Row]], T],
    ) -> T:
        """Return what `make` makes of the rows of one statement, as they come; see `ask`."""
        with self._limit.of(operation):
            made = self._asked(sql, lambda put: self._database.made(operation, put, bindings, make))
        self._require_rest()
        return made

    def row_of(self, prefix: str) -> int:
        """Return the row of the run that `find` would return; its blob is not read."""
        return self._resolve(prefix)[0]

    def _resolve(self, prefix: str) -> tuple[int, bytes]:
        bindings = (prefix, after(prefix), FIND_RUNS_MAX)
        rows = self._rows("find run", FIND, bindings) if is_text(prefix) else []
        if not rows:
            raise RunNotFoundError(prefix, self._database.path)
        # In the order of ids the whole id comes before those that it is a prefix of.
        first, run_id = rows[0]
        if len(rows) > 1 and text_of(run_id) != prefix:
            raise AmbiguousRunError(prefix, tuple(text_of(found) for _, found in rows))
        return first, run_id

    def _rows(self, operation: str, sql: str, bindings: tuple[object, ...]) -> list[Row]:
        with self._limit.of(operation):
            rows = self._asked(sql, lambda put: self._database.rows(operation, put, bindings))
        self._require_rest()
        return rows

    def _require_rest(self) -> None:
        """Raise if somebody writes a file that was at rest, and is read without its log, or did.

        What was read may be of several moments, and what will be is of none: a log comes to lie
        beside a file before a byte of it changes, and is gone once it was copied into that.
        """
        path = self._database.path
        if self._at_rest is not None and (has_log_and_index(path) or _stamp(path) != self._at_rest):
            detail = "somebody has begun to write it"
            raise StorageUnavailableError(_READ, path, "look again", detail=detail)

    def _asked(self, sql: str, ask: Callable[[str], T]) -> T:
        """Ask as this file understands it, once more if that has changed in this moment."""
        put = self._put(sql)
        try:
            return ask(put)
        except StorageError:
            if put == sql or self._put(sql) != sql:
                raise
            return ask(sql)

    def _put(self, sql: str) -> str:
        """Return a statement as this file understands it, which is read as it was written."""
        if HEAD not in sql or self._has_heads:
            return sql
        # Until it has them: a host of this release may start on the file while it is looked at.
        found = self._database.row("open", _SCHEMA)
        self._has_heads = found is not None and found[0] >= HEADS_SINCE_SCHEMA
        return sql if self._has_heads else sql.replace(HEAD, HEAD_OF_COLUMNS)


def _stamp(path: str) -> tuple[int, int, int]:
    """Return what differs once a file is written, or another one lies there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - on the text that SQLite gets
    except OSError as error:
        raise unreachable(error, path) from error
    return found.st_ino, found.st_size, found.st_mtime_ns


def _mail(row: Row) -> MailReport:
    number, kind, created_ms, outcome, settled_ms = row
    return MailReport(
        entry=number,
        kind=text_of(kind),
        created_ms=created_ms,
        outcome=None if outcome is None else text_of(outcome),
        settled_ms=settled_ms,
    )


def open_run_file(path: Path, *, read_ms_max: int = READ_MS_MAX) -> RunFile:
    """Open a file of runs to look at it; nothing is written to it.

    A live file is read through its log. A copy in a folder that cannot be written is read as it
    lies there if it has no `-wal` beside it; with one, file and log are copied to a temporary
    folder first, and `is_copy` is true.

    Raises:
        NewerFileError: a later release wrote it.
        ForeignFileError: it is no file of runs.
        StorageError: another one that says what is in the way.
    """
    require_a_file(path)
    with ExitStack() as resources:
        is_copy = False
        try:
            database = _open(path)
        except (StorageReadOnlyError, StorageUnavailableError):
            if wal_bytes(os.path.realpath(path)) == 0:
                raise
            database, is_copy = _open(_copy(path, resources)), True
        resources.callback(database.close)
        if database.row("open", _COUNT_TABLES) == (0,):
            found = "a file that no run was ever saved in"
            raise ForeignFileError(database.path, found)
        return RunFile(database, resources.pop_all(), is_copy=is_copy, read_ms_max=read_ms_max)


def require_a_file(path: Path) -> None:
    """Raise for a path where nothing lies; what else can be wrong, opening it will tell."""
    try:
        path.stat()
    except FileNotFoundError as error:
        hint = "name the file of the runs as FILE, or in the variable SNAPSHOTS_FILE"
        operation, detail = "open", "there is no such file"
        raise StorageUnavailableError(operation, str(path), hint, detail=detail) from error
    except OSError:
        return


def _open(path: Path) -> Database:
    return open_database(
        path, application_id=APPLICATION_ID, known_schema=SCHEMA_VERSION, read_only=True
    )


def _copy(path: Path, resources: ExitStack) -> Path:
    """Copy a file and its log to a folder that is removed in the end."""
    folder = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="snapshots-")))
    copy = folder / "copy.db"
    try:
        shutil.copyfile(path, copy)
        shutil.copyfile(f"{os.path.realpath(path)}-wal", f"{copy}-wal")
    except OSError as error:
        hint = "copy it and its -wal to a folder that you may write, and name that file"
        operation = "copy"
        raise StorageUnavailableError(operation, str(path), hint, detail=str(error)) from error
    return copy


class _Limit:
    """`with limit.of(operation)` stops a statement once it has taken `read_ms_max`."""

    __slots__ = ("_database", "_end_s", "_operation", "_read_ms_max")

    def __init__(self, database: Database, read_ms_max: int) -> None:
        self._database = database
        self._read_ms_max = read_ms_max
        self._end_s = math.inf
        self._operation = ""
        # Kept for as long as the file is open: to set it anew costs as much as a short page.
        database.connection.set_progress_handler(self._is_late, PROGRESS_STEPS)

    def _is_late(self) -> bool:
        return time.monotonic() > self._end_s

    def of(self, operation: str) -> Self:
        """Name what is done in the block."""
        self._operation = operation
        return self

    def __enter__(self) -> None:
        self._end_s = time.monotonic() + self._read_ms_max / _MS_PER_S

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        is_late, self._end_s = self._is_late(), math.inf
        if is_late and isinstance(error, StorageError):
            path = self._database.path
            raise TooLongError(self._operation, path, self._read_ms_max) from error
