"""What a lease does: one holder at a time, until a moment, under a token of its own."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.testing.suite.acting import insist, race, refused

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Lease, Scope
    from snapshots.testing import ManualClock

TTL_MS: Final = 1_000


def claim(backend: Backend, scope: Scope, holder: str = "", name: str = "lock") -> Lease:
    """Acquire a lease that is free."""
    lease = backend.leases.acquire(scope, name, ttl_ms=TTL_MS, holder=holder)
    assert lease is not None
    return lease


class LeaseBehaviours:
    """Behaviours of `Leases`."""

    def test_a_name_has_one_holder(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Whoever comes second gets none, the holder itself included; anybody can read it."""
        lease = claim(backend, scope, "host-a")
        assert (lease.scope, lease.name, lease.holder) == (scope, "lock", "host-a")
        assert lease.expires_ms == clock.now_ms() + TTL_MS
        for holder in ("host-b", "host-a"):
            assert backend.leases.acquire(scope, "lock", ttl_ms=TTL_MS, holder=holder) is None
        assert backend.leases.read(scope, "lock") == lease
        assert backend.leases.read(scope, "another lock") is None

    def test_a_lease_ends_at_its_moment(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """One millisecond before it is held, at it the name is free."""
        lease = claim(backend, scope)
        clock.set(lease.expires_ms - 1)
        assert backend.leases.read(scope, "lock") == lease
        assert backend.leases.acquire(scope, "lock", ttl_ms=TTL_MS) is None
        clock.set(lease.expires_ms)
        assert backend.leases.read(scope, "lock") is None
        assert backend.leases.acquire(scope, "lock", ttl_ms=TTL_MS) is not None

    def test_each_claim_has_a_token_of_its_own(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """From 1, one more each time, whether the former was released or has lapsed."""
        tokens = []
        for _ in range(3):
            lease = claim(backend, scope)
            tokens.append(lease.token)
            backend.leases.release(lease)
            tokens.append(claim(backend, scope).token)
            clock.advance(TTL_MS)
        assert tokens == [1, 2, 3, 4, 5, 6]
        assert claim(backend, scope, name="another lock").token == 1

    def test_a_renewed_lease_is_the_same_claim_for_longer(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """It lasts from the renewal on, with its token and its holder."""
        lease = claim(backend, scope, "host-a")
        clock.advance(TTL_MS - 1)
        renewed = backend.leases.renew(lease, ttl_ms=2 * TTL_MS)
        assert renewed == replace(lease, expires_ms=clock.now_ms() + 2 * TTL_MS)
        clock.advance(2 * TTL_MS - 1)
        assert backend.leases.read(scope, "lock") == renewed
        # A renewal names the claim, not the moment until which it was known to last.
        assert backend.leases.renew(lease, ttl_ms=TTL_MS).token == lease.token

    def test_a_lease_that_has_lapsed_is_not_renewed(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Not even if nobody else wanted it: it could have been anybody's meanwhile."""
        lease = claim(backend, scope)
        clock.set(lease.expires_ms)
        with refused("LeaseLostError") as refusal:
            backend.leases.renew(lease, ttl_ms=TTL_MS)
        assert (refusal.field("key"), refusal.field("holder")) == ("lock", None)
        assert backend.leases.read(scope, "lock") is None

    def test_a_stalled_holder_does_nothing_to_its_successor(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """When it wakes it can neither renew nor release nor write, and learns who holds it."""
        stalled = claim(backend, scope, "host-a")
        clock.advance(TTL_MS)
        successor = claim(backend, scope, "host-b")
        with refused("LeaseLostError") as refusal:
            backend.leases.renew(stalled, ttl_ms=TTL_MS)
        assert refusal.field("holder") == "host-b"
        assert not backend.leases.release(stalled)
        with refused("LeaseLostError"), backend.transaction(scope):
            backend.keyed.put(scope, "a", b"over my successor's")
            backend.leases.require(stalled)
        assert backend.keyed.get(scope, "a") is None
        assert backend.leases.read(scope, "lock") == successor

    def test_a_released_lease_is_free_at_once(self, backend: Backend, scope: Scope) -> None:
        """For another holder; releasing it again says that there was nothing to release."""
        lease = claim(backend, scope, "host-a")
        assert backend.leases.release(lease)
        assert backend.leases.read(scope, "lock") is None
        assert not backend.leases.release(lease)
        with refused("LeaseLostError"):
            backend.leases.renew(lease, ttl_ms=TTL_MS)
        assert claim(backend, scope, "host-b").holder == "host-b"

    def test_a_lapsed_lease_is_not_released(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """It ended by itself."""
        lease = claim(backend, scope)
        clock.set(lease.expires_ms)
        assert not backend.leases.release(lease)

    def test_a_write_under_a_lease_requires_it(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Held to the last millisecond it lets the transaction through, and then no more."""
        lease = claim(backend, scope)
        clock.set(lease.expires_ms - 1)
        with backend.transaction(scope):
            backend.leases.require(lease)
            backend.keyed.put(scope, "a", b"1")
        clock.set(lease.expires_ms)
        with refused("LeaseLostError"), backend.transaction(scope):
            backend.keyed.put(scope, "a", b"2")
            backend.leases.require(lease)
        assert backend.keyed.get(scope, "a") == b"1"

    def test_a_lease_is_required_inside_a_transaction_only(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Outside of one its answer could be wrong before the write."""
        lease = claim(backend, scope)
        with refused("AssertionError"):
            backend.leases.require(lease)

    def test_one_of_many_claims_a_name(
        self,
        another: Callable[[], AbstractContextManager[Backend]],
        backend: Backend,
        scope: Scope,
        clock: ManualClock,
    ) -> None:
        """Sixteen threads at once, on a name that is new, released or lapsed: one gets each."""
        backend.leases.release(claim(backend, scope, name="released"))
        claim(backend, scope, name="lapsed")
        clock.advance(TTL_MS)
        names = ("new", "released", "lapsed")

        def contend(mine: Backend, number: int) -> list[bool]:
            holder = str(number)

            def claims(name: str) -> bool:
                lease = mine.leases.acquire(scope, name, ttl_ms=TTL_MS, holder=holder)
                return lease is not None

            return [insist(partial(claims, name)) for name in names]

        answers = race(another, contend)
        for position, name in enumerate(names):
            winners = [number for number, won in enumerate(answers) if won[position]]
            lease = backend.leases.read(scope, name)
            assert lease is not None
            assert [lease.holder] == [str(number) for number in winners]
            assert lease.token == (1 if name == "new" else 2)

    def test_no_name_reaches_into_another_scope(self, backend: Backend, scope: Scope) -> None:
        """One name in four scopes is four leases: a tenant, a workspace, a workflow apart."""
        lease = claim(backend, scope)
        for other in (
            replace(scope, tenant=f"{scope.tenant}-other"),
            replace(scope, workspace="other"),
            replace(scope, workflow="other"),
        ):
            assert backend.leases.read(other, "lock") is None
            assert not backend.leases.release(replace(lease, scope=other))
            theirs = claim(backend, other)
            assert theirs.token == 1
            assert backend.leases.release(theirs)
        assert backend.leases.read(scope, "lock") == lease

    def test_a_time_to_live_has_bounds(self, backend: Backend, scope: Scope) -> None:
        """Too short to do anything under it, or longer than ten years: refused, nothing changes."""
        lease = claim(backend, scope)
        for ttl_ms in (0, -1, limits.LEASE_TTL_MS_MIN - 1):
            with refused("InvalidTtlError") as refusal:
                backend.leases.acquire(scope, "another lock", ttl_ms=ttl_ms)
            assert refusal.field("ttl_ms") == ttl_ms
            with refused("InvalidTtlError"):
                backend.leases.renew(lease, ttl_ms=ttl_ms)
        with refused("LimitError"):
            backend.leases.acquire(scope, "another lock", ttl_ms=limits.TTL_MS_MAX + 1)
        with refused("LimitError"):
            backend.leases.renew(lease, ttl_ms=limits.TTL_MS_MAX + 1)
        assert backend.leases.read(scope, "another lock") is None
        assert backend.leases.read(scope, "lock") == lease
        assert backend.leases.renew(lease, ttl_ms=limits.LEASE_TTL_MS_MIN).token == lease.token
        assert backend.leases.renew(lease, ttl_ms=limits.TTL_MS_MAX).token == lease.token

    def test_no_token_is_given_again_after_a_sweep(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """A swept name starts behind all its former tokens; a lease that is held is not swept."""
        former = [claim(backend, scope).token]
        clock.advance(TTL_MS)
        former.append(claim(backend, scope).token)
        clock.advance(TTL_MS - 1)
        held = claim(backend, scope, name="held")
        clock.advance(1)
        while backend.sweep():
            pass
        assert backend.leases.read(scope, "lock") is None
        assert backend.leases.read(scope, "held") == held
        assert claim(backend, scope).token > max(former)
        old = replace(held, name="lock", token=former[-1])
        with refused("LeaseLostError"):
            backend.leases.renew(old, ttl_ms=TTL_MS)
