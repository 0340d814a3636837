"""The kinds of race that processes have on a storage: what is laid out, won and stored."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

from snapshots.errors import RevisionConflictError
from snapshots.storage.approvals import Approval, Approvals
from snapshots.storage.carry import CarryState
from snapshots.storage.contracts import Contract
from snapshots.storage.refusals import AlreadyDecidedError
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.storage import Backend, Scope

SHORT_MS = 10
LONG_MS = 3_600_000
PATIENCE_S = 60.0


def eventually(is_so: Callable[[], bool]) -> None:
    """Wait until something is so; an AssertionError if it takes too long."""
    until = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.005)


def name_of(number: int) -> str:
    """Return what a round is about."""
    return f"round-{number}"


class Race(Protocol):
    """One kind of race in one scope; a process is known by its number."""

    def __init__(self, backend: Backend, scope: Scope) -> None: ...

    def prepare(self, rounds: int) -> None:
        """Lay out what is raced for, as it must be when the first round starts."""
        ...

    def attempt(self, number: int, me: int) -> bool:
        """Try to win a round, and return whether this process did."""
        ...

    def kept(self, number: int) -> int | None:
        """Return the process that the storage has as the winner of a round."""
        ...


class PutIfAbsent:
    """Each round is a key that has expired."""

    def __init__(self, backend: Backend, scope: Scope) -> None:
        self.state = StateStore(backend.keyed, backend.leases, scope)

    def prepare(self, rounds: int) -> None:
        """Put every key, for a moment that is over when this returns."""
        with self.state.transaction():
            for number in range(rounds):
                self.state.put(name_of(number), None, ttl_ms=SHORT_MS)
        eventually(lambda: not self.state.list("round-"))

    def attempt(self, number: int, me: int) -> bool:
        """Put one's number."""
        return self.state.put_if_absent(name_of(number), me, ttl_ms=LONG_MS)

    def kept(self, number: int) -> int | None:
        """Return the number that was put."""
        found: int | None = self.state.get(name_of(number))
        return found


class GetThenPut(PutIfAbsent):
    """The same by a look and a write, between which others look: what must be caught."""

    def attempt(self, number: int, me: int) -> bool:
        """Look, then put."""
        if self.state.exists(name_of(number)):
            return False
        self.state.put(name_of(number), me, ttl_ms=LONG_MS)
        return True


class Locks:
    """Each round is a lock whose last holder has let its time pass."""

    def __init__(self, backend: Backend, scope: Scope) -> None:
        self.state = StateStore(backend.keyed, backend.leases, scope)
        self.leases, self.scope = backend.leases, scope

    def prepare(self, rounds: int) -> None:
        """Claim every lock, for a moment that is over when this returns."""
        with self.state.transaction():
            for number in range(rounds):
                self.leases.acquire(self.scope, name_of(number), ttl_ms=SHORT_MS)
        eventually(lambda: self.leases.read(self.scope, name_of(rounds - 1)) is None)

    def attempt(self, number: int, me: int) -> bool:
        """Claim it; the claim behind the prepared one has the token 2."""
        lock = self.state.claim(name_of(number), LONG_MS, holder=str(me))
        return lock is not None and lock.token == 2

    def kept(self, number: int) -> int | None:
        """Return the holder."""
        lease = self.leases.read(self.scope, name_of(number))
        return None if lease is None else int(lease.holder)


class Decisions:
    """Each round is an approval that a gate of a run waits for."""

    def __init__(self, backend: Backend, scope: Scope) -> None:
        self.state = StateStore(backend.keyed, backend.leases, scope)
        self.approvals = Approvals(self.state)

    def prepare(self, rounds: int) -> None:
        """Announce every approval."""
        events = ("approve", "reject")
        for number in range(rounds):
            key = name_of(number)
            self.approvals.announce(
                Approval(key=key, token=key, file="", events=events, run_id=key, gate="gate")
            )

    def attempt(self, number: int, me: int) -> bool:
        """Decide, one this way and the next one that way."""
        try:
            self.approvals.decide(name_of(number), ("approve", "reject")[me % 2], by=str(me))
        except AlreadyDecidedError:
            return False
        return True

    def kept(self, number: int) -> int | None:
        """Return who decided."""
        decision = self.approvals.decision(name_of(number))
        return None if decision is None or decision.by is None else int(decision.by)


class Revisions:
    """Each round is carry state that all of them found at the same revision: none, or the first."""

    def __init__(self, backend: Backend, scope: Scope) -> None:
        self.carry = CarryState(backend.carry, scope, contract=Contract("race", 1))

    def prepare(self, rounds: int) -> None:
        """Save every second one once."""
        for number in range(1, rounds, 2):
            self.carry.save(name_of(number), "prepared", expected_revision=0)

    def attempt(self, number: int, me: int) -> bool:
        """Save one's number over the revision that was found."""
        try:
            self.carry.save(name_of(number), me, expected_revision=number % 2)
        except RevisionConflictError:
            return False
        return True

    def kept(self, number: int) -> int | None:
        """Return whose save is the revision behind the one that was found."""
        found = self.carry.load(name_of(number))
        is_next = found is not None and found.revision == number % 2 + 1
        return found.value if found is not None and is_next else None


RACES: dict[str, type[Race]] = {
    "put_if_absent": PutIfAbsent,
    "lock": Locks,
    "decision": Decisions,
    "carry_save": Revisions,
}
CONTROL: dict[str, type[Race]] = {"get_then_put": GetThenPut}
