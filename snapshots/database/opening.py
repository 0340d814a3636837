"""How a file becomes a `Database`: looked at, created, registered, set up, in this order."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final, TypeVar

import apsw

from snapshots import limits
from snapshots.database import descriptors, identity, places, pragmas
from snapshots.database.checkpoints import Checkpoints, Gate
from snapshots.database.connection import Database
from snapshots.database.translation import translate
from snapshots.errors import StorageBusyError, StorageUnavailableError

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

T = TypeVar("T")

_MS_PER_S: Final = 1_000
_OPEN: Final = "open"
_HALF_MADE: Final = "no run was ever saved in it; open it for writing once"
_UNDONE: Final = "its making was cut short"
_READ_WRITE: Final = apsw.SQLITE_OPEN_READWRITE
_READ_ONLY: Final = apsw.SQLITE_OPEN_READONLY


def open_database(
    path: str | os.PathLike[str],
    *,
    application_id: int,
    known_schema: int,
    read_only: bool = False,
) -> Database:
    """Open a file that carries `application_id`, or create it; `:memory:` is kept nowhere.

    Nothing is written to a file before it is known to be blank or ours. With `read_only`
    nothing is written at all, and the file must exist. Raises a `StorageError` that names
    what is in the way, `ForeignFileError`, or `NewerFileError` if the schema in the file is
    beyond `known_schema`.
    """
    place = places.absolute(path)
    identity.require_sqlite(apsw.sqlite_lib_version(), place)
    if place == places.MEMORY:
        return _open_in_memory()
    places.refuse_network_file_system(place)

    def attempt() -> Database:
        places.refuse_orphaned_log(place)
        created = None if read_only else places.create(place)
        with ExitStack() as opened:
            if created is None:
                places.require_file(place)
                if read_only:
                    places.refuse_unreadable_log(place)
                else:
                    places.refuse_second_name(place)
                    places.refuse_file_mount(place)
                descriptors.refuse_inherited(place)
                descriptors.refuse_lost_index(place)
                identity.require_ours(place, application_id, known_schema)
            registration = descriptors.Registration(place, created)
            opened.callback(registration.leave)
            make = _open_to_read if read_only else _open_to_write
            try:
                database = make(place, registration, opened)
            except apsw.Error as error:
                raise translate(error, _OPEN, place) from error
            except OSError as error:  # it was removed in this moment
                raise places.unreachable(error, place) from error
            opened.pop_all()
        return database

    # The whole of it, since almost any first statement on a file may find it busy.
    return patiently(attempt)


def patiently(work: Callable[[], T]) -> T:
    """Do `work` again while it raises `StorageBusyError`, for `OPEN_PATIENCE_MS`.

    For opening, where processes that start together take turns; never on a save's path.
    """
    give_up_s = time.monotonic() + limits.OPEN_PATIENCE_MS / _MS_PER_S
    pause_ms = 1
    while True:
        try:
            return work()
        except StorageBusyError:
            if time.monotonic() >= give_up_s:
                raise
        time.sleep(pause_ms / _MS_PER_S)
        pause_ms = min(2 * pause_ms, limits.OPEN_RETRY_MS_MAX)


def _open_in_memory() -> Database:
    connection = apsw.Connection(places.MEMORY)
    _guard(connection)
    return Database(places.MEMORY, connection, gate=Gate())


def _open_to_write(
    path: str, registration: descriptors.Registration, opened: ExitStack
) -> Database:
    connection = _connect(path, _READ_WRITE, registration, opened)
    pragmas.wait_briefly_for_other_processes(connection)
    pragmas.use_small_pages(connection)
    _guard(connection)
    pragmas.keep_live_pages(connection)
    _switch_to_wal(connection, path)
    pragmas.sync_at_checkpoints(connection)
    pragmas.cut_a_restarted_log(connection)
    pragmas.never_checkpoint_in_a_commit(connection)
    gate = Gate()
    checkpoints = Checkpoints(
        path, _connect_for_checkpoints(path, registration, opened), gate, registration.descriptor
    )
    connection.set_wal_hook(checkpoints.committed)
    checkpoints.start()
    return Database(path, connection, gate=gate, registration=registration, checkpoints=checkpoints)


def _open_to_read(path: str, registration: descriptors.Registration, opened: ExitStack) -> Database:
    connection = _connect_to_read(path, registration, opened)
    if connection is None:
        if identity.was_empty(path):
            raise StorageUnavailableError(_OPEN, path, _HALF_MADE, detail=_UNDONE)
        connection = identity.open_without_writing(path)
        opened.callback(connection.close)
        registration.keep(connection)
    _guard(connection)
    pragmas.only_read(connection)
    return Database(path, connection, gate=Gate(), registration=registration)


def _connect_to_read(
    path: str, registration: descriptors.Registration, opened: ExitStack
) -> apsw.Connection | None:
    """Connect through the log; None where none can be, and nobody is writing.

    The file can then be read by itself.
    """
    if not places.may_join(path):
        return None
    connection = _connect(path, _READ_ONLY, registration, opened)
    pragmas.wait_briefly_for_other_processes(connection)
    try:
        connection.pragma("user_version")
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # The folder may not be written, so the -shm file that readers share cannot be made.
        if places.wal_bytes(path) > 0 and not identity.was_empty(path):
            raise
        connection.close()
        return None
    return connection


def _connect(
    path: str, flags: int, registration: descriptors.Registration, opened: ExitStack
) -> apsw.Connection:
    """Connect, to be closed by `opened` unless all goes well, and never by a forked child."""
    connection = apsw.Connection(path, flags=flags)
    opened.callback(connection.close)
    registration.keep(connection)
    return connection


def _connect_for_checkpoints(
    path: str, registration: descriptors.Registration, opened: ExitStack
) -> apsw.Connection:
    connection = _connect(path, _READ_WRITE, registration, opened)
    pragmas.wait_briefly_for_other_processes(connection)
    pragmas.never_map_the_file(connection)
    pragmas.sync_at_checkpoints(connection)
    pragmas.cut_a_restarted_log(connection)
    pragmas.never_checkpoint_in_a_commit(connection)
    # A connection that has read nothing does not know that there is a log to copy.
    connection.pragma("user_version")
    pragmas.never_wait(connection)
    return connection


def _guard(connection: apsw.Connection) -> None:
    """Set what every connection on a file or in memory needs."""
    pragmas.keep_temporary_data_in_memory(connection)
    pragmas.distrust_the_schema(connection)
    if connection.filename:
        pragmas.never_map_the_file(connection)


def _switch_to_wal(connection: apsw.Connection, path: str) -> None:
    """Put the file into WAL mode, or raise: of several openers each must arrive there."""
    if not pragmas.is_wal(connection):
        hint = "close whatever has it open in rollback mode, or move it to a local disk"
        raise StorageBusyError(_OPEN, path, hint, detail="no write-ahead log could be had")
