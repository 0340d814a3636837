"""The write of a migration: blob, digest and status together, under the guard of every write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import (
    FencedError,
    LimitError,
    RevisionConflictError,
    RunHeader,
    RunNotFoundError,
    SqliteSnapshotStore,
    StorageError,
    StoredRun,
    limits,
    open_store,
)
from snapshots.records import STATUSES, Status
from snapshots.store import sqlite
from snapshots.testing import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """The time of every store here."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteSnapshotStore]:
    """An empty store."""
    with open_store(tmp_path / "state.db", clock=clock) as opened:
        yield opened


def create(store: SqliteSnapshotStore, run_id: str = "run-1") -> RunHeader:
    """Store a run of the old shape."""
    return store.create(
        run_id=run_id, machine="checkout", digest="old", shape=b"{}", blob=b"[0]", parked=True
    )


def migrate(
    store: SqliteSnapshotStore, header: RunHeader, blob: bytes = b"[1]", status: Status = "live"
) -> RunHeader:
    """Write a run of the new shape over it."""
    return store.migrate(
        header,
        blob,
        machine="checkout",
        digest="new",
        shape=b'{"name":"new"}',
        due_ms=77,
        status=status,
    )


@pytest.mark.parametrize("status", STATUSES)
def test_a_migrated_run_is_live_with_its_new_digest(
    store: SqliteSnapshotStore, clock: ManualClock, status: Status
) -> None:
    """From whatever status: the reason and the end of the former one are gone."""
    created = create(store)
    header = created if status == "live" else store.mark(created, status, "why")
    clock.advance(5)
    after = migrate(store, header)
    assert after == created._replace(
        digest="new",
        status="live",
        reason=None,
        ended_ms=None,
        revision=header.revision + 1,
        updated_ms=clock.now_ms(),
        due_ms=77,
        parked=False,
    )
    assert store.load("run-1") == StoredRun(header=after, blob=b"[1]")
    assert [stored.header for stored in store.live()] == [after]


def test_the_returned_header_is_the_one_that_the_next_save_names(
    store: SqliteSnapshotStore,
) -> None:
    """A save goes on from it, and keeps the new digest."""
    after = store.save(migrate(store, create(store)), b"[2]")
    assert store.load("run-1") == StoredRun(header=after, blob=b"[2]")
    assert after.digest == "new"


def test_a_shape_is_kept_once_per_digest(store: SqliteSnapshotStore) -> None:
    """The new one beside the old, and the first of its digest."""
    for number in range(2):
        header = create(store, f"run-{number}")
        store.migrate(header, b"[1]", machine="checkout", digest="new", shape=b"%d" % number)
    assert store.shape("new") == b"0"
    assert store.shape("old") == b"{}"


def test_a_status_that_is_not_live_is_an_end(
    store: SqliteSnapshotStore, clock: ManualClock
) -> None:
    """Such a run has ended now, and is swept from there."""
    header = migrate(store, create(store), status="lost")
    assert (header.status, header.ended_ms) == ("lost", clock.now_ms())
    assert store.load("run-1").header == header


def test_another_revision_is_refused(store: SqliteSnapshotStore) -> None:
    """Somebody saved the run in between: nothing is written, no shape either."""
    header = create(store)
    store.save(header, b"[5]")
    before = store.load("run-1")
    with pytest.raises(RevisionConflictError):
        migrate(store, header)
    assert store.load("run-1") == before
    assert store.shape("new") is None


def test_a_run_that_is_gone_is_refused(store: SqliteSnapshotStore) -> None:
    """A row's key may be given again: the run's id is compared too."""
    header = create(store)
    with pytest.raises(RunNotFoundError):
        migrate(store, header._replace(run_id="run-2"))
    with pytest.raises(RunNotFoundError):
        migrate(store, header._replace(row=header.row + 1))
    assert store.load("run-1").header == header


def test_a_fenced_store_migrates_nothing(store: SqliteSnapshotStore, tmp_path: Path) -> None:
    """The term is asked for in the same transaction."""
    header = create(store)
    store.take_over("first")
    with open_store(tmp_path / "state.db") as other:
        other.take_over("second")
        with pytest.raises(FencedError):
            migrate(store, header)
        assert other.load("run-1").header == header
        assert other.shape("new") is None


def test_a_write_that_fails_changes_nothing(store: SqliteSnapshotStore) -> None:
    """Neither the row nor the shapes; the same store writes once it can."""
    header = create(store)
    connection = store.database.connection
    connection.pragma("query_only", True)
    with pytest.raises(StorageError):
        migrate(store, header)
    connection.pragma("query_only", False)
    assert store.load("run-1").header == header
    assert store.shape("new") is None
    assert migrate(store, header).digest == "new"


def test_a_blob_beyond_the_bound_is_refused(store: SqliteSnapshotStore) -> None:
    """At the bound it is taken, one byte past it not."""
    header = create(store)
    with pytest.raises(LimitError):
        migrate(store, header, b" " * (limits.BLOB_BYTES_MAX + 1))
    assert store.load("run-1").header == header
    migrate(store, header, b" " * limits.BLOB_BYTES_MAX)


def test_it_can_be_a_part_of_a_transaction(store: SqliteSnapshotStore) -> None:
    """What fails beside it takes it back."""
    header = create(store)

    def act() -> None:
        with store.transaction():
            migrate(store, header)
            message = "beside it"
            raise ValueError(message)

    with pytest.raises(ValueError, match="beside it"):
        act()
    assert store.load("run-1").header == header


def test_the_statement_finds_its_row_by_its_key(store: SqliteSnapshotStore) -> None:
    """Nothing is scanned."""
    sql = f"explain query plan {sqlite.MIGRATE}"
    steps = store.database.rows("plan", sql, (1,) * sqlite.MIGRATE.count("?"))
    assert [step[3] for step in steps] == ["SEARCH runs USING INTEGER PRIMARY KEY (rowid=?)"]
