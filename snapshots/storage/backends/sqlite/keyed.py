"""Keyed state in the file of the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.storage.rows import KeyedEntry, check_count, check_ttl, check_value
from snapshots.storage.scopes import check_fitting, check_text, end_of_prefix

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.storage.backends.sqlite.file import StorageFile
    from snapshots.storage.scopes import Scope

GET: Final = """
select value from keyed where tenant = ? and workspace = ? and workflow = ? and key = ?
  and (expires_ms is null or expires_ms > ?)"""
EXISTS: Final = """
select 1 from keyed where tenant = ? and workspace = ? and workflow = ? and key = ?
  and (expires_ms is null or expires_ms > ?)"""
PUT: Final = """
insert into keyed (tenant, workspace, workflow, key, expires_ms, value) values (?, ?, ?, ?, ?, ?)
on conflict (tenant, workspace, workflow, key)
do update set expires_ms = excluded.expires_ms, value = excluded.value"""
PUT_IF_ABSENT: Final = """
insert into keyed (tenant, workspace, workflow, key, expires_ms, value) values (?, ?, ?, ?, ?, ?)
on conflict (tenant, workspace, workflow, key)
do update set expires_ms = excluded.expires_ms, value = excluded.value
where keyed.expires_ms <= ?"""
REPLACE: Final = """
update keyed set value = ? where tenant = ? and workspace = ? and workflow = ? and key = ?
  and (expires_ms is null or expires_ms > ?)"""
DELETE: Final = """
delete from keyed where tenant = ? and workspace = ? and workflow = ? and key = ?
  and (expires_ms is null or expires_ms > ?)"""
# SQLite compares texts by their bytes, which in UTF-8 is the order of code points.
LIST: Final = """
select key, value, expires_ms from keyed where tenant = ? and workspace = ? and workflow = ?
  and key >= ? and key > ? and key < ? and (expires_ms is null or expires_ms > ?)
order by key limit ?"""
SWEPT: Final = """
select length(value) from keyed indexed by keyed_expiring where expires_ms <= ?
order by expires_ms limit ?"""
SWEEP: Final = """
delete from keyed where rowid in
  (select rowid from keyed indexed by keyed_expiring where expires_ms <= ?
   order by expires_ms limit ?)"""


class SqliteKeyedStates:
    """`KeyedStates` in a file of SQLite."""

    def __init__(self, file: StorageFile, clock: Clock) -> None:
        """Use `file`, by `clock`."""
        self._file = file
        self._clock = clock

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._file.transaction(scope)

    def get(self, scope: Scope, key: str) -> bytes | None:
        """See `KeyedStates.get`."""
        place = _place(scope, key)
        row = self._file.row(scope, f"get {key!r}", GET, (*place, self._clock.now_ms()))
        return None if row is None else row[0]

    def exists(self, scope: Scope, key: str) -> bool:
        """See `KeyedStates.exists`."""
        bindings = (*_place(scope, key), self._clock.now_ms())
        return self._file.row(scope, f"look for {key!r}", EXISTS, bindings) is not None

    def put(self, scope: Scope, key: str, value: bytes, *, ttl_ms: int | None = None) -> None:
        """See `KeyedStates.put`."""
        place = _place(scope, key)
        _check(key, value, ttl_ms)
        with self._file.writing(scope, f"put {key!r}") as database:
            expires = _expiry(self._clock.now_ms(), ttl_ms)
            database.run(PUT, (*place, expires, value))

    def put_if_absent(
        self, scope: Scope, key: str, value: bytes, *, ttl_ms: int | None = None
    ) -> bool:
        """See `KeyedStates.put_if_absent`."""
        place = _place(scope, key)
        _check(key, value, ttl_ms)
        with self._file.writing(scope, f"put {key!r} if absent") as database:
            now = self._clock.now_ms()
            database.run(PUT_IF_ABSENT, (*place, _expiry(now, ttl_ms), value, now))
            return database.changes() == 1

    def replace(self, scope: Scope, key: str, value: bytes) -> bool:
        """See `KeyedStates.replace`."""
        place = _place(scope, key)
        check_value(value, key)
        with self._file.writing(scope, f"replace {key!r}") as database:
            database.run(REPLACE, (value, *place, self._clock.now_ms()))
            return database.changes() == 1

    def delete(self, scope: Scope, key: str) -> bool:
        """See `KeyedStates.delete`."""
        place = _place(scope, key)
        with self._file.writing(scope, f"delete {key!r}") as database:
            database.run(DELETE, (*place, self._clock.now_ms()))
            return database.changes() == 1

    def list(
        self,
        scope: Scope,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int = limits.LIST_ROWS_MAX,
    ) -> list[KeyedEntry]:
        """See `KeyedStates.list`."""
        check_fitting(prefix, "a prefix")
        behind = "" if after is None else check_fitting(after, "a key")
        place = (scope.tenant, scope.workspace, scope.workflow)
        within = (prefix, behind, end_of_prefix(prefix))
        bindings = (*place, *within, self._clock.now_ms(), check_count(limit))
        rows = self._file.rows(scope, f"list {prefix!r}", LIST, bindings)
        return [KeyedEntry(key=row[0], value=row[1], expires_ms=row[2]) for row in rows]


def _place(scope: Scope, key: str) -> tuple[str, str, str, str]:
    return scope.tenant, scope.workspace, scope.workflow, check_text(key, "a key")


def _check(key: str, value: bytes, ttl_ms: int | None) -> None:
    check_value(value, key)
    if ttl_ms is not None:
        check_ttl(ttl_ms)


def _expiry(now_ms: int, ttl_ms: int | None) -> int | None:
    return None if ttl_ms is None else now_ms + ttl_ms
