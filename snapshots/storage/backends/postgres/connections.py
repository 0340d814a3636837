"""The connections of one storage: a pool, and transactions that belong to one workspace each."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, LiteralString

import psycopg
from psycopg import IsolationLevel
from psycopg.pq import TransactionStatus
from psycopg_pool import ConnectionPool

from snapshots import limits
from snapshots.errors import (
    StorageClosedError,
    StorageError,
    StorageForkedError,
    StorageUnavailableError,
)
from snapshots.storage.backends.postgres.addresses import shown
from snapshots.storage.backends.postgres.schema import migrate
from snapshots.storage.backends.postgres.translation import translate, translated
from snapshots.storage.nesting import NestedTransactionError, OtherWorkspaceError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection, Cursor

    from snapshots.clock import Clock
    from snapshots.storage.scopes import Scope

_MS_PER_S: Final = 1_000
# Made for the transaction alone: the next one on this connection starts without them.
_SETTINGS: Final = """
select set_config('snapshots.tenant', %s, true), set_config('snapshots.workspace', %s, true),
  set_config('lock_timeout', %s, true),
  set_config('idle_in_transaction_session_timeout', %s, true)"""
_LOCK: Final = """
select 1 from snapshots.workspaces where tenant = %s and workspace = %s for update"""
_MAKE_LOCK: Final = """
insert into snapshots.workspaces (tenant, workspace) values (%s, %s) on conflict do nothing"""
_UNKNOWN: Final = (
    "the connection broke during the commit, so that it may have been written or not; read it"
    " again before repeating"
)
_SWALLOWED: Final = "an error inside this transaction was swallowed; nothing of it was written"


class Work:
    """A transaction of one workspace, on one connection, in one thread."""

    __slots__ = ("_clock", "_is_alone", "connection", "workspace")

    def __init__(
        self, connection: Connection, workspace: tuple[str, str], clock: Clock | None
    ) -> None:
        """Use a connection whose settings are made for `workspace`."""
        self.connection = connection
        self.workspace = workspace
        self._clock = clock
        self._is_alone = False

    def have_alone(self) -> None:
        """Wait until nobody else has the workspace, and have it to the transaction's end."""
        if self._is_alone:
            return
        if self.connection.execute(_LOCK, self.workspace).fetchone() is None:
            self.connection.execute(_MAKE_LOCK, self.workspace)
            self.connection.execute(_LOCK, self.workspace)
        self._is_alone = True

    @property
    def now_ms(self) -> int | None:
        """What a test's clock says now; None where the server's clock counts.

        For `snapshots.now_ms(…)`, which then asks the server.
        """
        return None if self._clock is None else self._clock.now_ms()

    def run(self, statement: LiteralString, values: dict[str, Any]) -> Cursor:
        """Run one statement, in which `%(now)s` is the injected time."""
        return self.connection.execute(statement, {**values, "now": self.now_ms})


class Connections:
    """The connections to one database, for any thread.

    Every transaction says whose it is before its first statement; row-level security shows it
    that workspace and nothing else.
    """

    def __init__(self, url: str, *, clock: Clock | None) -> None:
        """Connect once, to bring the schema to its last step; then on demand."""
        self.url = url
        self.path = shown(url)
        self._clock = clock
        self._pid = os.getpid()
        self._mine = threading.local()
        self._is_closed = False
        timeout_s = limits.POSTGRES_CONNECT_MS_MAX / _MS_PER_S
        options: dict[str, Any] = {
            "connect_timeout": int(timeout_s),
            "application_name": "machine-snapshots",
        }
        with translated("open", self.path), psycopg.connect(url, **options) as connection:
            migrate(connection, self.path)
        self._pool = ConnectionPool(
            url,
            kwargs=options,
            configure=_configure,
            min_size=0,
            max_size=limits.POSTGRES_CONNECTIONS_MAX,
            timeout=timeout_s,
            open=True,
            name="snapshots-postgres",
        )

    @contextmanager
    def transaction(self, scope: Scope, operation: str = "transaction") -> Iterator[Work]:
        """Have a workspace alone, for several calls that are committed together, or not at all."""
        mine = self._current
        if mine is not None:
            asked = (scope.tenant, scope.workspace)
            raise NestedTransactionError(self.path, mine.workspace, asked)
        with self._begun(scope, operation, alone=True) as work:
            self._mine.work = work
            try:
                yield work
            finally:
                self._mine.work = None

    @contextmanager
    def working(self, scope: Scope, operation: str, *, alone: bool = False) -> Iterator[Work]:
        """Return the context of one call: a part of this thread's transaction, if any.

        `alone` makes it wait until nobody else has the workspace, and times that are read
        inside are later than all that it waited for.
        """
        mine = self._current
        if mine is None:
            with self._begun(scope, operation, alone=alone) as work:
                yield work
        else:
            self.require_usable(operation)
            asked = (scope.tenant, scope.workspace)
            if mine.workspace != asked:
                raise OtherWorkspaceError(operation, self.path, mine.workspace, asked)
            with translated(operation, self.path):
                yield mine

    @contextmanager
    def connected(self, operation: str) -> Iterator[Connection]:
        """Return the context of a transaction that is of no workspace, and so sees no row."""
        self.require_usable(operation)
        assert not self.is_in_transaction, "this is no part of a transaction of a workspace"
        with self._settled(operation, ("", "")) as connection:
            yield connection

    @property
    def is_in_transaction(self) -> bool:
        """Whether this thread is in a transaction."""
        return self._current is not None

    def require_usable(self, operation: str) -> None:
        """Raise if this storage is closed, or belongs to the process that this is a fork of."""
        if self._pid != os.getpid():
            raise StorageForkedError(operation, self.path, self._pid, os.getpid())
        if self._is_closed:
            raise StorageClosedError(operation, self.path)

    def close(self) -> None:
        """Close every connection; a second time, or in a forked child, it does nothing."""
        if self._is_closed or self._pid != os.getpid():
            return
        self._is_closed = True
        self._pool.close(timeout=limits.POSTGRES_CONNECT_MS_MAX / _MS_PER_S)

    @property
    def _current(self) -> Work | None:
        work: Work | None = getattr(self._mine, "work", None)
        return work

    @contextmanager
    def _begun(self, scope: Scope, operation: str, *, alone: bool) -> Iterator[Work]:
        self.require_usable(operation)
        workspace = (scope.tenant, scope.workspace)
        with self._settled(operation, workspace) as connection:
            work = Work(connection, workspace, self._clock)
            if alone:
                work.have_alone()
            yield work

    @contextmanager
    def _settled(self, operation: str, workspace: tuple[str, str]) -> Iterator[Connection]:
        """Begin on a connection with its settings made; commit at the end, or roll back."""
        with translated(operation, self.path):
            connection = self._take(workspace)
        try:
            yield connection
            self._commit(connection, operation)
        except psycopg.Error as error:
            raise translate(error, operation, self.path) from error
        finally:
            self._give_back(connection)

    def _take(self, workspace: tuple[str, str]) -> Connection:
        """Take a connection from the pool on which a first statement works.

        A server that was started anew has broken those that lay idle: each is thrown away.
        """
        bounds = (limits.WORKSPACE_WAIT_MS_MAX, limits.POSTGRES_SILENT_MS_MAX)
        settings = (*workspace, *(f"{bound}ms" for bound in bounds))
        for left in reversed(range(limits.POSTGRES_CONNECTIONS_MAX + 1)):
            connection = self._pool.getconn()
            try:
                connection.execute(_SETTINGS, settings)
            except BaseException as error:
                self._give_back(connection)
                if isinstance(error, psycopg.OperationalError) and connection.closed and left:
                    continue
                raise
            return connection
        raise AssertionError

    def _commit(self, connection: Connection, operation: str) -> None:
        # PostgreSQL answers a COMMIT of a failed transaction with a rollback and no error.
        if connection.info.transaction_status == TransactionStatus.INERROR:
            raise StorageError(operation, self.path, _SWALLOWED)
        try:
            connection.commit()
        except psycopg.OperationalError as error:
            if not connection.closed:
                raise
            detail = f"{type(error).__name__}: {error}"
            raise StorageUnavailableError(operation, self.path, _UNKNOWN, detail=detail) from error

    def _give_back(self, connection: Connection) -> None:
        """Roll back what is open and return the connection; a broken one is thrown away."""
        try:
            if not connection.closed:
                connection.rollback()
        except psycopg.Error:
            connection.close()
        finally:
            self._pool.putconn(connection)


def _configure(connection: Connection) -> None:
    """Let a statement see all that was committed before it, whatever the server's default."""
    connection.isolation_level = IsolationLevel.READ_COMMITTED
