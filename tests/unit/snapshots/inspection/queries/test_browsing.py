"""What the console asks beside lists and runs: found by an index, in order, and as data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import Mailbox, SqliteSnapshotStore, open_store
from snapshots.inspection.queries import browsing
from snapshots.inspection.queries.files import RunFile, open_run_file
from snapshots.limits import REVISION_FIRST

# As many values as each statement takes.
STATEMENTS = {
    browsing.SEARCH: 5,
    browsing.HEADS: 1,
    browsing.SHAPE: 1,
    browsing.OUTCOME: 1,
}


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSnapshotStore]:
    """Hold a file with runs of two machines, one of them in two shapes, open for writing."""
    with open_store(path) as held:
        for number, (machine, digest) in enumerate((("a", "d1"), ("b", "d2"), ("a", "d3"))):
            held.create(
                run_id=f"run-{number}",
                machine=machine,
                digest=digest,
                shape=b'{"name": "%s"}' % digest.encode(),
                blob=b"{}",
            )
        yield held


@pytest.fixture
def file(path: Path, store: SqliteSnapshotStore) -> Iterator[RunFile]:
    """Open the file to look at it."""
    assert store.path
    with open_run_file(path) as opened:
        yield opened


@pytest.mark.parametrize("sql", STATEMENTS)
def test_a_statement_walks_over_no_rows(file: RunFile, sql: str) -> None:
    """Each finds its rows by an index, and those of a search are in its order already."""
    plan = file.ask("explain", f"explain query plan {sql}", (None,) * STATEMENTS[sql])
    steps = [step[3] for step in plan]
    assert steps
    assert all(step.startswith("SEARCH") for step in steps), steps


def test_ids_are_found_by_their_beginning(file: RunFile) -> None:
    """The last of them first, and what is asked for is no pattern."""
    found = browsing.search_runs(file, "run-", rows_max=2)
    assert [header.run_id for header in found.headers] == ["run-2", "run-1"]
    assert found.has_more
    found = browsing.search_runs(file, "run-", machine="a", status="live", rows_max=2)
    assert [header.run_id for header in found.headers] == ["run-2", "run-0"]
    assert not found.has_more
    for prefix in ("run-3", "%", "run_", "\ud800"):
        assert browsing.search_runs(file, prefix, rows_max=2).headers == (), prefix
    assert browsing.search_runs(file, "run-", machine="\ud800", rows_max=2).headers == ()


def test_machines_are_listed_once(file: RunFile) -> None:
    """In the order of their names, up to a bound."""
    assert browsing.machines_of(file, rows_max=10) == ["a", "b"]
    assert browsing.machines_of(file, rows_max=1) == ["a"]


def test_the_newest_shape_is_the_one_stored_last(file: RunFile) -> None:
    """Of its machine; a machine that is not there has none."""
    newest = browsing.newest_shape(file, "a")
    assert newest == browsing.shape_of(file, "d3")
    assert newest is not None
    assert newest.shape == b'{"name": "d3"}'
    assert browsing.newest_shape(file, "c") is None
    assert browsing.shape_of(file, "d4") is None


def test_a_head_changes_with_every_write(file: RunFile, store: SqliteSnapshotStore) -> None:
    """As the file's counter does."""
    before = file.version()
    assert browsing.head_of(file, "run-0") == (REVISION_FIRST, "live")
    store.mark(store.load("run-0").header, "lost", None)
    assert browsing.head_of(file, "run-0") == (REVISION_FIRST + 1, "lost")
    assert browsing.head_of(file, "run-9") is None
    assert browsing.head_of(file, "\ud800") is None
    assert file.version() != before


def test_an_outcome_is_there_once_it_is_settled(file: RunFile, store: SqliteSnapshotStore) -> None:
    """Before, and for an entry that is not there, it is None."""
    mailbox = Mailbox(store)
    entry = mailbox.put("run-0", "cancel", b"{}")
    assert browsing.outcome_of(file, entry) is None
    mailbox.settle([entry], "taken")
    assert browsing.outcome_of(file, entry) == "taken"
    assert browsing.outcome_of(file, entry + 1) is None
