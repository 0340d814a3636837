"""What carry state does: each save goes over the revision that its author has seen."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from snapshots import limits
from snapshots.testing.suite.acting import insist, race, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, CarryRecord, Scope
    from snapshots.testing import ManualClock

EVERY_BYTE: Final = bytes(range(256))


def save(
    backend: Backend, scope: Scope, expected: int, payload: bytes = b"1", version: int = 1
) -> CarryRecord:
    """Save under the key that these behaviours use."""
    return backend.carry.save(
        scope, "a", contract_version=version, payload=payload, expected_revision=expected
    )


class CarryBehaviours:
    """Behaviours of `CarryStates`."""

    def test_what_was_never_saved_is_nothing(self, backend: Backend, scope: Scope) -> None:
        """Loading it gives None, clearing it does nothing."""
        assert backend.carry.load(scope, "a") is None
        backend.carry.clear(scope, "a")
        assert backend.carry.load(scope, "a") is None

    def test_revisions_start_at_1_and_grow_by_1(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Each save gives back what a load then finds: payload, contract, revision, time."""
        for expected, payload in enumerate((b"", EVERY_BYTE, b"third")):
            clock.advance(1)
            record = save(backend, scope, expected, payload, version=7 + expected)
            assert record.revision == expected + 1
            assert record.payload == payload
            assert record.contract_version == 7 + expected
            assert record.updated_ms == clock.now_ms()
            assert backend.carry.load(scope, "a") == record

    def test_a_revision_is_a_number(self, backend: Backend, scope: Scope) -> None:
        """What is none is refused before anything is written, alike everywhere."""
        record = save(backend, scope, 0)
        wrong: Any = ("1", None, 1.0, True)
        for expected in wrong:
            with refused("TypeError") as refusal:
                save(backend, scope, expected, b"mine")
            assert repr(expected) in str(refusal.error)
        assert backend.carry.load(scope, "a") == record

    def test_a_save_over_another_revision_is_refused(self, backend: Backend, scope: Scope) -> None:
        """It says what it expected and what is there, and what is there stays."""
        save(backend, scope, 0)
        record = save(backend, scope, 1)
        for expected in (0, 1, 3, -1):
            with refused("RevisionConflictError") as refusal:
                save(backend, scope, expected, b"mine")
            assert (refusal.field("expected"), refusal.field("actual")) == (expected, 2)
        assert backend.carry.load(scope, "a") == record

    def test_a_save_over_nothing_expects_nothing(self, backend: Backend, scope: Scope) -> None:
        """Whoever expects a revision where nothing is stored is told that nothing is."""
        with refused("RevisionConflictError") as refusal:
            save(backend, scope, 1)
        assert (refusal.field("expected"), refusal.field("actual")) == (1, None)
        assert backend.carry.load(scope, "a") is None

    def test_cleared_state_starts_anew(self, backend: Backend, scope: Scope) -> None:
        """Clearing it twice is as once; the next save creates."""
        save(backend, scope, 0)
        save(backend, scope, 1)
        backend.carry.clear(scope, "a")
        backend.carry.clear(scope, "a")
        assert backend.carry.load(scope, "a") is None
        with refused("RevisionConflictError"):
            save(backend, scope, 2)
        assert save(backend, scope, 0).revision == 1

    def test_one_of_many_saves_over_a_revision(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """Sixteen threads create at once, then go over revision 1: one succeeds each time."""
        for expected in (0, 1):

            def contend(mine: Backend, number: int, expected: int = expected) -> bool:
                try:
                    insist(lambda: save(mine, scope, expected, str(number).encode()))
                except Exception as error:
                    if type(error).__name__ != "RevisionConflictError":
                        raise
                    return False
                return True

            answers = race(another, contend)
            winners = [number for number, won in enumerate(answers) if won]
            assert len(winners) == 1
            record = backend.carry.load(scope, "a")
            assert record is not None
            assert (record.revision, record.payload) == (expected + 1, str(winners[0]).encode())

    def test_a_payload_may_be_as_long_as_the_bound(self, backend: Backend, scope: Scope) -> None:
        """One byte more is refused, and what was there stays."""
        payload = EVERY_BYTE * (limits.CARRY_PAYLOAD_BYTES_MAX // len(EVERY_BYTE))
        record = save(backend, scope, 0, payload)
        with refused("LimitError"):
            save(backend, scope, 1, payload + b"\x00")
        assert backend.carry.load(scope, "a") == record
        assert record.payload == payload

    def test_no_key_reaches_into_another_scope(self, backend: Backend, scope: Scope) -> None:
        """One key in four scopes is four states: a tenant, a workspace, a workflow apart."""
        record = save(backend, scope, 0)
        for other in (
            replace(scope, tenant=f"{scope.tenant}-other"),
            replace(scope, workspace="other"),
            replace(scope, workflow="other"),
        ):
            assert backend.carry.load(other, "a") is None
            backend.carry.clear(other, "a")
            save(backend, other, 0, b"theirs")
            save(backend, other, 1, b"theirs anew")
        assert backend.carry.load(scope, "a") == record
