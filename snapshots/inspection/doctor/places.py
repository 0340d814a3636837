"""Checks of the place where a file lies: its mode, its owner, its disk, its neighbours."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapshots.database.opening import open_database
from snapshots.database.places import (
    LOG_AND_INDEX,
    file_system_of,
    refuse_network_file_system,
)
from snapshots.errors import NetworkFileSystemError, UnsupportedSqliteError
from snapshots.inspection.doctor.findings import Finding, problem, warning, well
from snapshots.inspection.doctor.limits import DISK_BYTES_MIN
from snapshots.inspection.doctor.system import PROC, forks_among, openers_of
from snapshots.inspection.printable import size, visible
from snapshots.limits import SQLITE_VERSION_MIN, WAL_BYTES_MAX
from snapshots.schema import APPLICATION_ID, SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY: Final = ":memory:"
VERSION: Final = "select sqlite_version()"
_OTHERS: Final = 0o077
_BESIDE: Final = ("", *LOG_AND_INDEX)


def library() -> Finding:
    """Check the SQLite library of this program; a host's own may be another one."""
    try:
        with open_database(
            MEMORY, application_id=APPLICATION_ID, known_schema=SCHEMA_VERSION
        ) as database:
            row = database.row("ask for its version", VERSION)
    except UnsupportedSqliteError as error:
        told = f"SQLite {error.found}, {error.required} is required"
        return problem("library", told, "install a newer apsw, here and where the host runs")
    assert row is not None, "it has a version"
    return well("library", f"SQLite {row[0]}, {SQLITE_VERSION_MIN} or newer is required")


def access(path: str) -> Finding:
    """Check who may read the file and its log: what is in them is for their owner's eyes."""
    for suffix in _BESIDE:
        try:
            status = Path(f"{path}{suffix}").stat()
        except OSError:
            continue
        name = visible(f"{os.path.basename(path)}{suffix}")  # noqa: PTH119 - of a text
        mode = stat.S_IMODE(status.st_mode)
        if mode & _OTHERS:
            told = f"{name} has mode {mode:04o}: others may read what the runs hold"
            return warning("access", told, f"run chmod 600 on {name}, unless that is meant so")
        if suffix == "" and status.st_uid != os.geteuid():
            told = f"it belongs to user {status.st_uid}, and this is user {os.geteuid()}"
            return warning("access", told, "see that the host runs as the user that owns the file")
        if suffix == "" and status.st_nlink > 1:
            told = f"it has {status.st_nlink} names, and each would have a log of its own"
            hint = "remove all names but one while nothing has the file open"
            return problem("access", told, hint)
    return well("access", "mode 0600, and it belongs to this user")


def folder(path: str) -> Finding:
    """Check whether this user could write where the file lies, as a host must."""
    above = os.path.dirname(path)  # noqa: PTH120 - of a text
    is_file, is_folder = os.access(path, os.W_OK), os.access(above, os.W_OK)
    if is_file and is_folder:
        return well("writable", "this user may write the file and its folder")
    what = "its folder" if is_file else "the file" if is_folder else "the file and its folder"
    told = f"this user may not write {what}"
    return warning("writable", told, "nothing for a copy; a host must be allowed to write both")


def file_system(path: str) -> Finding:
    """Check the kind of file system: locks and shared memory must work there."""
    try:
        mounts = (PROC / "self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        refuse_network_file_system(path, mounts)
    except NetworkFileSystemError as error:
        told = f"{visible(error.file_system)}, which lies on a network"
        return problem("file system", told, "move the file to a disk of the machine of its host")
    except OSError:
        hint = "see for yourself that it lies on a disk of this machine"
        return warning("file system", "the system does not tell its kind", hint)
    return well("file system", visible(file_system_of(path, mounts) or "not listed"))


def disk(path: str) -> Finding:
    """Check the room on the disk."""
    try:
        found = os.statvfs(path)
    except OSError as error:
        hint = "see for yourself that there is room"
        return warning("disk", f"the system does not tell: {error.strerror}", hint)
    room = found.f_bavail * found.f_frsize
    told = f"{size(room)} are free"
    if room < WAL_BYTES_MAX:
        return problem("disk", told, "make room now: the log alone may need more than that")
    if room < DISK_BYTES_MIN:
        return warning("disk", told, "make room: saves fail when there is none")
    return well("disk", told)


def neighbours(path: str) -> Iterator[Finding]:
    """Check what lies beside the file and would be taken for a part of it."""
    journal = f"{path}-journal"
    if os.path.lexists(journal):
        told = f"{visible(os.path.basename(journal))} lies beside it"  # noqa: PTH119 - of a text
        hint = (
            "keep both together: it is what a first transaction, cut short, left to be undone at"
            " the next opening; move it away if it came from somewhere else"
        )
        yield warning("neighbours", told, hint)


def processes(path: str) -> Finding:
    """Check which processes have the file open, as far as this user can see them."""
    found = openers_of(path)
    if not found:
        return well("processes", "no process that this user can see has it open")
    told = "open in " + ", ".join(f"{pid} ({name})" for pid, name in found.items())
    forks = forks_among(found)
    if forks:
        child, parent = forks[0]
        told += f"; {child} seems to be a fork of {parent}, and has inherited its connection"
        hint = "start such processes anew, by multiprocessing's 'spawn' or subprocess"
        return warning("processes", told, hint)
    return well("processes", told)
