"""What a state store does on a backend: once, first, seen, open, held, and only forward."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from snapshots import Secret
from snapshots.storage.state import StateStore
from snapshots.testing.suite.acting import race, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.testing import ManualClock

    Another = Callable[[], AbstractContextManager[Backend]]

TTL_MS: Final = 1_000


def store(backend: Backend, scope: Scope) -> StateStore:
    """Return a state store on a backend: a further one is what a restarted process has."""
    return StateStore(backend.keyed, backend.leases, scope)


class StateBehaviours:
    """Behaviours of `StateStore` on a backend."""

    def test_a_value_comes_back_type_for_type(self, backend: Backend, scope: Scope) -> None:
        """Tuples, times, decimals and None as well; `exists` tells None from nothing."""
        state = store(backend, scope)
        when = datetime(2026, 1, 1, tzinfo=UTC)
        for value in (None, (1, "two"), {"a": [Decimal("1.10"), when]}, {1: b"\x00"}, -0.0):
            state.put("a", value)
            found = store(backend, scope).get("a")
            assert (repr(found), type(found)) == (repr(value), type(value))
            assert state.exists("a")
        assert state.delete("a")
        assert not state.exists("a")
        assert state.get("a") is None

    def test_what_cannot_be_stored_is_named_by_its_place(
        self, backend: Backend, scope: Scope
    ) -> None:
        """In the value that was given, whatever a verb wraps it in."""
        state = store(backend, scope)
        state.incidents.open("open")
        secret = {"card": [Secret("vault/card")]}
        for write in (
            lambda: state.put("new", secret),
            lambda: state.incidents.open("new", secret),
            lambda: state.incidents.update("open", secret),
        ):
            with refused("EncodeError") as refusal:
                write()
            assert refusal.field("path") == "value.card[0]"

    def test_a_secret_is_refused_wherever_it_lies(self, backend: Backend, scope: Scope) -> None:
        """No verb writes it, and what was there stays; its reference may be written."""
        state = store(backend, scope)
        state.put("kept", 1)
        secret = {"card": [Secret("vault/card")]}
        for write in (
            lambda: state.put("kept", secret),
            lambda: state.put_if_absent("new", secret),
            lambda: state.write_once("new", secret),
            lambda: state.incidents.open("new", secret),
            lambda: state.poll_cursor("new").advance(secret),
        ):
            with refused("EncodeError"):
                write()
        assert [(entry.key, entry.value) for entry in state.list()] == [("kept", 1)]
        assert state.incidents.list() == []
        state.put("kept", Secret("vault/card").ref)
        assert state.get("kept") == "vault/card"

    def test_kinds_of_keys_never_meet(self, backend: Backend, scope: Scope) -> None:
        """One text is a key, a thing seen, an incident, a cursor and a name at once."""
        state = store(backend, scope)
        state.put("a", "value")
        assert state.once("a", TTL_MS)
        assert not state.seen("a")
        assert state.incidents.open("a", "incident").is_new
        assert state.poll_cursor("a").advance(7)
        with state.overlap_lock("a", TTL_MS) as lock:
            assert lock is not None
        assert [(entry.key, entry.value) for entry in state.list()] == [("a", "value")]
        assert state.incidents.find("a") is not None
        assert state.poll_cursor("a").position() == 7
        with refused("InvalidKeyError"):
            store(backend, replace(scope, workflow=f"{scope.workflow}#once"))

    def test_a_listing_goes_on_behind_a_key(self, backend: Backend, scope: Scope) -> None:
        """By prefix, in the order of code points, a page at a time."""
        state = store(backend, scope)
        for number in range(5):
            state.put(f"b{number}", number)
        state.put("c", "other")
        first = state.list("b", limit=2)
        assert [entry.value for entry in first] == [0, 1]
        assert [entry.value for entry in state.list("b", after=first[-1].key)] == [2, 3, 4]

    def test_once_is_once_until_it_expires(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """The last millisecond belongs to the first caller."""
        state = store(backend, scope)
        assert state.once("digest", TTL_MS)
        clock.advance(TTL_MS - 1)
        assert not store(backend, scope).once("digest", TTL_MS)
        clock.advance(1)
        assert state.once("digest", TTL_MS)

    def test_one_of_many_is_told_once(self, another: Another, scope: Scope) -> None:
        """Of sixteen callers at the same time, one gets True, one opens, one is not late."""
        assert sum(race(another, lambda mine, _: store(mine, scope).once("a", TTL_MS))) == 1
        assert race(another, lambda mine, _: store(mine, scope).seen("a")).count(False) == 1
        opened = race(another, lambda mine, n: store(mine, scope).incidents.open("a", n))
        assert sum(one.is_new for one in opened) == 1
        assert len({one.value for one in opened}) == 1
        closed = race(another, lambda mine, _: store(mine, scope).incidents.close("a"))
        assert sum(one is not None for one in closed) == 1

    def test_what_was_seen_is_known_for_its_time(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Asking notes nothing; without a time it stays for ever."""
        state = store(backend, scope)
        assert not state.was_seen("mail-1")
        assert not state.seen("mail-1", TTL_MS)
        assert state.seen("mail-1", TTL_MS)
        assert not state.seen("mail-2")
        clock.advance(TTL_MS)
        assert not state.was_seen("mail-1")
        assert state.was_seen("mail-2")

    def test_the_first_of_two_writes_counts(self, another: Another, scope: Scope) -> None:
        """Whoever writes once gets what was written first, as it is stored."""
        written = race(another, lambda mine, n: store(mine, scope).write_once("row", [n, (n,)]))
        assert all(value == written[0] for value in written)
        with another() as backend:
            assert store(backend, scope).get("row") == written[0]

    def test_a_resolved_alert_finds_its_incident(self, backend: Backend, scope: Scope) -> None:
        """Also through another handle; a repeat opens nothing, a closed one is not there."""
        firing = store(backend, scope).incidents.open("disk db1", {"message": "17"})
        assert (firing.is_new, firing.value) == (True, {"message": "17"})
        incidents = store(backend, scope).incidents
        again = incidents.open("disk db1", {"message": "18"})
        assert (again.is_new, again.value) == (False, {"message": "17"})
        assert incidents.update("disk db1", {"message": "17", "by": "ann"})
        resolved = incidents.close("disk db1")
        assert resolved is not None
        assert resolved.value == {"message": "17", "by": "ann"}
        assert incidents.find("disk db1") is None
        assert incidents.close("disk db1") is None
        assert not incidents.update("disk db1", {})
        assert incidents.open("disk db1").is_new

    def test_an_updated_incident_stays_open_as_long_as_it_would_have(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """What it is told later neither keeps it for ever nor ends it before its time."""
        incidents = store(backend, scope).incidents
        incidents.open("ends", {"seen": 1}, ttl_ms=TTL_MS)
        incidents.open("stays", {"seen": 1})
        clock.advance(TTL_MS - 1)
        assert incidents.update("ends", {"seen": 2})
        assert incidents.update("stays", {"seen": 2})
        found = incidents.find("ends")
        assert found is not None
        assert found.value == {"seen": 2}
        clock.advance(1)
        assert incidents.find("ends") is None
        assert not incidents.update("ends", {"seen": 3})
        assert incidents.open("ends").is_new
        assert [one.fingerprint for one in incidents.list()] == ["ends", "stays"]

    def test_an_incident_without_a_value_is_open(self, backend: Backend, scope: Scope) -> None:
        """None is a value; the list has every open one."""
        incidents = store(backend, scope).incidents
        incidents.open("b")
        incidents.open("a", None)
        assert [(one.fingerprint, one.value) for one in incidents.list()] == [
            ("a", None),
            ("b", None),
        ]

    def test_a_cursor_only_moves_forward(self, backend: Backend, scope: Scope) -> None:
        """The same position and an earlier one change nothing; one of another kind is an error."""
        cursor = store(backend, scope).poll_cursor("mails")
        assert cursor.position() is None
        for position, moves in ((3, True), (3, False), (2, False), (4, True)):
            assert cursor.advance(position) is moves
        assert store(backend, scope).poll_cursor("mails").position() == 4
        with refused("TypeError"):
            cursor.advance("five")
        assert cursor.position() == 4

    def test_a_cursor_goes_nowhere_that_it_could_not_leave(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Nothing lies behind what is no number, and None is where a cursor stands at first."""
        cursor = store(backend, scope).poll_cursor("mails")
        for position in (None, float("nan")):
            with refused("TypeError"):
                cursor.advance(position)
        assert cursor.position() is None

    def test_many_pollers_leave_the_furthest_position(self, another: Another, scope: Scope) -> None:
        """Sixteen callers move one cursor at once: none moves it back."""
        race(another, lambda mine, n: store(mine, scope).poll_cursor("p").advance(n))
        with another() as backend:
            assert store(backend, scope).poll_cursor("p").position() == 15

    def test_a_lock_is_held_by_one_and_ends_with_its_block(
        self, backend: Backend, scope: Scope
    ) -> None:
        """The other gets None meanwhile; each claim has a greater token."""
        state = store(backend, scope)
        with state.overlap_lock("nightly", TTL_MS) as first:
            assert first is not None
            with store(backend, scope).overlap_lock("nightly", TTL_MS) as second:
                assert second is None
        with state.overlap_lock("nightly", TTL_MS) as third:
            assert third is not None
            assert third.token > first.token

    def test_nothing_is_written_under_a_lock_that_has_expired(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """A holder that slept past its time writes nothing over its successor, nor renews."""
        state = store(backend, scope)
        with state.overlap_lock("nightly", TTL_MS) as slow:
            assert slow is not None
            with slow.guard():
                state.put("rows", "slow")
            clock.advance(TTL_MS)
            with state.overlap_lock("nightly", TTL_MS) as quick:
                assert quick is not None
                with quick.guard():
                    state.put("rows", "quick")
                with refused("LeaseLostError"), slow.guard():
                    state.put("rows", "slow again")
                with refused("LeaseLostError"):
                    slow.renew(TTL_MS)
        assert state.get("rows") == "quick"

    def test_a_guarded_block_is_kept_whole_or_not_at_all(
        self, backend: Backend, scope: Scope
    ) -> None:
        """What raises in it leaves nothing of it, whatever kind of key."""
        state = store(backend, scope)
        with state.overlap_lock("nightly", TTL_MS) as lock:
            assert lock is not None
            with refused("ZeroDivisionError"), lock.guard():
                state.put("rows", 1)
                state.incidents.open("a")
                state.poll_cursor("p").advance(1)
                _fail()
        assert state.get("rows") is None
        assert state.incidents.find("a") is None
        assert state.poll_cursor("p").position() is None

    def test_a_named_holder_takes_over_from_itself(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """A run that was restarted has its lock again, under a token that the former life lacks."""
        state = store(backend, scope)
        before = state.claim("etl", TTL_MS, holder="run-1")
        assert before is not None
        assert state.claim("etl", TTL_MS, holder="run-2") is None
        assert state.claim("etl", TTL_MS) is None
        after = store(backend, scope).claim("etl", TTL_MS, holder="run-1")
        assert after is not None
        assert after.token > before.token
        with refused("LeaseLostError"), before.guard():
            state.put("rows", "former life")
        with state.held(after.lease).guard():
            state.put("rows", "this life")
        assert state.get("rows") == "this life"
        clock.advance(TTL_MS)
        assert state.claim("etl", TTL_MS, holder="run-2") is not None


def _fail() -> Any:
    return 1 / 0
