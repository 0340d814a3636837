"""The address of a database as it may be shown: without its password."""

from __future__ import annotations

from typing import Final

import psycopg
from psycopg import conninfo

from snapshots.errors import StorageError

_OPEN: Final = "open"
_HIDDEN: Final = "postgresql://…"
_HINT: Final = (
    "it is no address: expected postgresql://user:password@host:port/database, in which special"
    " characters are percent-encoded"
)
_SHOWN: Final = ("user", "host", "port", "dbname")


def shown(url: str) -> str:
    """Return the address that errors name, which holds user, host, port and database only.

    Raises `StorageError` for one that cannot be read, or was read in the wrong way: it is
    not shown, since a part of its password may stand anywhere.
    """
    try:
        parts = conninfo.conninfo_to_dict(url)
    except (psycopg.Error, UnicodeEncodeError):
        parts = None
    if parts is None or not _is_port(str(parts.get("port") or "")):
        raise StorageError(_OPEN, _HIDDEN, _HINT)
    user, host, port, name = (str(parts.get(part) or "") for part in _SHOWN)
    at = f"{user}@" if user else ""
    behind = f":{port}" if port else ""
    return f"postgresql://{at}{host}{behind}/{name}"


def _is_port(text: str) -> bool:
    """Whether this is nothing, a number, or one for each of several hosts."""
    return all(not part or part.isdigit() for part in text.split(","))
