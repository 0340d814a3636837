"""Leases in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.errors import LeaseLostError
from snapshots.storage.rows import Lease, check_ttl
from snapshots.storage.scopes import check_fitting, check_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.storage.backends.memory.rooms import Room, Rooms
    from snapshots.storage.scopes import Scope

# A table of {(workflow, name): Lease}: the last claim of a name, held or not.
LEASES: Final = "leases"
# A table of {FLOOR: token}: no claim that was swept from this workspace had a greater one.
FLOORS: Final = "lease floors"
FLOOR: Final = "floor"


class MemoryLeases:
    """`Leases` in memory."""

    def __init__(self, rooms: Rooms, clock: Clock) -> None:
        """Use `rooms`, by `clock`."""
        self._rooms = rooms
        self._clock = clock

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._rooms.transaction(scope)

    def acquire(self, scope: Scope, name: str, *, ttl_ms: int, holder: str = "") -> Lease | None:
        """See `Leases.acquire`."""
        check_text(name, "a lease's name")
        check_fitting(holder, "a holder's name")
        check_ttl(ttl_ms, limits.LEASE_TTL_MS_MIN)
        with self._rooms.working(scope, "acquire a lease") as room:
            now = self._clock.now_ms()
            last: Lease | None = room.table(LEASES).get((scope.workflow, name))
            if last is not None and last.expires_ms > now:
                return None
            before: int = room.table(FLOORS).get(FLOOR, 0) if last is None else last.token
            lease = Lease(
                scope=scope, name=name, token=before + 1, holder=holder, expires_ms=now + ttl_ms
            )
            room.put(LEASES, (scope.workflow, name), lease)
            return lease

    def renew(self, lease: Lease, *, ttl_ms: int) -> Lease:
        """See `Leases.renew`."""
        check_ttl(ttl_ms, limits.LEASE_TTL_MS_MIN)
        with self._rooms.working(lease.scope, "renew a lease") as room:
            held = self._held(room, lease.scope, lease.name)
            if held is None or held.token != lease.token:
                raise _lost(lease, held)
            renewed = replace(held, expires_ms=self._clock.now_ms() + ttl_ms)
            room.put(LEASES, (lease.scope.workflow, lease.name), renewed)
            return renewed

    def release(self, lease: Lease) -> bool:
        """See `Leases.release`."""
        with self._rooms.working(lease.scope, "release a lease") as room:
            held = self._held(room, lease.scope, lease.name)
            if held is None or held.token != lease.token:
                return False
            ended = replace(held, expires_ms=self._clock.now_ms())
            room.put(LEASES, (lease.scope.workflow, lease.name), ended)
            return True

    def require(self, lease: Lease) -> None:
        """See `Leases.require`."""
        assert self._rooms.is_in_transaction, "a lease is required inside a transaction"
        with self._rooms.working(lease.scope, "require a lease") as room:
            held = self._held(room, lease.scope, lease.name)
        if held is None or held.token != lease.token:
            raise _lost(lease, held)

    def read(self, scope: Scope, name: str) -> Lease | None:
        """See `Leases.read`."""
        check_text(name, "a lease's name")
        with self._rooms.working(scope, "read a lease") as room:
            return self._held(room, scope, name)

    def _held(self, room: Room, scope: Scope, name: str) -> Lease | None:
        last: Lease | None = room.table(LEASES).get((scope.workflow, name))
        return last if last is not None and last.expires_ms > self._clock.now_ms() else None


def _lost(lease: Lease, held: Lease | None) -> LeaseLostError:
    return LeaseLostError(lease.name, None if held is None else held.holder)
