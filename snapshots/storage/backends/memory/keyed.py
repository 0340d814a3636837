"""Keyed state in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.storage.rows import KeyedEntry, check_count, check_ttl, check_value
from snapshots.storage.scopes import check_fitting, check_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.storage.backends.memory.rooms import Room, Rooms
    from snapshots.storage.scopes import Scope

# A table of {(workflow, key): KeyedEntry}.
KEYED: Final = "keyed"


class MemoryKeyedStates:
    """`KeyedStates` in memory."""

    def __init__(self, rooms: Rooms, clock: Clock) -> None:
        """Use `rooms`, by `clock`."""
        self._rooms = rooms
        self._clock = clock

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._rooms.transaction(scope)

    def get(self, scope: Scope, key: str) -> bytes | None:
        """See `KeyedStates.get`."""
        check_text(key, "a key")
        with self._rooms.working(scope, "get") as room:
            entry = self._entry(room, scope, key)
            return None if entry is None else entry.value

    def exists(self, scope: Scope, key: str) -> bool:
        """See `KeyedStates.exists`."""
        check_text(key, "a key")
        with self._rooms.working(scope, "exists") as room:
            return self._entry(room, scope, key) is not None

    def put(self, scope: Scope, key: str, value: bytes, *, ttl_ms: int | None = None) -> None:
        """See `KeyedStates.put`."""
        _check(key, value, ttl_ms)
        with self._rooms.working(scope, "put") as room:
            self._put(room, scope, key, value, ttl_ms)

    def put_if_absent(
        self, scope: Scope, key: str, value: bytes, *, ttl_ms: int | None = None
    ) -> bool:
        """See `KeyedStates.put_if_absent`."""
        _check(key, value, ttl_ms)
        with self._rooms.working(scope, "put if absent") as room:
            if self._entry(room, scope, key) is not None:
                return False
            self._put(room, scope, key, value, ttl_ms)
            return True

    def replace(self, scope: Scope, key: str, value: bytes) -> bool:
        """See `KeyedStates.replace`."""
        _check(key, value, None)
        with self._rooms.working(scope, "replace") as room:
            entry = self._entry(room, scope, key)
            if entry is not None:
                room.put(KEYED, (scope.workflow, key), replace(entry, value=bytes(value)))
            return entry is not None

    def delete(self, scope: Scope, key: str) -> bool:
        """See `KeyedStates.delete`."""
        check_text(key, "a key")
        with self._rooms.working(scope, "delete") as room:
            was_there = self._entry(room, scope, key) is not None
            if was_there:
                room.drop(KEYED, (scope.workflow, key))
            return was_there

    def list(
        self,
        scope: Scope,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int = limits.LIST_ROWS_MAX,
    ) -> list[KeyedEntry]:
        """See `KeyedStates.list`."""
        check_fitting(prefix, "a prefix")
        behind = "" if after is None else check_fitting(after, "a key")
        check_count(limit)
        with self._rooms.working(scope, "list") as room:
            now = self._clock.now_ms()
            found = [
                entry
                for (workflow, key), entry in room.table(KEYED).items()
                if workflow == scope.workflow
                and key.startswith(prefix)
                and key > behind
                and is_there(entry, now)
            ]
        # Texts compare by code point in Python.
        return sorted(found, key=lambda entry: entry.key)[:limit]

    def _entry(self, room: Room, scope: Scope, key: str) -> KeyedEntry | None:
        entry: KeyedEntry | None = room.table(KEYED).get((scope.workflow, key))
        return entry if entry is not None and is_there(entry, self._clock.now_ms()) else None

    def _put(self, room: Room, scope: Scope, key: str, value: bytes, ttl_ms: int | None) -> None:
        expires = None if ttl_ms is None else self._clock.now_ms() + ttl_ms
        entry = KeyedEntry(key=key, value=bytes(value), expires_ms=expires)
        room.put(KEYED, (scope.workflow, key), entry)


def is_there(entry: KeyedEntry, now_ms: int) -> bool:
    """Whether an entry has not expired: the one rule of all verbs."""
    return entry.expires_ms is None or entry.expires_ms > now_ms


def _check(key: str, value: bytes, ttl_ms: int | None) -> None:
    check_text(key, "a key")
    check_value(value, key)
    if ttl_ms is not None:
        check_ttl(ttl_ms)
