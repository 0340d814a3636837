"""A run's claim of a thread: a lease, with the token that each of its writes is held to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from snapshots.errors import LeaseLostError
from snapshots.storage.scopes import Scope

if TYPE_CHECKING:
    from snapshots.storage.rows import Lease
    from snapshots.storage.workspaces.protocols import Storage

# Claims are leases beside those of workflows, under a name that no workflow is likely to have.
_WORKFLOW: Final = "$threads"


class ThreadClaim:
    """The right of one run to go on with a thread, until it is released or lapses.

    It lapses `ttl_ms` after the last renewal: whoever holds it calls `renew` well before, and
    stops when that fails. In a `with` block it is released at the end.
    """

    def __init__(self, claims: Claims, lease: Lease, *, run: str, ttl_ms: int) -> None:
        """Hold `lease`; `Workspace.claim_thread` makes a claim."""
        self._claims = claims
        self.lease = lease
        self.thread = lease.name
        self.run = run
        self.ttl_ms = ttl_ms

    def __repr__(self) -> str:
        return f"<ThreadClaim of {self.thread!r} by run {self.run!r} token={self.token}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    @property
    def token(self) -> int:
        """What tells this claim of the thread from each other one; a later one is greater."""
        return self.lease.token

    def renew(self) -> None:
        """Hold the claim for `ttl_ms` from now; `LeaseLostError` if it is not held any more."""
        self.lease = self._claims.storage.renew_lease(self.lease, ttl_ms=self.ttl_ms)

    def release(self) -> bool:
        """Give the claim up, and return whether it was held until now."""
        return self._claims.release(self)


class Claims:
    """The claims that one handle on a workspace has made, so that its writes can name them."""

    def __init__(self, storage: Storage, scope: Scope) -> None:
        self.storage = storage
        self._scope = Scope(tenant=scope.tenant, workspace=scope.workspace, workflow=_WORKFLOW)
        self._held: dict[str, ThreadClaim] = {}

    def claim(self, thread: str, run: str, *, ttl_ms: int, holder: str) -> ThreadClaim | None:
        """Return a claim of a thread, None while another is held; its holder is the run, if none.

        So that whoever is refused reads who has it.
        """
        called = holder or run
        lease = self.storage.acquire_lease(self._scope, thread, ttl_ms=ttl_ms, holder=called)
        if lease is None:
            return None
        claim = ThreadClaim(self, lease, run=run, ttl_ms=ttl_ms)
        self._held[thread] = claim
        return claim

    def holder(self, thread: str) -> Lease | None:
        """Return the lease on a thread, None if nobody has claimed it."""
        return self.storage.lease(self._scope, thread)

    def lease_of(self, thread: str, run: str) -> Lease:
        """Return the lease by which a run writes to a thread; `LeaseLostError` if it has none."""
        claim = self._held.get(thread)
        if claim is None or claim.run != run:
            raise LeaseLostError(thread, None if claim is None else claim.lease.holder)
        return claim.lease

    def release(self, claim: ThreadClaim) -> bool:
        """Give a claim up: whether it was held until now."""
        was_held = self.storage.release_lease(claim.lease)
        if self._held.get(claim.thread) is claim:
            del self._held[claim.thread]
        return was_held
