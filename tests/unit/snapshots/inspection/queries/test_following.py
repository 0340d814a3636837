"""What a watcher is told between two looks at a file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from snapshots import SqliteSnapshotStore, open_store
from snapshots.inspection.queries import following
from snapshots.inspection.queries.files import RunFile, open_run_file
from snapshots.inspection.queries.following import Change, Follower
from snapshots.inspection.text.changes import FIELDS, change_document, change_line
from snapshots.inspection.text.documents import written
from snapshots.records import RunHeader
from snapshots.testing import ManualClock
from tests.unit.snapshots.inspection.stored_runs import (
    effect,
    encoded,
    root_node,
    run_of,
    run_value,
)

EVIL = "\x1b]0;owned\x07[bold]x[/]\n\u202e"


@pytest.fixture
def clock() -> ManualClock:
    """Return a clock that moves only when it is told to."""
    return ManualClock()


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[SqliteSnapshotStore]:
    """Hold a file open for writing, as a host would."""
    with open_store(tmp_path / "state.db", clock=clock) as opened:
        yield opened


@pytest.fixture
def file(store: SqliteSnapshotStore) -> Iterator[RunFile]:
    """Open the same file to look at it."""
    with open_run_file(Path(store.path)) as opened:
        yield opened


def blob(run_id: str, steps: int = 0, first: int = 0, **changes: Any) -> bytes:
    """Return a run whose trail has some steps, each at a time of its own."""
    trail = [[number, "", f"event-{number}", ["a"], ["b"]] for number in range(first, steps)]
    return encoded(run_value(**{"run": run_id, "machine": "m", "trail": trail, **changes}))


def add(store: SqliteSnapshotStore, run_id: str, data: bytes, **changes: Any) -> RunHeader:
    """Create a run."""
    fields = {"machine": "m", "digest": "d", "shape": b"{}"}
    return store.create(**{**fields, "run_id": run_id, "blob": data, **changes})


def kinds(changes: list[Change]) -> list[tuple[str, str]]:
    """Return the kind of each change, and what it is about in a word."""
    return [(one.kind, one.event or one.name or one.status) for one in changes]


def test_the_first_look_tells_nothing_and_the_next_what_is_new(
    store: SqliteSnapshotStore, file: RunFile
) -> None:
    """Steps that were there before are not told again."""
    header = add(store, "a", blob("a", 3))
    follower = Follower(file)
    assert follower.look() == []
    assert follower.look() == []
    header = store.save(header, blob("a", 5))
    assert kinds(follower.look()) == [("step", "event-3"), ("step", "event-4")]
    store.save(header, blob("a", 6), status="done")
    ended = [("step", "event-5"), ("gate", "approval"), ("status", "done")]
    assert kinds(follower.look()) == ended
    assert follower.look() == []
    assert follower.look() == []
    assert follower.headers == {}


def test_a_trail_that_has_forgotten_its_oldest_steps_is_told_from_its_end(
    store: SqliteSnapshotStore, file: RunFile
) -> None:
    """What both trails have is not new; where they have nothing in common, all is."""
    header = add(store, "a", blob("a", 10))
    follower = Follower(file)
    follower.look()
    header = store.save(header, blob("a", 12, first=7))
    assert kinds(follower.look()) == [("step", "event-10"), ("step", "event-11")]
    store.save(header, blob("a", 30, first=28))
    assert kinds(follower.look()) == [("step", "event-28"), ("step", "event-29")]


def test_a_run_that_lived_between_two_looks_is_told_whole(
    store: SqliteSnapshotStore, file: RunFile, clock: ManualClock
) -> None:
    """It started, went its way and ended."""
    follower = Follower(file)
    follower.look()
    clock.advance(10_000_000)
    header = add(store, "a", blob("a", 1))
    store.save(header, blob("a", 2), status="failed", reason="declined")
    told = follower.look()
    assert sorted(kinds(told)) == [("start", "failed"), ("step", "event-0"), ("step", "event-1")]
    assert follower.look() == []


def test_a_revived_run_is_told_by_its_status(store: SqliteSnapshotStore, file: RunFile) -> None:
    """It is there again, and did not start."""
    header = add(store, "a", blob("a", 1), status="lost", reason="gone")
    follower = Follower(file)
    follower.look()
    store.mark(header, "live", None)
    assert ("status", "live") in kinds(follower.look())


def test_effects_and_gates_are_told_as_they_change(
    store: SqliteSnapshotStore, file: RunFile
) -> None:
    """A new status or attempt of an effect, a gate that opens or closes."""
    closed = root_node(invokes=[])
    header = add(store, "a", blob("a", effects=[effect("x.1", "calling")], root=closed))
    follower = Follower(file)
    follower.look()
    header = store.save(header, blob("a", effects=[effect("x.1", "unknown")]))
    told = follower.look()
    assert [(one.kind, one.status) for one in told] == [("effect", "unknown"), ("gate", "open")]
    assert told[1].states == ("approve", "reject")
    header = store.save(header, blob("a", effects=[effect("x.1", "unknown")], root=closed))
    assert [(one.kind, one.status) for one in follower.look()] == [("gate", "closed")]
    again = [effect("x.1", "calling", attempt=2)]
    store.save(header, blob("a", effects=again, root=closed))
    (told_again,) = follower.look()
    assert (told_again.kind, told_again.count) == ("effect", 2)


def test_a_save_that_says_nothing_else_is_told_as_one(
    store: SqliteSnapshotStore, file: RunFile
) -> None:
    """With how many there were."""
    header = add(store, "a", blob("a"))
    follower = Follower(file)
    follower.look()
    store.save(header, blob("a", deliveries=["d"]))
    (told,) = follower.look()
    assert (told.kind, told.count) == ("saved", 2)


def test_a_run_that_cannot_be_read_is_told_with_the_reason(
    store: SqliteSnapshotStore, file: RunFile
) -> None:
    """It hides no other, and its status is told as ever."""
    bad, good = add(store, "bad", blob("bad")), add(store, "good", blob("good"))
    follower = Follower(file)
    follower.look()
    store.save(bad, b"{", status="error", reason="broken")
    store.save(good, blob("good", 1))
    told = follower.look()
    assert sorted(kinds(told)) == [
        ("status", "error"),
        ("step", "event-0"),
        ("unreadable", "error"),
    ]
    assert "not JSON" in (told[-2].reason or "") + (told[-1].reason or "")


def test_of_many_that_changed_only_some_are_read(
    store: SqliteSnapshotStore, file: RunFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the others it is told that they were saved; nothing is lost of who ended."""
    monkeypatch.setattr(following, "WATCH_READ_RUNS_MAX", 2)
    headers = [add(store, f"run-{number}", blob(f"run-{number}")) for number in range(5)]
    follower = Follower(file)
    follower.look()
    seen: list[str] = []
    file._database.trace_statements(lambda sql, _: seen.append(sql))
    for header in headers:
        store.save(header, blob(header.run_id, 1), status="done")
    told = kinds(follower.look())
    file._database.trace_statements(None)
    assert seen.count(following.CONTENT) == 2
    assert told.count(("status", "done")) == 5


def test_only_the_newest_live_runs_are_followed(
    store: SqliteSnapshotStore, file: RunFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the bound an older one is not, and it is not told to have ended."""
    monkeypatch.setattr(following, "WATCH_RUNS_MAX", 2)
    for number in range(3):
        add(store, f"run-{number}", blob(f"run-{number}"))
    follower = Follower(file)
    follower.look()
    assert sorted(header.run_id for header in follower.headers.values()) == ["run-1", "run-2"]
    add(store, "run-3", blob("run-3", 1))
    assert kinds(follower.look()) == [("step", "event-0"), ("start", "live")]
    assert sorted(header.run_id for header in follower.headers.values()) == ["run-2", "run-3"]


def test_a_machine_can_be_watched_alone(store: SqliteSnapshotStore, file: RunFile) -> None:
    """Runs of another one are not told."""
    follower = Follower(file, machine="door")
    follower.look()
    add(store, "a", blob("a"))
    assert follower.look() == []
    add(store, "b", encoded(run_value(run="b", machine="door", trail=[])), machine="door")
    assert kinds(follower.look()) == [("start", "live")]


def test_one_run_is_told_how_it_stands_at_first(store: SqliteSnapshotStore, file: RunFile) -> None:
    """Whatever its status; what others do is nothing to it."""
    add(store, "other", blob("other"))
    header = add(store, "a", blob("a", 2), status="lost", reason="gone")
    follower = Follower(file, row=header.row)
    (told,) = follower.look()
    assert (told.kind, told.status, told.reason) == ("now", "lost", "gone")
    assert {"lost", "paying"} <= told.words
    add(store, "new", blob("new"))
    assert follower.look() == []


def test_nothing_out_of_a_blob_is_obeyed(store: SqliteSnapshotStore, file: RunFile) -> None:
    """Each kind of change, as a line and as an object."""
    follower = Follower(file)
    follower.look()
    header = add(store, "evil", blob("evil", machine=EVIL), machine=EVIL)
    follower.look()
    data = run_of(EVIL, "evil")
    header = store.save(header, encoded(data))
    told = follower.look()
    header = store.save(header, encoded(data), status="error", reason=EVIL)
    told += follower.look()
    alone = Follower(file, row=header.row)
    told += alone.look()
    assert {"step", "effect", "gate", "status", "now"} <= {one.kind for one in told}
    for one in told:
        texts = (change_line(one, is_of_one=False).plain, written(change_document(one)).strip())
        assert all(text.isprintable() for text in texts), texts


def test_the_help_names_every_field() -> None:
    """What is promised of a JSON object stands where a person looks for it."""
    from snapshots.inspection.cli.watch import watch  # noqa: PLC0415 - its help is the subject

    told = " ".join((watch.__doc__ or "").split())
    for kind, names in FIELDS.items():
        said = told.partition(f"{kind}")[2]
        assert said
        assert all(name in said for name in names), kind
