"""The leases of workspaces, which are those of their backend."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snapshots.storage.protocols import Leases
    from snapshots.storage.rows import Lease
    from snapshots.storage.scopes import Scope


class Leasing:
    """Hands what a workspace asks of leases on to its backend."""

    _leases: Leases

    def acquire_lease(self, scope: Scope, name: str, *, ttl_ms: int, holder: str) -> Lease | None:
        """See `Storage.acquire_lease`."""
        return self._leases.acquire(scope, name, ttl_ms=ttl_ms, holder=holder)

    def renew_lease(self, lease: Lease, *, ttl_ms: int) -> Lease:
        """See `Storage.renew_lease`."""
        return self._leases.renew(lease, ttl_ms=ttl_ms)

    def release_lease(self, lease: Lease) -> bool:
        """See `Storage.release_lease`."""
        return self._leases.release(lease)

    def lease(self, scope: Scope, name: str) -> Lease | None:
        """See `Storage.lease`."""
        return self._leases.read(scope, name)
