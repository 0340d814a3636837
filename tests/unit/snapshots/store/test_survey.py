"""What a boot asks of the store: all live rows without blobs, and one of them by its row."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapshots import SqliteSnapshotStore, open_store
from snapshots.limits import NO_TIMER_MS, SURVEY_CACHE_BYTES_MAX, SURVEY_SLICE_ROWS
from snapshots.records import LiveRows, RunHeader, WaitingRuns


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSnapshotStore]:
    """An empty store on a file."""
    with open_store(tmp_path / "state.db") as opened:
        yield opened


def create(store: SqliteSnapshotStore, run_id: str, **given: Any) -> RunHeader:
    """Store a run, live and parked unless told otherwise."""
    options: dict[str, Any] = {"machine": "m", "digest": "d", "parked": True} | given
    return store.create(run_id=run_id, shape=b"{}", blob=b"[0]", **options)


def pages_kept(store: SqliteSnapshotStore) -> int:
    """Return the bound of the page cache as SQLite has it."""
    kept: int = store.database.connection.pragma("cache_size")
    return kept


def test_an_empty_file_has_nothing_to_survey(store: SqliteSnapshotStore) -> None:
    """No slice at all, not an empty one."""
    assert list(store.survey()) == []


def test_a_survey_tells_runs_that_wait_from_others(store: SqliteSnapshotStore) -> None:
    """By machine and shape, with the timers that there are; what has ended is not there."""
    create(store, "a")
    active = create(store, "b", parked=False, due_ms=7)
    create(store, "c", digest="e")
    create(store, "d", status="done", parked=False)
    create(store, "e", due_ms=9)
    create(store, "f", machine="n")
    (found,) = store.survey()
    assert found == LiveRows(
        waiting=(
            WaitingRuns(machine="m", digest="d", run_ids=["a", "e"], due_ms={"e": 9}),
            WaitingRuns(machine="m", digest="e", run_ids=["c"], due_ms={}),
            WaitingRuns(machine="n", digest="d", run_ids=["f"], due_ms={}),
        ),
        active={active.row: "b"},
    )


@pytest.mark.parametrize("more", [-1, 0, 1])
def test_every_live_run_comes_once_while_others_are_written(
    store: SqliteSnapshotStore, more: int
) -> None:
    """Slices are read apart, one past the bound too: who surveys may write in between."""
    names = [f"run-{number:04}" for number in range(2 * SURVEY_SLICE_ROWS + more)]
    with store.transaction():
        headers = [create(store, name, parked=number % 2) for number, name in enumerate(names)]
    seen: list[str] = []
    for found in store.survey():
        for waiting in found.waiting:
            seen += waiting.run_ids
        seen += found.active.values()
        first = headers[len(seen) - 1]
        store.save(first, b"[1]", status="done", due_ms=NO_TIMER_MS)
    assert sorted(seen) == names


def test_a_run_that_ends_before_its_slice_is_none(store: SqliteSnapshotStore) -> None:
    """A slice has what was live when it was read."""
    with store.transaction():
        headers = [create(store, f"run-{number:04}") for number in range(SURVEY_SLICE_ROWS + 2)]
    survey = store.survey()
    next(survey)
    store.mark(headers[-1], "cancelled", "by hand")
    (rest,) = survey
    assert [waiting.run_ids for waiting in rest.waiting] == [[headers[-2].run_id]]


def test_a_survey_keeps_few_pages_and_only_while_it_lasts(store: SqliteSnapshotStore) -> None:
    """The bound of the page cache is what it was before, whether it was read to its end or left."""
    create(store, "a")
    before = pages_kept(store)
    for found in store.survey():
        assert found.waiting
        assert pages_kept(store) == -SURVEY_CACHE_BYTES_MAX // 1024 != before
    assert pages_kept(store) == before
    left = store.survey()
    next(left)
    left.close()  # type: ignore[attr-defined]  # it is a generator
    assert pages_kept(store) == before


def test_a_survey_that_outlives_its_store_is_left_in_peace(tmp_path: Path) -> None:
    """Closed behind the store's end it asks nothing of the file."""
    with open_store(tmp_path / "state.db") as store:
        create(store, "a")
        survey = store.survey()
        next(survey)
    survey.close()  # type: ignore[attr-defined]  # it is a generator


def test_a_live_run_is_read_by_its_row(store: SqliteSnapshotStore) -> None:
    """Whole, as it is then; a row that has ended, or is none, is no live run."""
    header = create(store, "a", parked=False)
    saved = store.save(header, b"[1]")
    found = store.live_at(header.row)
    assert found is not None
    assert found.header == saved
    assert bytes(found.blob) == b"[1]"
    store.mark(saved, "lost", "gone")
    assert store.live_at(header.row) is None
    assert store.live_at(header.row + 1) is None
