"""Checks of what a file says of itself: whose it is, of which schema, and how it is set up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.inspection.doctor.findings import Finding, problem, warning, well
from snapshots.inspection.doctor.limits import READER_LOOK_S
from snapshots.inspection.doctor.system import name_of, readers_of
from snapshots.inspection.printable import size, visible
from snapshots.limits import PAGE_BYTES, WAL_BYTES_MAX, WAL_RESTART_BYTES
from snapshots.schema import SCHEMA_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.inspection.doctor.system import HostLock
    from snapshots.inspection.queries.files import RunFile

# A pragma that is only read; those that set something go through the connection.
JOURNAL: Final = "pragma journal_mode"
SCHEMA: Final = "select user_version from pragma_user_version"
PAGES: Final = "select page_size from pragma_page_size"
ENCODING: Final = "select encoding from pragma_encoding"
OWNER: Final = "select term, cast(holder as blob) from owner where id = 1"

_WAL: Final = "wal"
_UTF8: Final = "UTF-8"
_STALL: Final = (
    "the longest stall is a number of the process that writes, store.stats() there; the file does"
    " not record it"
)


def schema(stored: RunFile) -> Finding:
    """Check of which schema the file is."""
    ((found,),) = stored.ask("read the schema", SCHEMA)
    told = f"a file of runs, schema {found}"
    if found > SCHEMA_VERSION:
        told += f", and this release knows up to {SCHEMA_VERSION}"
        hint = "install the release that wrote it, or a later one; nothing is done to it by this"
        return problem("identity", told, hint)
    if found < SCHEMA_VERSION:
        told += f", and this release writes {SCHEMA_VERSION}"
        hint = "make a backup; the next host that opens it brings it to today's schema"
        return warning("identity", told, hint)
    return well("identity", told)


def settings(stored: RunFile) -> Finding:
    """Check what of a connection's settings lies in the file itself."""
    ((mode,),) = stored.ask("read the settings", JOURNAL)
    ((page_bytes,),) = stored.ask("read the settings", PAGES)
    ((encoding,),) = stored.ask("read the settings", ENCODING)
    told = f"journal mode {mode}, pages of {page_bytes} bytes, {encoding}"
    if encoding != _UTF8:
        hint = "restore a backup: this program never makes such a file"
        return problem("settings", told, hint)
    if page_bytes != PAGE_BYTES:
        told += f", expected {PAGE_BYTES}"
        hint = "nothing must be done: saves log more than they had to"
        return warning("settings", told, hint)
    if mode != _WAL:
        told += ": a backup that nobody has opened to write yet"
    return well("settings", told)


def owner(stored: RunFile, lock: HostLock) -> Finding:
    """Check who owns the file by its row, and whether that host lives by its lock."""
    rows = stored.ask("read the owner", OWNER)
    if not rows:
        told, holder = "no host has ever owned it", None
    else:
        term, name = rows[0]
        holder = visible(name.decode("utf-8", "backslashreplace"))
        told = f"term {term}, of {holder}"
    pids = ", ".join(map(str, lock.pids))
    if lock.state == "held":
        held_by = visible(lock.holder)
        told += f"; a host is alive (process {pids})"
        if holder is not None and lock.holder and held_by != holder:
            told += f", which calls itself {held_by}"
            hint = "see which of the two should go on: one took the file over, and fences the other"
            return warning("owner", told, hint)
        return well("owner", told)
    if lock.state == "shared":
        return well("owner", f"{told}; runs without a host have it open (process {pids})")
    if lock.state == "unknown":
        told += f"; whether {visible(lock.holder)} is alive cannot be known from here"
        return warning("owner", told, "ask where that process runs")
    return well("owner", f"{told}; no host is alive")


def log(stored: RunFile, path: str, wait: Callable[[float], object]) -> Finding:
    """Check the write-ahead log, and whether a reader keeps it from being started anew.

    `wait` waits for so many seconds: a reader counts that is there before and after.
    """
    length = stored.sizes().wal_bytes
    told = f"{size(length)} of log"
    readers = readers_of(path)
    if readers:
        wait(READER_LOOK_S)
        readers &= readers_of(path)
    if readers:
        names = ", ".join(f"{pid} ({name_of(pid)})" for pid in sorted(readers))
        told += f", which process {names} reads from and does not let go of"
        if length > WAL_RESTART_BYTES:
            hint = "end that reader: the log cannot start anew and grows with each save"
            return warning("log", told, hint)
    if length > WAL_BYTES_MAX:
        hint = "see whether its host lives: a log is cut when it is idle, and when it is closed"
        return warning("log", told, hint)
    return well("log", told)


def stalls() -> Finding:
    """Say where the longest stall is to be found."""
    return well("stalls", _STALL)
