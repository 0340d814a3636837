"""What must be true of a path before SQLite sees it."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapshots.errors import (
    NetworkFileSystemError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORY: Final = ":memory:"
_OPEN: Final = "open"
# What the connections of a file share lies behind its name.
LOG_AND_INDEX: Final = ("-wal", "-shm")
# What SQLite keeps beside a file, and what a host locks.
PARTS: Final = (*LOG_AND_INDEX, "-journal", ".lock")
# Behind the name of a backup that is being written; whoever finds such a file unlocked may remove
# it. For a moment, or after a death in it, the backup has both names.
UNFINISHED: Final = ".unfinished-backup"
_MOUNTS: Final = Path("/proc/self/mountinfo")

# Where locks or shared memory do not reach every machine that may open the file
# (https://sqlite.org/wal.html, "All processes using a database must be on the same host").
_NETWORK: Final = re.compile(
    r"""(?: nfs\d* | cifs | smb\w* | ncpfs | afs | coda | 9p | ceph | lustre | glusterfs | beegfs
        | gpfs | orangefs | pvfs2 | ocfs2 | gfs2? | davfs\d* | sshfs
        | fuse\.(?: sshfs | s3fs | gcsfuse | goofys | rclone | glusterfs | ceph\S* | cephfs
                  | davfs\d* | smbnetfs | curlftpfs | blobfuse\d* | juicefs | nfs\S* ) )""",
    re.VERBOSE,
)
_OCTAL: Final = re.compile(r"\\([0-7]{3})")
_MOUNT_POINT_FIELD: Final = 4
# Standard input, output and error come before it.
_DESCRIPTOR_MIN: Final = 3


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the path that SQLite gets: absolute, links resolved; `:memory:` stays itself.

    Links are resolved because SQLite puts the log beside the file itself. An absolute path
    cannot be taken for a URI, and does not move when the process changes its folder.
    """
    text = os.fspath(path)
    if text == MEMORY:
        return text
    if not text:
        raise StorageError(_OPEN, text, "name a file, or ':memory:' for one that is not kept")
    if "\0" in text or _is_not_utf8(text):
        raise StorageError(_OPEN, text, "a file's name must be UTF-8 without a null character")
    return os.path.realpath(text)


def _is_not_utf8(text: str) -> bool:
    """Whether the name holds bytes that are no UTF-8, which is what SQLite wants."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def file_system_of(path: str, mounts: str) -> str | None:
    """Say on which type of file system an absolute path lies.

    `mounts` is the text of `/proc/self/mountinfo` (proc_pid_mountinfo(5)). The longest mount
    point above the path decides, and among equal ones the last, which covers the others.
    None if no line fits.
    """
    found, longest = None, -1
    for point, kind in _mounts(mounts):
        above = path == point or path.startswith(point.rstrip("/") + "/")
        if above and len(point) >= longest:
            found, longest = kind, len(point)
    return found


def _mounts(mounts: str) -> Iterator[tuple[str, str]]:
    """Yield the mount point and the type of each file system that is mounted."""
    for line in mounts.splitlines():
        before, separator, after = line.partition(" - ")
        fields, types = before.split(" "), after.split(" ")
        if separator and len(fields) > _MOUNT_POINT_FIELD:
            point = _OCTAL.sub(lambda code: chr(int(code[1], 8)), fields[_MOUNT_POINT_FIELD])
            yield point, types[0]


def refuse_network_file_system(path: str, mounts: str | None = None) -> None:
    """Raise `NetworkFileSystemError` if the path lies on one.

    Where the system has no mountinfo nothing is refused: only Linux can be asked this way.
    """
    found = file_system_of(path, _mounted() if mounts is None else mounts)
    if found is not None and _NETWORK.fullmatch(found):
        raise NetworkFileSystemError(path, found)


def _mounted() -> str:
    """Return what is mounted, as the system has it; nothing where it cannot be asked."""
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def require_file(path: str) -> None:
    """Raise unless a regular file lies at the path."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - one call, on the text that SQLite gets
    except OSError as error:
        raise unreachable(error, path) from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "no regular file"
        raise StorageError(_OPEN, path, "name a file in it, or another one", detail=f"it is {kind}")


def refuse_part(operation: str, target: str | os.PathLike[str], path: str) -> None:
    """Raise where a copy at `target` would be taken for a part of the file at `path`.

    SQLite plays a log or a journal into the file that it lies beside, or removes it.
    """
    own = os.path.realpath(path)
    folder, name = os.path.split(os.path.abspath(target))  # noqa: PTH100 - on text, as SQLite gets it
    place = os.path.join(os.path.realpath(folder), name)  # noqa: PTH118 - the same
    if place in {f"{own}{part}" for part in PARTS}:
        detail = f"it would be taken for a part of {own!r}"
        raise StorageError(operation, place, "name another file", detail=detail)


def wal_bytes(path: str) -> int:
    """Length of the write-ahead log beside the file at `path`, 0 if none can be there."""
    try:
        return os.stat(f"{path}-wal").st_size  # noqa: PTH116 - one number, often asked
    except OSError:  # there is none, nor a folder for one, or its name would be too long
        return 0


def refuse_second_name(path: str) -> None:
    """Raise for a file that has another name: under each it would have a log of its own.

    Who writes by the one knows nothing of the other's saves, and writes over them
    (https://sqlite.org/howtocorrupt.html, 2.5).
    """
    try:
        names = os.stat(path).st_nlink  # noqa: PTH116 - one number, on the text that SQLite gets
    except OSError as error:
        raise unreachable(error, path) from error
    if names > 1 and _is_one_file(path, f"{path}{UNFINISHED}"):
        names -= 1
    if names > 1:
        hint = "remove all names but one while nothing has the file open, or write to a copy of it"
        detail = f"it has {names} names (hard links), and each would have a log of its own"
        raise StorageError(_OPEN, path, hint, detail=detail)


def refuse_file_mount(path: str, mounts: str | None = None) -> None:
    """Raise for a file that is mounted by itself, as a container may have it.

    Its log is then no part of the mount: it goes with the container, and whoever writes the file
    where it comes from has another one.
    """
    if any(point == path for point, _ in _mounts(_mounted() if mounts is None else mounts)):
        hint = "mount the folder that it lies in"
        detail = "it is mounted by itself, and its -wal would not lie beside it"
        raise StorageError(_OPEN, path, hint, detail=detail)


def _is_one_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)  # noqa: PTH121 - on the text that SQLite gets
    except OSError:
        return False


def may_join(path: str) -> bool:
    """Whether a reader may use the log and its index: who may not write the file must make none.

    Both are made by whoever comes first, and belong to that user: the file's owner could write
    nothing any more.
    """
    return os.access(path, os.W_OK) or has_log_and_index(path)


def has_log_and_index(path: str) -> bool:
    """Whether what connections share lies beside a file."""
    return all(os.access(f"{path}{part}", os.F_OK) for part in LOG_AND_INDEX)


def refuse_unreadable_log(path: str) -> None:
    """Raise where a log can be read only through an index that this user must not make."""
    if wal_bytes(path) > 0 and not may_join(path):
        hint = "read a copy of the file and its -wal, or open it as the user who owns it"
        detail = "its log has no -shm file, and who may not write the file makes none"
        raise StorageReadOnlyError(_OPEN, path, hint, detail=detail)


def refuse_orphaned_log(path: str) -> None:
    """Raise where a log lies beside no file, or an empty one: SQLite would remove it.

    It holds the newest saves of a file that was moved or removed. Nothing that makes a file has
    a log before it has a page, so the log is looked for first.
    """
    length = wal_bytes(path)
    if length > 0 and not _has_content(path):
        hint = "put that file back beside its log, or move the log away if nothing in it is missed"
        detail = f"{path}-wal has {length} bytes, and the file that they belong to is gone"
        raise StorageError(_OPEN, path, hint, detail=detail)


def _has_content(path: str) -> bool:
    try:
        return os.stat(path).st_size > 0  # noqa: PTH116 - one number, on the text that SQLite gets
    except FileNotFoundError:
        return False
    except OSError:
        return True  # opening it will tell


def open_apart(path: str, flags: int) -> int:
    """Open a file under a number that no standard stream has, even where those are closed.

    What a crash or a library then writes to its standard error would be written over the file
    (https://sqlite.org/howtocorrupt.html, 1.1).
    """
    descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
    if descriptor >= _DESCRIPTOR_MIN:
        return descriptor
    try:
        return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _DESCRIPTOR_MIN)
    finally:
        os.close(descriptor)


def create(path: str) -> int | None:
    """Create an empty file that only its owner may read and write, if there is none.

    Returns its descriptor, or None if something lies there already. SQLite gives the -wal
    and -shm files the mode of this one.
    """
    try:
        return open_apart(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return None
    except OSError as error:
        raise unreachable(error, path) from error


def unreachable(error: OSError, path: str) -> StorageError:
    """Say in our words why the system did not give us a file."""
    detail = error.strerror or str(error)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        hint = "the folder, or the file that is to be read, must exist"
        return StorageUnavailableError(_OPEN, path, hint, detail=detail)
    if isinstance(error, PermissionError):
        hint = "this user must be allowed to read and write the file and its folder"
        return StorageReadOnlyError(_OPEN, path, hint, detail=detail)
    return _by_number(error.errno, path, detail)


def _by_number(number: int | None, path: str, detail: str) -> StorageError:
    """The causes for which Python has no class of its own."""
    if number == errno.EROFS:
        hint = "the file system is mounted read-only"
        return StorageReadOnlyError(_OPEN, path, hint, detail=detail)
    if number in {errno.ENOSPC, errno.EDQUOT}:
        return StorageFullError(_OPEN, path, "make room on the disk", detail=detail)
    return StorageUnavailableError(_OPEN, path, "the system refuses the path", detail=detail)
