"""The operating system's lock beside a file: one host at a time, or many short runs without one."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from typing import Self
from weakref import WeakSet

from machines.errors import HostLockedError
from machines.limits import HOLDER_CHARS_MAX
from snapshots.database.places import open_apart, unreachable


def holder_name() -> str:
    """Return who this process is, for who finds the lock taken."""
    return f"process {os.getpid()} on {socket.gethostname()}"


_HELD: WeakSet[FileLock] = WeakSet()
# Locks belong to the process, and so does what a fork of it must give up: see `_give_up_in_child`.


def _give_up_in_child() -> None:
    """Close what a forked child inherited: an open descriptor would keep the parent's lock."""
    for lock in list(_HELD):
        lock.forget()


class FileLock:
    """A lock on `<file>.lock`; it goes with the process, however that ends.

    The lock is on a file of its own: closing any descriptor of the database would drop the
    locks that SQLite holds on it.
    """

    def __init__(self, path: str) -> None:
        # By its real path: through a link the same file would have another lock.
        self.path = path if path == ":memory:" else os.path.realpath(path)
        self.descriptor: int | None = None
        self._shared = False

    @property
    def held(self) -> bool:
        """Whether this process has the lock."""
        return self.descriptor is not None

    def take(self, *, shared: bool = False) -> Self:
        """Take the lock, or raise HostLockedError at once. A file in memory needs none."""
        if not self.try_take(shared=shared):
            holder = self.holder() or "runs that were opened without a host"
            ours = any(lock.held and lock.path == self.path for lock in _HELD)
            where = ", in this very process" if ours else ""
            raise HostLockedError(self.path, f"{holder}{where}")
        return self

    def try_take(self, *, shared: bool = False) -> bool:
        """Take the lock if it is free; return whether this process has it."""
        if self.path == ":memory:" or self.held:
            return True
        descriptor = self._open()
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self.descriptor, self._shared = descriptor, shared
        if not _HELD:
            os.register_at_fork(after_in_child=_give_up_in_child)
        _HELD.add(self)
        if not shared:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder_name().encode(), 0)
        return True

    def _open(self) -> int:
        try:
            return open_apart(f"{self.path}.lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise unreachable(error, self.path) from error

    def holder(self) -> str:
        """Return which host holds the lock, as it said; empty if runs without a host do."""
        try:
            return Path(f"{self.path}.lock").read_text(encoding="utf-8")[:HOLDER_CHARS_MAX]
        except OSError:
            return ""

    def release(self) -> None:
        """Give the lock back; twice is harmless."""
        if self.descriptor is not None:
            if not self._shared:
                os.ftruncate(self.descriptor, 0)
            fcntl.flock(self.descriptor, fcntl.LOCK_UN)
            os.close(self.descriptor)
            self.descriptor = None

    def forget(self) -> None:
        """Close this process's part of the lock without giving it back for the others."""
        if self.descriptor is not None:
            os.close(self.descriptor)
            self.descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
