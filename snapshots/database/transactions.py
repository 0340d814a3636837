"""The transactions of one handle: begun, committed or taken back, and parts of one that is open."""

from __future__ import annotations

import os
from threading import get_ident
from typing import TYPE_CHECKING, Final

import apsw

from snapshots.database import pragmas
from snapshots.database.translation import translate
from snapshots.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from snapshots.database.connection import Database

_BEGIN: Final = "begin immediate"
_COMMIT: Final = "commit"
_ROLLBACK: Final = "rollback"
_SWALLOWED: Final = (
    "an error of this transaction was swallowed, and SQLite had undone all of it: let such an error"
    " end the block"
)


class Transaction:
    """`with` one of these: BEGIN IMMEDIATE, then COMMIT, or ROLLBACK if anything raised.

    A handle makes one and uses it again and again: they do not nest.
    """

    __slots__ = ("_database", "is_open", "operation", "sync", "thread", "told")

    def __init__(self, database: Database) -> None:
        """Make the one transaction of `database`, not yet begun."""
        self._database = database
        self.is_open = False
        self.operation = ""
        self.sync = False
        self.thread = 0
        self.told: list[Callable[[], object]] = []

    def __enter__(self) -> None:
        database = self._database
        database.require_usable(self.operation)
        if database.checkpoints is not None:
            database.checkpoints.admit()
        assert not database.connection.in_transaction, "an earlier transaction was left open"
        database.gate.enter()
        self.thread = get_ident()
        self.is_open = True
        try:
            if self.sync:
                pragmas.sync_at_commit(database.connection)
            database.run(_BEGIN)
        except BaseException as error:
            self._end()
            self._raise_ours(error)
            raise

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._database.pid != os.getpid():
            return  # a fork inside the block: undoing would reach into the parent's log
        try:
            if error is None:
                self._database.run(_COMMIT)
        except BaseException as failure:
            error = failure
            raise
        finally:
            told = self.told
            if told:
                self.told = []
            self._end()
            self._raise_ours(error)
        if told and error is None:
            for tell in told:
                tell()

    def _end(self) -> None:
        """Leave no transaction open, whatever has happened, and let the next one in."""
        database = self._database
        try:
            if database.connection.in_transaction:
                database.run(_ROLLBACK)
            if self.sync:
                pragmas.sync_at_checkpoints(database.connection)
        except apsw.Error as error:
            raise translate(error, self.operation, database.path) from error
        finally:
            self.is_open = self.sync = False
            database.gate.room.release()

    def _raise_ours(self, error: BaseException | None) -> None:
        if isinstance(error, apsw.Error):
            raise self._database.translated(error, self.operation) from error


class Part:
    """A write inside a transaction that somebody else has begun and will end."""

    __slots__ = ("_database", "operation")

    def __init__(self, database: Database) -> None:
        self._database = database
        self.operation = ""

    def __enter__(self) -> None:
        database = self._database
        database.require_usable(self.operation)
        # SQLite ends a transaction itself on some errors, a full disk for one: what runs
        # after a caller has swallowed such an error would be committed alone.
        if not database.connection.in_transaction:
            raise StorageError(self.operation, database.path, _SWALLOWED)

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, apsw.Error):
            raise self._database.translated(error, self.operation) from error
