"""Carry state in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.errors import RevisionConflictError
from snapshots.storage.rows import CarryRecord, check_payload, check_whole
from snapshots.storage.scopes import check_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.storage.backends.memory.rooms import Rooms
    from snapshots.storage.scopes import Scope

# A table of {(workflow, key): CarryRecord}.
CARRY: Final = "carry"


class MemoryCarryStates:
    """`CarryStates` in memory."""

    def __init__(self, rooms: Rooms, clock: Clock) -> None:
        """Use `rooms`, by `clock`."""
        self._rooms = rooms
        self._clock = clock

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._rooms.transaction(scope)

    def load(self, scope: Scope, key: str) -> CarryRecord | None:
        """See `CarryStates.load`."""
        check_text(key, "a key")
        with self._rooms.working(scope, "load carry state") as room:
            record: CarryRecord | None = room.table(CARRY).get((scope.workflow, key))
            return record

    def save(
        self,
        scope: Scope,
        key: str,
        *,
        contract_version: int,
        payload: bytes,
        expected_revision: int,
    ) -> CarryRecord:
        """See `CarryStates.save`."""
        check_text(key, "a key")
        check_payload(payload, key)
        check_whole("expected_revision", expected_revision)
        with self._rooms.working(scope, "save carry state") as room:
            stored: CarryRecord | None = room.table(CARRY).get((scope.workflow, key))
            actual = None if stored is None else stored.revision
            if expected_revision != (actual or 0):
                raise RevisionConflictError(key, expected_revision, actual)
            record = CarryRecord(
                contract_version=contract_version,
                revision=expected_revision + 1,
                payload=bytes(payload),
                updated_ms=self._clock.now_ms(),
            )
            room.put(CARRY, (scope.workflow, key), record)
            return record

    def clear(self, scope: Scope, key: str) -> None:
        """See `CarryStates.clear`."""
        check_text(key, "a key")
        with self._rooms.working(scope, "clear carry state") as room:
            if (scope.workflow, key) in room.table(CARRY):
                room.drop(CARRY, (scope.workflow, key))
