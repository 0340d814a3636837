"""A VFS that passes everything on to SQLite's own, and tells a watcher of each write.

Locks and shared memory never come here: apsw hands them to the VFS below, so that a write-ahead
log, several connections and the checkpoint thread run as they always do. While a `watched` block
is open it is the process's default VFS, which every connection without another one gets. What does
not go through SQLite is one sync of the database by the checkpoint thread, through
`snapshots.database.checkpoints._SYNC`: that name is put elsewhere meanwhile.
"""

from __future__ import annotations

import errno
import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, Literal

import apsw

from snapshots.database import checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterator

Kind = Literal["open", "read", "write", "truncate", "sync", "delete", "folder"]
# What SQLite syncs the folder for, at the first sync after it was opened (`unixSync` in its
# os_unix.c): a journal or a log that may have been made just now.
_SYNCS_FOLDER: Final = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_WAL
_NUMBERS: Final = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One thing that was done to a file: `folder` is a sync of the folder that it lies in.

    `size` is the length that a file was cut to. `began` is how many things had been done when a
    sync began: it covers those.
    """

    kind: Kind
    path: str
    file: int
    offset: int = 0
    data: bytes = b""
    size: int = 0
    began: int = 0


class Watcher:
    """Is asked before, and told after, whatever is done to a file; this one does nothing."""

    syncs: bool = False
    """Whether a sync goes on to the real disk. It need not: a real power loss is not at hand."""
    reads: bool = False
    """Whether it is asked before each read, which takes time."""

    def before(self, kind: Kind, path: str) -> None:
        """Raise what SQLite is to be told instead, an `apsw.Error`."""

    def began(self) -> int:
        """Return how many things were done so far: a sync begins."""
        return 0

    def after(self, op: Op) -> None:
        """Know what was done."""


class WatchedVfs(apsw.VFS):
    """The process's default VFS, until it is taken back."""

    def __init__(self, watcher: Watcher) -> None:
        """Register in front of the default VFS that there is."""
        self.base: str = apsw.vfs_names()[0]
        self.watcher = watcher
        self.lock = threading.RLock()
        self._files: dict[tuple[int, int], tuple[str, int]] = {}
        super().__init__(f"watched{next(_NUMBERS)}", self.base, makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - the driver's name
        """Open a file; one without a name is SQLite's own and temporary."""
        if name is None:
            return apsw.VFSFile(self.base, name, flags)
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        with self.lock:
            self.watcher.before("open", path)
            kind = ReadFile if self.watcher.reads else WatchedFile
            file = kind(self, name, path, flags)
            self.watcher.after(Op(kind="open", path=path, file=file.number))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802 - the driver's
        """Delete a file."""
        with self.lock:
            self.watcher.before("delete", filename)
            key = _key(os.stat(filename)) if os.path.exists(filename) else None  # noqa: PTH110, PTH116 - SQLite's text
            super().xDelete(filename, syncdir and self.watcher.syncs)
            if key is not None:
                _, number = self._files.pop(key, ("", 0))
                self.watcher.after(Op(kind="delete", path=filename, file=number))
            if syncdir:
                began = self.watcher.began()
                self.watcher.after(Op(kind="folder", path=filename, file=0, began=began))

    def number_of(self, path: str) -> int:
        """Return the number of the file that lies at a path now: another one if made anew."""
        key = _key(os.stat(path))  # noqa: PTH116 - SQLite's text
        if key not in self._files:
            self._files[key] = (path, next(_NUMBERS))
        return self._files[key][1]

    def sync_descriptor(self, descriptor: int) -> None:
        """Stand in for `os.fdatasync`: note it, under the name by which SQLite has the file."""
        path, number = self._files.get(_key(os.fstat(descriptor)), ("", 0))
        try:
            self.watcher.before("sync", path)
        except apsw.Error as error:
            raise OSError(errno.EIO, os.strerror(errno.EIO)) from error
        began = self.watcher.began()
        if self.watcher.syncs:
            os.fdatasync(descriptor)
        self.watcher.after(Op(kind="sync", path=path, file=number, began=began))


class WatchedFile(apsw.VFSFile):
    """An open file."""

    def __init__(
        self, vfs: WatchedVfs, name: str | apsw.URIFilename, path: str, flags: list[int]
    ) -> None:
        """Open it through the VFS below."""
        super().__init__(vfs.base, name, flags)
        self._vfs = vfs
        self.path = path
        self.number = vfs.number_of(path)
        is_made = flags[0] & apsw.SQLITE_OPEN_CREATE
        self._syncs_folder = bool(is_made and flags[0] & _SYNCS_FOLDER)
        self._is_read_only = bool(flags[0] & apsw.SQLITE_OPEN_READONLY)

    def xLock(self, level: int) -> None:  # noqa: N802 - the driver's name
        """Lock; SQLite tries to lock what may only be read, and passes over that this fails.

        The driver would raise it from the call that SQLite makes this in, unless it is busy.
        """
        try:
            super().xLock(level)
        except apsw.IOError as error:
            if self._is_read_only:
                raise apsw.BusyError(str(error)) from error
            raise

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - the driver's name
        """Write, and have it known as soon as it is done."""
        vfs = self._vfs
        with vfs.lock:
            vfs.watcher.before("write", self.path)
            super().xWrite(data, offset)
            op = Op(kind="write", path=self.path, file=self.number, offset=offset, data=bytes(data))
            vfs.watcher.after(op)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802 - the driver's name
        """Cut, or lengthen."""
        vfs = self._vfs
        with vfs.lock:
            vfs.watcher.before("truncate", self.path)
            super().xTruncate(newsize)
            vfs.watcher.after(Op(kind="truncate", path=self.path, file=self.number, size=newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802 - the driver's name
        """Sync: what was written before it began is covered, other threads write on meanwhile."""
        vfs = self._vfs
        vfs.watcher.before("sync", self.path)
        began = vfs.watcher.began()
        if vfs.watcher.syncs:
            super().xSync(flags)
        vfs.watcher.after(Op(kind="sync", path=self.path, file=self.number, began=began))
        if self._syncs_folder:
            self._syncs_folder = False
            vfs.watcher.after(Op(kind="folder", path=self.path, file=0, began=began))


class ReadFile(WatchedFile):
    """An open file of which each read is watched too."""

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802 - the driver's name
        """Read."""
        self._vfs.watcher.before("read", self.path)
        return super().xRead(amount, offset)


@contextmanager
def watched(watcher: Watcher) -> Iterator[WatchedVfs]:
    """Have a watcher see what all connections do that are opened in the block."""
    vfs = WatchedVfs(watcher)
    seams = vars(checkpoints)
    sync = seams["_SYNC"]
    seams["_SYNC"] = vfs.sync_descriptor
    try:
        yield vfs
    finally:
        seams["_SYNC"] = sync
        vfs.unregister()


def _key(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino
