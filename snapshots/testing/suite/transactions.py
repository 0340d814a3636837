"""What a transaction does: all of it or nothing, alone in its workspace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from snapshots.storage.state import StateStore
from snapshots.testing.suite.acting import insist, race, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.testing import ManualClock

RIVALS: Final = 6
ROUNDS: Final = 5


class StrayError(Exception):
    """What a block raises that has nothing to do with storage."""


def write_everywhere(backend: Backend, scope: Scope) -> None:
    """Change something of each capability, twice where a second change differs from a first."""
    for value in (b"1", b"2"):
        backend.keyed.put(scope, "put", value)
    backend.keyed.put_if_absent(scope, "put if absent", b"1")
    backend.keyed.delete(scope, "there before")
    lease = backend.leases.acquire(scope, "lock", ttl_ms=1_000)
    assert lease is not None
    backend.leases.renew(lease, ttl_ms=2_000)
    for expected in (0, 1):
        backend.carry.save(scope, "a", contract_version=1, payload=b"1", expected_revision=expected)


class TransactionBehaviours:
    """Behaviours of `transaction`, which all capabilities share."""

    def test_what_a_block_wrote_stays_together(self, backend: Backend, scope: Scope) -> None:
        """Within it each call sees what was written before, after it everybody does."""
        backend.keyed.put(scope, "there before", b"1")
        for transaction in (
            backend.transaction,
            backend.keyed.transaction,
            backend.leases.transaction,
            backend.carry.transaction,
        ):
            with transaction(scope):
                backend.keyed.put(scope, "there before", b"2")
                assert backend.keyed.get(scope, "there before") == b"2"
        with backend.transaction(scope):
            write_everywhere(backend, scope)
            assert [entry.key for entry in backend.keyed.list(scope)] == ["put", "put if absent"]
        assert backend.keyed.get(scope, "put") == b"2"
        assert backend.leases.read(scope, "lock") is not None
        record = backend.carry.load(scope, "a")
        assert record is not None
        assert record.revision == 2

    def test_a_block_that_raises_leaves_nothing(self, backend: Backend, scope: Scope) -> None:
        """Of no capability, and what it deleted is there again."""
        backend.keyed.put(scope, "there before", b"1")
        with refused("StrayError"), backend.transaction(scope):
            write_everywhere(backend, scope)
            raise StrayError
        assert [entry.key for entry in backend.keyed.list(scope)] == ["there before"]
        assert backend.leases.read(scope, "lock") is None
        assert backend.carry.load(scope, "a") is None
        # Nothing of it is in the way of the next one either.
        with backend.transaction(scope):
            write_everywhere(backend, scope)
        lease = backend.leases.read(scope, "lock")
        assert lease is not None
        assert lease.token == 1

    def test_a_refused_call_that_was_expected_spoils_nothing(
        self, backend: Backend, scope: Scope
    ) -> None:
        """A conflict or a bad key inside a block may be caught, and the block goes on."""
        with backend.transaction(scope):
            backend.keyed.put(scope, "a", b"1")
            with refused("RevisionConflictError"):
                backend.carry.save(scope, "a", contract_version=1, payload=b"", expected_revision=5)
            with refused("InvalidKeyError"):
                backend.keyed.put(scope, "", b"1")
            with refused("InvalidTtlError"):
                backend.keyed.put(scope, "b", b"1", ttl_ms=0)
            backend.keyed.put(scope, "c", b"1")
        assert [entry.key for entry in backend.keyed.list(scope)] == ["a", "c"]

    def test_transactions_do_not_nest(self, backend: Backend, scope: Scope) -> None:
        """A second one inside the first is a mistake, and the first is rolled back with it."""
        with refused("NestedTransactionError") as refusal, backend.transaction(scope):
            backend.keyed.put(scope, "a", b"1")
            with backend.keyed.transaction(scope):
                pass
        assert "end the outer one first" in str(refusal.error)
        assert backend.keyed.get(scope, "a") is None

    def test_a_second_transaction_that_is_refused_spoils_nothing(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Whoever catches that goes on in the first: its calls, and its end, are as before."""
        state = StateStore(backend.keyed, backend.leases, scope)
        with state.transaction():
            for one in (backend, backend.keyed, backend.leases, backend.carry):
                with refused("NestedTransactionError"), one.transaction(scope):
                    pass
            with state.transaction():
                state.put("a", 1)
        assert state.get("a") == 1

    def test_a_transaction_is_of_one_workspace(self, backend: Backend, scope: Scope) -> None:
        """Another workflow takes part, another workspace or tenant is a mistake."""
        flow = replace(scope, workflow="other")
        with backend.transaction(scope):
            backend.keyed.put(flow, "a", b"1")
        assert backend.keyed.get(flow, "a") == b"1"
        for other in (
            replace(scope, workspace="other"),
            replace(scope, tenant=f"{scope.tenant}-other"),
        ):
            with refused("OtherWorkspaceError"), backend.transaction(scope):
                backend.keyed.put(scope, "b", b"1")
                backend.keyed.put(other, "b", b"1")
            with refused("OtherWorkspaceError"), backend.transaction(scope):
                backend.keyed.get(other, "b")
            assert backend.keyed.get(other, "b") is None
        assert backend.keyed.get(scope, "b") is None

    def test_what_a_block_reads_stays_so_until_it_has_written(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """Threads that count up what they read lose no count."""
        backend.keyed.put(scope, "count", b"0")

        def count_up(mine: Backend) -> None:
            with mine.transaction(scope):
                value = mine.keyed.get(scope, "count")
                assert value is not None
                mine.keyed.put(scope, "count", str(int(value) + 1).encode())

        def count(mine: Backend, _: int) -> None:
            for _round in range(ROUNDS):
                insist(lambda: count_up(mine))

        race(another, count, RIVALS)
        assert backend.keyed.get(scope, "count") == str(RIVALS * ROUNDS).encode()

    def test_time_goes_on_inside_a_block(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """What expires while a block runs is gone for its later calls."""
        with backend.transaction(scope):
            backend.keyed.put(scope, "a", b"1", ttl_ms=1)
            assert backend.keyed.exists(scope, "a")
            clock.advance(1)
            assert not backend.keyed.exists(scope, "a")
            assert backend.keyed.put_if_absent(scope, "a", b"2")
        assert backend.keyed.get(scope, "a") == b"2"
