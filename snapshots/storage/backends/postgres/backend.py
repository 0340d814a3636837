"""The bundle of capabilities in PostgreSQL: its sweep, its sizes, its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from snapshots import limits
from snapshots.storage.backends.postgres.carry import PostgresCarryStates
from snapshots.storage.backends.postgres.connections import Connections
from snapshots.storage.backends.postgres.keyed import PostgresKeyedStates
from snapshots.storage.backends.postgres.leases import PostgresLeases
from snapshots.storage.backends.postgres.workspaces import PostgresWorkspaces
from snapshots.storage.rows import StorageStats
from snapshots.storage.scopes import Scope

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.storage.backends.postgres.connections import Work

# Shows this transaction what has expired, of all workspaces, and nothing else.
SHOW_EXPIRED: Final = """
select set_config('snapshots.swept_ms', snapshots.now_ms(%(now)s::bigint)::text, true)"""
EXPIRED: Final = """
(select distinct tenant, workspace from snapshots.keyed
 where expires_ms <= current_setting('snapshots.swept_ms')::bigint limit %(limit)s)
union
(select distinct tenant, workspace from snapshots.leases
 where expires_ms <= current_setting('snapshots.swept_ms')::bigint limit %(limit)s)
order by tenant, workspace"""
SWEEP_KEYED: Final = """
delete from snapshots.keyed where tenant = %(tenant)s and workspace = %(workspace)s
  and (workflow, key) in
    (select workflow, key from snapshots.keyed
     where tenant = %(tenant)s and workspace = %(workspace)s
       and expires_ms <= (select snapshots.now_ms(%(now)s::bigint))
     order by expires_ms limit %(limit)s)"""
SWEEP_LEASES: Final = """
with gone as (
  delete from snapshots.leases where tenant = %(tenant)s and workspace = %(workspace)s
    and (workflow, name) in
      (select workflow, name from snapshots.leases
       where tenant = %(tenant)s and workspace = %(workspace)s
         and expires_ms <= (select snapshots.now_ms(%(now)s::bigint))
       order by expires_ms limit %(limit)s)
  returning token)
select count(*), max(token) from gone"""
RAISE_FLOOR: Final = """
insert into snapshots.lease_floors (tenant, workspace, token)
values (%(tenant)s, %(workspace)s, %(token)s)
on conflict (tenant, workspace)
do update set token = greatest(lease_floors.token, excluded.token)"""
SIZE: Final = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'snapshots' and c.relkind = 'r'"""


class PostgresBackend:
    """A `Backend` in PostgreSQL, for any thread; `open_storage("postgresql://…")` makes it."""

    is_local: Final = False

    def __init__(self, url: str, *, clock: Clock | None = None) -> None:
        """Connect to `url`, whose schema is brought to its last step; by the server's clock."""
        self._clock = clock
        self._connections = Connections(url, clock=clock)
        self.keyed = PostgresKeyedStates(self._connections)
        self.leases = PostgresLeases(self._connections)
        self.carry = PostgresCarryStates(self._connections)
        self.workspaces = PostgresWorkspaces(self._connections, self.leases)

    def __repr__(self) -> str:
        return f"<PostgresBackend {self.path!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The address of the database, without its password."""
        return self._connections.path

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._connections.transaction(scope)

    def sweep(self, *, slice_rows: int = limits.SWEEP_SLICE_ROWS) -> int:
        """See `Backend.sweep`; one transaction for each workspace that has something to delete."""
        left = slice_rows
        for scope in self._expired(slice_rows):
            if left == 0:
                break
            with self._connections.transaction(scope, "sweep") as work:
                left -= _sweep_keyed(work, left)
                left -= _sweep_leases(work, left)
        return slice_rows - left

    def stats(self) -> StorageStats:
        """See `Backend.stats`; of the tables and their indexes, of all workspaces together."""
        with self._connections.connected("read stats") as connection:
            row = connection.execute(SIZE).fetchone()
        assert row is not None, "an aggregate has one row"
        return StorageStats(backend="postgres", total_bytes=row[0], free_bytes=None)

    def close(self) -> None:
        """Close every connection; a second time is harmless."""
        try:
            self.workspaces.close()
        finally:
            self._connections.close()

    def _expired(self, rows: int) -> list[Scope]:
        """Return workspaces that have rows to sweep: all of them, or at least `rows`."""
        now = None if self._clock is None else self._clock.now_ms()
        with self._connections.connected("sweep") as connection:
            connection.execute(SHOW_EXPIRED, {"now": now})
            found = connection.execute(EXPIRED, {"limit": rows}).fetchall()
        return [Scope(tenant=row[0], workspace=row[1]) for row in found]


def _sweep_keyed(work: Work, rows: int) -> int:
    return work.run(SWEEP_KEYED, {**_workspace(work), "limit": rows}).rowcount


def _sweep_leases(work: Work, rows: int) -> int:
    """Delete leases that nobody holds, and keep the greatest token: no claim has it again."""
    row = work.run(SWEEP_LEASES, {**_workspace(work), "limit": rows}).fetchone()
    assert row is not None, "an aggregate has one row"
    count, token = row
    if count:
        work.run(RAISE_FLOOR, {**_workspace(work), "token": token})
    return int(count)


def _workspace(work: Work) -> dict[str, object]:
    tenant, workspace = work.workspace
    return {"tenant": tenant, "workspace": workspace}
