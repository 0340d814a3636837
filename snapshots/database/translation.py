"""The one seam at which the driver's errors become ours."""

from __future__ import annotations

import errno
from typing import Final

import apsw

from snapshots.errors import (
    StorageBusyError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

_BUSY: Final = (StorageBusyError, "another connection is writing; try again")
_FULL: Final = (StorageFullError, "nothing of it was written; make room and try again")
_OVER_LIMIT: Final = (
    StorageFullError,
    "nothing of it was written; a quota or a limit is used up: have it raised, or make room",
)
_USED_UP: Final = frozenset({errno.EDQUOT, errno.EFBIG})
_READ_ONLY: Final = (
    StorageReadOnlyError,
    "the file, its folder and its -wal and -shm files must be writable by this user",
)
_UNREACHABLE: Final = (
    StorageUnavailableError,
    "nothing of it was written; see that the disk works and that the file and its folder are there",
)
_UNSYNCED: Final = (
    "the disk did not confirm it: it counts as not written, and may be there all the same after a"
    " crash; see that the disk works"
)
_MEMORY: Final = (StorageUnavailableError, "the process is out of memory; try again with more")
_CORRUPT: Final = (
    StorageCorruptError,
    "the content is damaged; stop, keep a copy of the file with its -wal, restore a backup",
)
_INTERRUPTED: Final = (StorageError, "it was stopped before its end; nothing of it was written")
_REFUSED: Final = (StorageError, "a value broke a rule of the schema; nothing of it was written")
_BUG: Final = (StorageError, "the driver was used wrongly, which is a bug; please report it")

# Named one by one, so that a class that a later driver adds is noticed, not guessed at.
TRANSLATIONS: Final[dict[type[apsw.Error], tuple[type[StorageError], str]]] = {
    apsw.BusyError: _BUSY,
    apsw.LockedError: _BUSY,
    apsw.ProtocolError: _BUSY,
    apsw.FullError: _FULL,
    apsw.ReadOnlyError: _READ_ONLY,
    apsw.PermissionsError: _READ_ONLY,
    apsw.CantOpenError: _UNREACHABLE,
    apsw.IOError: _UNREACHABLE,
    apsw.NoLFSError: _UNREACHABLE,
    apsw.NoMemError: _MEMORY,
    apsw.CorruptError: _CORRUPT,
    apsw.NotADBError: _CORRUPT,
    apsw.FormatError: _CORRUPT,
    apsw.AbortError: _INTERRUPTED,
    apsw.InterruptError: _INTERRUPTED,
    apsw.ExecTraceAbort: _INTERRUPTED,
    apsw.ConstraintError: _REFUSED,
    apsw.MismatchError: _REFUSED,
    apsw.TooBigError: _REFUSED,
    apsw.AuthError: _REFUSED,
    apsw.SQLError: _BUG,
    apsw.SchemaChangeError: _BUG,
    apsw.MisuseError: _BUG,
    apsw.RangeError: _BUG,
    apsw.InternalError: _BUG,
    apsw.EmptyError: _BUG,
    apsw.NotFoundError: _BUG,
    apsw.BindingsError: _BUG,
    apsw.IncompleteExecutionError: _BUG,
    apsw.ExecutionCompleteError: _BUG,
    apsw.ExtensionLoadingError: _BUG,
    apsw.ConnectionClosedError: _BUG,
    apsw.ConnectionNotClosedError: _BUG,
    apsw.CursorClosedError: _BUG,
    apsw.ThreadingViolationError: _BUG,
    apsw.ForkingViolationError: _BUG,
    apsw.InvalidContextError: _BUG,
    apsw.NoFTS5Error: _BUG,
    apsw.VFSFileClosedError: _BUG,
    apsw.VFSNotImplementedError: _BUG,
    apsw.Error: _BUG,
}


def translate(error: apsw.Error, operation: str, path: str, number: int = 0) -> StorageError:
    """Make our error of a driver's; the caller raises it `from` the driver's.

    `number` is the system's of the call that failed last, as the connection tells it.
    """
    ours, hint = TRANSLATIONS.get(type(error), _BUG)
    # SQLite says that the disk is full of no other number than ENOSPC.
    if ours is StorageUnavailableError and number in _USED_UP:
        ours, hint = _OVER_LIMIT
    # A commit whose sync fails is in the log: the next one is written over it, a crash finds it.
    if getattr(error, "extendedresult", None) == apsw.SQLITE_IOERR_FSYNC:
        hint = _UNSYNCED
    return ours(operation, path, hint, detail=f"{type(error).__name__}: {error}")
