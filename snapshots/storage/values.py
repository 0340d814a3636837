"""Values under keys of one scope, encoded by a codec: what handles on keyed state stand on."""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from snapshots.errors import DecodeError, InvalidKeyError
from snapshots.limits import LIST_ROWS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.codec import Codec
    from snapshots.storage.protocols import KeyedStates
    from snapshots.storage.scopes import Scope

PART: Final = "#"
"""Stands between a workflow and the name of a part of its keys: no workflow may hold it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateEntry:
    """One key with its value; `expires_ms` is None where it stays for ever."""

    key: str
    value: Any
    expires_ms: int | None


class Joined:
    """The transaction of a workspace: begun here, or the one that this handle is in already."""

    def __init__(self, keyed: KeyedStates, scope: Scope) -> None:
        self._keyed = keyed
        self._scope = scope
        self._mine = threading.local()

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Begin it, or be a part of it."""
        if getattr(self._mine, "is_open", False):
            yield
            return
        with self._keyed.transaction(self._scope):
            self._mine.is_open = True
            try:
                yield
            finally:
                self._mine.is_open = False


class Values:
    """The keys of one scope, each with a value that the codec can store.

    Every verb raises EncodeError for a value that would not come back as it is (a `Secret` is
    one), DecodeError for bytes that the codec cannot read, and what `KeyedStates` raises.
    """

    def __init__(self, keyed: KeyedStates, scope: Scope, codec: Codec, joined: Joined) -> None:
        self._keyed = keyed
        self._scope = scope
        self._codec = codec
        self._joined = joined

    def part(self, name: str, *types: type) -> Values:
        """Return keys that no other key of this scope can be confused with; `types` are theirs."""
        if PART in self._scope.workflow:
            reason = f"a workflow's name holds no {PART!r}: its parts are named by it"
            raise InvalidKeyError(self._scope.workflow, reason)
        scope = replace(self._scope, workflow=f"{self._scope.workflow}{PART}{name}")
        codec = self._codec.with_types(*types) if types else self._codec
        return Values(self._keyed, scope, codec, self._joined)

    @property
    def transaction(self) -> Any:
        """What `with` is used on: calls in it commit together; it joins one that is open."""
        return self._joined.transaction

    def require_storable(self, value: Any) -> None:
        """Raise EncodeError for a value that would not come back as it is."""
        self._codec.encode(value)

    def get(self, key: str) -> Any:
        """Return the value of a key, None if it is not there."""
        data = self._keyed.get(self._scope, key)
        return None if data is None else self._codec.decode(data)

    def exists(self, key: str) -> bool:
        """Return whether a key is there."""
        return self._keyed.exists(self._scope, key)

    def put(self, key: str, value: Any, *, ttl_ms: int | None = None) -> None:
        """Store a value, over whatever the key had."""
        self._keyed.put(self._scope, key, self._codec.encode(value), ttl_ms=ttl_ms)

    def put_if_absent(self, key: str, value: Any, *, ttl_ms: int | None = None) -> bool:
        """Store a value if the key is not there, and return whether it was stored."""
        data = self._codec.encode(value)
        return self._keyed.put_if_absent(self._scope, key, data, ttl_ms=ttl_ms)

    def replace(self, key: str, value: Any) -> bool:
        """Store a value over the one of a key, which expires when it would have; False if none."""
        return self._keyed.replace(self._scope, key, self._codec.encode(value))

    def first(self, key: str, value: Any) -> Any:
        """Store a value if the key is not there, and return the one that is there then."""
        data = self._codec.encode(value)
        while not self._keyed.put_if_absent(self._scope, key, data):
            found = self._keyed.get(self._scope, key)
            if found is not None:
                return self._codec.decode(found)
        return self._codec.decode(data)

    def delete(self, key: str) -> bool:
        """Remove a key, and return whether it was there."""
        return self._keyed.delete(self._scope, key)

    def readable(self) -> Iterator[Any]:
        """Yield the values of all keys, by key, but for those that the codec cannot read."""
        after = None
        while page := self._keyed.list(self._scope, after=after):
            for entry in page:
                with suppress(DecodeError):
                    yield self._codec.decode(entry.value)
            if len(page) < LIST_ROWS_MAX:
                return
            after = page[-1].key

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_ROWS_MAX
    ) -> list[StateEntry]:
        """Return the first `limit` keys that start with `prefix`, by code point, behind `after`."""
        return [
            StateEntry(
                key=entry.key,
                value=self._codec.decode(entry.value),
                expires_ms=entry.expires_ms,
            )
            for entry in self._keyed.list(self._scope, prefix, after=after, limit=limit)
        ]
