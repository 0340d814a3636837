"""Tables in memory, a room of them per workspace: one thread in it at a time."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from snapshots import limits
from snapshots.errors import StorageBusyError, StorageClosedError, StorageForkedError
from snapshots.storage.nesting import NestedTransactionError, OtherWorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.storage.scopes import Scope

PLACE: Final = "memory:"

_ABSENT: Final = object()
_MS_PER_S: Final = 1_000
_BUSY: Final = "another transaction has this workspace; try again"

Table = dict[Any, Any]


class Room:
    """The tables of one workspace, and what undoes what was done to them.

    Rows are immutable: they are replaced, never changed. Only who is in the room, through
    `Rooms.working`, may touch it.
    """

    __slots__ = ("_tables", "_undone", "lock", "workspace")

    def __init__(self, workspace: tuple[str, str]) -> None:
        """Make a room with no table, for a tenant and a workspace."""
        self.workspace = workspace
        self.lock = threading.RLock()
        self._tables: dict[str, Table] = {}
        self._undone: list[tuple[Table, Any, Any]] = []

    def table(self, name: str) -> Table:
        """Return a table, which is empty at first: to be read, not to be written."""
        return self._tables.setdefault(name, {})

    def put(self, name: str, key: Any, row: Any) -> None:
        """Set a row, over what was there."""
        table = self.table(name)
        self._undone.append((table, key, table.get(key, _ABSENT)))
        table[key] = row

    def drop(self, name: str, key: Any) -> None:
        """Remove a row that is there."""
        table = self.table(name)
        self._undone.append((table, key, table.pop(key)))

    def keep(self) -> None:
        """Make what was done since the last time last."""
        self._undone.clear()

    def undo(self) -> None:
        """Take back what was done since `keep`, the last change first."""
        while self._undone:
            table, key, row = self._undone.pop()
            if row is _ABSENT:
                del table[key]
            else:
                table[key] = row


class Rooms:
    """All workspaces of one storage in memory, for any thread."""

    def __init__(self) -> None:
        """Start with none."""
        self._rooms: dict[tuple[str, str], Room] = {}
        self._lock = threading.Lock()
        self._mine = threading.local()
        self._pid = os.getpid()
        self._is_closed = False

    @contextmanager
    def transaction(self, scope: Scope, operation: str = "transaction") -> Iterator[Room]:
        """Have a workspace's room alone, for several calls that are kept or undone together."""
        mine = self._current
        if mine is not None:
            raise NestedTransactionError(PLACE, mine.workspace, (scope.tenant, scope.workspace))
        with self._enter(scope, operation) as room:
            self._mine.room = room
            try:
                yield room
            finally:
                self._mine.room = None

    @contextmanager
    def working(self, scope: Scope, operation: str) -> Iterator[Room]:
        """Have a workspace's room for one call: a part of this thread's transaction, if any."""
        mine = self._current
        if mine is None:
            with self._enter(scope, operation) as room:
                yield room
        else:
            self.require_usable(operation)
            asked = (scope.tenant, scope.workspace)
            if mine.workspace != asked:
                raise OtherWorkspaceError(operation, PLACE, mine.workspace, asked)
            yield mine

    @property
    def is_in_transaction(self) -> bool:
        """Whether this thread is in a transaction."""
        return self._current is not None

    def all(self) -> list[tuple[str, str]]:
        """Return tenant and workspace of every room there is."""
        with self._lock:
            return sorted(self._rooms)

    def require_usable(self, operation: str) -> None:
        """Raise if this storage is closed, or belongs to the process that this is a fork of."""
        if self._pid != os.getpid():
            raise StorageForkedError(operation, PLACE, self._pid, os.getpid())
        if self._is_closed:
            raise StorageClosedError(operation, PLACE)

    def close(self) -> None:
        """Forget everything."""
        with self._lock:
            self._is_closed = True
            self._rooms.clear()

    @property
    def _current(self) -> Room | None:
        room: Room | None = getattr(self._mine, "room", None)
        return room

    def _room(self, scope: Scope) -> Room:
        with self._lock:
            place = (scope.tenant, scope.workspace)
            return self._rooms.setdefault(place, Room(place))

    @contextmanager
    def _enter(self, scope: Scope, operation: str) -> Iterator[Room]:
        self.require_usable(operation)
        room = self._room(scope)
        if not room.lock.acquire(timeout=limits.WORKSPACE_WAIT_MS_MAX / _MS_PER_S):
            raise StorageBusyError(operation, PLACE, _BUSY)
        try:
            yield room
            room.keep()
        finally:
            room.undo()
            room.lock.release()
