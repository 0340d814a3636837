"""Workspaces in memory."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from snapshots.errors import StorageError
from snapshots.storage.backends.memory.rooms import PLACE
from snapshots.storage.leasing import Leasing
from snapshots.storage.workspaces.hints import Hints, place
from snapshots.storage.workspaces.rules import delivered_to
from snapshots.storage.workspaces.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from snapshots.clock import Clock
    from snapshots.storage.backends.memory.leases import MemoryLeases
    from snapshots.storage.backends.memory.rooms import Room, Rooms
    from snapshots.storage.rows import Lease
    from snapshots.storage.scopes import Scope
    from snapshots.storage.workspaces.protocols import Watch
    from snapshots.storage.workspaces.rows import (
        Batch,
        EntityKind,
        EntityRow,
        HistoryRow,
        LogRow,
    )

# Tables of {(kind, key): EntityRow}, {seq: LogRow} and {(thread, seq): HistoryRow}.
ENTITIES: Final = "workspace entities"
LOG: Final = "workspace log"
HISTORY: Final = "workspace history"

_READ_THE_LOG: Final = "read the log"
_UNCOMMITTED: Final = "a transaction is open in this thread; read before it or behind it"


class MemoryWorkspaces(Leasing):
    """`Storage` of workspaces in memory."""

    _leases: MemoryLeases

    def __init__(self, rooms: Rooms, leases: MemoryLeases, clock: Clock) -> None:
        """Use `rooms`, and the `leases` in them, by `clock`."""
        self._rooms = rooms
        self._leases = leases
        self._clock = clock
        self._hints = Hints()

    @contextmanager
    def transaction(self, scope: Scope) -> Iterator[Staging]:
        """See `Storage.transaction`."""
        with self._rooms.transaction(scope) as room:
            ground = _Ground(room, self._leases)
            seq, now = len(room.table(LOG)), self._clock.now_ms()
            staging = Staging(ground, seq=seq, now_ms=now, path=PLACE)
            try:
                yield staging
                batch = staging.finish()
                _apply(room, batch)
            finally:
                staging.abandon()
        if batch:
            self._hints.ring(place(scope))

    def seq(self, scope: Scope) -> int:
        """See `Storage.seq`."""
        with self._rooms.working(scope, _READ_THE_LOG) as room:
            return len(room.table(LOG))

    def entity(self, scope: Scope, kind: EntityKind, key: str) -> EntityRow | None:
        """See `Storage.entity`."""
        with self._rooms.working(scope, f"read {kind}") as room:
            found: EntityRow | None = room.table(ENTITIES).get((kind, key))
            return found

    def entities(
        self,
        scope: Scope,
        kind: EntityKind,
        *,
        label: str | None = None,
        after: str = "",
        limit: int,
    ) -> list[EntityRow]:
        """See `Storage.entities`."""
        with self._rooms.working(scope, f"list {kind}s") as room:
            rows: list[EntityRow] = list(room.table(ENTITIES).values())
        found = [
            row
            for row in rows
            if row.kind == kind and row.key > after and label in (None, row.label)
        ]
        # Texts compare by code point in Python.
        return sorted(found, key=lambda row: row.key)[:limit]

    def log(self, scope: Scope, *, after_seq: int, limit: int) -> list[LogRow]:
        """See `Storage.log`."""
        return self._lines(scope, after_seq, limit)

    def delivered(
        self, scope: Scope, thread: str, *, after_seq: int, limit: int, newest: bool = False
    ) -> list[LogRow]:
        """See `Storage.delivered`."""
        found = [row for row in self._lines(scope, after_seq) if delivered_to(row, thread)]
        return found[max(len(found) - limit, 0) :] if newest else found[:limit]

    def history(
        self, scope: Scope, thread: str, *, after_seq: int, limit: int, run: str | None = None
    ) -> list[HistoryRow]:
        """See `Storage.history`."""
        with self._rooms.working(scope, "read history") as room:
            rows: list[HistoryRow] = list(room.table(HISTORY).values())
        found = [
            row
            for row in rows
            if row.thread == thread and row.seq > after_seq and run in (None, row.run)
        ]
        return sorted(found, key=lambda row: row.seq)[:limit]

    def _lines(self, scope: Scope, after_seq: int, limit: int | None = None) -> list[LogRow]:
        if self._rooms.is_in_transaction:
            raise StorageError(_READ_THE_LOG, PLACE, _UNCOMMITTED)
        with self._rooms.working(scope, _READ_THE_LOG) as room:
            table = room.table(LOG)
            end = len(table) if limit is None else min(after_seq + limit, len(table))
            return [table[seq] for seq in range(after_seq + 1, end + 1)]

    def watch(self, scope: Scope, wake: Callable[[], None]) -> Watch:
        """See `Storage.watch`."""
        self._rooms.require_usable("watch a workspace")
        return self._hints.watch(place(scope), wake)


class _Ground:
    """A workspace's room, as a transaction stands on it."""

    def __init__(self, room: Room, leases: MemoryLeases) -> None:
        self._room = room
        self._leases = leases

    def entity(self, kind: EntityKind, key: str) -> EntityRow | None:
        found: EntityRow | None = self._room.table(ENTITIES).get((kind, key))
        return found

    def require(self, lease: Lease) -> None:
        self._leases.require(lease)


def _apply(room: Room, batch: Batch) -> None:
    for entity in batch.entities:
        room.put(ENTITIES, (entity.kind, entity.key), entity)
    for line in batch.log:
        room.put(LOG, line.seq, line)
    for segment in batch.history:
        room.put(HISTORY, (segment.thread, segment.seq), segment)


def stored_bytes(room: Room) -> int:
    """Return how many bytes of callers a room's workspace holds."""
    entities = sum(len(row.data) for row in room.table(ENTITIES).values())
    lines = sum(len(row.data) for row in room.table(LOG).values())
    return entities + lines + sum(len(row.payload) for row in room.table(HISTORY).values())
