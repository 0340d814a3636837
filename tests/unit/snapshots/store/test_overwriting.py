"""Long rows: a save writes what changed of them over what is there, and all or nothing of it."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from snapshots import (
    FencedError,
    RevisionConflictError,
    RunHeader,
    RunNotFoundError,
    SqliteSnapshotStore,
    StorageError,
    limits,
    open_store,
)
from snapshots.heads import is_sound
from snapshots.store import saving

LONG = 3 * limits.OVERWRITTEN_BYTES_MIN
Stretch = tuple[int, int]


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteSnapshotStore]:
    """An empty store."""
    path = tmp_path / "state.db" if request.param == "file" else ":memory:"
    with open_store(path) as opened:
        yield opened


def noise(length: int, seed: int = 1) -> bytearray:
    """Return bytes of which no two pages are alike."""
    return bytearray(random.Random(seed).randbytes(length))


def created(store: SqliteSnapshotStore, blob: bytearray, run_id: str = "a") -> RunHeader:
    """Store a run."""
    return store.create(run_id=run_id, machine="m", digest="d", shape=b"{}", blob=blob)


def changed(blob: bytearray, chance: random.Random) -> list[Stretch]:
    """Change a few stretches of a blob, wherever they lie; some touch, some are empty."""
    stretches = []
    for _ in range(chance.randrange(5)):
        start = chance.choice((0, len(blob) - 9, chance.randrange(len(blob))))
        end = min(len(blob), start + chance.choice((0, 1, 9, 5_000, 20_000)))
        blob[start:end] = chance.randbytes(end - start)
        stretches.append((start, end))
    return stretches


def writes(store: SqliteSnapshotStore) -> list[str]:
    """Return a list that takes up each statement from here on."""
    seen: list[str] = []
    store.database.trace_statements(lambda sql, _: seen.append(sql))
    return seen


@pytest.mark.parametrize("in_term", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_a_row_that_is_written_over_holds_the_blob(
    store: SqliteSnapshotStore, seed: int, in_term: bool
) -> None:
    """After each of a hundred saves: content, revision, times, and nobody else's row changed."""
    chance = random.Random(seed)
    if in_term:
        store.take_over("me")
    blob, other = noise(LONG), noise(LONG, 2)
    created(store, other, "other")
    header = created(store, blob)
    seen = writes(store)
    for number in range(100):
        due_ms = chance.choice((limits.NO_TIMER_MS, number))
        parked = chance.random() < 0.5
        stretches = changed(blob, chance)
        header = store.save(header, blob, due_ms=due_ms, parked=parked, changed=stretches)
        assert (header.due_ms, header.parked) == (due_ms, parked)
        stored = store.load("a")
        assert stored.blob == blob
        assert stored.header == header
    assert not any(sql.startswith("\nupdate") for sql in seen)
    assert store.load("other").blob == other
    assert header.revision == limits.REVISION_FIRST + 100


def test_a_save_of_one_change_is_no_longer_than_its_pages(tmp_path: Path) -> None:
    """Of eight megabytes, three pages are logged: the row's first one and the two it touches."""
    with open_store(tmp_path / "state.db") as store:
        blob = noise(8 * limits.MIB)
        header = created(store, blob)
        for number in range(10):
            start = number * 700_000 + 100_000
            blob[start : start + 2_000] = bytes(2_000)
            before = store.stats().wal_bytes
            header = store.save(header, blob, changed=[(start, start + 2_000)])
            grown = store.stats().wal_bytes - before
            assert 0 < grown <= 3 * (limits.PAGE_BYTES + 24)
        assert store.load("a").blob == blob


def test_a_short_row_is_written_whole(store: SqliteSnapshotStore) -> None:
    """One statement is faster there than a transaction of several."""
    blob = noise(limits.OVERWRITTEN_BYTES_MIN - 1)
    header = created(store, blob)
    seen = writes(store)
    blob[5] ^= 1
    store.save(header, blob, changed=[(5, 6)])
    assert seen == [saving.SAVE]
    assert store.load("a").blob == blob


def test_a_row_of_another_length_is_written_whole(store: SqliteSnapshotStore) -> None:
    """Whatever a caller says of its blob: what is there has to be as long."""
    header = created(store, noise(LONG))
    for length in (LONG + 1, LONG, LONG - 1):
        blob = noise(length, length)
        header = store.save(header, blob, changed=[(0, length)])
        assert store.load("a").blob == blob


def test_a_stale_writer_changes_nothing(store: SqliteSnapshotStore) -> None:
    """The revision is compared in the transaction that writes."""
    blob = noise(LONG)
    first = created(store, blob)
    before = bytes(blob)
    store.mark(first, "live", None)
    blob[:9] = bytes(9)
    with pytest.raises(RevisionConflictError) as caught:
        store.save(first, blob, changed=[(0, 9)])
    assert (caught.value.expected, caught.value.actual) == (first.revision, first.revision + 1)
    assert store.load("a").blob == before


def test_a_run_that_ended_or_went_is_not_written_over(store: SqliteSnapshotStore) -> None:
    """Nor is a run that has got its row."""
    blob = noise(LONG)
    header = created(store, blob)
    ended = store.save(header, blob, status="done")
    with pytest.raises(RevisionConflictError, match="done"):
        store.save(ended, blob, changed=[(0, 9)])
    store.database.run("delete from runs")
    created(store, noise(LONG, 2), "b")
    with pytest.raises(RunNotFoundError, match="'a'"):
        store.save(header, blob, changed=[(0, 9)])
    assert store.load("b").blob == noise(LONG, 2)


def test_a_fenced_owner_writes_nothing_over(tmp_path: Path) -> None:
    """The term is compared in the transaction that writes."""
    path = tmp_path / "state.db"
    with open_store(path) as former, open_store(path) as owner:
        former.take_over("former")
        blob = noise(LONG)
        header = created(former, blob)
        owner.take_over("owner")
        with pytest.raises(FencedError, match="owner"):
            former.save(header, noise(LONG, 2), changed=[(0, LONG)])
        assert owner.load("a").blob == blob


def test_an_error_between_two_pieces_takes_all_back(store: SqliteSnapshotStore) -> None:
    """Head and blob belong together: a piece beyond the end leaves the row as it was."""
    blob = noise(LONG)
    header = created(store, blob)
    with pytest.raises(ValueError, match="past the end"):
        store.save(header, bytes(LONG), changed=[(0, 9), (LONG + 5, LONG + 9)])
    assert not store.in_transaction
    stored = store.load("a")
    assert (stored.blob, stored.header) == (blob, header)
    blob[:9] = bytes(9)
    store.save(header, blob, changed=[(0, 9)])
    assert store.load("a").blob == blob


def test_a_transaction_that_is_undone_takes_what_was_written_over_back(
    store: SqliteSnapshotStore,
) -> None:
    """A save is a part of the transaction that is open."""
    blob = noise(LONG)
    header = created(store, blob)
    before = bytes(blob)

    def fail() -> None:
        with store.transaction():
            blob[:9] = bytes(9)
            store.save(header, blob, changed=[(0, 9)])
            message = "undone"
            raise RuntimeError(message)

    with pytest.raises(RuntimeError, match="undone"):
        fail()
    stored = store.load("a")
    assert (stored.blob, stored.header) == (before, header)


def test_an_error_that_is_swallowed_leaves_no_half_of_a_save(store: SqliteSnapshotStore) -> None:
    """What the transaction keeps is what was there before that save, and what comes behind it."""
    blob = noise(LONG)
    header = created(store, blob)
    with store.transaction():
        blob[:9] = bytes(9)
        header = store.save(header, blob, changed=[(0, 9)])
        with pytest.raises(ValueError, match="past the end"):
            store.save(header, bytes(LONG), changed=[(90, 99), (LONG + 5, LONG + 9)])
        stored = store.load("a")
        assert (stored.blob, stored.header) == (blob, header)
        blob[70:80] = bytes(10)
        header = store.save(header, blob, changed=[(70, 80)])
    stored = store.load("a")
    assert (stored.blob, stored.header) == (blob, header)


def test_a_synced_save_writes_over_too(tmp_path: Path) -> None:
    """And the file is as it was set up afterwards."""
    with open_store(tmp_path / "state.db") as store:
        blob = noise(LONG)
        header = created(store, blob)
        blob[70:80] = bytes(10)
        store.save(header, blob, changed=[(70, 80)], sync=True)
        assert store.load("a").blob == blob
        assert store.database.connection.pragma("synchronous") == 1


def test_another_writer_is_waited_for_and_named(tmp_path: Path) -> None:
    """A lock that is held too long is a typed error, and the next save goes through."""
    with open_store(tmp_path / "state.db") as store:
        blob = noise(LONG)
        header = created(store, blob)
        other = apsw.Connection(store.path)
        other.execute("begin immediate")
        with pytest.raises(StorageError, match="save of run 'a'"):
            store.save(header, blob, changed=[(0, 9)])
        other.execute("rollback")
        other.close()
        assert store.save(header, blob, changed=[(0, 9)]).revision == header.revision + 1


@pytest.mark.parametrize("length", [16, 30, 60])
def test_a_head_of_another_length_is_made_anew(store: SqliteSnapshotStore, length: int) -> None:
    """A damaged one, with its revision still in it: all of the row is written, and is sound."""
    blob = noise(LONG)
    created(store, blob)
    connection = store.database.connection
    connection.pragma("ignore_check_constraints", True)
    head = connection.execute("select head from runs").get
    connection.execute("update runs set head = ?", (head[:length].ljust(length),))
    connection.pragma("ignore_check_constraints", False)
    blob[5:9] = bytes(4)
    header = store.save(store.load("a").header, blob, changed=[(5, 9)])
    assert is_sound(connection.execute("select head from runs").get)
    stored = store.load("a")
    assert (stored.blob, stored.header) == (blob, header)
