"""Workspaces in the file of the runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from snapshots.errors import StorageError
from snapshots.storage.leasing import Leasing
from snapshots.storage.workspaces.hints import Hints, place
from snapshots.storage.workspaces.rows import EntityRow, HistoryRow, LogRow
from snapshots.storage.workspaces.staging import Staging

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from snapshots.clock import Clock
    from snapshots.database import Database, Row
    from snapshots.storage.backends.sqlite.file import StorageFile
    from snapshots.storage.backends.sqlite.leases import SqliteLeases
    from snapshots.storage.rows import Lease
    from snapshots.storage.scopes import Scope
    from snapshots.storage.workspaces.protocols import Watch
    from snapshots.storage.workspaces.rows import Batch, EntityKind

FIND: Final = "select id, seq from workspaces where tenant = ? and workspace = ?"
MAKE: Final = "insert into workspaces (tenant, workspace, seq) values (?, ?, ?)"
MOVE: Final = "update workspaces set seq = ? where id = ?"

ENTITY: Final = """
select kind, key, label, revision, created_ms, updated_ms, data from workspace_entities
where workspace = ? and kind = ? and key = ?"""
ENTITIES: Final = """
select kind, key, label, revision, created_ms, updated_ms, data from workspace_entities
where workspace = ? and kind = ? and key > ? order by key limit ?"""
LABELLED: Final = """
select kind, key, label, revision, created_ms, updated_ms, data from workspace_entities
where workspace = ? and kind = ? and label = ? and key > ? order by key limit ?"""
PUT: Final = """
insert into workspace_entities
  (workspace, kind, key, label, revision, created_ms, updated_ms, data)
values (?, ?, ?, ?, ?, ?, ?, ?)
on conflict (workspace, kind, key) do update set label = excluded.label,
  revision = excluded.revision, updated_ms = excluded.updated_ms, data = excluded.data"""

LOG: Final = """
select seq, kind, subject, thread, run, at_ms, data from workspace_log
where workspace = ? and seq > ? order by seq limit ?"""
# Two ranges of one index, merged: as many lines are read as are returned, and none is sorted.
# Without numbers about the table SQLite would rather walk along its key.
OLDEST: Final = """
select seq, kind, subject, thread, run, at_ms, data from workspace_log
indexed by workspace_audience where workspace = ?1 and audience = '' and seq > ?3
union all
select seq, kind, subject, thread, run, at_ms, data from workspace_log
indexed by workspace_audience where workspace = ?1 and audience = ?2 and seq > ?3
order by seq limit ?4"""
NEWEST: Final = """
select seq, kind, subject, thread, run, at_ms, data from workspace_log
indexed by workspace_audience where workspace = ?1 and audience = '' and seq > ?3
union all
select seq, kind, subject, thread, run, at_ms, data from workspace_log
indexed by workspace_audience where workspace = ?1 and audience = ?2 and seq > ?3
order by seq desc limit ?4"""
APPEND: Final = """
insert into workspace_log (workspace, seq, kind, subject, thread, run, at_ms, data)
values (?, ?, ?, ?, ?, ?, ?, ?)"""
HISTORY: Final = """
select thread, run, segment, seq, at_ms, payload from workspace_history
where workspace = ? and thread = ? and seq > ? and run = coalesce(?, run) order by seq limit ?"""
APPEND_HISTORY: Final = """
insert into workspace_history (workspace, thread, seq, run, segment, at_ms, payload)
values (?, ?, ?, ?, ?, ?, ?)"""

_READ_THE_LOG: Final = "read the log"
_UNCOMMITTED: Final = "a transaction is open on this connection; read before it or behind it"


class SqliteWorkspaces(Leasing):
    """`Storage` of workspaces in a store's own file, in its transactions and its term.

    Inside `store.transaction()` a workspace's transaction becomes a part of it.
    """

    _leases: SqliteLeases

    def __init__(self, file: StorageFile, leases: SqliteLeases, clock: Clock) -> None:
        """Use `file`, and the `leases` in it, by `clock`."""
        self._file = file
        self._leases = leases
        self._clock = clock
        self._hints = Hints()

    @contextmanager
    def transaction(self, scope: Scope) -> Iterator[Staging]:
        """See `Storage.transaction`; the whole file has one writer at a time."""
        with self._file.transaction(scope):
            ground = _Ground(self._file.database, self._leases, scope)
            now, file = self._clock.now_ms(), self._file.path
            staging = Staging(ground, seq=ground.seq, now_ms=now, path=file)
            try:
                yield staging
                batch = staging.finish()
                ground.apply(batch)
            finally:
                staging.abandon()
            if batch:
                self._file.database.after_commit(lambda: self._hints.ring(place(scope)))

    def seq(self, scope: Scope) -> int:
        """See `Storage.seq`."""
        found = self._find(scope, _READ_THE_LOG)
        return 0 if found is None else int(found[1])

    def entity(self, scope: Scope, kind: EntityKind, key: str) -> EntityRow | None:
        """See `Storage.entity`."""
        rows = self._rows(scope, f"read {kind}", ENTITY, (kind, key))
        return EntityRow.of(rows[0]) if rows else None

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
        if label is None:
            rows = self._rows(scope, f"list {kind}s", ENTITIES, (kind, after, limit))
        else:
            rows = self._rows(scope, f"list {kind}s", LABELLED, (kind, label, after, limit))
        return [EntityRow.of(row) for row in rows]

    def log(self, scope: Scope, *, after_seq: int, limit: int) -> list[LogRow]:
        """See `Storage.log`."""
        return self._lines(scope, LOG, (after_seq, limit))

    def delivered(
        self, scope: Scope, thread: str, *, after_seq: int, limit: int, newest: bool = False
    ) -> list[LogRow]:
        """See `Storage.delivered`."""
        if newest:
            return self._lines(scope, NEWEST, (thread, after_seq, limit))[::-1]
        return self._lines(scope, OLDEST, (thread, after_seq, limit))

    def history(
        self, scope: Scope, thread: str, *, after_seq: int, limit: int, run: str | None = None
    ) -> list[HistoryRow]:
        """See `Storage.history`."""
        rows = self._rows(scope, "read history", HISTORY, (thread, after_seq, run, limit))
        return [HistoryRow.of(row) for row in rows]

    def watch(self, scope: Scope, wake: Callable[[], None]) -> Watch:
        """See `Storage.watch`; what other connections write gives no hint."""
        self._file.require_usable("watch a workspace")
        return self._hints.watch(place(scope), wake)

    def _find(self, scope: Scope, operation: str) -> Row | None:
        return self._file.row(scope, operation, FIND, (scope.tenant, scope.workspace))

    def _lines(self, scope: Scope, sql: str, bindings: tuple[object, ...]) -> list[LogRow]:
        if self._file.is_in_transaction:
            raise StorageError(_READ_THE_LOG, self._file.path, _UNCOMMITTED)
        return [LogRow.of(row) for row in self._rows(scope, _READ_THE_LOG, sql, bindings)]

    def _rows(
        self, scope: Scope, operation: str, sql: str, bindings: tuple[object, ...]
    ) -> list[Row]:
        """Return rows of a workspace, which once it is there keeps its number."""
        found = self._find(scope, operation)
        return (
            [] if found is None else self._file.rows(scope, operation, sql, (found[0], *bindings))
        )


class _Ground:
    """A workspace in a transaction of the file, as `Staging` stands on it."""

    def __init__(self, database: Database, leases: SqliteLeases, scope: Scope) -> None:
        self._database = database
        self._leases = leases
        self._scope = scope
        found = database.row("find the workspace", FIND, (scope.tenant, scope.workspace))
        self._workspace: int | None = None if found is None else found[0]
        self.seq: int = 0 if found is None else found[1]

    def entity(self, kind: EntityKind, key: str) -> EntityRow | None:
        if self._workspace is None:
            return None
        row = self._database.row(f"read {kind}", ENTITY, (self._workspace, kind, key))
        return None if row is None else EntityRow.of(row)

    def require(self, lease: Lease) -> None:
        self._leases.require(lease)

    def apply(self, batch: Batch) -> None:
        """Write everything that was staged."""
        if not batch:
            return
        run, seq = self._database.run, self.seq + len(batch.log)
        if self._workspace is None:
            run(MAKE, (self._scope.tenant, self._scope.workspace, seq))
            self._workspace = self._database.last_row()
        elif batch.log:
            run(MOVE, (seq, self._workspace))
        for entity in batch.entities:
            run(PUT, (self._workspace, *_values(entity)))
        for line in batch.log:
            told = (line.kind, line.subject, line.thread, line.run, line.at_ms, line.data)
            run(APPEND, (self._workspace, line.seq, *told))
        for segment in batch.history:
            place_of = (self._workspace, segment.thread, segment.seq)
            run(
                APPEND_HISTORY,
                (*place_of, segment.run, segment.segment, segment.at_ms, segment.payload),
            )


def _values(row: EntityRow) -> tuple[object, ...]:
    made = (row.kind, row.key, row.label, row.revision)
    return (*made, row.created_ms, row.updated_ms, row.data)
