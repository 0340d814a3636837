"""Which files this process has open: a fact of the process, since SQLite's locks are."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
import sys
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from snapshots.database.places import has_log_and_index, open_apart, unreachable
from snapshots.errors import StorageBusyError, StorageForkedError

if TYPE_CHECKING:
    import apsw

_OPEN: Final = "open"
# The bytes of which each connection in WAL mode keeps a shared lock (https://sqlite.org/src/file/src/os.h,
# SHARED_FIRST and SHARED_SIZE), asked about as `struct flock` of fcntl(2).
_SHARED_FIRST: Final = 0x4000_0002
_SHARED_BYTES: Final = 510
_FLOCK: Final = struct.Struct("hhqqi4x")
# Where a file says that it has a log (https://sqlite.org/fileformat2.html, 1.3.3).
_VERSIONS_AT: Final = 18
_VERSIONS_WITH_LOG: Final = b"\x02\x02"


@dataclass(slots=True)
class _OpenFile:
    """One file: who opened it, how many handles use it, what must outlive them."""

    pid: int
    handles: int = 0
    descriptors: list[int] = field(default_factory=list)
    connections: list[apsw.Connection] = field(default_factory=list)


class _OpenFiles:
    """The files that this process has open, by device and inode."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.files: dict[tuple[int, int], _OpenFile] = {}
        self.watches_forks = False

    def watch_forks(self) -> None:
        """Register once, at the first open: registering cannot be undone."""
        if not self.watches_forks and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.disown)
        self.watches_forks = True

    def disown(self) -> None:
        """In a forked child: keep every inherited connection from ever being closed.

        Closing one would let SQLite checkpoint and delete the log that the parent writes.
        An extra reference keeps the interpreter from closing them when it ends.
        """
        self.lock = threading.Lock()
        for file in self.files.values():
            for connection in file.connections:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


# Module state on purpose: closing any descriptor of a file drops all POSIX locks that the
# process has on it (https://sqlite.org/howtocorrupt.html, 2.2), whichever handle took them.
_OPEN_FILES: Final = _OpenFiles()


def refuse_inherited(path: str) -> None:
    """Raise `StorageForkedError` if a process of which this is a fork has the file open.

    SQLite keeps its locks in memory too, which a fork copies: this process would believe
    that it holds what its parent holds.
    """
    with _OPEN_FILES.lock:
        file = _OPEN_FILES.files.get(_key(os.stat(path)))  # noqa: PTH116 - beside fstat
    if file is not None and file.pid != os.getpid():
        raise StorageForkedError(_OPEN, path, file.pid, os.getpid())


def refuse_lost_index(path: str) -> None:
    """Raise `StorageBusyError` while another process has a file open whose log or index is gone.

    SQLite would make new ones: two indexes of one log, or two logs of one file, which each of the
    two processes writes over. It is so for a moment, too, while somebody opens or closes the file.
    """
    if has_log_and_index(path):
        return
    with _OPEN_FILES.lock:
        try:
            # In one process SQLite has one index for all connections; and no lock is to be dropped.
            if _key(os.stat(path)) in _OPEN_FILES.files:  # noqa: PTH116 - beside fstat
                return
            descriptor = open_apart(path, os.O_RDONLY)
            try:
                holder = _holder_of(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise unreachable(error, path) from error
    if holder is not None and not has_log_and_index(path):
        hint = "end that process first: it saves where nobody else can see it"
        detail = f"{holder} has it open, and its -wal or its -shm is gone"
        raise StorageBusyError(_OPEN, path, hint, detail=detail)


def _holder_of(descriptor: int) -> str | None:
    """Name a process that has a file with a log open; None if none has, or it has no log.

    None as well where the system is not Linux, whose form the question has.
    """
    if sys.platform != "linux":
        return None
    if os.pread(descriptor, len(_VERSIONS_WITH_LOG), _VERSIONS_AT) != _VERSIONS_WITH_LOG:
        return None
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, _SHARED_FIRST, _SHARED_BYTES, 0)
    kind, _, _, _, pid = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    if kind == fcntl.F_UNLCK:
        return None
    # The system has no number for one that lives in a container which this process is not in.
    return f"process {pid}" if pid > 0 else "a process in another container"


class Registration:
    """One handle's part in a file that is open: a descriptor to sync, connections to keep."""

    def __init__(self, path: str, created: int | None = None) -> None:
        """Enter the file at `path`; `created` is its descriptor if it was made just now."""
        self._connections: list[apsw.Connection] = []
        _OPEN_FILES.watch_forks()
        with _OPEN_FILES.lock:
            try:
                self._key = _key(os.stat(path) if created is None else os.fstat(created))  # noqa: PTH116 - beside fstat
                if created is None and self._key not in _OPEN_FILES.files:
                    created = open_apart(path, os.O_RDONLY)
                    self._key = _key(os.fstat(created))
            except OSError as error:
                raise unreachable(error, path) from error
            file = _OPEN_FILES.files.setdefault(self._key, _OpenFile(pid=os.getpid()))
            file.handles += 1
            if created is not None:
                file.descriptors.append(created)
            self.descriptor = file.descriptors[0]

    def keep(self, connection: apsw.Connection) -> None:
        """Note a connection that a forked child must not close."""
        self._connections.append(connection)
        with _OPEN_FILES.lock:
            _OPEN_FILES.files[self._key].connections.append(connection)

    def leave(self) -> None:
        """Forget this handle, whose connections are closed; the last one closes descriptors."""
        with _OPEN_FILES.lock:
            file = _OPEN_FILES.files[self._key]
            file.connections = [c for c in file.connections if c not in self._connections]
            file.handles -= 1
            if file.handles == 0:
                del _OPEN_FILES.files[self._key]
                for descriptor in file.descriptors:
                    os.close(descriptor)


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
