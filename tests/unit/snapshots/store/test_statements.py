"""What the statements of the store touch: no scan, no index in a save, no finished blob."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from snapshots import SqliteSnapshotStore, limits, mailbox, open_store
from snapshots.records import Status
from snapshots.storage.backends.sqlite import keyed
from snapshots.store import reading, saving, sqlite
from snapshots.store.sqlite import KEEP_SHAPE

HOT = {
    "save": saving.SAVE,
    "save in term": saving.SAVE_IN_TERM,
    "may save": saving.MAY_SAVE,
    "may save in term": saving.MAY_SAVE_IN_TERM,
    "end": saving.END,
    "end in term": saving.END_IN_TERM,
    "mark": sqlite.MARK,
    "sweep": sqlite.SWEEP,
    "swept": sqlite.SWEPT,
    "swept mail": mailbox.SWEPT,
    "swept values": keyed.SWEPT,
    "load": reading.LOAD,
    "live": reading.LIVE,
    "live at": reading.AT,
    "survey": reading.SURVEY,
    "headers": reading.HEADERS,
    "live headers": reading.HEADERS_LIVE,
    "ended headers": reading.HEADERS_ENDED,
    "find": reading.FIND,
    "exists": reading.EXISTS,
    "shape": reading.SHAPE,
    "owner": reading.OWNER,
}
FINISHED, LIVE = 3_000, 20
FRAME_HEADER_BYTES = 24


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSnapshotStore]:
    """An empty store on a file."""
    with open_store(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with some live runs among thousands of finished ones that are long."""
    path = tmp_path_factory.mktemp("crowded") / "state.db"
    content = random.Random(1)
    with open_store(path) as store, store.transaction():
        for number in range(FINISHED):
            is_live = number % (FINISHED // LIVE) == 0
            store.create(
                run_id=f"run-{number:05}",
                machine="m",
                digest="d",
                shape=b"{}",
                blob=content.randbytes(300 if is_live else 20_000),
                status="live" if is_live else "done",
            )
    return path


def plan(store: SqliteSnapshotStore, sql: str) -> list[str]:
    """How SQLite goes about a statement, step by step."""
    bindings = (1,) * sql.count("?")
    return [row[3] for row in store.database.rows("plan", f"explain query plan {sql}", bindings)]


def opcodes(store: SqliteSnapshotStore, sql: str) -> list[tuple[str, int]]:
    """The program that a statement is compiled to: each instruction with its first operand."""
    bindings = (1,) * sql.count("?")
    return [(row[1], row[2]) for row in store.database.rows("explain", f"explain {sql}", bindings)]


@pytest.mark.parametrize("sql", HOT.values(), ids=HOT)
def test_no_hot_statement_scans(store: SqliteSnapshotStore, sql: str) -> None:
    """Every table is searched by a key or an index, and nothing is sorted."""
    steps = plan(store, sql)
    assert steps
    for step in steps:
        assert not step.startswith("SCAN"), steps
        assert "TEMP B-TREE" not in step, steps
        assert "AUTOMATIC" not in step, steps


@pytest.mark.parametrize("share", [0.02, 0.98])
def test_statistics_change_no_plan(store: SqliteSnapshotStore, share: float) -> None:
    """Somebody may run `analyze`: with nearly all runs live, or nearly none."""
    before = {sql: plan(store, sql) for sql in HOT.values()}
    with store.transaction():
        for number in range(400):
            status: Status = "live" if number < 400 * share else "done"
            store.create(
                run_id=f"r{number}", machine="m", digest="d", shape=b"{}", blob=b"", status=status
            )
    store.database.connection.execute("analyze")
    assert store.database.rows("look", "select count(*) > 0 from sqlite_stat1") == [(1,)]
    with open_store(store.path) as other:
        assert {sql: plan(other, sql) for sql in HOT.values()} == before


def test_a_save_finds_its_row_and_the_term_by_their_keys(store: SqliteSnapshotStore) -> None:
    """One step down one tree each."""
    assert plan(store, saving.SAVE) == ["SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"]
    assert [step for step in plan(store, saving.SAVE_IN_TERM) if step.startswith("SEARCH")] == [
        "SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)",
        "SEARCH owner USING INTEGER PRIMARY KEY (rowid=?)",
    ]


@pytest.mark.parametrize("sql", [saving.SAVE, saving.SAVE_IN_TERM])
def test_a_live_save_changes_no_index(store: SqliteSnapshotStore, sql: str) -> None:
    """Nothing that a live save writes is in an index; what ends a run is in two."""
    assert {name for name, _ in opcodes(store, sql)}.isdisjoint({"IdxInsert", "IdxDelete"})
    assert "IdxInsert" in {name for name, _ in opcodes(store, saving.END)}


def test_a_live_run_is_found_by_the_index_of_live_runs(store: SqliteSnapshotStore) -> None:
    """A boot and a list of live runs do not pass the finished ones."""
    for sql in (reading.LIVE, reading.HEADERS_LIVE):
        (step,) = plan(store, sql)
        assert "runs_live" in step


@pytest.mark.parametrize("sql", [reading.HEADERS, reading.HEADERS_LIVE, reading.HEADERS_ENDED])
def test_a_header_is_read_without_the_blob(store: SqliteSnapshotStore, sql: str) -> None:
    """Listing names every column but the last, so SQLite never follows a long row."""
    assert "blob" not in sql.replace(" as blob)", ")")
    columns = store.database.rows("look", "select name from pragma_table_info('runs')")
    assert columns[-1] == ("blob",)


def pages_read(store: SqliteSnapshotStore) -> int:
    """How many pages the connection has fetched so far that it had not kept."""
    return store.database.connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]


def test_a_boot_reads_no_finished_run(crowded: Path) -> None:
    """Of fourteen thousand pages it fetches a few for each live run, by two statements."""
    with open_store(crowded) as store:
        assert store.stats().page_count > 14_000
        seen: list[tuple[str, object]] = []
        store.database.trace_statements(lambda sql, bindings: seen.append((sql, bindings)))
        before = pages_read(store)
        found = [stored.header.row for stored in store.live()]
        assert pages_read(store) - before < 5 * LIVE
        store.database.trace_statements(None)
    assert len(found) == LIVE
    slice_rows = limits.LIVE_SLICE_ROWS
    assert seen == [(reading.LIVE, (0, slice_rows)), (reading.LIVE, (found[-1], slice_rows))]


def test_a_list_reads_no_blob(crowded: Path) -> None:
    """Headers of finished runs cost their own page each, not the pages of their content."""
    with open_store(crowded) as store:
        before = pages_read(store)
        assert len(store.headers(limit=100)) == 100
        assert pages_read(store) - before < 150
        before = pages_read(store)
        assert len(store.headers("live")) == LIVE
        assert pages_read(store) - before < 5 * LIVE


def test_a_parked_run_is_read_without_its_blob(store: SqliteSnapshotStore) -> None:
    """A boot fetches a parked run's header and leaves its content where it is."""
    content = random.Random(2)
    for number in range(20):
        store.create(
            run_id=f"run-{number}",
            machine="m",
            digest="d",
            shape=b"{}",
            blob=content.randbytes(200_000),
            parked=True,
        )
    with open_store(store.path) as other:
        before = pages_read(other)
        assert len(list(other.live())) == 20
        assert pages_read(other) - before < 60


@pytest.mark.parametrize("in_term", [False, True])
def test_a_save_logs_the_pages_that_differ(store: SqliteSnapshotStore, in_term: bool) -> None:
    """A row that keeps its length is overwritten in place: a megabyte with one change is small."""
    blob = bytearray(random.Random(3).randbytes(limits.MIB))
    if in_term:
        store.take_over("me")
    header = store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=blob)
    grown = []
    for number in range(10):
        before = store.stats().wal_bytes
        blob[number * 100_000] ^= 0xFF
        header = store.save(header, blob, due_ms=limits.NO_TIMER_MS - number, parked=number == 5)
        grown.append(store.stats().wal_bytes - before)
    assert store.load("a").blob == blob
    assert max(grown[1:]) <= 4 * (limits.PAGE_BYTES + 24)


def test_a_save_is_one_statement(store: SqliteSnapshotStore) -> None:
    """An update, which SQLite makes a transaction of its own; found by its text, values bound."""
    store.take_over("me")
    header = store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"[0]")
    seen: list[str] = []
    store.database.trace_statements(lambda sql, _: seen.append(sql))
    store.save(header, b"[1]")
    assert seen == [saving.SAVE_IN_TERM]
    assert KEEP_SHAPE not in seen


def test_the_longest_blob_without_room_lies_in_the_page_of_its_row(
    store: SqliteSnapshotStore,
) -> None:
    """One byte below the bound, and with a name of 100 characters, a save logs one page."""
    blob = bytes(limits.CANVAS_BYTES_MIN - 1)
    header = store.create(
        run_id="r" * 36, machine="m" * 100, digest="d" * 12, shape=b"{}", blob=blob
    )
    before_bytes = store.stats().wal_bytes
    store.save(header, b"x" * len(blob))
    logged_bytes = store.stats().wal_bytes - before_bytes
    assert logged_bytes == FRAME_HEADER_BYTES + limits.PAGE_BYTES
