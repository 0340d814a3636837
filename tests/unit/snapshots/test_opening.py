"""Opening a file: whose it is, what it is set to, and several who open it at once."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.queues import SimpleQueue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import apsw
import pytest

from snapshots import (
    ForeignFileError,
    MigrationError,
    NewerFileError,
    StorageBusyError,
    StorageCorruptError,
    StorageReadOnlyError,
    StorageUnavailableError,
    UnsupportedSqliteError,
    limits,
    open_store,
)
from snapshots.database import pragmas
from snapshots.database.identity import require_sqlite
from snapshots.errors import StorageError
from snapshots.schema import APPLICATION_ID, SCHEMA_VERSION

PROCESSES = 4
ROUNDS = 12
Opened = tuple[int, str, int, str]  # round, journal mode, schema, error


def content(folder: Path) -> dict[str, bytes]:
    """Every file of a folder, byte by byte."""
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("found", ["3.51.2", "3.7.17", "3.45.1", "2.8.17"])
def test_an_older_sqlite_is_refused(found: str) -> None:
    """A library that can corrupt a log is refused by its number, compared as a number."""
    with pytest.raises(UnsupportedSqliteError, match=found) as caught:
        require_sqlite(found, "/data/state.db")
    assert (caught.value.found, caught.value.required) == (found, limits.SQLITE_VERSION_MIN)


@pytest.mark.parametrize("found", [limits.SQLITE_VERSION_MIN, "3.100.0", "4.0.0"])
def test_a_recent_sqlite_is_accepted(found: str) -> None:
    """The oldest accepted one is accepted, and any later."""
    require_sqlite(found, "/data/state.db")


def test_the_library_is_asked_when_a_file_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The gate stands in the way of opening: nothing is created behind it."""
    monkeypatch.setattr(limits, "SQLITE_VERSION_MIN", "99.0.0")
    with pytest.raises(UnsupportedSqliteError, match=apsw.sqlite_lib_version()):
        open_store(tmp_path / "state.db")
    assert content(tmp_path) == {}


def test_a_file_is_set_up_as_it_is_promised(tmp_path: Path) -> None:
    """Every setting is in force on the connection that writes."""
    with open_store(tmp_path / "state.db") as store:
        read = store.database.connection.pragma
        assert read("journal_mode") == "wal"
        assert read("synchronous") == 1
        assert read("busy_timeout") == limits.BUSY_TIMEOUT_MS
        assert read("mmap_size") == 0
        assert read("journal_size_limit") == limits.WAL_BYTES_MAX
        assert read("wal_autocheckpoint") == 0
        assert read("page_size") == limits.PAGE_BYTES
        assert read("cache_size") == -limits.PAGE_CACHE_BYTES_MAX // 1024
        assert read("trusted_schema") == 0
        assert read("application_id") == APPLICATION_ID
        assert read("user_version") == SCHEMA_VERSION


def test_a_setting_that_is_not_taken_is_an_error() -> None:
    """SQLite ignores what it cannot do, so each setting is read back: memory is not mapped."""
    with closing(apsw.Connection(":memory:")) as connection:
        assert not pragmas.is_wal(connection)
        with pytest.raises(StorageError, match="mmap_size is None, expected 0"):
            pragmas.never_map_the_file(connection)


def test_only_the_owner_may_read_a_new_file(tmp_path: Path) -> None:
    """The file, its log and its index have mode 0600, whatever the umask allows."""
    before = os.umask(0)
    try:
        with open_store(tmp_path / "state.db"):
            modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"state.db": 0o600, "state.db-wal": 0o600, "state.db-shm": 0o600}


def test_a_file_in_memory_works_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`:memory:` is a store like any other, until it is closed."""
    monkeypatch.chdir(tmp_path)
    with open_store(":memory:") as store, open_store(":memory:") as other:
        store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"{}")
        assert store.load("a").blob == b"{}"
        assert other.headers() == []
        assert store.stats().wal_bytes == 0
        assert store.database.checkpoints is None
    assert content(tmp_path) == {}


def foreign_database(path: Path) -> None:
    """Another program's SQLite file, which names no program."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table songs (title text)")


def database_of_another_program(path: Path) -> None:
    """An SQLite file whose program has a number of its own."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma application_id = 77")


def foreign_database_with_a_log(path: Path) -> None:
    """Another program's file whose content is in its log alone, as after a crash."""
    with closing(sqlite3.connect(path.with_name("open.db"))) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table songs (title text)")
        connection.commit()
        for suffix in ("", "-wal"):
            path.with_name(path.name + suffix).write_bytes(
                path.with_name("open.db" + suffix).read_bytes()
            )
    path.with_name("open.db").unlink()


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.write_bytes(b"x"), id="one byte"),
        pytest.param(lambda path: path.write_bytes(b"\0" * 4096), id="zeros"),
        pytest.param(lambda path: path.write_bytes(b"# Notes\n" * 4096), id="text"),
        pytest.param(lambda path: path.write_bytes(b"SQLite format 3\0"), id="header only"),
        foreign_database,
        database_of_another_program,
        foreign_database_with_a_log,
    ],
)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_that_is_not_ours_is_left_untouched(
    tmp_path: Path, make: object, read_only: bool
) -> None:
    """Another program's file is refused by name, with no byte of it or beside it changed."""
    assert callable(make)
    make(tmp_path / "state.db")
    before = content(tmp_path)
    with pytest.raises(ForeignFileError, match="untouched"):
        open_store(tmp_path / "state.db", read_only=read_only)
    after = content(tmp_path)
    after.pop("state.db-shm", None)  # a log can only be read through its index
    assert after == before


@pytest.mark.parametrize("journal", ["delete", "wal"])
def test_a_file_of_a_later_release_is_left_untouched(tmp_path: Path, journal: str) -> None:
    """It is refused by its number, before any setting that writes: not even put into WAL."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma journal_mode = {journal}")
        connection.execute(f"pragma application_id = {APPLICATION_ID}")
        connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
        connection.execute("create table runs (id integer primary key)")
    before = content(tmp_path)
    with pytest.raises(NewerFileError) as caught:
        open_store(path)
    assert (caught.value.found, caught.value.known) == (SCHEMA_VERSION + 1, SCHEMA_VERSION)
    assert content(tmp_path) == before


def test_a_later_release_is_recognised_in_the_log(tmp_path: Path) -> None:
    """A file that a later release has just taken forward says so in its log only."""
    open_store(tmp_path / "state.db").close()
    with closing(apsw.Connection(os.fspath(tmp_path / "state.db"))) as later:
        later.wal_autocheckpoint(0)
        later.pragma("user_version", SCHEMA_VERSION + 1)
        before = content(tmp_path)
        with pytest.raises(NewerFileError):
            open_store(tmp_path / "state.db")
        after = content(tmp_path)
    # Which readers there are is noted in the index, and in nothing that lasts.
    assert after.keys() == before.keys()
    assert (after["state.db"], after["state.db-wal"]) == (
        before["state.db"],
        before["state.db-wal"],
    )


def test_an_empty_file_becomes_ours(tmp_path: Path) -> None:
    """A file of no bytes belongs to nobody, and keeps the mode that somebody gave it."""
    path = tmp_path / "state.db"
    path.touch(mode=0o640)
    with open_store(path) as store:
        assert store.headers() == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_file_that_a_killed_process_left_blank_becomes_ours(tmp_path: Path) -> None:
    """In WAL mode and without a table: somebody died between his first two steps."""
    path = tmp_path / "state.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
    assert path.stat().st_size > 0
    with open_store(path) as store:
        assert store.headers() == []


def test_a_file_held_in_rollback_mode_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be put into WAL mode is not used: opening gives up after its patience."""
    monkeypatch.setattr(limits, "OPEN_PATIENCE_MS", 0)
    monkeypatch.setattr(limits, "BUSY_TIMEOUT_MS", 1)
    path = tmp_path / "state.db"
    with closing(apsw.Connection(os.fspath(path))) as connection:
        connection.execute("begin exclusive")
        with pytest.raises(StorageBusyError) as caught:
            open_store(path)
        connection.execute("rollback")
    assert caught.value.retryable
    open_store(path).close()


def test_a_reader_changes_nothing_and_may_not_write(tmp_path: Path) -> None:
    """A store that is opened to read answers everything and refuses every write."""
    path = tmp_path / "state.db"
    with open_store(path) as store:
        header = store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"{}")
        with open_store(path, read_only=True) as reader:
            assert reader.load("a").header == header
            for write in (
                lambda: reader.save(header, b"[]"),
                lambda: reader.mark(header, "lost", "gone"),
                lambda: reader.take_over("me"),
                reader.sweep,
            ):
                with pytest.raises(StorageReadOnlyError):
                    write()
            header = store.save(header, b"[1]")
            assert reader.load("a").blob == b"[1]"


def test_a_reader_needs_a_file_that_is_there(tmp_path: Path) -> None:
    """Looking at a file that is missing does not make one, nor fill an empty one."""
    with pytest.raises(StorageUnavailableError, match="must exist"):
        open_store(tmp_path / "state.db", read_only=True)
    (tmp_path / "state.db").touch()
    with pytest.raises(MigrationError, match="open it for writing"):
        open_store(tmp_path / "state.db", read_only=True)
    assert content(tmp_path) == {"state.db": b""}


def open_round_after_round(
    folder: str, busy_timeout_ms: int, barrier: Barrier, results: SimpleQueue[Opened]
) -> None:
    """Open a new file in each round, at the same moment as the others, and write to it."""
    setattr(limits, "BUSY_TIMEOUT_MS", busy_timeout_ms)  # noqa: B010 - final, to all but a test
    for number in range(ROUNDS):
        barrier.wait(20)
        try:
            with open_store(f"{folder}/{number}.db") as store:
                read = store.database.connection.pragma
                store.database.connection.set_busy_timeout(20_000)  # open now: the rest is no race
                store.create(
                    run_id=f"run-{os.getpid()}", machine="m", digest="d", shape=b"{}", blob=b"{}"
                )
                results.put((number, read("journal_mode"), read("user_version"), ""))
        except Exception as error:  # noqa: BLE001 - told to the test
            results.put((number, "", 0, repr(error)))


@pytest.fixture(params=[0, limits.BUSY_TIMEOUT_MS], ids="busy_timeout={}ms".format)
def openers(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[list[Opened]]:
    """What four processes report that open each of several new files at once."""
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(PROCESSES), context.SimpleQueue()
    arguments = (os.fspath(tmp_path), request.param, barrier, results)
    processes = [
        context.Process(target=open_round_after_round, args=arguments) for _ in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    yield [results.get() for _ in range(PROCESSES * ROUNDS)]
    for process in processes:
        process.join()
        process.close()
    results.close()


def test_four_processes_that_open_an_empty_file_at_once_all_have_it(
    openers: list[Opened], tmp_path: Path
) -> None:
    """Nobody fails, nobody stays in rollback mode, and every write of each is there.

    Also where SQLite does not wait for a lock by itself, as it does not in every case.
    """
    numbers = range(ROUNDS)
    assert sorted(openers) == [
        (number, "wal", SCHEMA_VERSION, "") for number in numbers for _ in range(PROCESSES)
    ]
    for number in numbers:
        with open_store(tmp_path / f"{number}.db") as store:
            assert len(store.headers()) == PROCESSES


def test_a_look_that_comes_between_the_pages_of_a_checkpoint_is_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that closes the file has written its first page, and not yet the last ones."""
    path, whole = tmp_path / "state.db", tmp_path / "whole.db"
    with open_store(path) as store:
        store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=bytes(50_000))
    whole.write_bytes(path.read_bytes())
    os.truncate(path, 2 * limits.PAGE_BYTES)
    with pytest.raises(StorageCorruptError):
        open_store(path, read_only=True)
    monkeypatch.setattr("time.sleep", lambda _: whole.replace(path))
    with open_store(path, read_only=True) as store:
        assert len(store.headers()) == 1


def journal_of(pages: int) -> bytes:
    """Return a rollback journal of a transaction on a file that had so many pages before it."""
    numbers = (0, 0, pages, 512, limits.PAGE_BYTES)
    head = bytes.fromhex("d9d505f920a163d7") + b"".join(n.to_bytes(4, "big") for n in numbers)
    return head.ljust(512, b"\0")


@pytest.mark.parametrize("fill", [b"\0", b"x", b"SQLite format 3\0"])
def test_a_file_whose_making_was_cut_short_is_made_anew(tmp_path: Path, fill: bytes) -> None:
    """A power loss has left any part of a first page, and a journal that says what was before."""
    path = tmp_path / "state.db"
    path.write_bytes((fill * limits.PAGE_BYTES)[: limits.PAGE_BYTES])
    Path(f"{path}-journal").write_bytes(journal_of(0))
    before = content(tmp_path)
    with pytest.raises(StorageUnavailableError, match="making was cut short"):
        open_store(path, read_only=True)
    assert content(tmp_path) == before
    with open_store(path) as store:
        assert store.headers() == []
    with open_store(path, read_only=True) as store:
        assert store.headers() == []


def test_another_file_with_a_journal_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    """Where something was before, it is not ours to undo what came after."""
    path = tmp_path / "state.db"
    path.write_bytes(b"x" * limits.PAGE_BYTES)
    Path(f"{path}-journal").write_bytes(journal_of(1))
    before = content(tmp_path)
    with pytest.raises(ForeignFileError):
        open_store(path)
    assert content(tmp_path) == before
