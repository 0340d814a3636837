"""The operating system's lock beside a file: one host at a time, or many short runs without one."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from typing import Self

from machines.errors import HostLockedError


def holder_name() -> str:
    """Return who this process is, for who finds the lock taken."""
    return f"process {os.getpid()} on {socket.gethostname()}"


class FileLock:
    """A lock on `<file>.lock`; it goes with the process, however that ends.

    The lock is on a file of its own: closing any descriptor of the database would drop the
    locks that SQLite holds on it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        """Whether this process has the lock."""
        return self._descriptor is not None

    def take(self, *, shared: bool = False) -> Self:
        """Take the lock, or raise HostLockedError at once. A file in memory needs none."""
        if not self.try_take(shared=shared):
            raise HostLockedError(self._path, self.holder() or "another process")
        return self

    def try_take(self, *, shared: bool = False) -> bool:
        """Take the lock if it is free; return whether this process has it."""
        if self._path == ":memory:" or self.held:
            return True
        descriptor = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return False
        self._descriptor = descriptor
        if not shared:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder_name().encode(), 0)
        return True

    def holder(self) -> str:
        """Return who took the lock last, as it said."""
        try:
            return Path(f"{self._path}.lock").read_text(encoding="utf-8")[:200]
        except OSError:
            return ""

    def release(self) -> None:
        """Give the lock back; twice is harmless."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
