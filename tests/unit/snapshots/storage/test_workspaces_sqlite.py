"""Workspaces in the file of the runs: their transactions, their term, what each statement reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import FencedError, SqliteSnapshotStore, open_storage, open_store
from snapshots.storage import Backend
from snapshots.storage.backends.sqlite import workspaces
from snapshots.storage.workspaces import Fact, Workspace, Workspaces
from snapshots.testing import ManualClock
from snapshots.testing.suite.acting import refused


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSnapshotStore]:
    """A store of runs."""
    with open_store(tmp_path / "state.db", clock=ManualClock()) as opened:
        yield opened


@pytest.fixture
def workspace(store: SqliteSnapshotStore) -> Workspace:
    """A workspace on the store's own connection."""
    return opened(open_storage(store, clock=ManualClock()))


def opened(storage: Backend) -> Workspace:
    """Return a handle on the workspace of these tests."""
    return Workspaces(storage.workspaces).open("home")


def create(store: SqliteSnapshotStore, run_id: str) -> None:
    """Store a run."""
    store.create(run_id=run_id, machine="m", digest="d", shape=b"s", blob=b"b")


def test_a_change_and_a_runs_first_save_commit_together(
    store: SqliteSnapshotStore, workspace: Workspace
) -> None:
    """In one transaction of the store: another connection sees both or neither."""
    with open_storage(store.path) as storage:
        other = opened(storage)
        with store.transaction():
            create(store, "run-1")
            workspace.create("note", {}, artifact="a")
            assert (other.artifact("a"), other.seq()) == (None, 0)
        assert other.artifact("a") is not None
    assert store.load("run-1").blob == b"b"


def test_a_change_and_a_runs_first_save_fail_together(
    store: SqliteSnapshotStore, workspace: Workspace
) -> None:
    """Whichever of the two raises, neither is left; the log then goes on without a hole."""
    with refused("InvalidKeyError"), store.transaction():
        workspace.create("note", {}, artifact="a")
        create(store, "")
    with refused("EntityNotFoundError"), store.transaction():
        create(store, "run-1")
        workspace.change("a", {}, expected_revision=1)
    assert (workspace.artifact("a"), workspace.seq(), store.find("run")) == (None, 0, ())
    workspace.create("note", {})
    assert [entry.seq for entry in workspace.read()] == [1]


def test_a_follower_does_not_see_what_may_be_taken_back(
    store: SqliteSnapshotStore, workspace: Workspace
) -> None:
    """On the connection that has written it, inside the store's transaction, a look is refused."""
    with workspace.subscribe() as subscription:
        with refused("InvalidKeyError"), store.transaction():
            workspace.create("note", {}, artifact="a")
            with refused("StorageError") as refusal:
                subscription.take()
            assert refusal.field("operation") == "read the log"
            create(store, "")
        assert subscription.take() == []
        workspace.create("note", {}, artifact="b")
        assert [entry.subject for entry in subscription.take()] == ["b"]


def test_a_follower_is_woken_once_what_it_will_find_is_committed(
    store: SqliteSnapshotStore, workspace: Workspace
) -> None:
    """Behind the store's transaction that a change is a part of, and not if that is undone."""
    found: list[int] = []
    watch = workspace.follow().watch(lambda: found.append(workspace.seq()))
    with store.transaction():
        workspace.create("note", {})
        workspace.create("note", {})
        assert found == []
    assert found == [2, 2]
    with refused("InvalidKeyError"), store.transaction():
        workspace.create("note", {})
        create(store, "")
    assert found == [2, 2]
    workspace.create("note", {})
    assert found == [2, 2, 3]
    watch.close()


def test_a_former_owner_of_the_file_changes_nothing(
    store: SqliteSnapshotStore, workspace: Workspace
) -> None:
    """Every transaction of a workspace carries the store's term; reads go on."""
    store.take_over("host-a")
    workspace.open_thread("t")
    claim = workspace.claim_thread("t", "r")
    assert claim is not None
    with open_store(store.path) as successor:
        successor.take_over("host-b")
        with pytest.raises(FencedError):
            workspace.create("note", {})
        with pytest.raises(FencedError):
            workspace.record(Fact(thread="t", run="r", name="said"), history=b"1")
        with pytest.raises(FencedError):
            claim.renew()
        with pytest.raises(FencedError):
            workspace.claim_thread("t", "s")
    assert [entry.kind for entry in workspace.read()] == ["thread.opened"]


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (workspaces.FIND, "sqlite_autoindex_workspaces_1"),
        (workspaces.MOVE, "INTEGER PRIMARY KEY"),
        (workspaces.ENTITY, "sqlite_autoindex_workspace_entities_1"),
        (workspaces.ENTITIES, "sqlite_autoindex_workspace_entities_1"),
        (workspaces.LABELLED, "workspace_labels"),
        (workspaces.LOG, "PRIMARY KEY"),
        (workspaces.OLDEST, "workspace_audience"),
        (workspaces.NEWEST, "workspace_audience"),
        (workspaces.HISTORY, "sqlite_autoindex_workspace_history_1"),
    ],
)
def test_no_statement_walks_over_a_table(store: SqliteSnapshotStore, sql: str, index: str) -> None:
    """Each finds its rows by an index, in their order, and none sorts."""
    bindings = ("",) * (4 if "?4" in sql else sql.count("?"))
    plan = [row[3] for row in store.database.rows("plan", f"explain query plan {sql}", bindings)]
    assert any(index in step for step in plan), plan
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in plan), plan
