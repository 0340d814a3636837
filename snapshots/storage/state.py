"""The state store: small values of a workflow that outlive its runs, and what is built on them.

```python
with open_storage("state.db") as backend:
    state = StateStore(backend.keyed, backend.leases, Scope(workflow="alerts"))
    if state.once("digest 2026-01-01", ttl_ms=DAY_MS):
        ...                                             # exactly one caller comes here
    incident = state.incidents.open("disk-full db1", {"message": "17"})
    with state.overlap_lock("nightly", ttl_ms=60_000) as lock:
        if lock is not None:
            with lock.guard():                          # nothing is written once it has expired
                state.put("rows", 12)
```

Secrets are never written: a `Secret` in a value is refused by the codec, its reference may be
stored as a text.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from snapshots.codec import Codec
from snapshots.limits import LIST_ROWS_MAX
from snapshots.storage.cursors import PollCursor
from snapshots.storage.incidents import Incidents
from snapshots.storage.locks import OverlapLock
from snapshots.storage.values import Joined, Values

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from snapshots.storage.protocols import KeyedStates, Leases
    from snapshots.storage.rows import Lease
    from snapshots.storage.scopes import Scope
    from snapshots.storage.values import StateEntry


class StateStore:
    """Keyed state of one scope, with values instead of bytes.

    `codec` knows the classes of the values (by default the built-in ones). Incidents (in the
    attribute `incidents`), cursors, `once`, `seen` and locks have keys of their own, which no key
    given to `put` can meet.

    Every method is one transaction, or a part of the one begun by `transaction()`. They raise
    EncodeError for a value that would not come back as it is, DecodeError for bytes that the
    codec cannot read, and what the protocols in `snapshots.storage.protocols` say.
    """

    def __init__(
        self, keyed: KeyedStates, leases: Leases, scope: Scope, *, codec: Codec | None = None
    ) -> None:
        self.scope = scope
        self.codec = codec or Codec()
        self._leases = leases
        self._joined = Joined(keyed, scope)
        self._own = Values(keyed, scope, self.codec, self._joined)
        self._once = self._own.part("once")
        self._seen = self._own.part("seen")
        self._cursors = self._own.part("cursor")
        self.incidents = Incidents(self._own.part("incident"))

    def __repr__(self) -> str:
        return f"<StateStore {self.scope!r}>"

    def part(self, name: str, *types: type) -> Values:
        """Return keys of another kind, apart from all others, whose values may be of `types`."""
        return self._own.part(name, *types)

    def transaction(self) -> AbstractContextManager[None]:
        """Return a context whose calls on this store commit together at its end, or not at all.

        It has the workspace to itself from its beginning. Nothing waits in it.
        """
        return self._joined.transaction()

    # -- values -----------------------------------------------------------------------------------

    def get(self, key: str) -> Any:
        """Return the value of a key, None if it is not there."""
        return self._own.get(key)

    def exists(self, key: str) -> bool:
        """Return whether a key is there: it tells a value of None from none."""
        return self._own.exists(key)

    def put(self, key: str, value: Any, *, ttl_ms: int | None = None) -> None:
        """Store a value, over whatever the key had, for ever or for `ttl_ms`."""
        self._own.put(key, value, ttl_ms=ttl_ms)

    def put_if_absent(self, key: str, value: Any, *, ttl_ms: int | None = None) -> bool:
        """Store a value if the key is not there; of many callers at once, one gets True."""
        return self._own.put_if_absent(key, value, ttl_ms=ttl_ms)

    def delete(self, key: str) -> bool:
        """Remove a key, and return whether it was there."""
        return self._own.delete(key)

    def list(
        self, prefix: str = "", *, after: str | None = None, limit: int = LIST_ROWS_MAX
    ) -> list[StateEntry]:
        """Return the first `limit` keys that start with `prefix`, by code point, behind `after`."""
        return self._own.list(prefix, after=after, limit=limit)

    def write_once(self, key: str, value: Any) -> Any:
        """Store a value unless the key has one, and return the value that it has: the first.

        Work that is done again after a crash gets what it wrote before.
        """
        return self._own.first(key, value)

    # -- what happens once ------------------------------------------------------------------------

    def once(self, key: str, ttl_ms: int) -> bool:
        """Return True to exactly one caller, until `ttl_ms` have passed."""
        return self._once.put_if_absent(key, True, ttl_ms=ttl_ms)  # noqa: FBT003 - the value that is stored

    def seen(self, key: str, ttl_ms: int | None = None) -> bool:
        """Return whether a key was seen before, within its time to live, and note that it was.

        Whoever must not lose what it sees asks `was_seen`, does its work under a name that is
        made of the key, and calls this last.
        """
        return not self._seen.put_if_absent(key, True, ttl_ms=ttl_ms)  # noqa: FBT003 - the value that is stored

    def was_seen(self, key: str) -> bool:
        """Return whether a key was seen, and note nothing."""
        return self._seen.exists(key)

    def poll_cursor(self, name: str) -> PollCursor:
        """Return the cursor of a name, which may not have moved yet."""
        return PollCursor(self._cursors, name)

    # -- locks ------------------------------------------------------------------------------------

    @contextmanager
    def overlap_lock(
        self, name: str, ttl_ms: int, *, holder: str = ""
    ) -> Iterator[OverlapLock | None]:
        """Hold a lock during the block; the block gets None where somebody else holds it."""
        lock = self.claim(name, ttl_ms, holder=holder)
        try:
            yield lock
        finally:
            if lock is not None:
                lock.release()

    def claim(self, name: str, ttl_ms: int, *, holder: str = "") -> OverlapLock | None:
        """Take a lock that is to be held beyond this block, None where somebody holds it.

        A holder that has a name takes over from itself: what it claimed before a restart loses
        its token.
        """
        with self._joined.transaction():
            if holder:
                self._release_own(name, holder)
            lease = self._leases.acquire(self.scope, name, ttl_ms=ttl_ms, holder=holder)
        return None if lease is None else self.held(lease)

    def _release_own(self, name: str, holder: str) -> None:
        lease = self._leases.read(self.scope, name)
        if lease is not None and lease.holder == holder:
            self._leases.release(lease)

    def held(self, lease: Lease) -> OverlapLock:
        """Return the lock of a lease that was claimed before; `guard` says whether it is held."""
        return OverlapLock(self._leases, lease, self._joined)
