"""What the operating system knows of a file: who has it open, who holds its locks, where it lies.

All of it is read from `/proc`, and no file of the database is opened: closing any descriptor of
one would drop the locks that this process has on it (https://sqlite.org/howtocorrupt.html, 2.2).
"""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from snapshots.inspection.doctor.limits import LOCK_FILE_BYTES_MAX, PROCESS_NAME_CHARS_MAX
from snapshots.inspection.printable import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

PROC: Final = Path("/proc")
LOCK_SUFFIX: Final = ".lock"
"""Behind the file's name: the lock that a host holds while it lives."""

# A line of proc_locks(5); one that waits for a lock has "->" in it and holds none.
_LOCK: Final = re.compile(
    r"\d+: (FLOCK|POSIX|OFDLCK) +\w+ +(READ|WRITE) +(-?\d+) (\w+):(\w+):(\d+) (\d+) (\d+|EOF)"
)
_HOLDER: Final = re.compile(r"process (\d+) on (.+)")
# Where readers note in the -shm file from which commit on they read: the log cannot restart then
# (https://sqlite.org/walformat.html, "WAL Locks").
_READ_MARKS: Final = range(123, 128)

LockState = Literal["held", "shared", "free", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock that a process holds on a file, on the bytes from `first` to `last`."""

    kind: str
    is_shared: bool
    pid: int
    first: int
    last: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostLock:
    """Whether a host, or runs without one, hold a file; `holder` is what the host said of itself.

    `unknown`: the system does not tell, and the name of the holder may be that of one that died.
    """

    state: LockState
    pids: tuple[int, ...] = ()
    holder: str = ""


def locks_on(path: str) -> list[Lock] | None:
    """Return the locks on a file; None if the system does not tell."""
    try:
        status = Path(path).stat()
        lines = (PROC / "locks").read_text(encoding="ascii", errors="replace").splitlines()
    except FileNotFoundError:
        return [] if (PROC / "locks").exists() else None
    except OSError:
        return None
    device = os.major(status.st_dev), os.minor(status.st_dev)
    found = []
    for line in lines:
        match = _LOCK.fullmatch(line.strip())
        if match is None or int(match[6]) != status.st_ino:
            continue
        pid = int(match[3])
        # Some file systems give a file another device than their locks.
        if (int(match[4], 16), int(match[5], 16)) != device and not _has_open(pid, path):
            continue
        last = None if match[8] == "EOF" else int(match[8])
        found.append(
            Lock(
                kind=match[1],
                is_shared=match[2] == "READ",
                pid=pid,
                first=int(match[7]),
                last=last,
            )
        )
    return found


def host_lock(path: str) -> HostLock:
    """Say whether a host holds a file, without trying its lock, which could hold one up."""
    beside = f"{path}{LOCK_SUFFIX}"
    holder, locks = _holder(beside), locks_on(beside)
    if locks is None:
        return HostLock(state="unknown" if holder else "free", holder=holder)
    flocks = [lock for lock in locks if lock.kind == "FLOCK"]
    pids = tuple(sorted({lock.pid for lock in flocks}))
    if any(not lock.is_shared for lock in flocks):
        return HostLock(state="held", pids=pids, holder=holder)
    if flocks:
        return HostLock(state="shared", pids=pids)
    match = _HOLDER.fullmatch(holder)
    if match is not None and match[2] != socket.gethostname():
        # Of another container, say: its locks are not in this one's list.
        return HostLock(state="unknown", holder=holder)
    return HostLock(state="free", holder=holder)


def _holder(path: str) -> str:
    try:
        with Path(path).open("rb") as file:
            found = file.read(LOCK_FILE_BYTES_MAX)
    except OSError:
        return ""
    return found.decode("utf-8", "backslashreplace")


def readers_of(path: str) -> set[int]:
    """Return the processes that read the database through its log at this moment, but for us."""
    return {
        lock.pid
        for lock in locks_on(f"{path}-shm") or ()
        if lock.kind == "POSIX" and lock.first in _READ_MARKS and lock.pid != os.getpid()
    }


def openers_of(path: str) -> dict[int, str]:
    """Return the processes, but for us, that have a file open, by what their commands are called.

    Those of other users are not seen unless by root.
    """
    return {pid: name_of(pid) for pid in _processes() if _has_open(pid, path)}


def forks_among(pids: dict[int, str]) -> list[tuple[int, int]]:
    """Return the processes that seem to be a fork of another one, with that: (child, parent).

    A child that runs the very command line of its parent was hardly started by that name.
    """
    found = []
    for pid in pids:
        parent = _parent_of(pid)
        if parent in pids and _command_line(pid) == _command_line(parent) != b"":
            found.append((pid, parent))
    return found


def name_of(pid: int) -> str:
    """Return what the command of a process is called; empty if it is gone."""
    try:
        text = (PROC / str(pid) / "comm").read_text(encoding="utf-8", errors="backslashreplace")
    except OSError:
        return ""
    return visible(text.strip(), chars_max=PROCESS_NAME_CHARS_MAX)


def _processes() -> Iterator[int]:
    try:
        names = [entry.name for entry in PROC.iterdir()]
    except OSError:
        return
    yield from sorted(int(name) for name in names if name.isdecimal() and int(name) != os.getpid())


def _has_open(pid: int, path: str) -> bool:
    try:
        entries = list((PROC / str(pid) / "fd").iterdir())
    except OSError:
        return False
    for entry in entries:
        try:
            if str(entry.readlink()) == path:
                return True
        except OSError:  # closed since it was listed
            continue
    return False


def _parent_of(pid: int) -> int:
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
        return int(text.rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return 0


def _command_line(pid: int) -> bytes:
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""
