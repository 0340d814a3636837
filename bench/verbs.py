"""The verbs of keyed state, leases and carry state, each as an act on rows that lie ready."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, cycle
from typing import Any, Final, Generic, TypeVar

from bench.payloads import blobs
from snapshots.storage import Backend, Lease, Scope

Given = TypeVar("Given")
Answer = TypeVar("Answer")

VALUE_BYTES: Final = 1_000
ROWS: Final = 100
"""How many rows a list finds, and among how many a verb finds its own."""
LONG_MS: Final = 3_600_000


class Act(Generic[Given, Answer]):
    """One verb: what it is given is made ready outside of the clock, its answer is checked."""

    def __init__(
        self,
        act: Callable[[Given], Answer],
        given: Callable[[], Given],
        holds: Callable[[Given, Answer], bool],
    ) -> None:
        self._act = act
        self._make = given
        self._holds = holds

    def prepare(self) -> None:
        """Make ready what the next act is given."""
        self._given = self._make()

    def act(self) -> None:
        """Do what is measured."""
        self._answer = self._act(self._given)

    def check(self) -> None:
        """Assert that the last act came to what it should."""
        assert self._holds(self._given, self._answer)


class Keyed:
    """Keyed state: 100 keys with 1 KB each."""

    def __init__(self, backend: Backend, scope: Scope) -> None:
        self._keyed = backend.keyed
        self._scope = scope
        self._blobs = blobs(VALUE_BYTES)
        self._numbers = count()
        self._kept = {f"key-{number}": next(self._blobs) for number in range(ROWS)}
        with backend.transaction(scope):
            for key, value in self._kept.items():
                self._keyed.put(scope, key, value)
        self._keys = cycle(self._kept)

    def get(self) -> Act[str, bytes | None]:
        """Read a value."""
        return Act(
            lambda key: self._keyed.get(self._scope, key),
            lambda: next(self._keys),
            lambda key, value: value == self._kept[key],
        )

    def exists(self) -> Act[str, bool]:
        """Ask for a key."""
        return Act(
            lambda key: self._keyed.exists(self._scope, key),
            lambda: next(self._keys),
            lambda _, answer: answer,
        )

    def put(self, ttl_ms: int | None = None) -> Act[tuple[str, bytes], None]:
        """Write over a value."""
        return Act(
            lambda pair: self._keyed.put(self._scope, *pair, ttl_ms=ttl_ms),
            lambda: (next(self._keys), next(self._blobs)),
            lambda pair, _: self._keyed.get(self._scope, pair[0]) == pair[1],
        )

    def put_for_a_time(self) -> Act[tuple[str, bytes], None]:
        """Write over a value, with a time to live."""
        return self.put(LONG_MS)

    def put_if_absent(self) -> Act[tuple[str, bytes], bool]:
        """Write under a key that is new."""
        return Act(
            lambda pair: self._keyed.put_if_absent(self._scope, *pair),
            lambda: (f"new-{next(self._numbers)}", next(self._blobs)),
            lambda pair, answer: answer and self._keyed.get(self._scope, pair[0]) == pair[1],
        )

    def put_if_absent_in_vain(self) -> Act[tuple[str, bytes], bool]:
        """Find that a key is there."""
        return Act(
            lambda pair: self._keyed.put_if_absent(self._scope, *pair),
            lambda: (next(self._keys), next(self._blobs)),
            lambda pair, answer: not answer and self._kept[pair[0]] != pair[1],
        )

    def delete(self) -> Act[str, bool]:
        """Remove a key."""

        def given() -> str:
            key = f"old-{next(self._numbers)}"
            self._keyed.put(self._scope, key, next(self._blobs))
            return key

        return Act(
            lambda key: self._keyed.delete(self._scope, key),
            given,
            lambda key, answer: answer and not self._keyed.exists(self._scope, key),
        )

    def list_100(self) -> Act[None, list[Any]]:
        """Read all keys with their values."""
        return Act(
            lambda _: self._keyed.list(self._scope, "key-"),
            lambda: None,
            lambda _, found: {entry.key: entry.value for entry in found} == self._kept,
        )

    def read_then_write(self) -> Act[tuple[str, bytes], None]:
        """Read a value and write over it, in one transaction."""

        def act(pair: tuple[str, bytes]) -> None:
            with self._keyed.transaction(self._scope):
                assert self._keyed.get(self._scope, pair[0]) is not None
                self._keyed.put(self._scope, *pair)

        return Act(
            act,
            lambda: (next(self._keys), next(self._blobs)),
            lambda pair, _: self._keyed.get(self._scope, pair[0]) == pair[1],
        )


class Leases:
    """Leases: 100 names."""

    def __init__(self, backend: Backend, scope: Scope) -> None:
        self._leases = backend.leases
        self._scope = scope
        self._names = cycle([f"name-{number}" for number in range(ROWS)])

    def _claim(self, name: str) -> Lease:
        lease = self._leases.acquire(self._scope, name, ttl_ms=LONG_MS, holder="bench")
        assert lease is not None
        return lease

    def _held(self) -> Callable[[], Lease]:
        """Return what gives one lease after the other, each of them held."""
        held: dict[str, Lease] = {}

        def given() -> Lease:
            name = next(self._names)
            if name not in held:
                held[name] = self._claim(name)
            return held[name]

        return given

    def acquire(self) -> Act[str, Lease]:
        """Claim a name that somebody gave up."""

        def given() -> str:
            name = next(self._names)
            self._leases.release(self._claim(name))
            return name

        def act(name: str) -> Lease:
            lease = self._claim(name)
            claimed.append(lease)
            return lease

        def give_up_then_make() -> str:
            while claimed:
                self._leases.release(claimed.pop())
            return given()

        claimed: list[Lease] = []
        return Act(
            act,
            give_up_then_make,
            lambda name, lease: lease == self._leases.read(self._scope, name) and lease.token > 1,
        )

    def acquire_in_vain(self) -> Act[Lease, Lease | None]:
        """Find that somebody has a name."""
        return Act(
            lambda lease: self._leases.acquire(self._scope, lease.name, ttl_ms=LONG_MS),
            self._held(),
            lambda _, answer: answer is None,
        )

    def renew(self) -> Act[Lease, Lease]:
        """Go on holding a name."""
        return Act(
            lambda lease: self._leases.renew(lease, ttl_ms=LONG_MS),
            self._held(),
            lambda lease, renewed: (
                renewed.token == lease.token and renewed.expires_ms >= lease.expires_ms
            ),
        )

    def release(self) -> Act[Lease, bool]:
        """Give a name up."""
        return Act(
            self._leases.release, lambda: self._claim(next(self._names)), lambda _, answer: answer
        )

    def require(self) -> Act[Lease, None]:
        """Prove that a name is held, in a transaction that writes nothing."""

        def act(lease: Lease) -> None:
            with self._leases.transaction(self._scope):
                self._leases.require(lease)

        return Act(
            act, self._held(), lambda lease, _: self._leases.read(self._scope, lease.name) == lease
        )

    def read(self) -> Act[Lease, Lease | None]:
        """Ask who has a name."""
        return Act(
            lambda lease: self._leases.read(self._scope, lease.name),
            self._held(),
            lambda lease, found: found == lease,
        )


class Carry:
    """Carry state: 100 keys with 1 KB each."""

    def __init__(self, backend: Backend, scope: Scope) -> None:
        self._carry = backend.carry
        self._scope = scope
        self._blobs = blobs(VALUE_BYTES)
        self._revisions: dict[str, int] = {}
        self._payloads: dict[str, bytes] = {}
        with backend.transaction(scope):
            for number in range(ROWS):
                self._save(f"key-{number}")
        self._keys = cycle(tuple(self._payloads))

    def _save(self, key: str, payload: bytes | None = None) -> int:
        self._payloads[key] = payload or next(self._blobs)
        expected = self._revisions.get(key, 0)
        saved = self._carry.save(
            self._scope,
            key,
            contract_version=1,
            payload=self._payloads[key],
            expected_revision=expected,
        )
        self._revisions[key] = saved.revision
        return saved.revision

    def load(self) -> Act[str, Any]:
        """Load what was saved."""
        return Act(
            lambda key: self._carry.load(self._scope, key),
            lambda: next(self._keys),
            lambda key, found: found.payload == self._payloads[key],
        )

    def save(self) -> Act[tuple[str, bytes], int]:
        """Save over the expected revision."""

        def holds(pair: tuple[str, bytes], revision: int) -> bool:
            found = self._carry.load(self._scope, pair[0])
            return found is not None and (found.payload, found.revision) == (pair[1], revision)

        return Act(
            lambda pair: self._save(*pair), lambda: (next(self._keys), next(self._blobs)), holds
        )

    def clear(self) -> Act[str, None]:
        """Remove what was saved."""

        def given() -> str:
            key = next(self._keys)
            if self._carry.load(self._scope, key) is None:
                self._revisions.pop(key)
                self._save(key)
            return key

        return Act(
            lambda key: self._carry.clear(self._scope, key),
            given,
            lambda key, _: self._carry.load(self._scope, key) is None,
        )
