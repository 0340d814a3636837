"""The only place that picks a backend: a path or an address becomes an open store or storage."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from snapshots.clock import Clock, SystemClock
from snapshots.database import open_database, patiently
from snapshots.database.holding import holder_of
from snapshots.errors import ExtraNotInstalledError, StorageBusyError, StorageError
from snapshots.schema import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    is_older,
    migrate,
    migrate_for_mail,
    require_current,
)
from snapshots.storage.backends.memory import MemoryBackend
from snapshots.storage.backends.sqlite import SqliteBackend
from snapshots.store import SqliteSnapshotStore
from snapshots.store.older import OlderStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.database import Database
    from snapshots.storage.protocols import Backend

_OPEN: Final = "open"
_PREPARE: Final = "prepare"
_MEMORY: Final = "memory:"
_SQLITE: Final = "sqlite:///"
_EXTRA: Final = "postgres"
_NEEDED_FOR: Final = "a storage in PostgreSQL"
_POSTGRES: Final = ("postgresql://", "postgres://")
_KINDS: Final = frozenset({"memory", "sqlite", "postgres", "postgresql"})
_PLACES: Final = "expected memory:, a path, sqlite:///path or postgresql://…"
_HELD: Final = (
    "it has the form of an earlier release, and its host could write nothing to another one: stop"
    " that host, then start one of this release"
)
_UNPREPARED: Final = (
    "expected postgresql://…: only a database of PostgreSQL is prepared, a file is brought to its"
    " current form when it is opened"
)
_NO_LIBPQ: Final = (
    "it is installed, but psycopg finds no client library of PostgreSQL: install the system's"
    " libpq, or psycopg[binary]"
)


def open_store(
    path: str | os.PathLike[str], *, clock: Clock | None = None, read_only: bool = False
) -> SqliteSnapshotStore:
    """Open the store in a file, which is created if there is none; close it, or use `with`.

    `:memory:` gives one that ends with the handle. With `read_only` the file must exist,
    nothing is written to it, and every write raises `StorageReadOnlyError`. `clock` is the
    wall clock unless a test turns its own.

    A file of an earlier release is brought to the form of this one, unless a host holds it: what
    that knows is the form that the file has.

    Raises, and has written nothing: `UnsupportedSqliteError`, `NetworkFileSystemError`,
    `ForeignFileError`, `NewerFileError`, `StorageForkedError` in a fork of a process that
    has the file open, `StorageBusyError` while a host of an earlier release holds it, or another
    `StorageError` that says what is in the way.
    """
    prepare = require_current if read_only else _migrate_unless_held
    return _opened(path, clock, prepare, read_only=read_only)


def open_own_store(
    path: str | os.PathLike[str], *, clock: Clock | None = None
) -> SqliteSnapshotStore:
    """Open the store in a file as its host, who holds it or takes it over; see `open_store`."""
    return _opened(path, clock, lambda database: patiently(lambda: migrate(database)))


def open_store_for_mail(path: str | os.PathLike[str]) -> SqliteSnapshotStore:
    """Open the store in a file for its mailbox alone: one of an earlier release stays as it is.

    So the host of that release, which may be at work on it, takes what is handed in. What reads
    or writes the row of a run in such a file raises `MigrationError`.
    """
    return _opened(path, None, lambda database: patiently(lambda: migrate_for_mail(database)))


def _opened(
    path: str | os.PathLike[str],
    clock: Clock | None,
    prepare: Callable[[Database], None],
    *,
    read_only: bool = False,
) -> SqliteSnapshotStore:
    """Open a store whose file `prepare` has seen to."""
    database = open_database(
        path,
        application_id=APPLICATION_ID,
        known_schema=SCHEMA_VERSION,
        read_only=read_only,
    )
    try:
        prepare(database)
        kind = OlderStore if is_older(database) else SqliteSnapshotStore
        return kind(database, clock=clock or SystemClock())
    except BaseException:
        database.close()
        raise


def _migrate_unless_held(database: Database) -> None:
    def attempt() -> None:
        holder = holder_of(database.path) if is_older(database) else None
        if holder is not None:
            # It may be one of this release, which is about to do the same.
            raise StorageBusyError(_OPEN, database.path, _HELD, detail=f"{holder} holds it")
        migrate(database)

    patiently(attempt)


def open_storage(
    place: str | os.PathLike[str] | SqliteSnapshotStore, *, clock: Clock | None = None
) -> Backend:
    """Open keyed state, leases, carry state and workspaces in a place; close it, or use `with`.

    `place` is `memory:`, which ends with the handle; a path or `sqlite:///path` (so that
    `sqlite:////data/state.db` is absolute), a file of runs that is created if there is none; an
    open store, whose transactions and term the storage then shares, and which stays open;
    or `postgresql://…`, a database. `clock` is the wall clock unless a test turns its own, on
    PostgreSQL the clock of the server.

    Raises what `open_store` raises; `ExtraNotInstalledError` for PostgreSQL without the extra
    `postgres`; `StorageUnavailableError` if the server cannot be reached, `NewerFileError` or
    `MigrationError` if the database has not the form that is needed and this role may not
    give it; `StorageError` for an address of another kind, or one that is not written out: a file
    called `sqlite:a.db` is `./sqlite:a.db`, or a `Path`.
    """
    if isinstance(place, SqliteSnapshotStore):
        return SqliteBackend(place, clock=clock or SystemClock(), owns_store=False)
    text = os.fspath(place)
    if text == _MEMORY:
        return MemoryBackend(clock=clock or SystemClock())
    if text.startswith(_POSTGRES):
        return _open_postgres(text, clock)
    path = text.removeprefix(_SQLITE)
    kind, is_address, _ = path.partition("://")
    if is_address:
        # What follows may hold a password.
        raise StorageError(_OPEN, f"{kind}://…", _PLACES)
    if text == path and isinstance(place, str):
        _require_path(text)
    store = open_store(path, clock=clock)
    return SqliteBackend(store, clock=clock or SystemClock(), owns_store=True)


def prepare_storage(url: str, *, role: str | None = None) -> None:
    """Bring a database of PostgreSQL to the current schema, and let `role` use it.

    To be run as the role that shall own the tables. The storage is then opened as `role`, which
    owns nothing, so that row-level security holds for all that it does; it must exist, and be
    neither a superuser nor have BYPASSRLS (`MigrationError`, and nothing was changed). Where one
    role does both, opening is enough. Safe when several processes do it at once. Raises as
    `open_storage` does.
    """
    if not url.startswith(_POSTGRES):
        raise StorageError(_PREPARE, _shown(url), _UNPREPARED)
    try:
        from snapshots.storage.backends.postgres import prepare  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise _not_installed(error) from error
    prepare(url, role=role)


def _open_postgres(url: str, clock: Clock | None) -> Backend:
    try:
        from snapshots.storage.backends.postgres import PostgresBackend  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise _not_installed(error) from error
    return PostgresBackend(url, clock=clock)


def _not_installed(error: ImportError) -> ExtraNotInstalledError:
    """Say what is missing: the driver, or what the driver itself cannot do without."""
    is_absent = isinstance(error, ModuleNotFoundError)
    said = " ".join(str(error).split())
    detail = "" if is_absent else f"{_NO_LIBPQ} ({said})"
    return ExtraNotInstalledError(_EXTRA, _NEEDED_FOR, detail=detail)


def _require_path(text: str) -> None:
    """Raise `StorageError` for an address that is not written out, which would be a file's name."""
    kind, _, rest = text.partition(":")
    if kind.lower() in _KINDS:
        shown = f"{kind}:…" if rest else text
        raise StorageError(_OPEN, shown, f"{_PLACES}; a file of that name is './{shown}'")


def _shown(place: str) -> str:
    """Return what errors name of a place of any kind, which may hold a password."""
    kind, is_address, _ = place.partition("://")
    if is_address:
        return f"{kind}://…"
    return "…" if "=" in place else place
