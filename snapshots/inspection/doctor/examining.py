"""An examination from its beginning to its end: each check by itself, whatever another found."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

from snapshots.database.opening import open_database
from snapshots.database.places import require_file, unreachable
from snapshots.errors import (
    ForeignFileError,
    NetworkFileSystemError,
    NewerFileError,
    StorageCorruptError,
    StorageError,
    UnsupportedSqliteError,
)
from snapshots.inspection.doctor import contents, identity, places, rows
from snapshots.inspection.doctor.findings import Examination, Finding, problem, warning
from snapshots.inspection.doctor.limits import CHECK_MS_MAX, DEEP_MS_MAX
from snapshots.inspection.doctor.system import host_lock
from snapshots.inspection.printable import visible
from snapshots.inspection.queries.files import RunFile, open_run_file, require_a_file
from snapshots.schema import APPLICATION_ID

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from snapshots.inspection.doctor.rows import Progress
    from snapshots.inspection.doctor.system import HostLock

_ANY_SCHEMA: Final = 2**31 - 1
_BLANK: Final = "no run was ever saved"


def examine(
    path: Path, *, is_deep: bool = False, now_ms: int, progress: Progress = lambda _, __: None
) -> Examination:
    """Look at a file of runs and at where it lies, and say of each check how it ended.

    Nothing is changed, no lock is tried and no save waits. Long checks are given up after a
    while unless `is_deep`, which also reads finished runs. `progress` is told how many of how
    many runs were read.

    Raises a StorageError where there is nothing to look at: no such file, no regular file, or
    one that this user may not read.
    """
    require_a_file(path)
    place = os.path.realpath(path)
    require_file(place)
    if not os.access(place, os.R_OK):
        raise unreachable(PermissionError(13, "Permission denied"), place)
    found = [*_place(place)]
    with ExitStack() as resources:
        opened = _opened(path, place, is_deep=is_deep)
        if isinstance(opened, Finding):
            found.append(opened)
            return Examination(path=place, is_deep=is_deep, is_copy=False, findings=tuple(found))
        resources.callback(opened.close)
        lock = host_lock(place)
        schema = [*_guarded("identity", partial(identity.schema, opened))]
        found += schema
        found += _file(opened, place, lock, is_deep=is_deep)
        # Of the tables of a later release nothing is known.
        if schema[0].verdict != "problem":
            found += _runs(opened, lock, is_deep=is_deep, now_ms=now_ms, progress=progress)
        return Examination(
            path=place, is_deep=is_deep, is_copy=opened.is_copy, findings=tuple(found)
        )


def _place(place: str) -> Iterator[Finding]:
    yield places.library()
    yield places.file_system(place)
    yield places.disk(place)
    yield places.access(place)
    yield places.folder(place)
    yield from places.neighbours(place)
    yield places.processes(place)


def _opened(path: Path, place: str, *, is_deep: bool) -> RunFile | Finding:
    """Open the file whatever its schema, or return the finding that says why that cannot be."""
    read_ms_max = DEEP_MS_MAX if is_deep else CHECK_MS_MAX
    try:
        try:
            return open_run_file(path, read_ms_max=read_ms_max)
        except NewerFileError:
            return _newer(place, read_ms_max)
    except StorageError as error:
        finding = _told(error)
        if finding is None:
            raise
        return finding


def _told(error: StorageError) -> Finding | None:
    """Return the finding that keeps a file from being opened; None if it says nothing of it."""
    if isinstance(error, StorageCorruptError):
        return contents.unended("pages", error)
    if isinstance(error, UnsupportedSqliteError | NetworkFileSystemError):
        return problem("identity", "it was not opened, as said above", visible(error.hint))
    if _BLANK in error.detail:
        told = "nothing was ever saved in it"
        return warning("identity", told, "nothing must be done: a host that opens it begins in it")
    if _BLANK in error.hint:
        return warning("identity", "its making was cut short", visible(error.hint))
    if isinstance(error, ForeignFileError):
        told = f"it is no file of runs: {visible(error.found)}"
        hint = "name the file of the runs; one whose first page is damaged is such a one too"
        return problem("identity", told, hint)
    return None


def _newer(place: str, read_ms_max: int) -> RunFile:
    with ExitStack() as resources:
        database = open_database(
            place, application_id=APPLICATION_ID, known_schema=_ANY_SCHEMA, read_only=True
        )
        resources.callback(database.close)
        return RunFile(database, resources.pop_all(), is_copy=False, read_ms_max=read_ms_max)


def _file(stored: RunFile, place: str, lock: HostLock, *, is_deep: bool) -> Iterator[Finding]:
    yield from _guarded("settings", partial(identity.settings, stored))
    yield from _guarded("owner", partial(identity.owner, stored, lock))
    yield from _guarded("log", partial(identity.log, stored, place, time.sleep))
    yield identity.stalls()
    yield from _guarded("pages", partial(contents.pages, stored, is_deep=is_deep))


def _runs(
    stored: RunFile, lock: HostLock, *, is_deep: bool, now_ms: int, progress: Progress
) -> Iterator[Finding]:
    is_alive = lock.state == "held"
    yield from _guarded("tables", partial(contents.tables, stored))
    yield from _guarded("shapes", partial(contents.shapes, stored))
    for name, check in (("mailbox", contents.mailbox), ("timers", contents.timers)):
        yield from _guarded(name, partial(check, stored, is_alive=is_alive, now_ms=now_ms))
    try:
        looked = rows.look(stored, is_deep=is_deep, now_ms=now_ms, progress=progress)
    except StorageError as error:
        yield contents.unended("runs", error)
        return
    yield from rows.findings(looked, is_deep=is_deep)


def _guarded(name: str, check: Callable[[], Finding]) -> Iterator[Finding]:
    """Yield the finding of a check, or the one that says why it did not come to an end."""
    try:
        yield check()
    except StorageError as error:
        yield contents.unended(name, error)
