"""A slice of a sweep: bounded in rows and in bytes, its condition part of the deletion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from snapshots import SqliteSnapshotStore, limits, open_storage, open_store
from snapshots.database.slices import fitting
from snapshots.mailbox import Mailbox
from snapshots.storage import Scope
from snapshots.testing import ManualClock

BYTES = limits.SWEEP_SLICE_BYTES
LONG = BYTES // 4
START_MS = 1_800_000_000_000
WRITES = ("begin", "delete", "insert", "update", "commit", "rollback")


@pytest.fixture
def clock() -> ManualClock:
    """A clock that a test turns."""
    return ManualClock(START_MS)


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteSnapshotStore]:
    """An empty store."""
    with open_store(tmp_path / "state.db", clock=clock) as opened:
        yield opened


def end(store: SqliteSnapshotStore, run_id: str, size: int) -> None:
    """Store a finished run of so many bytes."""
    store.create(
        run_id=run_id, machine="m", digest="d", shape=b"{}", blob=bytes(size), status="done"
    )


@pytest.mark.parametrize(
    ("lengths", "rows"),
    [
        ([], 0),
        ([0], 1),
        ([BYTES], 1),
        ([BYTES + 1], 1),
        ([100 * BYTES, 1], 1),
        ([1, BYTES - 1, 1], 2),
        ([1, BYTES, 1], 1),
        ([0] * 7, 7),
    ],
)
def test_a_slice_holds_as_many_rows_as_fit_and_at_least_one(lengths: list[int], rows: int) -> None:
    """Exactly at the bound is in, one past it is not, and one long row is taken all the same."""
    assert fitting((length,) for length in lengths) == rows


def test_long_runs_are_swept_a_few_at_a_time(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """Four of a quarter of the bound fill a slice, then short ones by their number."""
    for number in range(6):
        end(store, f"long-{number}", LONG)
    for number in range(limits.SWEEP_SLICE_ROWS):
        end(store, f"short-{number}", 2)
    clock.advance(limits.RETENTION_MS + 1)
    assert [store.sweep() for _ in range(4)] == [4, limits.SWEEP_SLICE_ROWS, 2, 0]


def test_a_slice_of_runs_is_one_transaction(store: SqliteSnapshotStore, clock: ManualClock) -> None:
    """It begins, deletes once and commits, whatever it finds."""
    for number in range(3):
        end(store, f"run-{number}", 2)
    clock.advance(limits.RETENTION_MS + 1)
    seen: list[str] = []
    store.database.trace_statements(lambda sql, _: seen.append(sql.split()[0]))
    store.sweep(slice_rows=2)
    assert [word for word in seen if word in WRITES] == ["begin", "delete", "commit"]


def runs_to_sweep(store: SqliteSnapshotStore, clock: ManualClock) -> Callable[[], int]:
    """Leave 600 runs that a sweep deletes, and return what sweeps a slice of them."""
    for number in range(600):
        end(store, f"run-{number:03}", 3_000)
    clock.advance(limits.RETENTION_MS + 1)
    return store.sweep


def mail_to_sweep(store: SqliteSnapshotStore, clock: ManualClock) -> Callable[[], int]:
    """The same of the mailbox."""
    mailbox = Mailbox(store, clock=clock)
    mailbox.settle([mailbox.put("run", "send", bytes(3_000)) for _ in range(600)], "taken")
    return lambda: mailbox.sweep(START_MS + 1)


def values_to_sweep(store: SqliteSnapshotStore, clock: ManualClock) -> Callable[[], int]:
    """The same of a storage."""
    storage, scope = open_storage(store, clock=clock), Scope(workspace="w", workflow="f")
    for number in range(600):
        storage.keyed.put(scope, f"key-{number}", bytes(3_000), ttl_ms=1)
    clock.advance(1)
    return storage.sweep


@pytest.mark.parametrize("to_sweep", [runs_to_sweep, mail_to_sweep, values_to_sweep])
def test_a_sweep_does_not_fill_the_cache(
    store: SqliteSnapshotStore,
    clock: ManualClock,
    monkeypatch: pytest.MonkeyPatch,
    to_sweep: Callable[[SqliteSnapshotStore, ManualClock], Callable[[], int]],
) -> None:
    """What it reads takes the place of other pages; afterwards the cache may grow as before."""
    monkeypatch.setattr(limits, "SWEEP_CACHE_PAGES_MAX", 100)
    sweep = to_sweep(store, clock)
    connection = store.database.connection
    connection.release_memory()
    size = connection.pragma("cache_size")

    def held_bytes() -> int:
        return connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0]

    swept, most = 0, 0
    while rows := sweep():
        swept, most = swept + rows, max(most, held_bytes())
    assert swept == 600
    assert most < 110 * (limits.PAGE_BYTES + 300)
    assert connection.pragma("cache_size") == size


def test_a_sweep_leaves_a_full_cache_as_large_as_it_was(
    store: SqliteSnapshotStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pages of live runs do not go because there is a sweep: only the oldest make room."""
    monkeypatch.setattr(limits, "SWEEP_CACHE_PAGES_MAX", 10)
    for number in range(600):
        end(store, f"run-{number:03}", 3_000)
    clock.advance(limits.RETENTION_MS + 1)
    connection = store.database.connection
    before = connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0]
    while store.sweep() > 0:
        after = connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)[0]
        assert abs(after - before) < 5 * limits.PAGE_BYTES


def test_a_run_that_was_revived_between_two_slices_stays(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """What a slice deletes is decided in its own statement, not when the sweep began."""
    for name in ("a", "b", "c"):
        end(store, name, 2)
    clock.advance(limits.RETENTION_MS + 1)
    assert store.sweep(slice_rows=1) == 1
    store.mark(store.load("b").header, "live", None)
    assert [store.sweep() for _ in range(2)] == [1, 0]
    assert [header.run_id for header in store.headers()] == ["b"]


def test_long_entries_of_the_mailbox_are_swept_a_few_at_a_time(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """As runs are."""
    mailbox = Mailbox(store, clock=clock)
    entries = [mailbox.put("run", "send", bytes(LONG)) for _ in range(6)]
    mailbox.settle(entries, "taken")
    assert [mailbox.sweep(START_MS + 1) for _ in range(3)] == [4, 2, 0]


def test_long_values_of_a_storage_are_swept_a_few_at_a_time(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """And leases with the values, in one slice as long as there is room for its rows."""
    scope = Scope(workspace="w", workflow="f")
    with open_storage(store, clock=clock) as storage:
        for number in range(6):
            storage.keyed.put(scope, f"key-{number}", bytes(LONG), ttl_ms=1)
        storage.leases.acquire(scope, "lease", ttl_ms=limits.LEASE_TTL_MS_MIN)
        clock.advance(limits.LEASE_TTL_MS_MIN)
        assert [storage.sweep() for _ in range(3)] == [5, 2, 0]
