"""Transactions on one file, and what is left when something in them fails."""

from __future__ import annotations

import gc
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from snapshots import (
    StorageBusyError,
    StorageClosedError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
    open_store,
)
from snapshots.database import Database, open_database
from snapshots.database.translation import TRANSLATIONS, translate

PUT = "insert into notes (id, text) values (?, ?)"
READ = "select id, text from notes order by id"


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A file with one table."""
    with open_database(tmp_path / "state.db", application_id=1, known_schema=1) as opened:
        with opened.transaction("set up"):
            opened.run("create table notes (id integer primary key, text text not null) strict")
        yield opened


@pytest.fixture
def other(database: Database) -> Iterator[apsw.Connection]:
    """Another program's connection to the same file, which does not wait."""
    with closing(apsw.Connection(database.path)) as connection:
        yield connection


def put(database: Database, *notes: tuple[int, str]) -> None:
    """Write several notes in one transaction."""
    with database.transaction("write"):
        for note in notes:
            database.run(PUT, note)


def test_every_error_of_the_driver_is_translated_by_name() -> None:
    """A class that a later driver adds is missing here until somebody has decided on it."""
    theirs = {cls for _, cls in inspect.getmembers(apsw, inspect.isclass)}
    assert set(TRANSLATIONS) == {cls for cls in theirs if issubclass(cls, apsw.Error)}


def test_an_error_keeps_where_it_happened_and_what_the_driver_said() -> None:
    """The operation, the file, the driver's words and a hint are all in the translation."""
    error = translate(apsw.FullError("database or disk is full"), "save", "/data/state.db")
    assert type(error) is StorageFullError
    assert (error.operation, error.path) == ("save", "/data/state.db")
    assert error.detail == "FullError: database or disk is full"
    assert "room" in error.hint


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (apsw.BusyError, StorageBusyError),
        (apsw.LockedError, StorageBusyError),
        (apsw.ReadOnlyError, StorageReadOnlyError),
        (apsw.CantOpenError, StorageUnavailableError),
        (apsw.IOError, StorageUnavailableError),
        (apsw.CorruptError, StorageCorruptError),
        (apsw.NotADBError, StorageCorruptError),
        (apsw.SQLError, StorageError),
    ],
)
def test_an_error_of_the_driver_becomes_the_one_that_says_what_to_do(
    theirs: type[apsw.Error], ours: type[StorageError]
) -> None:
    """Each cause that a caller can act on has a class of its own."""
    assert type(translate(theirs("said"), "save", "state.db")) is ours


def test_a_class_that_nobody_knows_is_still_ours() -> None:
    """An error of a later driver is a `StorageError` all the same."""

    class LaterError(apsw.Error):
        pass

    assert type(translate(LaterError("new"), "save", "state.db")) is StorageError


UNSYNCED = """
import os
import signal
import sys
import apsw
from snapshots import StorageUnavailableError, open_store
path, goes_on = sys.argv[1], sys.argv[2] == "goes on"
is_broken = False

class File(apsw.VFSFile):
    def __init__(self, name, flags):
        text = name.filename() if isinstance(name, apsw.URIFilename) else name
        self.is_log = text is not None and text.endswith("-wal")
        super().__init__("unix", name, flags)
    def xSync(self, flags):
        if is_broken and self.is_log:
            error = apsw.IOError()
            error.extendedresult = apsw.SQLITE_IOERR_FSYNC
            raise error
        super().xSync(flags)

class Disk(apsw.VFS):
    def __init__(self):
        super().__init__("unsynced", "unix", makedefault=True)
    def xOpen(self, name, flags):
        return File(name, flags)

disk = Disk()
store = open_store(path)
header = store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"0")
is_broken = True
try:
    store.save(header, b"1", sync=True)
except StorageUnavailableError as error:
    print(error.hint, store.load("a").blob, flush=True)
if goes_on:
    is_broken = False
    store.save(header, b"2")
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(("then", "found"), [("dies", b"1"), ("goes on", b"2")])
def test_what_a_disk_refused_to_sync_may_come_back_and_the_error_says_so(
    tmp_path: Path, then: str, found: bytes
) -> None:
    """It lies in the log until the next save is written over it; meanwhile nobody sees it."""
    path = tmp_path / "state.db"
    command = [sys.executable, "-c", UNSYNCED, os.fspath(path), then]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[4]
    )
    assert "may be there all the same after a crash" in done.stdout
    assert done.stdout.endswith("b'0'\n")
    with open_store(path) as store:
        assert store.load("a").blob == found


def test_a_block_that_ends_well_is_committed(database: Database, other: apsw.Connection) -> None:
    """What a block has written is there for others when it ends, and not before."""
    with database.transaction("write"):
        database.run(PUT, (1, "one"))
        assert other.execute(READ).fetchall() == []
    assert other.execute(READ).fetchall() == [(1, "one")]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_block_that_raises_is_rolled_back(database: Database, error: type[BaseException]) -> None:
    """Whatever leaves the block, nothing of it stays and the error goes on as it is."""

    def write_and_raise() -> None:
        with database.transaction("write"):
            database.run(PUT, (1, "one"))
            raise error

    with pytest.raises(error):
        write_and_raise()
    assert not database.connection.in_transaction
    assert database.rows("read", READ) == []


def test_a_constraint_error_lets_the_next_writer_in(
    database: Database, other: apsw.Connection
) -> None:
    """A value that is refused leaves no transaction behind which everybody waits."""
    with pytest.raises(StorageError, match="UNIQUE"):
        put(database, (1, "one"), (1, "again"))
    other.execute(PUT, (1, "theirs"))
    assert database.rows("read", READ) == [(1, "theirs")]


def test_a_commit_that_fails_leaves_nothing_open(
    database: Database, other: apsw.Connection
) -> None:
    """What could not be committed is gone, and the next block begins anew."""
    database.connection.set_commit_hook(lambda: True)  # SQLite turns the commit into a rollback
    with pytest.raises(StorageError, match="write"), database.transaction("write"):
        database.run(PUT, (1, "lost"))
    database.connection.set_commit_hook(None)
    assert not database.connection.in_transaction
    other.execute(PUT, (2, "theirs"))
    with database.transaction("write"):
        database.run(PUT, (3, "kept"))
    assert other.execute(READ).fetchall() == [(2, "theirs"), (3, "kept")]


def test_a_commit_that_is_not_undone_by_sqlite_is_undone_by_us(database: Database) -> None:
    """A deferred rule fails at COMMIT and leaves the transaction open: it is rolled back."""
    with database.transaction("set up"):
        database.run("create table parts (whole references notes deferrable initially deferred)")
    database.connection.pragma("foreign_keys", 1)
    with pytest.raises(StorageError, match="FOREIGN KEY"), database.transaction("write"):
        database.run("insert into parts values (99)")
    assert not database.connection.in_transaction
    assert database.rows("read", "select * from parts") == []


def test_a_full_file_says_so_and_takes_saves_again_once_there_is_room(database: Database) -> None:
    """Running out of pages rolls back what was being written, and nothing else."""
    with database.transaction("write"):
        database.run(PUT, (1, "kept"))
    pages = database.stats().page_count
    database.connection.pragma("max_page_count", pages)
    for _ in range(3):
        with pytest.raises(StorageFullError, match="room"), database.transaction("write"):
            database.run(PUT, (2, "x" * 100_000))
        assert not database.connection.in_transaction
    assert database.rows("read", READ) == [(1, "kept")]
    database.connection.pragma("max_page_count", pages + 100)
    with database.transaction("write"):
        database.run(PUT, (2, "x" * 100_000))
    assert [row[0] for row in database.rows("read", READ)] == [1, 2]


# The size that a file may have is a limit of the whole process, so this one has its own.
LIMITED = """
import os, resource, sys
from snapshots import StorageFullError, open_store

def limit(size):
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

with open_store(sys.argv[1]) as store:
    header = store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=bytes(20_000))
    failed = 0
    for step in range(200):
        blob = os.urandom(20_000)
        limit(os.stat(sys.argv[1] + "-wal").st_size + 512 * step)
        try:
            header = store.save(header, blob)
        except StorageFullError:
            limit(resource.RLIM_INFINITY)
            failed += 1
            assert not store.database.connection.in_transaction
            assert store.load("a").header == header
            header = store.save(header, blob)
        limit(resource.RLIM_INFINITY)
        assert store.load("a").blob == blob
        assert store.load("a").header == header
    assert store.database.rows("check", "pragma integrity_check") == [("ok",)]
    print(failed, step + 1 - failed)
"""


def test_a_write_that_fails_anywhere_leaves_the_last_save_and_a_usable_handle(
    tmp_path: Path,
) -> None:
    """Wherever a limit cuts the log short: the old row stays, then saves go on."""
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, os.fspath(tmp_path / "state.db")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert done.stderr == ""
    failed, passed = map(int, done.stdout.split())
    assert failed >= 20
    assert passed >= 20


def test_a_writer_elsewhere_makes_the_file_busy(database: Database, other: apsw.Connection) -> None:
    """Whoever waits too long is told that trying again helps, and it does."""
    database.connection.set_busy_timeout(1)
    other.execute("begin immediate")
    with pytest.raises(StorageBusyError) as caught, database.transaction("write"):
        pytest.fail("the block must not run")
    assert caught.value.retryable
    other.execute("rollback")
    with database.transaction("write"):
        database.run(PUT, (1, "one"))
    assert database.rows("read", READ) == [(1, "one")]


def test_a_read_before_a_write_does_not_make_it_fail(
    database: Database, other: apsw.Connection
) -> None:
    """A transaction takes the write lock first, so nobody commits between its read and write."""
    with database.transaction("write"):
        assert database.rows("read", READ) == []
        with pytest.raises(apsw.BusyError):
            other.execute(PUT, (1, "theirs"))
        database.run(PUT, (1, "ours"))
    assert other.execute(READ).fetchall() == [(1, "ours")]


def test_transactions_do_not_nest(database: Database) -> None:
    """A transaction in a transaction is a mistake that is found at once."""
    with database.transaction("outer"):
        database.run(PUT, (1, "one"))
        with pytest.raises(StorageError, match="nest"):
            database.transaction("inner")
    assert database.rows("read", READ) == [(1, "one")]


def test_a_write_becomes_part_of_the_transaction_that_is_open(database: Database) -> None:
    """A write that would make its own transaction commits or goes with an outer one."""

    def write_twice_and_stop() -> None:
        with database.transaction("outer"):
            with database.writing("first"):
                database.run(PUT, (1, "one"))
            with pytest.raises(StorageError, match="second"), database.writing("second"):
                database.run(PUT, (1, "again"))
            raise LookupError

    with pytest.raises(LookupError):
        write_twice_and_stop()
    assert database.rows("read", READ) == []


def test_what_follows_a_swallowed_error_is_not_committed_alone(database: Database) -> None:
    """SQLite ends a transaction itself on some errors; nothing more is written in its block."""

    def swallow_and_go_on() -> None:
        with database.transaction("outer"):
            database.run("rollback")  # what SQLite does by itself when it must
            with database.writing("second"):
                pytest.fail("the block must not run")

    with pytest.raises(StorageError, match="swallowed"):
        swallow_and_go_on()
    assert database.rows("read", READ) == []
    with database.transaction("next"):
        database.run(PUT, (3, "kept"))


def test_a_synced_commit_is_full_and_only_that_one(database: Database) -> None:
    """The level of syncing is raised for one commit, and lowered however it ends."""
    level = database.connection.pragma
    with database.transaction("write", sync=True):
        assert level("synchronous") == 2
    assert level("synchronous") == 1
    with pytest.raises(LookupError), database.transaction("write", sync=True):
        raise LookupError
    assert level("synchronous") == 1
    with database.transaction("write"):
        assert level("synchronous") == 1


def test_a_synced_commit_that_cannot_begin_lowers_the_level_again(
    database: Database, other: apsw.Connection
) -> None:
    """Being busy does not leave every later commit waiting for the disk."""
    database.connection.set_busy_timeout(1)
    other.execute("begin immediate")
    with pytest.raises(StorageBusyError), database.transaction("write", sync=True):
        pytest.fail("the block must not run")
    other.execute("rollback")
    assert database.connection.pragma("synchronous") == 1


def test_statements_can_be_watched(database: Database) -> None:
    """A test sees each statement and its values, until it stops looking."""
    seen: list[tuple[str, object]] = []
    database.trace_statements(lambda sql, bindings: seen.append((sql, bindings)))
    with database.transaction("write"):
        database.run(PUT, (1, "one"))
    database.rows("read", READ)
    database.trace_statements(None)
    database.rows("read", READ)
    assert seen == [
        ("begin immediate", None),
        (PUT, (1, "one")),
        ("commit", None),
        (READ, ()),
    ]


def test_a_closed_handle_refuses_by_name(database: Database) -> None:
    """Every use after `close()` says so; closing again does nothing."""
    database.close()
    database.close()
    with pytest.raises(StorageClosedError):
        database.rows("read", READ)
    with pytest.raises(StorageClosedError), database.transaction("write"):
        pytest.fail("the block must not run")
    with pytest.raises(StorageClosedError):
        database.stats()
    assert "closed" in repr(database)


def test_a_handle_is_not_closed_inside_its_transaction(database: Database) -> None:
    """Closing in a block is a mistake, and the block can still end."""
    with database.transaction("write"):
        with pytest.raises(AssertionError, match="block must end"):
            database.close()
        database.run(PUT, (1, "one"))
    assert database.rows("read", READ) == [(1, "one")]


def test_a_handle_that_is_forgotten_warns(tmp_path: Path) -> None:
    """A file that nobody closed is closed, with a warning that names it."""
    with pytest.warns(ResourceWarning, match=r"unclosed.*state\.db"):
        open_forgetfully(tmp_path / "state.db")
    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]


def open_forgetfully(path: Path) -> None:
    """Open a file, drop it, and let the collector find it."""
    open_database(path, application_id=1, known_schema=1)
    gc.collect()


def test_the_stats_are_those_of_the_file(database: Database) -> None:
    """Pages, free pages and the length of the log are what the file system and SQLite say."""
    with database.transaction("write"):
        database.run(PUT, (1, "x" * 50_000))
    with database.transaction("write"):
        database.run("delete from notes")
    stats = database.stats()
    assert stats.page_bytes == 4096
    assert stats.free_pages >= 12
    assert stats.page_count > stats.free_pages
    assert stats.wal_bytes == Path(f"{database.path}-wal").stat().st_size > 50_000
