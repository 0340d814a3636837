"""Carry state in PostgreSQL: each save one guarded statement, which takes no lock before it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.errors import RevisionConflictError
from snapshots.storage.rows import CarryRecord, check_payload, check_whole
from snapshots.storage.scopes import check_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from snapshots.storage.backends.postgres.connections import Connections
    from snapshots.storage.scopes import Scope

LOAD: Final = """
select contract_version, revision, updated_ms, payload from snapshots.carry
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key = %(key)s"""
CREATE: Final = """
insert into snapshots.carry
  (tenant, workspace, workflow, key, contract_version, revision, updated_ms, payload)
values (%(tenant)s, %(workspace)s, %(workflow)s, %(key)s, %(contract_version)s, 1,
  snapshots.now_ms(%(now)s::bigint), %(payload)s)
on conflict (tenant, workspace, workflow, key) do nothing
returning updated_ms"""
SAVE: Final = """
update snapshots.carry set contract_version = %(contract_version)s, revision = revision + 1,
  updated_ms = snapshots.now_ms(%(now)s::bigint), payload = %(payload)s
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key = %(key)s and revision = %(expected)s
returning updated_ms"""
ACTUAL: Final = """
select revision from snapshots.carry
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key = %(key)s"""
CLEAR: Final = """
delete from snapshots.carry
where tenant = %(tenant)s and workspace = %(workspace)s and workflow = %(workflow)s
  and key = %(key)s"""


class PostgresCarryStates:
    """`CarryStates` in PostgreSQL."""

    def __init__(self, connections: Connections) -> None:
        """Use `connections`."""
        self._connections = connections

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """See `Transactions.transaction`."""
        return self._connections.transaction(scope)

    def load(self, scope: Scope, key: str) -> CarryRecord | None:
        """See `CarryStates.load`."""
        place = _place(scope, key)
        with self._connections.working(scope, f"load carry state {key!r}") as work:
            row = work.run(LOAD, place).fetchone()
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
        values = {
            **place,
            "contract_version": contract_version,
            "payload": payload,
            "expected": expected_revision,
        }
        with self._connections.working(scope, f"save carry state {key!r}") as work:
            written = work.run(CREATE if expected_revision == 0 else SAVE, values).fetchone()
            if written is None:
                stored = work.run(ACTUAL, place).fetchone()
                actual = None if stored is None else stored[0]
                raise RevisionConflictError(key, expected_revision, actual)
        return CarryRecord(
            contract_version=contract_version,
            revision=expected_revision + 1,
            payload=bytes(payload),
            updated_ms=written[0],
        )

    def clear(self, scope: Scope, key: str) -> None:
        """See `CarryStates.clear`."""
        place = _place(scope, key)
        with self._connections.working(scope, f"clear carry state {key!r}") as work:
            work.run(CLEAR, place)


def _place(scope: Scope, key: str) -> dict[str, object]:
    return {
        "tenant": scope.tenant,
        "workspace": scope.workspace,
        "workflow": scope.workflow,
        "key": check_text(key, "a key"),
    }
