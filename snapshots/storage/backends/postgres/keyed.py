"""Keyed state in PostgreSQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.storage.rows import KeyedEntry, check_count, check_ttl, check_value
from snapshots.storage.scopes import check_fitting, check_text, end_of_prefix

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.storage.backends.postgres.connections import Connections
    from snapshots.storage.scopes import Scope

# The time is a scalar subquery, so that one statement knows one moment.
GET: Final = """
select value from snapshots.keyed
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key = %(key)s
  and (expires_ms is null or expires_ms > (select snapshots.now_ms(%(now)s::bigint)))"""
EXISTS: Final = """
select 1 from snapshots.keyed
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key = %(key)s
  and (expires_ms is null or expires_ms > (select snapshots.now_ms(%(now)s::bigint)))"""
PUT: Final = """
insert into snapshots.keyed (tenant, workspace, workflow, key, expires_ms, value)
values (%(tenant)s, %(workspace)s, %(workflow)s, %(key)s,
  (select snapshots.now_ms(%(now)s::bigint)) + %(ttl)s::bigint, %(value)s)
on conflict (tenant, workspace, workflow, key)
do update set expires_ms = excluded.expires_ms, value = excluded.value"""
PUT_IF_ABSENT: Final = """
insert into snapshots.keyed (tenant, workspace, workflow, key, expires_ms, value)
values (%(tenant)s, %(workspace)s, %(workflow)s, %(key)s,
  (select snapshots.now_ms(%(now)s::bigint)) + %(ttl)s::bigint, %(value)s)
on conflict (tenant, workspace, workflow, key)
do update set expires_ms = excluded.expires_ms, value = excluded.value
where keyed.expires_ms <= (select snapshots.now_ms(%(now)s::bigint))"""
REPLACE: Final = """
update snapshots.keyed set value = %(value)s
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key = %(key)s
  and (expires_ms is null or expires_ms > (select snapshots.now_ms(%(now)s::bigint)))"""
DELETE: Final = """
delete from snapshots.keyed
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key = %(key)s
  and (expires_ms is null or expires_ms > (select snapshots.now_ms(%(now)s::bigint)))"""
LIST: Final = """
select key, value, expires_ms from snapshots.keyed
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key >= %(prefix)s and key > %(after)s and key < %(end)s
  and (expires_ms is null or expires_ms > (select snapshots.now_ms(%(now)s::bigint)))
order by key limit %(limit)s"""


class PostgresKeyedStates:
    """`KeyedStates` in PostgreSQL."""

    def __init__(self, connections: Connections) -> None:
        """Use `connections`."""
        self._connections = connections

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._connections.transaction(scope)

    def get(self, scope: Scope, key: str) -> bytes | None:
        """See `KeyedStates.get`."""
        place = _place(scope, key)
        with self._connections.working(scope, f"get {key!r}") as work:
            row = work.run(GET, place).fetchone()
        return None if row is None else row[0]

    def exists(self, scope: Scope, key: str) -> bool:
        """See `KeyedStates.exists`."""
        place = _place(scope, key)
        with self._connections.working(scope, f"look for {key!r}") as work:
            return work.run(EXISTS, place).fetchone() is not None

    def put(self, scope: Scope, key: str, value: bytes, *, ttl_ms: int | None = None) -> None:
        """See `KeyedStates.put`."""
        row = _row(scope, key, value, ttl_ms)
        with self._connections.working(scope, f"put {key!r}", alone=True) as work:
            work.run(PUT, row)

    def put_if_absent(
        self, scope: Scope, key: str, value: bytes, *, ttl_ms: int | None = None
    ) -> bool:
        """See `KeyedStates.put_if_absent`."""
        row = _row(scope, key, value, ttl_ms)
        with self._connections.working(scope, f"put {key!r} if absent") as work:
            # Found there, it was there: such an answer waits for nobody and locks no row, and
            # a lock is a write. That it was not found decides nothing: the one statement does.
            if work.run(EXISTS, _place(scope, key)).fetchone() is not None:
                return False
            work.have_alone()
            return work.run(PUT_IF_ABSENT, row).rowcount == 1

    def replace(self, scope: Scope, key: str, value: bytes) -> bool:
        """See `KeyedStates.replace`."""
        values = {**_place(scope, key), "value": check_value(value, key)}
        with self._connections.working(scope, f"replace {key!r}", alone=True) as work:
            return work.run(REPLACE, values).rowcount == 1

    def delete(self, scope: Scope, key: str) -> bool:
        """See `KeyedStates.delete`."""
        place = _place(scope, key)
        with self._connections.working(scope, f"delete {key!r}", alone=True) as work:
            return work.run(DELETE, place).rowcount == 1

    def list(
        self,
        scope: Scope,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int = limits.LIST_ROWS_MAX,
    ) -> list[KeyedEntry]:
        """See `KeyedStates.list`."""
        values = {
            "tenant": scope.tenant,
            "workspace": scope.workspace,
            "workflow": scope.workflow,
            "prefix": check_fitting(prefix, "a prefix"),
            "end": end_of_prefix(prefix),
            "after": "" if after is None else check_fitting(after, "a key"),
            "limit": check_count(limit),
        }
        with self._connections.working(scope, f"list {prefix!r}") as work:
            rows = work.run(LIST, values).fetchall()
        return [KeyedEntry(key=row[0], value=row[1], expires_ms=row[2]) for row in rows]


def _place(scope: Scope, key: str) -> dict[str, object]:
    return {
        "tenant": scope.tenant,
        "workspace": scope.workspace,
        "workflow": scope.workflow,
        "key": check_text(key, "a key"),
    }


def _row(scope: Scope, key: str, value: bytes, ttl_ms: int | None) -> dict[str, object]:
    place = _place(scope, key)
    ttl = None if ttl_ms is None else check_ttl(ttl_ms)
    return {**place, "value": check_value(value, key), "ttl": ttl}
