"""Runs as rows: written under guard, read without what is finished."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import (
    AmbiguousRunError,
    FencedError,
    InvalidKeyError,
    LimitError,
    Owner,
    RevisionConflictError,
    RunExistsError,
    RunHeader,
    RunNotFoundError,
    SnapshotStore,
    SqliteSnapshotStore,
    Status,
    StorageClosedError,
    StorageError,
    StorageFullError,
    StoredRun,
    limits,
    open_store,
)
from snapshots.records import STATUSES
from snapshots.testing import START_MS, ManualClock

ENDINGS: list[Status] = [status for status in STATUSES if status != "live"]


@pytest.fixture
def clock() -> ManualClock:
    """The time of every store here."""
    return ManualClock()


@pytest.fixture(params=["file", "memory"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[SqliteSnapshotStore]:
    """An empty store, on a file and in memory: both keep all of the contract."""
    path = tmp_path / "state.db" if request.param == "file" else ":memory:"
    with open_store(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def two(tmp_path: Path, clock: ManualClock) -> Iterator[list[SqliteSnapshotStore]]:
    """Two stores on one file, as two hosts would have it."""
    path = tmp_path / "state.db"
    with open_store(path, clock=clock) as first, open_store(path, clock=clock) as second:
        yield [first, second]


def create(store: SnapshotStore, run_id: str = "run-1", blob: bytes = b"[0]") -> RunHeader:
    """Store a run with nothing special about it."""
    return store.create(run_id=run_id, machine="checkout", digest="d1", shape=b"{}", blob=blob)


def end(store: SnapshotStore, run_id: str, status: Status = "done") -> RunHeader:
    """Store a run that has ended."""
    return store.save(create(store, run_id), b"[9]", status=status, reason="why")


def test_a_created_run_comes_back_as_it_was_given(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """Every column is what was asked for, the rest is where a run begins."""
    header = store.create(
        run_id="run-1",
        machine="checkout",
        digest="d1",
        shape=b'{"name":"checkout"}',
        blob=b"\x00\xff bytes are opaque",
        due_ms=START_MS + 60_000,
        parked=True,
    )
    assert store.load("run-1") == StoredRun(header=header, blob=b"\x00\xff bytes are opaque")
    assert header == RunHeader(
        row=1,
        run_id="run-1",
        machine="checkout",
        digest="d1",
        status="live",
        reason=None,
        revision=2**33,
        created_ms=clock.now_ms(),
        updated_ms=clock.now_ms(),
        ended_ms=None,
        due_ms=START_MS + 60_000,
        parked=True,
    )
    assert store.shape("d1") == b'{"name":"checkout"}'
    assert store.shape("d2") is None


def test_an_id_is_taken_once(store: SqliteSnapshotStore) -> None:
    """A second run with one id is refused, says whether it is of the machine, changes nothing."""
    header = create(store)
    with pytest.raises(RunExistsError) as caught:
        create(store, blob=b"[other]")
    assert (caught.value.same_machine, caught.value.same_input) == (True, None)
    with pytest.raises(RunExistsError) as caught:
        store.create(run_id="run-1", machine="pool", digest="d2", shape=b"{}", blob=b"")
    assert not caught.value.same_machine
    assert store.load("run-1") == StoredRun(header=header, blob=b"[0]")
    assert store.shape("d2") is None


@pytest.mark.parametrize("status", ENDINGS)
def test_a_run_may_be_created_in_its_end(store: SqliteSnapshotStore, status: Status) -> None:
    """A chart whose first step is its last is stored with the end already there."""
    header = store.create(
        run_id="a", machine="m", digest="d", shape=b"{}", blob=b"", status=status, now_ms=7
    )
    assert (header.created_ms, header.ended_ms) == (7, 7)
    assert store.load("a").header == header
    assert list(store.live()) == []


@pytest.mark.parametrize("run_id", ["", "x" * 201, "a\nb", "a\0b", "a\udcff"])
def test_an_id_that_nobody_could_type_is_refused(store: SqliteSnapshotStore, run_id: str) -> None:
    """An id is 1 to 200 printable characters."""
    with pytest.raises(InvalidKeyError):
        create(store, run_id)
    assert store.headers() == []
    create(store, "x" * 200)
    create(store, "ü/ 中.1")


@pytest.mark.parametrize("name", ["machine", "digest"])
def test_a_name_that_is_no_text_is_refused(store: SqliteSnapshotStore, name: str) -> None:
    """Half a character has no form in the file: nothing is written, and nothing found under it."""
    fields = {"machine": "m", "digest": "d", "shape": b"{}", "blob": b"", name: "\ud800"}
    with pytest.raises(InvalidKeyError):
        store.create(run_id="a", **fields)  # type: ignore[arg-type] - one of them at a time
    header = create(store, "a")
    with pytest.raises(InvalidKeyError):
        store.migrate(header, b"", **{k: v for k, v in fields.items() if k != "blob"})  # type: ignore[arg-type] - as above
    with pytest.raises(InvalidKeyError):
        store.take_over("\ud800")
    assert store.headers() == [header]
    assert store.headers("\ud800") == []  # type: ignore[arg-type] - no status at all
    assert store.shape("\ud800") is None


def test_a_reason_is_stored_whatever_it_holds(store: SqliteSnapshotStore) -> None:
    """The name of a file that is no UTF-8 is half characters: they are kept as escapes."""
    header = create(store, "a")
    marked = store.mark(header, "lost", "no file '\udcff'")
    assert marked.reason == "no file '\\udcff'"
    assert store.load("a").header == marked


def test_a_save_replaces_the_state_and_counts(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """Each save returns the header that the next must name, and that is what is stored."""
    header = create(store)
    for number in range(1, 4):
        clock.advance(10)
        blob = b"[%d]" % number
        header = store.save(header, blob, due_ms=START_MS + number, parked=number == 2)
        assert header.revision == limits.REVISION_FIRST + number
        assert (header.updated_ms, header.due_ms) == (START_MS + 10 * number, START_MS + number)
        assert store.load("run-1") == StoredRun(header=header, blob=blob)


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_is_a_blob(store: SqliteSnapshotStore, kind: type) -> None:
    """A blob that is patched in place is written as it is at this moment."""
    header = store.save(create(store), kind(b"[patched]"))
    assert store.load("run-1") == StoredRun(header=header, blob=b"[patched]")


@pytest.mark.parametrize("status", ENDINGS)
def test_a_save_may_end_a_run(
    store: SqliteSnapshotStore, clock: ManualClock, status: Status
) -> None:
    """The end is written with the last state and its reason, at a time from which it ages."""
    header = create(store)
    clock.advance(5)
    header = store.save(header, b"[9]", status=status, reason="why")
    assert (header.status, header.reason, header.ended_ms) == (status, "why", START_MS + 5)
    assert store.load("run-1") == StoredRun(header=header, blob=b"[9]")


def test_a_run_that_has_ended_is_not_saved_over(store: SqliteSnapshotStore) -> None:
    """Even with the right revision: the status is named in the refusal."""
    header = end(store, "run-1", "failed")
    with pytest.raises(RevisionConflictError, match="'failed'") as caught:
        store.save(header, b"[10]")
    assert caught.value.status == "failed"
    assert store.load("run-1") == StoredRun(header=header, blob=b"[9]")


def test_the_second_of_two_saves_from_one_state_is_refused(store: SqliteSnapshotStore) -> None:
    """The revision decides and never the time: both happen within one tick of the clock."""
    header = create(store)
    newer = store.save(header, b"[1]")
    with pytest.raises(RevisionConflictError) as caught:
        store.save(header, b"[2]")
    assert (caught.value.expected, caught.value.actual) == (header.revision, newer.revision)
    with pytest.raises(RevisionConflictError):
        store.mark(header, "lost", "gone")
    assert store.load("run-1") == StoredRun(header=newer, blob=b"[1]")


def test_a_save_of_a_run_that_is_gone_says_so(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """A row that was swept is not made anew, and a row key given again is not written over."""
    header = end(store, "run-1")
    clock.advance(limits.RETENTION_MS + 1)
    assert store.sweep() == 1
    with pytest.raises(RunNotFoundError, match="'run-1'"):
        store.save(header, b"[10]")
    other = create(store, "run-2")
    assert other.row == header.row
    stale = header._replace(revision=other.revision)
    with pytest.raises(RunNotFoundError, match="'run-1'"):
        store.save(stale, b"[10]")
    with pytest.raises(RunNotFoundError, match="'run-1'"):
        store.mark(stale, "lost", "gone")
    assert store.load("run-2") == StoredRun(header=other, blob=b"[0]")


def test_a_mark_changes_the_status_alone(store: SqliteSnapshotStore, clock: ManualClock) -> None:
    """A run set aside keeps its state, and comes back to life with it."""
    header = store.save(create(store), b"[1]", due_ms=START_MS + 9, parked=True)
    clock.advance(5)
    lost = store.mark(header, "lost", "its sandbox is gone")
    assert (lost.status, lost.reason, lost.ended_ms) == (
        "lost",
        "its sandbox is gone",
        START_MS + 5,
    )
    assert store.load("run-1") == StoredRun(header=lost, blob=b"[1]")
    live = store.mark(lost, "live", None)
    assert live == header._replace(revision=header.revision + 2, updated_ms=START_MS + 5)
    assert store.load("run-1") == StoredRun(header=live, blob=b"[1]")
    assert store.save(live, b"[2]").status == "live"


def test_a_blob_may_be_as_long_as_its_limit_and_an_end_always_fits(
    store: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One byte more is refused with the old state kept; what ends a run may exceed it."""
    monkeypatch.setattr(limits, "BLOB_BYTES_MAX", 100)
    monkeypatch.setattr(limits, "BLOB_ENDING_BYTES_MAX", 10)
    header = store.save(create(store), bytes(100))
    with pytest.raises(LimitError) as caught:
        store.save(header, bytes(101))
    assert (caught.value.limit, caught.value.actual, caught.value.run_id) == (100, 101, "run-1")
    with pytest.raises(LimitError):
        create(store, "run-2", bytes(101))
    with pytest.raises(LimitError):
        store.save(header, bytes(111), status="error")
    assert store.load("run-1") == StoredRun(header=header, blob=bytes(100))
    assert store.save(header, bytes(110), status="error").status == "error"


def test_a_full_disk_keeps_the_last_save(store: SqliteSnapshotStore) -> None:
    """Nothing of a save that does not fit is there, and the next one that fits is."""
    header = create(store)
    connection = store.database.connection
    connection.pragma("max_page_count", store.stats().page_count)
    with pytest.raises(StorageFullError, match="'run-1'"):
        store.save(header, random.Random(1).randbytes(100_000))
    assert store.load("run-1") == StoredRun(header=header, blob=b"[0]")
    assert store.save(header, b"[1]").revision == header.revision + 1


def test_ids_are_found_by_their_prefix(store: SqliteSnapshotStore) -> None:
    """A range of the index: in order, bounded, with no character that means something else."""
    names = ["a", "ab", "ab%", "ab_c", "abd", "b", "é1", "é2", "z\U0010ffff", "z\U0010ffffx"]
    for name in names:
        create_in_order(store, name)
    assert store.find("ab") == ("ab", "ab%", "ab_c", "abd")
    assert store.find("ab%") == ("ab%",)
    assert store.find("é") == ("é1", "é2")
    assert store.find("z\U0010ffff") == ("z\U0010ffff", "z\U0010ffffx")
    assert store.find("\ud7ff") == ()
    assert store.find("c") == ()
    assert store.find("\udcff") == ()
    assert store.find("") == tuple(sorted(names))


def create_in_order(store: SnapshotStore, run_id: str) -> None:
    """Store a run whose id may hold what `create` would refuse: noncharacters, as others write."""
    assert isinstance(store, SqliteSnapshotStore)
    insert = "insert into runs values (null, ?, 'm', 'd', 'live', null, 1, null, zeroblob(52), x'')"
    with store.database.transaction("write"):
        store.database.run(insert, (run_id,))


def test_a_prefix_means_one_run_or_none(store: SqliteSnapshotStore) -> None:
    """A whole id means its run even if others start with it; else a prefix must fit only one."""
    for name in ("0199", "0199a", "0199b", "77"):
        create(store, name)
    assert store.resolve("0199") == "0199"
    assert store.resolve("0199a") == "0199a"
    assert store.resolve("7") == "77"
    with pytest.raises(AmbiguousRunError) as caught:
        store.resolve("01")
    assert caught.value.candidates == ("0199", "0199a", "0199b")
    with pytest.raises(RunNotFoundError, match="'8'"):
        store.resolve("8")
    with pytest.raises(RunNotFoundError):
        store.load("019")
    with pytest.raises(RunNotFoundError):
        store.load("\udcff")


def test_candidates_are_bounded(store: SqliteSnapshotStore) -> None:
    """However many runs fit a prefix, the first twenty are named."""
    for number in range(30):
        create(store, f"run-{number:02}")
    assert store.find("run") == tuple(f"run-{number:02}" for number in range(20))
    with pytest.raises(AmbiguousRunError) as caught:
        store.resolve("run")
    assert len(caught.value.candidates) == limits.FIND_RUNS_MAX


def test_live_runs_come_once_each_while_others_are_written(store: SqliteSnapshotStore) -> None:
    """Slices are read apart: whoever reads may save, end and create runs in between."""
    count = 3 * limits.LIVE_SLICE_ROWS + 1
    for number in range(count):
        create(store, f"run-{number:03}")
    end(store, "ended")
    seen = []
    for stored in store.live():
        assert stored.blob == b"[0]"
        seen.append(stored.header.run_id)
        store.save(stored.header, b"[1]", status="done" if len(seen) % 2 else "live")
    assert seen == [f"run-{number:03}" for number in range(count)]
    assert len(list(store.live())) == count // 2


def test_a_run_that_ends_before_its_slice_is_not_live(store: SqliteSnapshotStore) -> None:
    """What is yielded was live when its slice was read."""
    headers = [create(store, f"run-{number:03}") for number in range(limits.LIVE_SLICE_ROWS + 2)]
    live = store.live()
    next(live)
    store.mark(headers[-1], "cancelled", "by hand")
    assert len(list(live)) == len(headers) - 2


def test_a_parked_run_is_live_without_its_blob(store: SqliteSnapshotStore) -> None:
    """Its header is all that a boot needs of it; the blob is there when it is asked for."""
    header = store.save(create(store), b"[parked]", parked=True)
    assert list(store.live()) == [StoredRun(header=header, blob=b"")]
    assert store.load("run-1").blob == b"[parked]"


def test_headers_come_newest_first_and_in_pages(store: SqliteSnapshotStore) -> None:
    """All, or those in one status; a page goes on where the last one ended."""
    for number in range(5):
        create(store, f"live-{number}")
        end(store, f"done-{number}")
    end(store, "odd", "drifted")
    assert [header.run_id for header in store.headers(limit=3)] == ["odd", "done-4", "live-4"]
    last = store.headers(limit=3)[-1]
    assert [header.run_id for header in store.headers(limit=2, before_row=last.row)] == [
        "done-3",
        "live-3",
    ]
    assert [header.run_id for header in store.headers("live")] == [
        f"live-{number}" for number in (4, 3, 2, 1, 0)
    ]
    page = store.headers("done", limit=2)
    assert [header.run_id for header in page] == ["done-4", "done-3"]
    page = store.headers("done", limit=2, before_row=page[-1].row)
    assert [header.run_id for header in page] == ["done-2", "done-1"]
    assert store.headers("live", before_row=1) == []
    assert store.headers("lost") == []
    with pytest.raises(LimitError):
        store.headers(limit=limits.HEADERS_ROWS_MAX + 1)


def test_a_sweep_takes_what_has_ended_before_and_never_what_lives(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """Age counts from the terminal write; a run that lives for a month stays."""
    create(store, "parked for a month")
    for status in ENDINGS:
        end(store, status, status)
    clock.advance(limits.RETENTION_MS)
    end(store, "late")
    assert store.sweep() == 0  # they ended exactly then, not before
    clock.advance(1)
    assert store.sweep() == len(ENDINGS)
    assert store.sweep() == 0
    assert {header.run_id for header in store.headers()} == {"parked for a month", "late"}
    clock.advance(limits.RETENTION_MS)
    assert store.sweep() == 1
    assert store.find("done") == ()


def test_a_revived_run_is_not_swept(store: SqliteSnapshotStore, clock: ManualClock) -> None:
    """What counts is the status at the moment of the deletion."""
    lost = end(store, "run-1", "lost")
    clock.advance(2 * limits.RETENTION_MS)
    store.mark(lost, "live", None)
    assert store.sweep() == 0
    assert store.load("run-1").header.status == "live"


def test_a_sweep_goes_in_slices_oldest_first(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """Each call is one short transaction."""
    for number in range(7):
        end(store, f"run-{number}")
        clock.advance(1)
    clock.advance(limits.RETENTION_MS)
    swept = [store.sweep(slice_rows=3)]
    assert [header.run_id for header in store.headers()] == ["run-6", "run-5", "run-4", "run-3"]
    swept += [store.sweep(slice_rows=3) for _ in range(3)]
    assert swept == [3, 3, 1, 0]


def test_a_shape_outlives_its_runs(store: SqliteSnapshotStore, clock: ManualClock) -> None:
    """A shape is stored once and is not swept: there is one per deploy that changed a machine."""
    store.create(run_id="r", machine="m", digest="d9", shape=b"{}", blob=b"", status="done")
    clock.advance(limits.RETENTION_MS + 1)
    assert store.sweep() == 1
    assert store.shape("d9") == b"{}"


def test_a_takeover_raises_the_term(two: list[SqliteSnapshotStore]) -> None:
    """Terms count from 1, each with the name of who raised it; nobody owns a new file."""
    first, second = two
    assert (first.owner(), first.term) == (None, None)
    assert first.take_over("host-a") == 1
    assert first.owner() == second.owner() == Owner(term=1, holder="host-a")
    assert second.term is None
    assert second.take_over("host-b") == 2
    assert first.take_over("host-a") == 3
    assert (first.term, second.term) == (3, 2)


def test_a_fenced_owner_writes_nothing_at_all(two: list[SqliteSnapshotStore]) -> None:
    """Its saves, new runs, marks and sweeps are refused with the name of who owns the file."""
    first, second = two
    first.take_over("host-a")
    header, ended = create(first), end(first, "ended")
    assert first.save(header, b"[1]").revision == header.revision + 1
    second.take_over("host-b")
    header = first.load("run-1").header
    for write in (
        lambda: first.save(header, b"[2]"),
        lambda: first.save(header, b"[2]", status="done"),
        lambda: first.save(header, b"[2]", sync=True),
        lambda: first.mark(header, "lost", "gone"),
        lambda: first.mark(ended, "live", None),
        lambda: create(first, "run-2"),
        lambda: create(first, "run-1"),
        first.sweep,
    ):
        with pytest.raises(FencedError) as caught:
            write()
        assert (caught.value.term, caught.value.holder) == (2, "host-b")
    assert {stored.run_id for stored in second.headers()} == {"run-1", "ended"}
    assert second.load("run-1") == StoredRun(header=header, blob=b"[1]")
    assert second.save(header, b"[3]").revision == header.revision + 1


def test_whoever_holds_no_term_is_guarded_by_the_revision(two: list[SqliteSnapshotStore]) -> None:
    """A script beside an owner writes as long as nobody else has."""
    first, second = two
    header = create(second)
    first.take_over("host-a")
    newer = second.save(header, b"[1]")
    with pytest.raises(RevisionConflictError):
        first.save(header, b"[2]")
    assert first.load("run-1") == StoredRun(header=newer, blob=b"[1]")


def test_writes_in_a_transaction_are_kept_together_or_not_at_all(
    store: SqliteSnapshotStore,
) -> None:
    """A run and its neighbour are written in one go, or neither is."""

    def write(*, stop: bool) -> RunHeader:
        with store.transaction():
            header = store.save(create(store), b"[1]")
            create(store, "run-2")
            if stop:
                raise LookupError
        return header

    with pytest.raises(LookupError):
        write(stop=True)
    assert store.headers() == []
    header = write(stop=False)
    assert store.load("run-1").header == header
    assert len(store.headers()) == 2


def test_a_synced_save_reads_back_its_level(store: SqliteSnapshotStore) -> None:
    """One commit is FULL: the level is raised before its BEGIN and lowered after its COMMIT."""
    header, seen = create(store), []
    store.database.trace_statements(lambda sql, _: seen.append(sql.replace('"', "")))
    store.save(header, b"[1]", sync=True)
    store.database.trace_statements(None)
    levels = [sql for sql in seen if "synchronous" in sql or sql in ("begin immediate", "commit")]
    assert levels == [
        "pragma synchronous('full')",
        "pragma synchronous",
        "begin immediate",
        "commit",
        "pragma synchronous('normal')",
        "pragma synchronous",
    ]
    assert store.database.connection.pragma("synchronous") == 1


def test_a_closed_store_refuses_by_name(store: SqliteSnapshotStore) -> None:
    """Every method says that the store is closed, and closing it again is harmless."""
    header = create(store)
    store.close()
    store.close()
    for use in (
        lambda: store.load("run-1"),
        lambda: store.save(header, b"[1]"),
        lambda: store.mark(header, "lost", "gone"),
        lambda: create(store, "run-2"),
        lambda: list(store.live()),
        store.headers,
        lambda: store.find("run"),
        lambda: store.resolve("run"),
        lambda: store.shape("d1"),
        store.sweep,
        lambda: store.take_over("me"),
        store.owner,
        store.stats,
    ):
        with pytest.raises(StorageClosedError):
            use()


def test_the_store_keeps_the_seam(store: SqliteSnapshotStore) -> None:
    """The one implementation has every method of the contract, with its parameters."""
    seam: SnapshotStore = store
    assert isinstance(seam, SqliteSnapshotStore)
    assert "term=None" in repr(seam)
    with pytest.raises(StorageError):
        open_store("")


def test_a_live_run_whose_head_is_damaged_comes_with_its_blob(store: SqliteSnapshotStore) -> None:
    """Whatever that head says of waiting: it is read, and nothing else can say."""
    create(store)
    store.database.run("update runs set head = ?", (b"x" * 51 + b"1",))
    (stored,) = store.live()
    assert (stored.blob, stored.header.parked) == (b"[0]", False)
