"""A pool: tasks that wait for each other, worked several at once, none twice and none forgotten."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from machines.charts.service import ask
from machines.demo.moments import Occasion, occasions
from machines.demo.outside.tracker import tasks_of
from machines.demo.outsiders import Wish, starting
from machines.demo.results import (
    IN_DOUBT,
    INVENTED,
    LOST,
    REFUSED,
    STUCK,
    TWISTED,
    UNANNOUNCED,
    effects,
    settled_by,
)
from machines.demo.scenario import Bystanders, Claim, Deed, Field, Scenario

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.scenario import Case
    from machines.demo.witness import Row


class Planners(Bystanders):
    """Release the late tasks of each project once it is time to, and tell its pool."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._released: set[str] = set()

    def act(self) -> None:
        """Release what is due; the news is sent when the tasks are there."""
        outsiders = self.field.outsiders
        for planned in outsiders.plan:
            run = planned.run
            is_due = planned.gates_at <= outsiders.share and outsiders.is_started(run)
            if is_due and run not in self._released:
                self._released.add(run)
                ask(self.field.service, "release", project=run)
                line = {"do": "send", "event": "news", "delivery": f"{run}-news"}
                # The pool may have seen them by itself, and be done before it is told.
                gone = frozenset({"RunFinishedError"})
                outsiders.want(run, Wish(name=("news",), line=line, losses=gone))


def deeds(case: Case, row: Row) -> Iterator[Deed]:
    """Yield all tasks of a project as one deed: there are many."""
    tasks = list(effects(case, row))
    run = row.view.run_id
    yield Deed(
        kind="work",
        about=f"{len(tasks)} tasks",
        left=sum(deed.left for deed in tasks),
        seen=sum(deed.seen for deed in tasks),
        is_once=True,
        note=settled_by(by for doubt, by in case.doubts if doubt.run == run),
        is_bad=any(deed.is_bad for deed in tasks),
    )


def _works(case: Case) -> Counter[str]:
    """Return how often each task was done, by what the tracker wrote down."""
    return Counter(e["subject"] for e in case.witness.log.accepted() if e["what"] == "work")


def _twice(case: Case) -> Iterator[str]:
    for subject, times in _works(case).items():
        if times > 1:
            yield f"{subject}: {times} times"


def _forgotten(case: Case) -> Iterator[str]:
    works = _works(case)
    for run, row in case.rows():
        outcomes = row.view.context["outcomes"] if row is not None else {}
        for task in tasks_of(str(case.seed), run):
            if not works[f"{run}-{task.name}"]:
                yield f"{run}-{task.name}: never done"
            elif task.name not in outcomes:
                yield f"{run}-{task.name}: done, and not among the outcomes"


def _wrong_outcomes(case: Case) -> Iterator[str]:
    log = case.witness.log.accepted()
    references = {entry["subject"]: entry["reference"] for entry in log}
    for run, row in case.rows():
        outcomes = row.view.context["outcomes"] if row is not None else {}
        for task, outcome in outcomes.items():
            noted = outcome.get("ended"), outcome.get("data")
            if noted != (["worked"], references.get(f"{run}-{task}")):
                yield f"{run}-{task}: {noted!r}"


def notes(case: Case) -> list[str]:
    """Return how much there was to do."""
    handed = len(case.witness.log.notes("handed out"))
    works, tasks = _works(case), sum(len(tasks_of(str(case.seed), run)) for run, _ in case.rows())
    return [f"Tasks: {tasks}, handed out: {handed} times, done: {works.total()} times."]


TWICE: Final = Claim(text="tasks worked twice", found=_twice)
FORGOTTEN: Final = Claim(text="tasks forgotten", found=_forgotten)
WRONG: Final = Claim(text="outcomes that are not what was done", found=_wrong_outcomes)

POOL: Final = Scenario(
    name="pool",
    outside="machines.demo.outside.tracker",
    outside_name="tracker",
    machines=("backlog",),
    runs_default=3,
    kills_per_run=5.0,
    occasions=occasions(
        "tracker",
        Occasion(
            at="handed out",
            weight=5,
            phrase="the tracker handed out {subject}",
            after_s_max=0.003,
            nth_max=3,
        ),
    ),
    habits=starting(lambda run, service: {"name": run, "service": service}),
    claims=(
        TWICE,
        FORGOTTEN,
        WRONG,
        LOST,
        STUCK,
        TWISTED,
        UNANNOUNCED,
        INVENTED,
        IN_DOUBT,
        REFUSED,
    ),
    control=TWICE,
    deeds=deeds,
    notes=notes,
    cyclic=frozenset({"backlog"}),
    bystanders=Planners,
)
