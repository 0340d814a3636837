"""The one seam at which the errors of psycopg and its pool become ours."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import psycopg
import psycopg_pool
from psycopg import errors

from snapshots.errors import (
    StorageBusyError,
    StorageClosedError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

Translation = tuple[type[StorageError], str]

_BUSY: Final = (StorageBusyError, "another transaction is in the way; try again")
_CROWDED: Final = (
    StorageUnavailableError,
    "every connection is in use, or the server takes none; try again",
)
_UNREACHABLE: Final = (
    StorageUnavailableError,
    "see that the server runs and that the address is right; nothing of it was written",
)
_SILENT: Final = (
    StorageUnavailableError,
    (
        "it said nothing for so long that the server ended it, and nothing of it was written; what"
        " waits or computes for long belongs outside of a transaction"
    ),
)
_REFUSED_ENTRY: Final = (StorageError, "the server refused this role; look at its password")
_FULL: Final = (StorageFullError, "nothing of it was written; make room and try again")
_READ_ONLY: Final = (StorageReadOnlyError, "connect to a server that takes writes")
_MEMORY: Final = (StorageUnavailableError, "the server is out of some resource; try again later")
_CORRUPT: Final = (StorageCorruptError, "the content is damaged; stop, and restore a backup")
_INTERRUPTED: Final = (StorageError, "it was stopped before its end; nothing of it was written")
_FORBIDDEN: Final = (
    StorageError,
    "this role lacks a privilege, or the row is another's; prepare the storage for this role",
)
_REFUSED: Final = (StorageError, "a value broke a rule of the schema; nothing of it was written")
_SWALLOWED: Final = (
    StorageError,
    "an earlier error of this transaction was swallowed; nothing of it was written",
)
_SCHEMA: Final = (StorageError, "the tables are not as expected; prepare the storage anew")
_BUG: Final = (StorageError, "the driver was used wrongly, which is a bug; please report it")

# Classes without an SQLSTATE, named one by one.
BY_CLASS: Final[dict[type[psycopg.Error], Translation]] = {
    psycopg.Error: _BUG,
    psycopg.InterfaceError: _BUG,
    psycopg.DatabaseError: _BUG,
    psycopg.DataError: _REFUSED,
    psycopg.IntegrityError: _REFUSED,
    psycopg.InternalError: _BUG,
    psycopg.ProgrammingError: _BUG,
    psycopg.NotSupportedError: _BUG,
    # What libpq says when a connection cannot be made, or is gone.
    psycopg.OperationalError: _UNREACHABLE,
    errors.ConnectionTimeout: _UNREACHABLE,
    errors.CancellationTimeout: _UNREACHABLE,
    errors.PipelineAborted: _INTERRUPTED,
    psycopg_pool.PoolTimeout: _CROWDED,
    psycopg_pool.TooManyRequests: _CROWDED,
    psycopg_pool.PoolClosed: _BUG,
}

# The classes of SQLSTATE by their two characters, and single ones that differ from their class
# (https://www.postgresql.org/docs/current/errcodes-appendix.html).
BY_STATE: Final[dict[str, Translation]] = {
    "02": _BUG,
    "03": _BUG,
    "08": _UNREACHABLE,
    "09": _BUG,
    "0A": _BUG,
    "0B": _BUG,
    "0F": _BUG,
    "0L": _BUG,
    "0P": _BUG,
    "0Z": _BUG,
    "10": _BUG,
    "20": _BUG,
    "21": _BUG,
    "22": _REFUSED,
    "23": _REFUSED,
    "24": _BUG,
    "25": _BUG,
    "25006": _READ_ONLY,
    "25P02": _SWALLOWED,
    "25P03": _SILENT,
    "25P04": _UNREACHABLE,
    "26": _BUG,
    "27": _REFUSED,
    "28": _REFUSED_ENTRY,
    "2B": _BUG,
    "2D": _BUG,
    "2F": _BUG,
    "34": _BUG,
    "38": _BUG,
    "39": _BUG,
    "3B": _BUG,
    "3D": _REFUSED_ENTRY,
    "3F": _SCHEMA,
    "40": _BUSY,
    "40002": _REFUSED,
    "42": _BUG,
    "42501": _FORBIDDEN,
    "42703": _SCHEMA,
    "42883": _SCHEMA,
    "42P01": _SCHEMA,
    "44": _REFUSED,
    "53": _MEMORY,
    "53100": _FULL,
    "54": _REFUSED,
    "55": _BUSY,
    "57": _UNREACHABLE,
    "57014": _INTERRUPTED,
    "58": _UNREACHABLE,
    "72": _BUSY,
    "F0": _BUG,
    "HV": _BUG,
    "P0": _BUG,
    "XX": _BUG,
    "XX001": _CORRUPT,
    "XX002": _CORRUPT,
}

_STATE_CLASS_CHARS: Final = 2


def decided(cls: type[psycopg.Error], state: str | None) -> Translation | None:
    """Return what was decided on a class of the driver, None if nobody has looked at it."""
    if state is None:
        return BY_CLASS.get(cls)
    return BY_STATE.get(state, BY_STATE.get(state[:_STATE_CLASS_CHARS]))


def translate(error: psycopg.Error, operation: str, path: str) -> StorageError:
    """Make our error of a driver's; the caller raises it `from` the driver's."""
    if isinstance(error, psycopg_pool.PoolClosed):
        return StorageClosedError(operation, path)
    # The server says the state of an error itself, one that the driver has no class for included.
    found = decided(type(error), error.sqlstate)
    ours, hint = found or _BUG
    said = str(error).partition("\n")[0]
    return ours(operation, path, hint, detail=f"{type(error).__name__}: {said}")


@contextmanager
def translated(operation: str, path: str) -> Iterator[None]:
    """Return a context in which the driver's errors become ours."""
    try:
        yield
    except psycopg.Error as error:
        raise translate(error, operation, path) from error
