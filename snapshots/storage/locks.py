"""Overlap locks: one holder of a name at a time, who proves it in the transaction of each write."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.storage.protocols import Leases
    from snapshots.storage.rows import Lease
    from snapshots.storage.values import Joined


class OverlapLock:
    """A lock that is held until it is released or its time is over.

    `lease` can be stored and given to `StateStore.held` by who goes on after a restart.
    """

    def __init__(self, leases: Leases, lease: Lease, joined: Joined) -> None:
        self._leases = leases
        self._joined = joined
        self.lease = lease

    def __repr__(self) -> str:
        return f"<OverlapLock {self.lease.name!r} token={self.token}>"

    @property
    def token(self) -> int:
        """What tells this claim from earlier ones of the name, which had smaller tokens."""
        return self.lease.token

    def renew(self, ttl_ms: int) -> None:
        """Hold it for `ttl_ms` from now. Raises LeaseLostError once it has expired."""
        self.lease = self._leases.renew(self.lease, ttl_ms=ttl_ms)

    @contextmanager
    def guard(self) -> Iterator[None]:
        """Write in one transaction in which the lock is held, or not at all.

        Raises LeaseLostError, before the block begins, if the lock has expired or is another's.
        """
        with self._joined.transaction():
            self._leases.require(self.lease)
            yield

    def release(self) -> bool:
        """Give it up, and return whether it was still held."""
        return self._leases.release(self.lease)
