"""The file of the runs as a storage sees it: its transactions, and who is in one."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from snapshots.errors import StorageClosedError
from snapshots.storage.nesting import NestedTransactionError, OtherWorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.database import Database, Row
    from snapshots.storage.scopes import Scope
    from snapshots.store import SqliteSnapshotStore


class StorageFile:
    """A store's own connection, for one thread at a time.

    A write is a part of whatever transaction is open on that connection, that of a run's save
    included, and carries the store's term, if it holds one. Of several such handles on one store
    each knows whose transaction is open.
    """

    def __init__(self, store: SqliteSnapshotStore) -> None:
        """Use the file of `store`, which stays the store's to close."""
        self.store = store
        self.database: Database = store.database
        self._is_closed = False

    @property
    def path(self) -> str:
        """The file's absolute path, or `:memory:`."""
        return self.database.path

    @contextmanager
    def transaction(self, scope: Scope) -> Iterator[None]:
        """See `Transactions.transaction`; the whole file has one writer at a time."""
        asked = (scope.tenant, scope.workspace)
        self.require_usable("transaction")
        store = self.store
        if store.lent_for is not None:
            raise NestedTransactionError(self.path, store.lent_for, asked)
        with self.database.writing("transaction"):
            store.require_term()
            store.lend(asked)
            try:
                yield
            finally:
                store.lend(None)

    @contextmanager
    def writing(self, scope: Scope, operation: str) -> Iterator[Database]:
        """Return the context of one call that writes for `scope`."""
        self._require_mine(scope, operation)
        with self.database.writing(operation):
            self.store.require_term()
            yield self.database

    @contextmanager
    def sweeping(self) -> Iterator[Database]:
        """Return the context of a write for all scopes."""
        self.require_usable("sweep")
        with self.database.writing("sweep"), self.database.recycling_pages():
            self.store.require_term()
            yield self.database

    def rows(
        self, scope: Scope, operation: str, sql: str, bindings: tuple[object, ...]
    ) -> list[Row]:
        """Return all rows of one SELECT for `scope`."""
        self._require_mine(scope, operation)
        return self.database.rows(operation, sql, bindings)

    def row(
        self, scope: Scope, operation: str, sql: str, bindings: tuple[object, ...]
    ) -> Row | None:
        """Return the first row of one SELECT for `scope`, None if there is none."""
        rows = self.rows(scope, operation, sql, bindings)
        return rows[0] if rows else None

    @property
    def is_in_transaction(self) -> bool:
        """Whether what is done now is kept or undone with something else."""
        self.require_usable("look for a transaction")
        return bool(self.database.connection.in_transaction)

    def require_usable(self, operation: str) -> None:
        """Raise if this storage is closed, or the file, or if this process is a fork.

        And, as every call does, if another thread is in a transaction on the file's connection.
        """
        if self._is_closed:
            raise StorageClosedError(operation, self.path)
        self.database.require_mine(operation)

    def close(self) -> None:
        """Let nothing more through this storage; a second time is harmless."""
        self._is_closed = True

    def _require_mine(self, scope: Scope, operation: str) -> None:
        self.require_usable(operation)
        lent_for, asked = self.store.lent_for, (scope.tenant, scope.workspace)
        if lent_for is not None and lent_for != asked:
            raise OtherWorkspaceError(operation, self.path, lent_for, asked)
