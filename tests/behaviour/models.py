"""What storage should do, told by plain dicts, and calls in any sequence to hold it to."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from snapshots import ConflictError
from snapshots.storage import Backend, KeyedEntry, Lease, Scope
from snapshots.testing import ManualClock

# A storage serves all examples of a test: each has a workspace that no other one uses.
in_one_storage = settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
Step = tuple[object, ...]

_numbers = itertools.count()
_keys = st.sampled_from(["a", "a%", "b", "\uffff", "\U00010000"])
_values = st.binary(max_size=8)
_ttls = st.one_of(st.none(), st.integers(1, 4))
_flows = st.sampled_from(["flow", "other"])
_wait = st.tuples(st.just("wait"), st.integers(0, 3))

keyed_steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), _flows, _keys, _values, _ttls),
        st.tuples(st.just("put_if_absent"), _flows, _keys, _values, _ttls),
        st.tuples(st.just("replace"), _flows, _keys, _values),
        st.tuples(st.just("delete"), _flows, _keys),
        st.tuples(st.just("look"), _flows, _keys),
        st.tuples(st.just("list"), _flows, st.sampled_from(["", "a", "a%", "\uffff"]), _keys),
        _wait,
        st.tuples(st.just("sweep")),
    ),
    max_size=25,
)
lease_steps = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), st.sampled_from("ab"), st.integers(10, 13)),
        # Which of the leases that were ever given, counted from the newest.
        st.tuples(st.just("renew"), st.integers(0, 3), st.integers(10, 13)),
        st.tuples(st.just("release"), st.integers(0, 3)),
        st.tuples(st.just("require"), st.integers(0, 3)),
        st.tuples(st.just("wait"), st.integers(0, 12)),
        st.tuples(st.just("sweep")),
    ),
    max_size=25,
)
carry_steps = st.lists(
    st.one_of(
        st.tuples(st.just("save"), _keys, st.integers(0, 4), _values),
        st.tuples(st.just("save as seen"), _keys, _values),
        st.tuples(st.just("clear"), _keys),
        st.tuples(st.just("load"), _keys),
    ),
    max_size=25,
)


def fresh(scope: Scope) -> Scope:
    """Return a scope in a workspace that no other example uses."""
    return replace(scope, workspace=f"example-{next(_numbers)}")


@dataclass(kw_only=True)
class KeyedModel:
    """Keyed state as a dict of what was put; each method does one step on both, and compares."""

    backend: Backend
    scope: Scope
    clock: ManualClock
    rows: dict[tuple[str, str], KeyedEntry] = field(default_factory=dict)

    def step(self, verb: str, *values: object) -> None:
        """Do one step of `keyed_steps`."""
        getattr(self, verb)(*values)

    def there(self, flow: str) -> Iterator[KeyedEntry]:
        """The entries of a workflow that have not expired."""
        now = self.clock.now_ms()
        for (workflow, _), entry in self.rows.items():
            if workflow == flow and (entry.expires_ms is None or entry.expires_ms > now):
                yield entry

    def of(self, flow: str) -> Scope:
        """The scope of a workflow."""
        return replace(self.scope, workflow=flow)

    def put(self, flow: str, key: str, value: bytes, ttl_ms: int | None) -> None:
        self.backend.keyed.put(self.of(flow), key, value, ttl_ms=ttl_ms)
        expires = None if ttl_ms is None else self.clock.now_ms() + ttl_ms
        self.rows[flow, key] = KeyedEntry(key=key, value=value, expires_ms=expires)

    def put_if_absent(self, flow: str, key: str, value: bytes, ttl_ms: int | None) -> None:
        expected = all(entry.key != key for entry in self.there(flow))
        keyed = self.backend.keyed
        assert keyed.put_if_absent(self.of(flow), key, value, ttl_ms=ttl_ms) is expected
        if expected:
            expires = None if ttl_ms is None else self.clock.now_ms() + ttl_ms
            self.rows[flow, key] = KeyedEntry(key=key, value=value, expires_ms=expires)

    def replace(self, flow: str, key: str, value: bytes) -> None:
        there = [entry for entry in self.there(flow) if entry.key == key]
        assert self.backend.keyed.replace(self.of(flow), key, value) is bool(there)
        if there:
            self.rows[flow, key] = replace(there[0], value=value)

    def delete(self, flow: str, key: str) -> None:
        expected = any(entry.key == key for entry in self.there(flow))
        assert self.backend.keyed.delete(self.of(flow), key) is expected
        if expected:
            del self.rows[flow, key]

    def look(self, flow: str, key: str) -> None:
        expected = [entry.value for entry in self.there(flow) if entry.key == key]
        assert self.backend.keyed.exists(self.of(flow), key) is bool(expected)
        assert self.backend.keyed.get(self.of(flow), key) == (expected[0] if expected else None)

    def list(self, flow: str, prefix: str, after: str) -> None:
        entries = sorted(self.there(flow), key=lambda entry: entry.key)
        found = [entry for entry in entries if entry.key.startswith(prefix)]
        keyed = self.backend.keyed
        assert keyed.list(self.of(flow), prefix) == found
        behind = [entry for entry in found if entry.key > after]
        assert keyed.list(self.of(flow), prefix, after=after, limit=2) == behind[:2]

    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    def sweep(self) -> None:
        self.backend.sweep()


@dataclass(kw_only=True)
class LeaseModel:
    """Leases as the last claim of each name; a token only ever grows."""

    backend: Backend
    scope: Scope
    clock: ManualClock
    last: dict[str, Lease] = field(default_factory=dict)
    given: list[Lease] = field(default_factory=list)
    was_swept: bool = False

    def step(self, verb: str, *values: object) -> None:
        """Do one step of `lease_steps`, and see who holds what afterwards."""
        getattr(self, verb)(*values)
        for name, lease in self.last.items():
            held = lease if lease.expires_ms > self.clock.now_ms() else None
            assert self.backend.leases.read(self.scope, name) == held

    def holds(self, lease: Lease) -> bool:
        """Whether a claim is the last of its name, and has not ended."""
        last = self.last[lease.name]
        return last.token == lease.token and last.expires_ms > self.clock.now_ms()

    def acquire(self, name: str, ttl_ms: int) -> None:
        last = self.last.get(name)
        lease = self.backend.leases.acquire(self.scope, name, ttl_ms=ttl_ms, holder="h")
        if last is not None and self.holds(last):
            assert lease is None
            return
        assert lease is not None
        assert lease.expires_ms == self.clock.now_ms() + ttl_ms
        before = 0 if last is None else last.token
        assert lease.token > before if self.was_swept else lease.token == before + 1
        self.last[name] = lease
        self.given.append(lease)

    def renew(self, back: int, ttl_ms: int) -> None:
        for lease in self.given[-back - 1 :][:1]:
            try:
                renewed = self.backend.leases.renew(lease, ttl_ms=ttl_ms)
            except ConflictError:
                assert not self.holds(lease)
                continue
            assert self.holds(lease)
            assert renewed == replace(lease, expires_ms=self.clock.now_ms() + ttl_ms)
            self.last[lease.name] = renewed

    def release(self, back: int) -> None:
        for lease in self.given[-back - 1 :][:1]:
            held = self.holds(lease)
            assert self.backend.leases.release(lease) is held
            if held:
                self.last[lease.name] = replace(lease, expires_ms=self.clock.now_ms())

    def require(self, back: int) -> None:
        for lease in self.given[-back - 1 :][:1]:
            try:
                with self.backend.transaction(self.scope):
                    self.backend.leases.require(lease)
            except ConflictError:
                assert not self.holds(lease)
            else:
                assert self.holds(lease)

    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    def sweep(self) -> None:
        self.backend.sweep()
        self.was_swept = True


@dataclass(kw_only=True)
class CarryModel:
    """Carry state as a dict of revision and payload."""

    backend: Backend
    scope: Scope
    rows: dict[str, tuple[int, bytes]] = field(default_factory=dict)

    def step(self, verb: str, *values: object) -> None:
        """Do one step of `carry_steps`."""
        getattr(self, verb.replace(" ", "_"))(*values)

    def save(self, key: str, expected: int, payload: bytes) -> None:
        actual = self.rows.get(key, (0, b""))[0]
        carry = self.backend.carry
        try:
            record = carry.save(
                self.scope, key, contract_version=1, payload=payload, expected_revision=expected
            )
        except ConflictError:
            assert expected != actual
            return
        assert expected == actual
        assert record.revision == expected + 1
        self.rows[key] = (record.revision, payload)

    def save_as_seen(self, key: str, payload: bytes) -> None:
        self.save(key, self.rows.get(key, (0, b""))[0], payload)

    def clear(self, key: str) -> None:
        self.backend.carry.clear(self.scope, key)
        self.rows.pop(key, None)

    def load(self, key: str) -> None:
        record = self.backend.carry.load(self.scope, key)
        found = None if record is None else (record.revision, record.payload)
        assert found == self.rows.get(key)
