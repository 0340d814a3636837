"""The processes outside keep to what the verdicts rest on: tasks of a tracker, jobs of a studio."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from machines.demo.outside.book import Book
from machines.demo.outside.studio import SCENES, SCENES_READ_MAX, Studio, scene_of
from machines.demo.outside.tracker import LATE, TASKS, Tracker, tasks_of
from snapshots.testing import ManualClock

SEED = "1"


@pytest.fixture
def sender() -> Iterator[socket.socket]:
    """Return the connection of somebody who waits for an answer."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield theirs


@pytest.fixture
def tracker(tmp_path: Path) -> Iterator[Tracker]:
    """Return a tracker that nobody has asked yet."""
    with Tracker(str(tmp_path / "log"), SEED, ManualClock()) as opened:
        yield opened


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    """Return a studio without a job."""
    with Studio(str(tmp_path / "log"), SEED, ManualClock()) as opened:
        yield opened


def do(book: Book, sender: socket.socket, what: str, subject: str, key: str) -> str:
    """Have something done; return its reference."""
    reference = book.accept(book.arrive(what, key, subject=subject), sender)
    assert reference is not None
    return reference


def next_task(tracker: Tracker, *active: str) -> tuple[str | None, int]:
    """Ask for a task of the project; return it and how many are open."""
    query = {"project": "p", "active": json.dumps(active)}
    answer = tracker.look_up("next", query)
    assert answer is not None
    return answer["task"], answer["open"]


def free_tasks(tracker: Tracker) -> list[str]:
    """Return all that are handed out to somebody who takes them one after the other."""
    found: list[str] = []
    while (task := next_task(tracker, *found)[0]) is not None:
        found.append(task)
    return found


def test_a_task_is_handed_out_until_it_is_done(tracker: Tracker, sender: socket.socket) -> None:
    """To ask for one takes nothing away; what is worked is left out only if one says so."""
    (task, open_tasks) = next_task(tracker)
    assert (next_task(tracker), open_tasks) == ((task, TASKS), TASKS)
    assert next_task(tracker, str(task))[0] != task
    do(tracker, sender, "work", f"p-{task}", "key")
    assert (next_task(tracker)[0] != task, next_task(tracker)[1]) == (True, TASKS - 1)


def test_a_task_waits_for_those_that_it_needs(tracker: Tracker, sender: socket.socket) -> None:
    """It is handed out once they are done, and the last ones only once they are released."""
    plan = {task.name: task.needs for task in tasks_of(SEED, "p")}
    done: set[str] = set()
    while free := free_tasks(tracker):
        for name in free:
            assert done.issuperset(plan[name])
            do(tracker, sender, "work", f"p-{name}", name)
        done.update(free)
    late = set(list(plan)[-LATE:])
    # What is there may wait for nothing but what is done.
    assert done == plan.keys() - late
    assert tracker.look_up("release", {"project": "p"}) == {}
    assert set(free_tasks(tracker)) <= late


def test_a_plan_is_that_of_its_seed_and_project() -> None:
    """The same for the same, so that who judges knows what there was to do."""
    assert tasks_of(SEED, "p") == tasks_of(SEED, "p")
    assert len({tasks_of("1", "p"), tasks_of("2", "p"), tasks_of("1", "q")}) == 3


def scenes(studio: Studio, job: str, start: int) -> dict[str, Any] | None:
    """Read a job's scenes from one of them on."""
    query = {"job": job, "start": str(start), "term": "1"}
    return studio.look_up("scenes", query)


def test_a_job_is_begun_once_per_key(studio: Studio, sender: socket.socket) -> None:
    """Who asks again gets the job that there is."""
    job = do(studio, sender, "render", "film", "key")
    assert do(studio, sender, "render", "film", "key") == job
    assert do(studio, sender, "render", "film", "other") != job


def test_scenes_can_be_read_again(studio: Studio, sender: socket.socket) -> None:
    """From wherever one likes, in their order; who has them all is told that it is over."""
    job = do(studio, sender, "render", "film", "key")
    first = scenes(studio, job, 0)
    assert first is not None
    assert first["scenes"][:1] == [scene_of("film", 0)]
    assert len(first["scenes"]) <= SCENES_READ_MAX
    again = scenes(studio, job, 0)
    assert again is not None
    assert again["scenes"][0] == first["scenes"][0]
    assert scenes(studio, job, SCENES) == {"scenes": [], "ended": True}


def test_a_job_that_was_dropped_is_gone(studio: Studio, sender: socket.socket) -> None:
    """Neither its scenes nor its name is known any more."""
    job = do(studio, sender, "render", "film", "key")
    assert studio.look_up("job", {"job": job}) == {}
    assert studio.look_up("drop", {"job": job}) == {}
    assert studio.look_up("job", {"job": job}) is None
    assert scenes(studio, job, 0) is None
