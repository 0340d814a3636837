"""What keyed state does: there or gone, for ever or for a time, once or again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from snapshots import limits
from snapshots.testing.suite.acting import insist, race, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.testing import ManualClock

EVERY_BYTE: Final = bytes(range(256))
TTL_MS: Final = 1_000


class KeyedBehaviours:
    """Behaviours of `KeyedStates` but those of its keys."""

    def test_a_key_that_was_never_put_is_nowhere(self, backend: Backend, scope: Scope) -> None:
        """Every verb finds nothing, and says so in its own way."""
        keyed = backend.keyed
        assert keyed.get(scope, "a") is None
        assert not keyed.exists(scope, "a")
        assert not keyed.delete(scope, "a")
        assert not keyed.replace(scope, "a", b"1")
        assert keyed.list(scope) == []

    def test_a_value_comes_back_byte_for_byte(self, backend: Backend, scope: Scope) -> None:
        """The empty one and every byte included; the last put counts."""
        for value in (b"", EVERY_BYTE, b"\x00", b"second"):
            backend.keyed.put(scope, "a", value)
            assert backend.keyed.get(scope, "a") == value
            assert backend.keyed.exists(scope, "a")
            assert [entry.value for entry in backend.keyed.list(scope)] == [value]

    def test_a_deleted_key_is_gone_once(self, backend: Backend, scope: Scope) -> None:
        """The first delete found it, the second did not; another key stays."""
        backend.keyed.put(scope, "a", b"1")
        backend.keyed.put(scope, "b", b"2")
        assert backend.keyed.delete(scope, "a")
        assert not backend.keyed.delete(scope, "a")
        assert backend.keyed.get(scope, "a") is None
        assert backend.keyed.get(scope, "b") == b"2"

    def test_all_verbs_agree_on_the_moment_of_expiry(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """One millisecond before it a key is there for all of them, at it for none."""
        keyed = backend.keyed
        for put in (keyed.put, keyed.put_if_absent):
            put(scope, "a", b"1", ttl_ms=TTL_MS)
            expires = clock.now_ms() + TTL_MS
            clock.set(expires - 1)
            assert keyed.get(scope, "a") == b"1"
            assert keyed.exists(scope, "a")
            assert [(entry.key, entry.expires_ms) for entry in keyed.list(scope)] == [
                ("a", expires)
            ]
            assert not keyed.put_if_absent(scope, "a", b"2")
            clock.set(expires)
            assert keyed.get(scope, "a") is None
            assert not keyed.exists(scope, "a")
            assert keyed.list(scope) == []
            assert not keyed.delete(scope, "a")
            assert not keyed.replace(scope, "a", b"2")
        assert keyed.put_if_absent(scope, "a", b"2")
        assert keyed.get(scope, "a") == b"2"

    def test_a_put_sets_the_time_to_live_anew(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Without one the key stays for ever, whatever it had before; with one it ends."""
        keyed = backend.keyed
        keyed.put(scope, "stays", b"1", ttl_ms=1)
        keyed.put(scope, "stays", b"2")
        keyed.put(scope, "ends", b"1")
        keyed.put(scope, "ends", b"2", ttl_ms=1)
        clock.advance(limits.TTL_MS_MAX)
        assert keyed.get(scope, "stays") == b"2"
        assert keyed.get(scope, "ends") is None

    def test_a_value_that_is_replaced_expires_as_the_first_would_have(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """At the same millisecond, and never if that would not have; another key stays."""
        keyed = backend.keyed
        keyed.put(scope, "ends", b"1", ttl_ms=TTL_MS)
        keyed.put(scope, "stays", b"1")
        expires = clock.now_ms() + TTL_MS
        clock.advance(TTL_MS - 1)
        assert keyed.replace(scope, "ends", EVERY_BYTE)
        assert keyed.replace(scope, "stays", b"")
        assert [(entry.key, entry.value, entry.expires_ms) for entry in keyed.list(scope)] == [
            ("ends", EVERY_BYTE, expires),
            ("stays", b"", None),
        ]
        clock.advance(1)
        assert not keyed.replace(scope, "ends", b"3")
        assert keyed.get(scope, "ends") is None
        clock.advance(limits.TTL_MS_MAX)
        assert keyed.get(scope, "stays") == b""

    def test_a_time_to_live_that_is_not_in_the_future_is_refused(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Zero is neither now nor never, a fraction no number of ms: what was there stays."""
        keyed = backend.keyed
        keyed.put(scope, "kept", b"1")
        wrong: tuple[Any, ...] = (0, -1, 1.5, True, "5")
        for ttl_ms in wrong:
            for key in ("kept", "new"):
                with refused("InvalidTtlError"):
                    keyed.put(scope, key, b"2", ttl_ms=ttl_ms)
                with refused("InvalidTtlError"):
                    keyed.put_if_absent(scope, key, b"2", ttl_ms=ttl_ms)
        assert keyed.get(scope, "kept") == b"1"
        assert not keyed.exists(scope, "new")

    def test_the_longest_time_to_live_has_an_end(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """The bound itself is taken and kept to, one millisecond more is not taken."""
        backend.keyed.put(scope, "a", b"1", ttl_ms=limits.TTL_MS_MAX)
        with refused("LimitError"):
            backend.keyed.put(scope, "b", b"1", ttl_ms=limits.TTL_MS_MAX + 1)
        clock.advance(limits.TTL_MS_MAX - 1)
        assert backend.keyed.exists(scope, "a")
        clock.advance(1)
        assert not backend.keyed.exists(scope, "a")

    def test_put_if_absent_leaves_what_is_there(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Neither its value nor its time to live changes."""
        keyed = backend.keyed
        assert keyed.put_if_absent(scope, "a", b"1", ttl_ms=TTL_MS)
        assert not keyed.put_if_absent(scope, "a", b"2")
        assert not keyed.put_if_absent(scope, "a", b"2", ttl_ms=10 * TTL_MS)
        assert keyed.get(scope, "a") == b"1"
        clock.advance(TTL_MS)
        assert keyed.get(scope, "a") is None

    def test_one_of_many_wins_a_key_that_is_free(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
        clock: ManualClock,
    ) -> None:
        """Sixteen threads put if absent on keys that are absent or expired: one each is told True.

        Its value is what is stored.
        """
        keys = [f"key-{number}" for number in range(6)]
        for key in keys[::2]:
            backend.keyed.put(scope, key, b"old", ttl_ms=TTL_MS)
        clock.advance(TTL_MS)

        def claim(mine: Backend, number: int) -> list[bool]:
            value = str(number).encode()
            put_if_absent = mine.keyed.put_if_absent
            return [insist(partial(put_if_absent, scope, key, value)) for key in keys]

        answers = race(another, claim)
        for position, key in enumerate(keys):
            winners = [number for number, won in enumerate(answers) if won[position]]
            assert len(winners) == 1
            assert backend.keyed.get(scope, key) == str(winners[0]).encode()

    def test_one_of_many_deletes_a_key(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """Of several threads that delete it at once, one is told that it was there."""
        backend.keyed.put(scope, "a", b"1")

        def delete(mine: Backend, _: int) -> bool:
            return insist(lambda: mine.keyed.delete(scope, "a"))

        answers = race(another, delete, 8)
        assert answers.count(True) == 1

    def test_a_value_may_be_as_long_as_the_bound(self, backend: Backend, scope: Scope) -> None:
        """One byte more is refused, and what was there stays."""
        value = EVERY_BYTE * (limits.KEYED_VALUE_BYTES_MAX // len(EVERY_BYTE))
        backend.keyed.put(scope, "a", value)
        assert backend.keyed.get(scope, "a") == value
        for put in (backend.keyed.put, backend.keyed.put_if_absent):
            with refused("LimitError") as refusal:
                put(scope, "a", value + b"\x00")
            assert refusal.field("limit") == limits.KEYED_VALUE_BYTES_MAX
            assert refusal.field("actual") == limits.KEYED_VALUE_BYTES_MAX + 1
        assert backend.keyed.get(scope, "a") == value

    def test_no_verb_reaches_into_another_scope(self, backend: Backend, scope: Scope) -> None:
        """One key in four scopes is four values: a tenant, a workspace, a workflow apart."""
        keyed = backend.keyed
        others = [
            replace(scope, tenant=f"{scope.tenant}-other"),
            replace(scope, workspace="other"),
            replace(scope, workflow="other"),
        ]
        keyed.put(scope, "a", b"mine")
        for other in others:
            assert keyed.get(other, "a") is None
            assert not keyed.exists(other, "a")
            assert keyed.list(other) == []
            assert not keyed.delete(other, "a")
            assert not keyed.replace(other, "a", b"theirs")
            assert keyed.put_if_absent(other, "a", b"theirs")
            keyed.put(other, "a", b"theirs anew")
        assert [entry.value for entry in keyed.list(scope)] == [b"mine"]
        for other in others:
            assert keyed.delete(other, "a")
        assert keyed.get(scope, "a") == b"mine"

    def test_a_sweep_deletes_what_has_expired_and_nothing_else(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """In slices, of all scopes; for every verb it was gone before."""
        keyed, other = backend.keyed, replace(scope, workspace="other")
        clock.advance(TTL_MS)
        while backend.sweep():  # what earlier tests have left in the same database
            pass
        for number in range(4):
            keyed.put(scope, f"gone-{number}", b"1", ttl_ms=TTL_MS)
        keyed.put(other, "gone", b"1", ttl_ms=TTL_MS)
        keyed.put(scope, "later", b"1", ttl_ms=TTL_MS + 1)
        keyed.put(scope, "stays", b"1")
        clock.advance(TTL_MS - 1)
        assert backend.sweep() == 0
        clock.advance(1)
        assert [backend.sweep(slice_rows=2) for _ in range(4)] == [2, 2, 1, 0]
        assert [entry.key for entry in keyed.list(scope)] == ["later", "stays"]

    def test_a_closed_storage_says_so(self, backend: Backend, scope: Scope) -> None:
        """Closing again is harmless, every other use is refused by its own error."""
        backend.close()
        backend.close()
        for use in (
            lambda: backend.keyed.get(scope, "a"),
            lambda: backend.keyed.put(scope, "a", b"1"),
            lambda: backend.leases.read(scope, "a"),
            lambda: backend.carry.load(scope, "a"),
            backend.sweep,
            backend.stats,
        ):
            with refused("StorageClosedError"):
                use()
        with refused("StorageClosedError"), backend.transaction(scope):
            pass

    def test_its_sizes_are_shown(self, backend: Backend, scope: Scope) -> None:
        """What is stored takes room, and what is free is a part of it."""
        backend.keyed.put(scope, "a", EVERY_BYTE)
        stats = backend.stats()
        assert stats.total_bytes >= len(EVERY_BYTE)
        assert stats.free_bytes is None or 0 <= stats.free_bytes <= stats.total_bytes
