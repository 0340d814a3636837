"""Leases in PostgreSQL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.errors import LeaseLostError
from snapshots.storage.rows import Lease, check_ttl
from snapshots.storage.scopes import check_fitting, check_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.storage.backends.postgres.connections import Connections, Work
    from snapshots.storage.scopes import Scope

ACQUIRE: Final = """
insert into snapshots.leases (tenant, workspace, workflow, name, token, holder, expires_ms)
values (%(tenant)s, %(workspace)s, %(workflow)s, %(name)s,
  1 + coalesce((select token from snapshots.lease_floors
    where tenant = %(tenant)s and workspace = %(workspace)s), 0),
  %(holder)s, (select snapshots.now_ms(%(now)s::bigint)) + %(ttl)s::bigint)
on conflict (tenant, workspace, workflow, name)
do update set token = leases.token + 1, holder = excluded.holder, expires_ms = excluded.expires_ms
where leases.expires_ms <= (select snapshots.now_ms(%(now)s::bigint))
returning token, expires_ms"""
RENEW: Final = """
update snapshots.leases
set expires_ms = (select snapshots.now_ms(%(now)s::bigint)) + %(ttl)s::bigint
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and name = %(name)s and token = %(token)s
  and expires_ms > (select snapshots.now_ms(%(now)s::bigint))
returning expires_ms"""
READ: Final = """
select token, holder, expires_ms from snapshots.leases
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and name = %(name)s and expires_ms > (select snapshots.now_ms(%(now)s::bigint))"""


class PostgresLeases:
    """`Leases` in PostgreSQL."""

    def __init__(self, connections: Connections) -> None:
        """Use `connections`."""
        self._connections = connections

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._connections.transaction(scope)

    def acquire(self, scope: Scope, name: str, *, ttl_ms: int, holder: str = "") -> Lease | None:
        """See `Leases.acquire`."""
        check_text(name, "a lease's name")
        check_fitting(holder, "a holder's name")
        check_ttl(ttl_ms, limits.LEASE_TTL_MS_MIN)
        values = {**_place(scope, name), "holder": holder, "ttl": ttl_ms}
        operation = f"acquire the lease {name!r}"
        with self._connections.working(scope, operation, alone=True) as work:
            row = work.run(ACQUIRE, values).fetchone()
        if row is None:
            return None
        return Lease(scope=scope, name=name, token=row[0], holder=holder, expires_ms=row[1])

    def renew(self, lease: Lease, *, ttl_ms: int) -> Lease:
        """See `Leases.renew`."""
        check_ttl(ttl_ms, limits.LEASE_TTL_MS_MIN)
        values = {**_place(lease.scope, lease.name), "token": lease.token, "ttl": ttl_ms}
        operation = f"renew the lease {lease.name!r}"
        with self._connections.working(lease.scope, operation, alone=True) as work:
            row = work.run(RENEW, values).fetchone()
            if row is None:
                raise _lost(lease, _read(work, lease.scope, lease.name))
        return replace(lease, expires_ms=row[0])

    def release(self, lease: Lease) -> bool:
        """See `Leases.release`."""
        # The row stays until it is swept: the next claim's token grows from it.
        values = {**_place(lease.scope, lease.name), "token": lease.token, "ttl": 0}
        operation = f"release the lease {lease.name!r}"
        with self._connections.working(lease.scope, operation, alone=True) as work:
            return work.run(RENEW, values).rowcount == 1

    def require(self, lease: Lease) -> None:
        """See `Leases.require`."""
        assert self._connections.is_in_transaction, "a lease is required inside a transaction"
        held = self.read(lease.scope, lease.name)
        if held is None or held.token != lease.token:
            raise _lost(lease, held)

    def read(self, scope: Scope, name: str) -> Lease | None:
        """See `Leases.read`."""
        check_text(name, "a lease's name")
        with self._connections.working(scope, f"read the lease {name!r}") as work:
            return _read(work, scope, name)


def _read(work: Work, scope: Scope, name: str) -> Lease | None:
    row = work.run(READ, _place(scope, name)).fetchone()
    if row is None:
        return None
    return Lease(scope=scope, name=name, token=row[0], holder=row[1], expires_ms=row[2])


def _lost(lease: Lease, held: Lease | None) -> LeaseLostError:
    return LeaseLostError(lease.name, None if held is None else held.holder)


def _place(scope: Scope, name: str) -> dict[str, object]:
    return {
        "tenant": scope.tenant,
        "workspace": scope.workspace,
        "workflow": scope.workflow,
        "name": name,
    }
