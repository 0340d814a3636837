"""The bundle of capabilities in memory: its sweep, its sizes, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from snapshots import limits
from snapshots.storage.backends.memory.carry import CARRY, MemoryCarryStates
from snapshots.storage.backends.memory.keyed import KEYED, MemoryKeyedStates, is_there
from snapshots.storage.backends.memory.leases import FLOOR, FLOORS, LEASES, MemoryLeases
from snapshots.storage.backends.memory.rooms import PLACE, Room, Rooms
from snapshots.storage.backends.memory.workspaces import MemoryWorkspaces, stored_bytes
from snapshots.storage.rows import StorageStats
from snapshots.storage.scopes import Scope

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock


class MemoryBackend:
    """A `Backend` in memory, for any thread; `snapshots.open_storage("memory:")` makes it."""

    path: Final = PLACE
    is_local: Final = True

    def __init__(self, *, clock: Clock) -> None:
        """Start with nothing stored."""
        self._clock = clock
        self._rooms = Rooms()
        self.keyed = MemoryKeyedStates(self._rooms, clock)
        self.leases = MemoryLeases(self._rooms, clock)
        self.carry = MemoryCarryStates(self._rooms, clock)
        self.workspaces = MemoryWorkspaces(self._rooms, self.leases, clock)

    def __repr__(self) -> str:
        return f"<MemoryBackend of {len(self._rooms.all())} workspaces>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._rooms.transaction(scope)

    def sweep(self, *, slice_rows: int = limits.SWEEP_SLICE_ROWS) -> int:
        """See `Backend.sweep`."""
        self._rooms.require_usable("sweep")
        swept = 0
        for tenant, workspace in self._rooms.all():
            scope = Scope(tenant=tenant, workspace=workspace)
            with self._rooms.transaction(scope, "sweep") as room:
                now = self._clock.now_ms()
                swept += _sweep_keyed(room, now, slice_rows - swept)
                swept += _sweep_leases(room, now, slice_rows - swept)
        return swept

    def stats(self) -> StorageStats:
        """See `Backend.stats`; counts what callers stored, not what Python adds to it."""
        self._rooms.require_usable("read stats")
        total = 0
        for tenant, workspace in self._rooms.all():
            scope = Scope(tenant=tenant, workspace=workspace)
            with self._rooms.working(scope, "read stats") as room:
                total += sum(len(entry.value) for entry in room.table(KEYED).values())
                total += sum(len(record.payload) for record in room.table(CARRY).values())
                total += stored_bytes(room)
        return StorageStats(backend="memory", total_bytes=total, free_bytes=0)

    def close(self) -> None:
        """Forget everything; a second time is harmless."""
        self._rooms.close()


def _sweep_keyed(room: Room, now_ms: int, rows: int) -> int:
    table = room.table(KEYED)
    gone = [place for place, entry in table.items() if not is_there(entry, now_ms)][:rows]
    for place in gone:
        room.drop(KEYED, place)
    return len(gone)


def _sweep_leases(room: Room, now_ms: int, rows: int) -> int:
    """Delete leases that nobody holds, and keep the greatest token: no claim has it again."""
    table = room.table(LEASES)
    gone = [place for place, lease in table.items() if lease.expires_ms <= now_ms][:rows]
    if gone:
        highest = max(table[place].token for place in gone)
        room.put(FLOORS, FLOOR, max(highest, room.table(FLOORS).get(FLOOR, 0)))
    for place in gone:
        room.drop(LEASES, place)
    return len(gone)
