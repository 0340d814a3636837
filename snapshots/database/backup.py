"""A copy of a live file: consistent, compact, and whole under its name or not there at all."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

from snapshots import limits
from snapshots.database import identity, places
from snapshots.database.errors import TargetExistsError
from snapshots.database.opening import open_database
from snapshots.database.translation import translate
from snapshots.errors import (
    ForeignFileError,
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from snapshots.database.connection import Database

    Progress = Callable[[int, int], None]

OPERATION: Final = "backup"
# SQLite would play any of them into a file that comes to lie beside it.
_BESIDE: Final = ("", *places.LOG_AND_INDEX, "-journal")
_NO_LINKS: Final = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_MS_PER_S: Final = 1_000

TABLES: Final = """
select name from sqlite_schema where type = 'table' and name not like 'sqlite_%' order by name"""
_NOTE: Final = "snapshots_note"
_CHECK: Final = "select integrity_check from pragma_integrity_check"
_SOUND: Final = [("ok",)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """A copy that was written, verified and synced.

    `path` is absolute. `bytes` is the copy's length, `source_bytes` that of the file without its
    log, free pages included. `rows` counts the rows of each table, in the copy and in the file
    at the moment of which the copy is.
    """

    path: str
    bytes: int
    source_bytes: int
    rows: Mapping[str, int]


def back_up(
    path: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    application_id: int,
    known_schema: int,
    progress: Progress | None = None,
) -> Backup:
    """Write a compact copy of the file at `path`, as of one moment, to a new file at `target`.

    By a connection of its own, so that any thread or process may do it beside the file's
    writer, which never waits for it; the log grows meanwhile by what is written. The copy is
    one file, in rollback mode until it is opened to write, readable by its owner alone. It has
    its name only once it is verified and on the disk. `progress` is told every
    `BACKUP_PROGRESS_MS` the bytes written and about how many there will be; what it raises ends
    the backup.

    Raises, and leaves nothing behind: `TargetExistsError`; `StorageFullError`;
    `StorageCorruptError` if the copy of a damaged file is not sound; `StorageBusyError` while
    another backup writes to this target; `NetworkFileSystemError` for either file; and what
    opening the file raises.
    """
    destination = _destination(target)
    if os.fspath(path) == places.MEMORY:
        hint = "only a file can be copied; open the store in one"
        raise StorageError(OPERATION, places.MEMORY, hint, detail="it is in memory")
    places.refuse_part(OPERATION, destination, os.fspath(path))
    with ExitStack() as resources:
        source = open_database(
            path, application_id=application_id, known_schema=known_schema, read_only=True
        )
        resources.callback(source.close)
        tables, stats = _tables(source), source.stats()
        draft, descriptor = resources.enter_context(_reserved(destination))
        _refuse_existing(destination)
        needed = stats.page_bytes * (stats.page_count - stats.free_pages)
        _require_room(destination, needed)
        watch = _Watch(descriptor, needed, progress)
        rows = _copy(source, draft, tables, watch)
        _verify(source, draft, rows, watch)
        _publish(draft, descriptor, destination)
        size = os.fstat(descriptor).st_size
    source_bytes = stats.page_bytes * stats.page_count
    return Backup(path=destination, bytes=size, source_bytes=source_bytes, rows=rows)


# -- the copy -------------------------------------------------------------------------------------


class _Watch:
    """What is done every few steps of a long statement: telling how far it is.

    It also lets the interpreter in, so that a person can end the program.
    """

    def __init__(self, descriptor: int, needed: int, progress: Progress | None) -> None:
        self._descriptor = descriptor
        self._needed = needed
        self._progress = progress
        self._next_s = 0.0

    def __call__(self) -> bool:
        now_s = time.monotonic()
        if self._progress is not None and now_s >= self._next_s:
            self._next_s = now_s + limits.BACKUP_PROGRESS_MS / _MS_PER_S
            self._progress(os.fstat(self._descriptor).st_size, self._needed)
        return False


def _copy(source: Database, draft: str, tables: list[str], watch: _Watch) -> dict[str, int]:
    """Copy what the file holds at one moment, and return the rows that each table had then."""
    noted: list[int] = []

    def note(*values: Any) -> Any:
        file, *counts = values
        noted.extend(counts)
        return file

    connection = source.connection
    connection.create_scalar_function(_NOTE, note)
    # The file stays read-only by the way in which it was opened; this would refuse the copy too.
    connection.pragma("query_only", False)  # noqa: FBT003 - the pragma's own value
    # The counts are a part of the one statement, and so read in the transaction that copies.
    counts = "".join(f", ({_count(table)})" for table in tables)
    sql = f"vacuum into (select {_NOTE}(?{counts}))"
    connection.set_progress_handler(watch, limits.BACKUP_PROGRESS_STEPS)
    try:
        connection.execute(sql, (draft,))
    except apsw.Error as error:
        raise translate(error, OPERATION, source.path) from error
    finally:
        connection.set_progress_handler(None)
    return dict(zip(tables, noted, strict=True))


def _verify(source: Database, draft: str, rows: Mapping[str, int], watch: _Watch) -> None:
    """Raise `StorageCorruptError` unless the copy is sound, of our kind, and has all rows."""
    try:
        connection = identity.open_without_writing(draft)
        try:
            connection.set_progress_handler(watch, limits.BACKUP_PROGRESS_STEPS)
            faults = connection.execute(_CHECK).fetchall()
            found = {table: connection.execute(_count(table)).get for table in rows}
            marks = [connection.pragma("application_id"), connection.pragma("user_version")]
        finally:
            connection.close()
        expected = [source.connection.pragma(name) for name in ("application_id", "user_version")]
    except apsw.Error as error:
        raise translate(error, OPERATION, source.path) from error
    for what, is_right in (
        (f"its copy is not sound: {faults[0][0] if faults else 'no answer'}", faults == _SOUND),
        (f"its copy has {found}, expected {dict(rows)} rows", found == rows),
        (f"its copy is marked {marks}, expected {expected}", marks == expected),
    ):
        if not is_right:
            hint = "no copy was made; keep a copy of the file with its -wal, then run a check"
            raise StorageCorruptError(OPERATION, source.path, hint, detail=what)


def _tables(source: Database) -> list[str]:
    """Return the names of the file's tables; a file that has none is not one of ours yet."""
    tables = [name for (name,) in source.rows(OPERATION, TABLES)]
    if not tables:
        raise ForeignFileError(source.path, "a file that no run was ever saved in")
    return tables


def _count(table: str) -> str:
    """Return the statement that counts a table's rows: a name cannot be bound, but quoted."""
    quoted = table.replace('"', '""')
    return f'select count(*) from "{quoted}"'  # noqa: S608 - a quoted name  # nosec B608


# -- where it is written --------------------------------------------------------------------------


def _destination(target: str | os.PathLike[str]) -> str:
    """Return the target's path: absolute, links in its folder resolved, on a disk of this machine.

    A link that lies at the target itself is not followed: it is something that exists.
    """
    text = os.fspath(target)
    if text == places.MEMORY:
        hint = "name a file that does not exist yet"
        raise StorageError(OPERATION, text, hint, detail="a copy in memory is none")
    places.absolute(text)  # for its refusals
    folder, name = os.path.split(os.path.abspath(text))  # noqa: PTH100 - on text, as SQLite gets it
    destination = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - the same
    places.refuse_network_file_system(destination)
    return destination


def _refuse_existing(destination: str) -> None:
    for suffix in _BESIDE:
        found = f"{destination}{suffix}"
        if os.path.lexists(found):
            raise TargetExistsError(OPERATION, destination, found)


def _require_room(destination: str, needed: int) -> None:
    """Raise before a byte is written if the copy would take the room that the log may need."""
    with _os_errors(destination):
        disk = os.statvfs(os.path.dirname(destination))  # noqa: PTH120 - one call, on text
    room = disk.f_bavail * disk.f_frsize
    wanted = needed + limits.WAL_BYTES_MAX
    if room < wanted:
        hint = "make room, or name a target on another disk"
        detail = f"it takes up to {wanted} bytes, there are {room}"
        raise StorageFullError(OPERATION, destination, hint, detail=detail)


@contextmanager
def _reserved(destination: str) -> Iterator[tuple[str, int]]:
    """Create the file that becomes the copy, give its path and descriptor, remove it in the end.

    It is locked while this process lives. What lies there unlocked was left by one that died.
    """
    draft = f"{destination}{places.UNFINISHED}"
    with _os_errors(destination):
        descriptor = _create(draft, destination)
    try:
        yield draft, descriptor
    finally:
        try:
            with _os_errors(destination):
                _remove(draft, descriptor)
        finally:
            os.close(descriptor)


def _create(draft: str, destination: str) -> int:
    for _ in range(limits.BACKUP_CREATE_TRIES_MAX):
        _remove_leftover(draft, destination)
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            descriptor = places.open_apart(draft, flags)
        except FileExistsError:
            continue
        # Somebody may have taken it for a leftover before it was locked, and removed it.
        if _lock(descriptor) and _lies_at(descriptor, draft):
            _remove_journal(draft)
            return descriptor
        os.close(descriptor)
    raise _in_progress(destination)


def _remove_leftover(draft: str, destination: str) -> None:
    try:
        descriptor = os.open(draft, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        return
    try:
        if not _lock(descriptor):
            raise _in_progress(destination)
        _remove(draft, descriptor)
    finally:
        os.close(descriptor)


def _remove(draft: str, descriptor: int) -> None:
    _remove_journal(draft)
    if _lies_at(descriptor, draft):
        os.unlink(draft)  # noqa: PTH108 - beside open


def _remove_journal(draft: str) -> None:
    """Remove what SQLite leaves beside a draft if a write fails: the next one would get it."""
    with suppress(FileNotFoundError):
        os.unlink(f"{draft}-journal")  # noqa: PTH108 - beside open


def _lock(descriptor: int) -> bool:
    """Take the lock that the process's death gives back; it is none of SQLite's kind."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _lies_at(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _in_progress(destination: str) -> StorageBusyError:
    hint = "wait for it to end, or name another target"
    return StorageBusyError(
        OPERATION, destination, hint, detail="another copy is being written to this target"
    )


def _publish(draft: str, descriptor: int, destination: str) -> None:
    """Put the whole copy on the disk, then give it its name, unless something has it by now."""
    with _os_errors(destination):
        os.fsync(descriptor)
        _name(draft, destination)
        os.unlink(draft)  # noqa: PTH108 - beside link
        folder = os.open(os.path.dirname(destination), os.O_RDONLY | os.O_DIRECTORY)  # noqa: PTH120 - the same
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _name(draft: str, destination: str) -> None:
    """Give the copy its name by a link: a rename would replace what lies there by now."""
    try:
        os.link(draft, destination)
    except FileExistsError as error:
        raise TargetExistsError(OPERATION, destination, destination) from error
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        hint = "name a target on a disk that has hard links, and copy it from there"
        detail = f"no hard link can be made: {error.strerror}"
        raise StorageError(OPERATION, destination, hint, detail=detail) from error


@contextmanager
def _os_errors(destination: str) -> Iterator[None]:
    """Say in our words what the system has against the target."""
    try:
        yield
    except OSError as error:
        ours = places.unreachable(error, destination)
        raise type(ours)(OPERATION, destination, ours.hint, detail=ours.detail) from error
