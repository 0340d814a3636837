"""Workspaces in PostgreSQL."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, LiteralString

from snapshots.errors import StorageError
from snapshots.storage.backends.postgres.listening import NOTIFY, Listener, mark
from snapshots.storage.leasing import Leasing
from snapshots.storage.workspaces.rows import EntityRow, HistoryRow, LogRow
from snapshots.storage.workspaces.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from snapshots.storage.backends.postgres.connections import Connections, Work
    from snapshots.storage.backends.postgres.leases import PostgresLeases
    from snapshots.storage.rows import Lease
    from snapshots.storage.scopes import Scope
    from snapshots.storage.workspaces.protocols import Watch
    from snapshots.storage.workspaces.rows import Batch, EntityKind

# Asked once the row is locked: by then everything before it is committed, and earlier.
BEGIN: Final = """
select seq, snapshots.now_ms(%(now)s::bigint) from snapshots.workspaces
where tenant = %(tenant)s and workspace = %(workspace)s"""
SEQ: Final = """
select seq from snapshots.workspaces where tenant = %(tenant)s and workspace = %(workspace)s"""
MOVE: Final = """
update snapshots.workspaces set seq = %(seq)s
where tenant = %(tenant)s and workspace = %(workspace)s"""

ENTITY: Final = """
select kind, key, label, revision, created_ms, updated_ms, data from snapshots.workspace_entities
where tenant = %(tenant)s and workspace = %(workspace)s and kind = %(kind)s and key = %(key)s"""
ENTITIES: Final = """
select kind, key, label, revision, created_ms, updated_ms, data from snapshots.workspace_entities
where tenant = %(tenant)s and workspace = %(workspace)s and kind = %(kind)s and key > %(after)s
order by key limit %(limit)s"""
LABELLED: Final = """
select kind, key, label, revision, created_ms, updated_ms, data from snapshots.workspace_entities
where tenant = %(tenant)s and workspace = %(workspace)s and kind = %(kind)s
  and label = %(label)s and key > %(after)s
order by key limit %(limit)s"""
PUT: Final = """
insert into snapshots.workspace_entities
  (tenant, workspace, kind, key, label, revision, created_ms, updated_ms, data)
values (%(tenant)s, %(workspace)s, %(kind)s, %(key)s, %(label)s, %(revision)s, %(created_ms)s,
  %(updated_ms)s, %(data)s)
on conflict (tenant, workspace, kind, key) do update set label = excluded.label,
  revision = excluded.revision, updated_ms = excluded.updated_ms, data = excluded.data"""

LOG: Final = """
select seq, kind, subject, thread, run, at_ms, data from snapshots.workspace_log
where tenant = %(tenant)s and workspace = %(workspace)s and seq > %(after_seq)s
order by seq limit %(limit)s"""
# Two ranges of one index, merged: as many lines are read as are returned, and none is sorted.
OLDEST: Final = """
(select seq, kind, subject, thread, run, at_ms, data from snapshots.workspace_log
 where tenant = %(tenant)s and workspace = %(workspace)s and audience = ''
   and seq > %(after_seq)s order by seq limit %(limit)s)
union all
(select seq, kind, subject, thread, run, at_ms, data from snapshots.workspace_log
 where tenant = %(tenant)s and workspace = %(workspace)s and audience = %(thread)s
   and seq > %(after_seq)s order by seq limit %(limit)s)
order by seq limit %(limit)s"""
NEWEST: Final = """
(select seq, kind, subject, thread, run, at_ms, data from snapshots.workspace_log
 where tenant = %(tenant)s and workspace = %(workspace)s and audience = ''
   and seq > %(after_seq)s order by seq desc limit %(limit)s)
union all
(select seq, kind, subject, thread, run, at_ms, data from snapshots.workspace_log
 where tenant = %(tenant)s and workspace = %(workspace)s and audience = %(thread)s
   and seq > %(after_seq)s order by seq desc limit %(limit)s)
order by seq desc limit %(limit)s"""
APPEND: Final = """
insert into snapshots.workspace_log
  (tenant, workspace, seq, kind, subject, thread, run, at_ms, data)
values (%(tenant)s, %(workspace)s, %(seq)s, %(kind)s, %(subject)s, %(thread)s, %(run)s, %(at_ms)s,
  %(data)s)"""
HISTORY: Final = """
select thread, run, segment, seq, at_ms, payload from snapshots.workspace_history
where tenant = %(tenant)s and workspace = %(workspace)s and thread = %(thread)s
  and seq > %(after_seq)s and (%(run)s::text is null or run = %(run)s)
order by seq limit %(limit)s"""
APPEND_HISTORY: Final = """
insert into snapshots.workspace_history
  (tenant, workspace, thread, seq, run, segment, at_ms, payload)
values (%(tenant)s, %(workspace)s, %(thread)s, %(seq)s, %(run)s, %(segment)s, %(at_ms)s,
  %(payload)s)"""

_READ_THE_LOG: Final = "read the log"
_UNCOMMITTED: Final = "a transaction is open in this thread; read before it or behind it"


class PostgresWorkspaces(Leasing):
    """`Storage` of workspaces in PostgreSQL."""

    _leases: PostgresLeases

    def __init__(self, connections: Connections, leases: PostgresLeases) -> None:
        """Use `connections`, and the `leases` that are reached by them."""
        self._connections = connections
        self._leases = leases
        self._listener = Listener(connections.url)

    @contextmanager
    def transaction(self, scope: Scope) -> Iterator[Staging]:
        """See `Storage.transaction`; its lock is that of the workspace's row."""
        with self._connections.transaction(scope) as work:
            row = work.run(BEGIN, _place(scope)).fetchone()
            assert row is not None, "the row was locked"
            ground = _Ground(work, self._leases, scope)
            path = self._connections.path
            staging = Staging(ground, seq=row[0], now_ms=row[1], path=path)
            try:
                yield staging
                batch = staging.finish()
                ground.apply(batch)
            finally:
                staging.abandon()
        if batch:
            self._tell(scope)

    def seq(self, scope: Scope) -> int:
        """See `Storage.seq`."""
        with self._connections.working(scope, _READ_THE_LOG) as work:
            row = work.run(SEQ, _place(scope)).fetchone()
        return 0 if row is None else int(row[0])

    def entity(self, scope: Scope, kind: EntityKind, key: str) -> EntityRow | None:
        """See `Storage.entity`."""
        with self._connections.working(scope, f"read {kind}") as work:
            return _read_entity(work, scope, kind, key)

    def entities(
        self,
        scope: Scope,
        kind: EntityKind,
        *,
        label: str | None = None,
        after: str = "",
        limit: int,
    ) -> list[EntityRow]:
        """See `Storage.entities`."""
        sql = ENTITIES if label is None else LABELLED
        values = {**_place(scope), "kind": kind, "label": label, "after": after, "limit": limit}
        with self._connections.working(scope, f"list {kind}s") as work:
            return [EntityRow.of(row) for row in work.run(sql, values).fetchall()]

    def log(self, scope: Scope, *, after_seq: int, limit: int) -> list[LogRow]:
        """See `Storage.log`."""
        return self._lines(scope, LOG, {"after_seq": after_seq, "limit": limit})

    def delivered(
        self, scope: Scope, thread: str, *, after_seq: int, limit: int, newest: bool = False
    ) -> list[LogRow]:
        """See `Storage.delivered`."""
        values = {"thread": thread, "after_seq": after_seq, "limit": limit}
        if newest:
            return self._lines(scope, NEWEST, values)[::-1]
        return self._lines(scope, OLDEST, values)

    def history(
        self, scope: Scope, thread: str, *, after_seq: int, limit: int, run: str | None = None
    ) -> list[HistoryRow]:
        """See `Storage.history`."""
        values = {**_place(scope), "thread": thread, "run": run}
        values |= {"after_seq": after_seq, "limit": limit}
        with self._connections.working(scope, "read history") as work:
            rows = work.run(HISTORY, values).fetchall()
        return [HistoryRow.of(row) for row in rows]

    def watch(self, scope: Scope, wake: Callable[[], None]) -> Watch:
        """See `Storage.watch`; what other processes write gives a hint by NOTIFY."""
        self._connections.require_usable("watch a workspace")
        return self._listener.watch(scope, wake)

    def close(self) -> None:
        """Stop listening; the connections are somebody else's to close."""
        self._listener.close()

    def _lines(self, scope: Scope, sql: LiteralString, values: dict[str, Any]) -> list[LogRow]:
        if self._connections.is_in_transaction:
            raise StorageError(_READ_THE_LOG, self._connections.path, _UNCOMMITTED)
        with self._connections.working(scope, _READ_THE_LOG) as work:
            return [LogRow.of(row) for row in work.run(sql, {**_place(scope), **values}).fetchall()]

    def _tell(self, scope: Scope) -> None:
        """Give the hint that something was stored.

        In a transaction of its own: a commit that notifies waits for each other one that does, in
        all databases of the server, and one that has written waits for the disk meanwhile.
        """
        self._listener.ring(scope)
        # What was stored is stored, and whoever waits for it looks by itself too.
        with suppress(StorageError), self._connections.connected("notify") as connection:
            connection.execute(NOTIFY, (mark(scope),))


class _Ground:
    """A workspace whose row is locked, as `Staging` stands on it."""

    def __init__(self, work: Work, leases: PostgresLeases, scope: Scope) -> None:
        self._work = work
        self._leases = leases
        self._scope = scope

    def entity(self, kind: EntityKind, key: str) -> EntityRow | None:
        return _read_entity(self._work, self._scope, kind, key)

    def require(self, lease: Lease) -> None:
        self._leases.require(lease)

    def apply(self, batch: Batch) -> None:
        """Write everything that was staged."""
        self._run_all(PUT, [_values(row) for row in batch.entities])
        self._run_all(APPEND, [_values(row) for row in batch.log])
        self._run_all(APPEND_HISTORY, [_values(row) for row in batch.history])
        if batch.log:
            self._run_all(MOVE, [{"seq": batch.log[-1].seq}])

    def _run_all(self, statement: LiteralString, rows: list[dict[str, Any]]) -> None:
        """Run a statement for each row, all of them in one round trip."""
        if rows:
            place = _place(self._scope)
            with self._work.connection.cursor() as cursor:
                cursor.executemany(statement, [place | row for row in rows])


def _read_entity(work: Work, scope: Scope, kind: EntityKind, key: str) -> EntityRow | None:
    row = work.run(ENTITY, {**_place(scope), "kind": kind, "key": key}).fetchone()
    return None if row is None else EntityRow.of(row)


def _values(row: EntityRow | LogRow | HistoryRow) -> dict[str, Any]:
    """Return a row's fields by name, as its statement has them."""
    return {name: getattr(row, name) for name in row.__slots__}


def _place(scope: Scope) -> dict[str, Any]:
    return {"tenant": scope.tenant, "workspace": scope.workspace}
