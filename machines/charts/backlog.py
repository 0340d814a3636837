"""A project's backlog, worked by a pool: as many tasks at once as may be, each of them once.

What each part shows:

- `Task` does one task, which would be done twice if it were asked for twice: its effect has a
  probe.
- `next_task` is the pool's source. It asks the tracker and takes nothing away there: what is being
  worked is for the pool to know, across every restart.
- `Backlog` is the pool. The tracker sends it the event `news` when there are tasks that were not
  there before; else it asks again whenever a task is done, since others may have waited for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from statemachine import State, StateChart

from machines import Done, NotDone, effect
from machines.charts.pool import pool
from machines.charts.service import ask, find, post
from snapshots.codec import dump

AT_ONCE: Final = 6
"""How many tasks are worked at a time."""


@dataclass
class Ticket:
    """What a worker knows: its task as the tracker gave it, and the reference of what was done."""

    item: dict[str, str]
    reference: str | None = None


@dataclass
class Project:
    """What the pool itself knows: whose tasks it works, and which tracker has them."""

    name: str
    service: str


def work(model: Ticket, key: str) -> str:
    """Do the task; asked twice, it is done twice."""
    task = model.item
    return post(task["service"], "work", key=key, subject=f"{task['project']}-{task['id']}")


def find_work(model: Ticket, key: str) -> Done | NotDone:
    """Ask whether the task was done."""
    reference = find(model.item["service"], "work", key=key)
    return NotDone() if reference is None else Done(reference)


class Task(StateChart[Ticket]):
    """One task, from the moment when it was taken."""

    working = State(initial=True, invoke=effect(work, probe=find_work))
    worked = State(final=True, donedata="reference")

    done_invoke_working = working.to(worked, on="keep_reference")
    error_execution = working.to(working)

    def keep_reference(self, data: str) -> None:
        """Note under which reference it was done."""
        self.model.reference = data

    def reference(self) -> str | None:
        """Return the reference, for the pool."""
        return self.model.reference


def next_task(model: Project, active: tuple[str, ...]) -> Any:
    """Return a task that can be begun, else how many are open."""
    answer = ask(model.service, "next", project=model.name, active=dump(list(active)).decode())
    task = answer["task"]
    if task is None:
        return None, answer["open"]
    return {"id": task, "project": model.name, "service": model.service}


Backlog = pool(Task, next_task, cap=AT_ONCE, wake="news", name="Backlog")
