"""The tracker of the projects: tasks that wait for each other, and who has done which of them.

    python -m machines.demo.outside.tracker LOG SEED

It hands a task out to whoever asks, again and again until it is done: who is at it already is not
its affair. The last tasks of a project are there only once they are released.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from machines.demo.lines import tell
from machines.demo.outside.book import Book
from machines.demo.outside.server import serve
from snapshots.codec import load

if TYPE_CHECKING:
    from machines.demo.outside.book import Asked
    from snapshots.clock import Clock

TASKS: Final = 20
LATE: Final = 4
"""How many of them are released later."""
NEEDS_MAX: Final = 2
"""For how many earlier tasks one waits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """One task of a project, and those that have to be done before it can be begun."""

    name: str
    needs: tuple[str, ...]


def tasks_of(seed: str, project: str) -> tuple[Task, ...]:
    """Return the tasks of a project: the same for the same seed."""
    dice = random.Random(f"{seed} {project}")  # noqa: S311 - it guards nothing
    tasks: list[Task] = []
    for number in range(TASKS):
        before = [task.name for task in tasks]
        needs = dice.sample(before, dice.randint(0, min(NEEDS_MAX, number)))
        tasks.append(Task(name=f"task{number + 1:02}", needs=tuple(needs)))
    return tuple(tasks)


class Tracker(Book):
    """What was done, and what can be done next."""

    def __init__(self, path: str, seed: str, clock: Clock) -> None:
        super().__init__(path, seed, clock)
        self._done: dict[str, set[str]] = defaultdict(set)
        self._released: set[str] = set()

    def happen(self, asked: Asked, reference: str) -> None:
        """Note a task as done: those that waited for it can be begun."""
        del reference
        project, _, task = asked.subject.rpartition("-")
        self._done[project].add(task)

    def look_up(self, what: str, query: dict[str, str]) -> dict[str, Any] | None:
        """Hand out a task (`next`), release the late ones (`release`), or look up as ever."""
        if what == "next":
            return self._next(query["project"], load(query["active"].encode()))
        if what == "release":
            with self.lock:
                self._released.add(query["project"])
            return {}
        return super().look_up(what, query)

    def _next(self, project: str, active: list[str]) -> dict[str, Any]:
        with self.lock:
            done = self._done[project]
            tasks = tasks_of(self.seed, project)
            open_tasks = [task for task in tasks if task.name not in done]
            there = tasks if project in self._released else tasks[:-LATE]
            free = [
                task.name
                for task in there
                if task.name not in done and task.name not in active and done.issuperset(task.needs)
            ]
            chosen = free[0] if free else None
            if chosen is not None:
                self.write(note="handed out", project=project, task=chosen, active=active)
                tell({"at": "handed out", "subject": f"{project}-{chosen}"})
        return {"task": chosen, "open": len(open_tasks)}


if __name__ == "__main__":
    serve(Tracker, sys.argv[1:])
