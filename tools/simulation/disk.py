"""The one file of a world: every statement of a process passes here, may fail, or be its last."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import apsw

from snapshots.database import Database
from snapshots.database.checkpoints import Gate
from snapshots.opening import open_store
from snapshots.store import SqliteSnapshotStore
from tools.simulation.loop import Crash

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from snapshots.clock import Clock

READS = ("select", "pragma")
ERRORS = (apsw.FullError, apsw.IOError, apsw.BusyError, apsw.ReadOnlyError)
IN_MEMORY = ":memory:"


@dataclass(slots=True, kw_only=True)
class Fate:
    """What the disk does to one process; statements are counted from 0, reads apart."""

    dies_before: int | None = None
    dies_after: int | None = None
    dies_with: str | None = None
    """It dies right after a save with this trait (see `promises.traits`), the n-th of its own."""
    dies_with_nth: int = 1
    fails_at: frozenset[int] = frozenset()
    fails_often: float = 0.0
    full: tuple[float, float] = (0.0, 0.0)
    """From when to when, in seconds, nothing can be written."""
    reads_fail_often: float = 0.0
    writes: int = field(default=0, init=False)


class Disk:
    """What outlives every process: the file, and who is told of each commit."""

    def __init__(self, rng: Random, path: str) -> None:
        self.rng = rng
        self.path = path
        self.committed: Callable[[Connection, str], None] = lambda _, __: None
        """Told of each statement that may have changed the file."""
        self.failed: Callable[[str], None] = lambda _: None
        self.traits: frozenset[str] = frozenset()
        """What was special about the row that was saved last."""
        with open_store(path) as store:
            blank = store.database.connection.serialize("main") if path == IN_MEMORY else b""
        self.raw = apsw.Connection(path)
        if blank:
            self.raw.deserialize("main", blank)

    def open(self, clock: Clock, fate: Fate, now_s: Callable[[], float]) -> SqliteSnapshotStore:
        """Open the file for a process; in memory all share one connection."""
        connection: Any  # it stands for the driver's own
        if self.path == IN_MEMORY:
            connection = Connection(self, self.raw, fate, now_s)
            database = Database(IN_MEMORY, connection, gate=Gate())
            return SqliteSnapshotStore(database, clock=clock)
        store = open_store(self.path, clock=clock)
        connection = Connection(self, store.database.connection, fate, now_s)
        store.database.connection = connection
        store.database.run = connection.execute
        return store

    def close(self) -> None:
        """Close what is open all the time."""
        self.raw.close()


class Connection:
    """One process's connection: counts its statements, and ends it where it is told to."""

    def __init__(
        self, disk: Disk, raw: apsw.Connection, fate: Fate, now_s: Callable[[], float]
    ) -> None:
        self.disk = disk
        self.raw = raw
        self.fate = fate
        self.is_dead = False
        self.is_closed = False
        self.dying: Callable[[str], None] = lambda _: None
        self._now_s = now_s
        self._changes = 0
        """How many rows the open transaction has changed."""
        self._cursor = raw.cursor()
        self.changes = raw.changes
        self.last_insert_rowid = raw.last_insert_rowid
        self.pragma = raw.pragma

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self.raw.in_transaction

    def cursor(self) -> Connection:
        """Return what a handle binds its statements to."""
        return self

    def die(self, where: str) -> None:
        """End the process in this very statement."""
        self.is_dead = True
        self.dying(where)
        raise Crash

    def execute(self, sql: str, bindings: Any = None) -> Any:
        """Run a statement, unless the process has ended or the disk refuses it."""
        if self.is_dead:
            raise Crash
        if sql.lstrip().startswith(READS):
            return self._read(sql, bindings)
        if sql == "rollback":
            self._changes = 0
            return self._cursor.execute(sql)
        fate = self.fate
        number, fate.writes = fate.writes, fate.writes + 1
        if number == fate.dies_before:
            self.die(f"before {_said(sql)}")
        if self._refuses(number):
            self._fail(sql)
        before = self.raw.total_changes()
        found = self._cursor.execute(sql, bindings)
        self._changes += self.raw.total_changes() - before
        if not self.raw.in_transaction and self._changes:
            self._changes = 0
            self.disk.committed(self, _said(sql))
        if number == fate.dies_after or self._has_fatal_trait():
            self.die(f"after {_said(sql)}")
        return found

    def blob_open(self, *place: Any) -> Any:
        """Open a value that is to be written over, unless the process has ended."""
        if self.is_dead:
            raise Crash
        self._changes += 1
        return self.raw.blob_open(*place)

    def _has_fatal_trait(self) -> bool:
        """Whether what was just saved is what the process dies with."""
        traits, self.disk.traits = self.disk.traits, frozenset()
        if self.fate.dies_with not in traits:
            return False
        self.fate.dies_with_nth -= 1
        return self.fate.dies_with_nth == 0

    def _read(self, sql: str, bindings: Any) -> Any:
        fate = self.fate
        if fate.reads_fail_often and self.disk.rng.random() < fate.reads_fail_often:
            self.disk.failed(f"read refused: {_said(sql)}")
            raise apsw.IOError
        # A cursor of its own: what the caller reads is not cut off by the next statement.
        return self.raw.execute(sql, bindings)

    def _refuses(self, number: int) -> bool:
        fate = self.fate
        if number in fate.fails_at or fate.full[0] <= self._now_s() < fate.full[1]:
            return True
        return fate.fails_often > 0 and self.disk.rng.random() < fate.fails_often

    def _fail(self, sql: str) -> None:
        error = self.disk.rng.choice(ERRORS)
        if self.raw.in_transaction and error is apsw.FullError and self.disk.rng.random() < 0.5:
            self._changes = 0
            self._cursor.execute("rollback")  # as SQLite itself does where room runs out
        self.disk.failed(f"{error.__name__} at {_said(sql)}")
        raise error

    def close(self, *, force: bool = False) -> None:
        """Close, unless others share what is below."""
        del force
        self.is_closed = True
        if self.disk.path != IN_MEMORY:
            self.raw.close()

    def bury(self) -> None:
        """Do what the system does for a process that has ended."""
        self.is_dead = True
        if (not self.is_closed or self.disk.path == IN_MEMORY) and self.raw.in_transaction:
            self._cursor.execute("rollback")


def _said(sql: str) -> str:
    return " ".join(sql.split()[:3])
