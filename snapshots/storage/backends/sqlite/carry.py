"""Carry state in the file of the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.errors import RevisionConflictError
from snapshots.storage.rows import CarryRecord, check_payload, check_whole
from snapshots.storage.scopes import check_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.storage.backends.sqlite.file import StorageFile
    from snapshots.storage.scopes import Scope

LOAD: Final = """
select contract_version, revision, updated_ms, payload from carry
where tenant = ? and workspace = ? and workflow = ? and key = ?"""
CREATE: Final = """
insert into carry
  (contract_version, revision, updated_ms, payload, tenant, workspace, workflow, key)
values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (tenant, workspace, workflow, key) do nothing"""
SAVE: Final = """
update carry set contract_version = ?, revision = ?, updated_ms = ?, payload = ?
where tenant = ? and workspace = ? and workflow = ? and key = ? and revision = ?"""
CLEAR: Final = """
delete from carry where tenant = ? and workspace = ? and workflow = ? and key = ?"""


class SqliteCarryStates:
    """`CarryStates` in a file of SQLite."""

    def __init__(self, file: StorageFile, clock: Clock) -> None:
        """Use `file`, by `clock`."""
        self._file = file
        self._clock = clock

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._file.transaction(scope)

    def load(self, scope: Scope, key: str) -> CarryRecord | None:
        """See `CarryStates.load`."""
        row = self._file.row(scope, f"load carry state {key!r}", LOAD, _place(scope, key))
        if row is None:
            return None
        return CarryRecord(
            contract_version=row[0], revision=row[1], updated_ms=row[2], payload=row[3]
        )

    def save(
        self,
        scope: Scope,
        key: str,
        *,
        contract_version: int,
        payload: bytes,
        expected_revision: int,
    ) -> CarryRecord:
        """See `CarryStates.save`."""
        place = _place(scope, key)
        check_payload(payload, key)
        check_whole("expected_revision", expected_revision)
        with self._file.writing(scope, f"save carry state {key!r}") as database:
            record = CarryRecord(
                contract_version=contract_version,
                revision=expected_revision + 1,
                payload=bytes(payload),
                updated_ms=self._clock.now_ms(),
            )
            written = (contract_version, record.revision, record.updated_ms, record.payload, *place)
            if expected_revision == 0:
                database.run(CREATE, written)
            else:
                database.run(SAVE, (*written, expected_revision))
            if database.changes() == 0:
                stored = self.load(scope, key)
                actual = None if stored is None else stored.revision
                raise RevisionConflictError(key, expected_revision, actual)
        return record

    def clear(self, scope: Scope, key: str) -> None:
        """See `CarryStates.clear`."""
        place = _place(scope, key)
        with self._file.writing(scope, f"clear carry state {key!r}") as database:
            database.run(CLEAR, place)


def _place(scope: Scope, key: str) -> tuple[str, str, str, str]:
    return scope.tenant, scope.workspace, scope.workflow, check_text(key, "a key")
