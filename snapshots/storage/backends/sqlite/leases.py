"""Leases in the file of the runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.errors import LeaseLostError
from snapshots.storage.rows import Lease, check_ttl
from snapshots.storage.scopes import check_fitting, check_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.database import Database
    from snapshots.storage.backends.sqlite.file import StorageFile
    from snapshots.storage.scopes import Scope

ACQUIRE: Final = """
insert into leases (tenant, workspace, workflow, name, token, holder, expires_ms)
values (?1, ?2, ?3, ?4,
  1 + coalesce((select token from lease_floors where tenant = ?1 and workspace = ?2), 0), ?5, ?6)
on conflict (tenant, workspace, workflow, name)
do update set token = leases.token + 1, holder = excluded.holder, expires_ms = excluded.expires_ms
where leases.expires_ms <= ?7
returning token"""
RENEW: Final = """
update leases set expires_ms = ?
where tenant = ? and workspace = ? and workflow = ? and name = ? and token = ? and expires_ms > ?"""
READ: Final = """
select token, holder, expires_ms from leases
where tenant = ? and workspace = ? and workflow = ? and name = ? and expires_ms > ?"""
SWEEP: Final = """
delete from leases where rowid in
  (select rowid from leases indexed by leases_expiring where expires_ms <= ?
   order by expires_ms limit ?)
returning tenant, workspace, token"""
RAISE_FLOOR: Final = """
insert into lease_floors (tenant, workspace, token) values (?, ?, ?)
on conflict (tenant, workspace) do update set token = max(token, excluded.token)"""


class SqliteLeases:
    """`Leases` in a file of SQLite."""

    def __init__(self, file: StorageFile, clock: Clock) -> None:
        """Use `file`, by `clock`."""
        self._file = file
        self._clock = clock

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._file.transaction(scope)

    def acquire(self, scope: Scope, name: str, *, ttl_ms: int, holder: str = "") -> Lease | None:
        """See `Leases.acquire`."""
        check_text(name, "a lease's name")
        check_fitting(holder, "a holder's name")
        check_ttl(ttl_ms, limits.LEASE_TTL_MS_MIN)
        with self._file.writing(scope, f"acquire the lease {name!r}") as database:
            now = self._clock.now_ms()
            expires = now + ttl_ms
            claim = (*_place(scope, name), holder, expires, now)
            tokens = database.run(ACQUIRE, claim).fetchall()
        if not tokens:
            return None
        token = tokens[0][0]
        assert isinstance(token, int), "the column is an integer"
        return Lease(scope=scope, name=name, token=token, holder=holder, expires_ms=expires)

    def renew(self, lease: Lease, *, ttl_ms: int) -> Lease:
        """See `Leases.renew`."""
        check_ttl(ttl_ms, limits.LEASE_TTL_MS_MIN)
        place = _place(lease.scope, lease.name)
        with self._file.writing(lease.scope, f"renew the lease {lease.name!r}") as database:
            now = self._clock.now_ms()
            expires = now + ttl_ms
            database.run(RENEW, (expires, *place, lease.token, now))
            if database.changes() == 0:
                raise self._lost(lease)
        return replace(lease, expires_ms=expires)

    def release(self, lease: Lease) -> bool:
        """See `Leases.release`."""
        place = _place(lease.scope, lease.name)
        with self._file.writing(lease.scope, f"release the lease {lease.name!r}") as database:
            now = self._clock.now_ms()
            # The row stays until it is swept: the next claim's token grows from it.
            database.run(RENEW, (now, *place, lease.token, now))
            return database.changes() == 1

    def require(self, lease: Lease) -> None:
        """See `Leases.require`."""
        assert self._file.is_in_transaction, "a lease is required inside a transaction"
        held = self.read(lease.scope, lease.name)
        if held is None or held.token != lease.token:
            raise LeaseLostError(lease.name, None if held is None else held.holder)

    def read(self, scope: Scope, name: str) -> Lease | None:
        """See `Leases.read`."""
        bindings = (*_place(scope, check_text(name, "a lease's name")), self._clock.now_ms())
        row = self._file.row(scope, f"read the lease {name!r}", READ, bindings)
        if row is None:
            return None
        return Lease(scope=scope, name=name, token=row[0], holder=row[1], expires_ms=row[2])

    def _lost(self, lease: Lease) -> LeaseLostError:
        held = self.read(lease.scope, lease.name)
        return LeaseLostError(lease.name, None if held is None else held.holder)


def sweep_leases(database: Database, now_ms: int, rows: int) -> int:
    """Delete leases that nobody holds, and keep the greatest token: no claim has it again."""
    gone = database.run(SWEEP, (now_ms, rows)).fetchall()
    for row in gone:
        database.run(RAISE_FLOOR, row)
    return len(gone)


def _place(scope: Scope, name: str) -> tuple[str, str, str, str]:
    return scope.tenant, scope.workspace, scope.workflow, name
