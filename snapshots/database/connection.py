"""One open SQLite file: its statements, its transactions, its end."""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import contextmanager
from threading import get_ident
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import apsw

from snapshots.database import pragmas
from snapshots.database.errors import OtherThreadError
from snapshots.database.places import wal_bytes
from snapshots.database.transactions import Part, Transaction
from snapshots.database.translation import translate
from snapshots.errors import StorageClosedError, StorageError, StorageForkedError
from snapshots.records import StoreStats

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from snapshots.database.checkpoints import Checkpoints, Gate
    from snapshots.database.descriptors import Registration

Row = tuple[Any, ...]
T = TypeVar("T")

_NS_PER_MS: Final = 1_000_000
_NESTED: Final = "a transaction is open on this handle already, and they do not nest: end it first"
_SYNCED_PART: Final = (
    "a part of a transaction cannot be synced by itself: ask for it where the whole one begins"
)


class Database:
    """A handle on one file, for one thread at a time. `snapshots.database.open_database` makes it.

    Statements that write run in `with database.transaction(…)`, through `run`; whatever
    the driver raises there leaves the block as one of our errors. `rows` reads, inside a
    transaction or outside. Closing twice is harmless; any use after `close()` raises
    `StorageClosedError`, any use in a forked child `StorageForkedError`, any use while another
    thread is in a transaction `OtherThreadError`.
    """

    def __init__(
        self,
        path: str,
        connection: apsw.Connection,
        *,
        gate: Gate,
        registration: Registration | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> None:
        """Wrap an open and set up `connection`; `registration` is None for a memory one."""
        self.path = path
        self.pid = os.getpid()
        self.connection = connection
        self.gate = gate
        self.checkpoints = checkpoints
        self._registration = registration
        self._is_closed = False
        self._transaction = Transaction(self)
        self._part = Part(self)
        cursor = connection.cursor()
        # Bound once, as they are on the path of every save; the driver finds a prepared
        # statement by its text.
        self.run: Callable[..., apsw.Cursor] = cursor.execute
        self.changes: Callable[[], int] = connection.changes
        self.last_row: Callable[[], int] = connection.last_insert_rowid

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else "open"
        return f"<Database {self.path!r} {state} pid={self.pid}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # When the interpreter ends, its threads stand still and cannot be joined.
        if not self._is_closed and self.pid == os.getpid() and not sys.is_finalizing():
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=1)
            self.close()

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction of this handle is open."""
        return self._transaction.is_open

    def transaction(self, operation: str, *, sync: bool = False) -> Transaction:
        """Return a context: BEGIN IMMEDIATE, and COMMIT at its end or ROLLBACK on any error.

        With `sync` this one commit waits until it, and every commit before, is on the disk.
        Entering raises `StorageBusyError` if another process writes for too long, and what
        a checkpoint has failed with since the last transaction. Raises `StorageError` where one is
        open already.
        """
        transaction = self._transaction
        if transaction.is_open:
            self.require_mine(operation)
            raise StorageError(operation, self.path, _NESTED)
        transaction.operation = operation
        transaction.sync = sync
        return transaction

    def writing(self, operation: str, *, sync: bool = False) -> Transaction | Part:
        """Return the context of one write: a transaction, or a part of this thread's open one."""
        if not self._transaction.is_open:
            return self.transaction(operation, sync=sync)
        self.require_mine(operation)
        if sync:
            raise StorageError(operation, self.path, _SYNCED_PART)
        self._part.operation = operation
        return self._part

    def write(
        self, verb: str, run_id: str, sql: str, bindings: tuple[object, ...], *, sync: bool = False
    ) -> int:
        """Run one statement, a transaction by itself unless one is open; how many rows it changed.

        The errors are those of `transaction`; `verb` and `run_id` name the operation in them.
        """
        if sync or self._transaction.is_open:
            with self.writing(f"{verb} {run_id!r}", sync=sync):
                self.run(sql, bindings)
                return self.changes()
        if self.pid != os.getpid() or self._is_closed:
            self.require_usable(f"{verb} {run_id!r}")
        if self.checkpoints is not None:
            self.checkpoints.admit()
        gate = self.gate
        gate.enter()
        try:
            self.run(sql, bindings)
            return self.changes()
        except apsw.Error as error:
            raise self.translated(error, f"{verb} {run_id!r}") from error
        finally:
            gate.room.release()

    def overwrite(
        self,
        table: str,
        column: str,
        row: int,
        pieces: Iterable[tuple[int, bytes | bytearray | memoryview]],
    ) -> None:
        """Write pieces over parts of one value, each where it begins: in a transaction.

        The value keeps its length, and SQLite logs the pages that a piece lies on.
        """
        value = self.connection.blob_open("main", table, column, row, True)  # noqa: FBT003 - the driver takes it by place
        # An open one would keep the transaction open.
        with value:
            for start, piece in pieces:
                value.seek(start)
                value.write(piece)

    def after_commit(self, tell: Callable[[], object]) -> None:
        """Have `tell` called once what is written now is committed, and not if it is undone.

        Outside of a transaction that is at once. It must not raise.
        """
        if self._transaction.is_open:
            self._transaction.told.append(tell)
        else:
            tell()

    def rows(self, operation: str, sql: str, bindings: tuple[object, ...] = ()) -> list[Row]:
        """Return all rows of one SELECT."""
        self.require_mine(operation)
        try:
            return self.connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise translate(error, operation, self.path) from error

    def made(
        self,
        operation: str,
        sql: str,
        bindings: tuple[object, ...],
        make: Callable[[Iterable[Row]], T],
    ) -> T:
        """Return what `make` makes of the rows of one SELECT, which are not all there at a time."""
        self.require_mine(operation)
        try:
            return make(self.connection.execute(sql, bindings))
        except apsw.Error as error:
            raise translate(error, operation, self.path) from error

    def row(self, operation: str, sql: str, bindings: tuple[object, ...] = ()) -> Row | None:
        """Return the first row of one SELECT, None if there is none."""
        rows = self.rows(operation, sql, bindings)
        return rows[0] if rows else None

    @contextmanager
    def keeping_few_pages(self) -> Iterator[None]:
        """Keep no pages that the block reads: a boot needs each once."""
        with self._caching(pragmas.keep_few_pages):
            yield

    @contextmanager
    def recycling_pages(self) -> Iterator[None]:
        """Let what the block reads take the place of older pages, and no more memory.

        For a sweep, whose pages nobody needs again: a cache that grows by them holds the loop
        for some milliseconds now and then, and loses the pages of the live runs.
        """
        with self._caching(pragmas.recycle_pages):
            yield

    @contextmanager
    def _caching(self, bound: Callable[[apsw.Connection], None]) -> Iterator[None]:
        """Have `bound` set the cache's size for the block."""
        size = self.connection.pragma("cache_size")
        bound(self.connection)
        try:
            yield
        finally:
            if not self._is_closed:
                self.connection.pragma("cache_size", size)

    def require_usable(self, operation: str) -> None:
        """Raise if this handle is closed, or belongs to the process that this one is a fork of."""
        if self.pid != os.getpid():
            raise StorageForkedError(operation, self.path, self.pid, os.getpid())
        if self._is_closed:
            raise StorageClosedError(operation, self.path)

    def require_mine(self, operation: str) -> None:
        """Raise as `require_usable`, and if another thread is in a transaction of this handle."""
        self.require_usable(operation)
        transaction = self._transaction
        if transaction.is_open and transaction.thread != get_ident():
            raise OtherThreadError(operation, self.path, transaction.thread, get_ident())

    def trace_statements(self, listener: Callable[[str, object], None] | None) -> None:
        """Tell `listener` each statement's text and values before it runs; None ends it.

        What `overwrite` writes is no statement, and not told.
        """
        if listener is None:
            self.connection.exec_trace = None
            return

        def trace(_cursor: apsw.Cursor, sql: str, bindings: object) -> bool:
            listener(sql, bindings)
            return True

        self.connection.exec_trace = trace

    def translated(self, error: apsw.Error, operation: str) -> StorageError:
        """Return our error of one that the driver raised for a write."""
        return translate(error, operation, self.path, self.connection.system_errno)

    def stats(self) -> StoreStats:
        """Return the file's sizes and what its checkpoints have cost."""
        self.require_usable("read stats")
        checkpoints = self.checkpoints
        stall_ns = checkpoints.longest_stall_ns if checkpoints else 0
        try:
            return StoreStats(
                page_bytes=self.connection.pragma("page_size"),
                page_count=self.connection.pragma("page_count"),
                free_pages=self.connection.pragma("freelist_count"),
                wal_bytes=wal_bytes(self.path) if self._registration else 0,
                checkpoints=checkpoints.count if checkpoints else 0,
                longest_checkpoint_stall_ms=stall_ns / _NS_PER_MS,
            )
        except apsw.Error as error:
            raise translate(error, "read stats", self.path) from error

    def close(self) -> None:
        """Empty the log if nobody else uses it, and close everything.

        Raises what a checkpoint failed with, once all is closed. In a forked child it does
        nothing: what is open belongs to the parent.
        """
        if self._is_closed or self.pid != os.getpid():
            return
        assert not self._transaction.is_open, "a transaction is open, its block must end first"
        self._is_closed = True
        try:
            if self.checkpoints is not None:
                self.checkpoints.close()
        finally:
            self.connection.close()
            # Last, since leaving may close descriptors, and with them drop locks.
            if self._registration is not None:
                self._registration.leave()
        if self.checkpoints is not None:
            self.checkpoints.raise_failure()
