"""Decisions by key in every way: in time, early, too late, of a wrong kind, and on finished work.

Two people decide each ticket, some before it waits; a third one says something that it does not
take. Once it is answered, two more say what the answer was worth, at odds or not: "bad" begins
another run, once. Each of them is a process of his own, which may be killed with the host.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from machines.charts.triage import SCOPE
from machines.demo.limits import REPEAT_S
from machines.demo.moments import occasions
from machines.demo.outside.decider import BEFORE, DECIDED, LATE, UNKNOWN
from machines.demo.people import People
from machines.demo.results import INVENTED, LOST, REFUSED, STUCK, TWISTED, UNANNOUNCED, effects
from machines.demo.scenario import Claim, Field, Scenario
from machines.demo.scenarios.triage import MACHINE, habits
from machines.host.openings import run_after
from snapshots.opening import open_storage
from snapshots.storage.approvals import Approvals
from snapshots.storage.state import StateStore
from tools.scenarios.person import REFUSED as NOT_TAKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.scenario import Case

EARLY_TTL_MS: Final = 600_000
EARLY_EVERY: Final = 3
"""Every so many tickets, one is decided before it waits."""
TICKET: Final = "ticket"
VERDICT: Final = "verdict"
COUNTS: Final = (DECIDED, BEFORE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saying:
    """What one person says about one matter of a run."""

    run: str
    matter: str
    event: str
    by: str
    is_early: bool = False

    @property
    def key(self) -> str:
        """The key that the decision is looked for under."""
        return f"{self.matter}-{number_of(self.run)}"

    def arguments(self, file: str) -> tuple[str, ...]:
        """Return what the person's process is started with."""
        early = (str(EARLY_TTL_MS),) if self.is_early else ()
        return (file, self.key, self.event, self.by, *early)


def number_of(run: str) -> str:
    """Return the number of a run's ticket."""
    return run.removeprefix(f"{MACHINE}-")


class Deciders(People[Saying, str]):
    """Everybody who decides something, each in a process of his own."""

    module = "tools.scenarios.person"
    result = "outcome"
    too_early = UNKNOWN
    """It does not wait yet, or is announced a moment later."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._begun: set[tuple[str, str]] = set()
        self._looked_s = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether everything was decided, and the host has done what follows."""
        if not super().is_idle or len(self._begun) < 2 * len(self.field.outsiders.plan):
            return False
        if any(run not in self.field.outsiders.ended for run in followers(self.told)):
            return False
        now_s = time.monotonic()
        if now_s - self._looked_s < REPEAT_S:
            return False
        self._looked_s = now_s
        with open_storage(self.field.file) as backend:
            return not approvals_of(backend).unsettled()

    def act(self) -> None:
        """Have people say what is due, and hear what came of it."""
        outsiders = self.field.outsiders
        for number, planned in enumerate(outsiders.plan):
            run, is_early = planned.run, number % EARLY_EVERY == 0
            is_due = outsiders.gates(run) or run in outsiders.ended
            if (is_early and planned.starts_at <= outsiders.share) or (
                is_due and planned.gates_at <= outsiders.share
            ):
                self._begin(run, TICKET, self._about_ticket(run, is_early=is_early))
            if run in outsiders.ended:
                self._begin(run, VERDICT, self._about_answer(run, is_bad=number % 2 == 0))
        self.hear()

    def arguments(self, saying: Saying) -> tuple[str, ...]:
        """Return what the person's process is started with."""
        return saying.arguments(str(self.field.file))

    def _about_ticket(self, run: str, *, is_early: bool) -> list[Saying]:
        return [
            Saying(run=run, matter=TICKET, event="approve", by="ann", is_early=is_early),
            Saying(run=run, matter=TICKET, event="approve", by="bob"),
            Saying(run=run, matter=TICKET, event="publish", by="eve"),
        ]

    def _about_answer(self, run: str, *, is_bad: bool) -> list[Saying]:
        return [
            Saying(run=run, matter=VERDICT, event="bad", by="cy"),
            Saying(run=run, matter=VERDICT, event="bad" if is_bad else "good", by="dee"),
        ]

    def _begin(self, run: str, matter: str, sayings: list[Saying]) -> None:
        if (run, matter) not in self._begun:
            self._begun.add((run, matter))
            for saying in self.dice.sample(sayings, len(sayings)):
                self.say(saying)


def approvals_of(backend: Any) -> Approvals:
    """Return the approvals of the tickets."""
    return Approvals(StateStore(backend.keyed, backend.leases, SCOPE))


def followers(told: dict[Saying, str]) -> list[str]:
    """Return the runs that what was decided must have begun."""
    return [
        run_after(saying.run, saying.event)
        for saying, outcome in told.items()
        if (saying.matter, saying.event) == (VERDICT, "bad") and outcome in COUNTS
    ]


def told(case: Case) -> dict[Saying, str]:
    """Return what everybody was told."""
    assert isinstance(case.bystanders, Deciders)
    return case.bystanders.told


def winners(case: Case, run: str, matter: str) -> list[Saying]:
    """Return what was said about a matter, and counts."""
    return [
        saying
        for saying, outcome in told(case).items()
        if (saying.run, saying.matter) == (run, matter) and outcome in COUNTS
    ]


def _happened(case: Case, what: str, run: str) -> list[str]:
    """Return in whose names something was really done about a run's ticket."""
    return [
        entry["details"]["by"]
        for entry in case.witness.log.accepted()
        if (entry["what"], entry["subject"]) == (what, number_of(run)) and entry["happened"]
    ]


def _not_decided_once(case: Case) -> Iterator[str]:
    for run, _ in case.rows():
        for matter in (TICKET, VERDICT):
            if len(won := winners(case, run, matter)) != 1:
                yield f"{run}, {matter}: {[saying.by for saying in won]} decided"


def _not_followed_once(case: Case) -> Iterator[str]:
    followed: list[str] = []
    for run, _ in case.rows():
        answered, by = _happened(case, "answer", run), winners(case, run, TICKET)
        if answered != [saying.by for saying in by]:
            yield f"{run}: {[one.by for one in by]} approved, answers went out by {answered}"
        escalated, bad = _happened(case, "escalate", run), winners(case, run, VERDICT)
        if escalated != [saying.by for saying in bad if saying.event == "bad"]:
            yield f"{run}: verdicts {[one.event for one in bad]}, and {escalated} was escalated"
        followed += followers(dict.fromkeys(bad, DECIDED))
    begun = [run for run, row in case.witness.rows.items() if row.view.machine == "followup"]
    if sorted(begun) != sorted(followed):
        yield f"the decisions led to {begun}, and not to {followed}"


def _not_on_record(case: Case) -> Iterator[str]:
    with open_storage(case.witness.file) as backend:
        approvals = approvals_of(backend)
        for saying, outcome in told(case).items():
            kept = approvals.decision(saying.key)
            on_record = None if kept is None else (kept.by, kept.event)
            if (on_record == (saying.by, saying.event)) != (outcome in COUNTS):
                yield f"{saying.key}: {saying.by} was told {outcome}, on record is {on_record}"


def _not_settled(case: Case) -> Iterator[str]:
    with open_storage(case.witness.file) as backend:
        approvals = approvals_of(backend)
        for decision in approvals.unsettled():
            yield f"{decision.key}: nobody took what {decision.by} decided"
        for approval in approvals.opened():
            yield f"{approval.key}: still announced as waiting"


def _taken_wrongly(case: Case) -> Iterator[str]:
    for saying, outcome in told(case).items():
        if saying.by == "eve" and outcome not in (NOT_TAKEN, LATE):
            yield f"{saying.key}: {saying.event!r} is {outcome}, which it does not take"


def notes(case: Case) -> list[str]:
    """Return how it went."""
    assert isinstance(case.bystanders, Deciders)
    outcomes = Counter(told(case).values())
    listed = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
    early = sum(saying.is_early and outcome in COUNTS for saying, outcome in told(case).items())
    return [
        f"Sayings: {listed}; early ones that counted: {early}.",
        f"Runs that a verdict began: {len(followers(told(case)))}.",
        f"People who were killed as well: {case.bystanders.interrupted}.",
    ]


DECIDED_ONCE: Final = Claim(text="matters that not exactly one decided", found=_not_decided_once)
FOLLOWED: Final = Claim(text="decisions not followed exactly once", found=_not_followed_once)
ON_RECORD: Final = Claim(text="people told what is not on record", found=_not_on_record)
SETTLED: Final = Claim(text="decisions that nobody took", found=_not_settled)
TAKEN_WRONGLY: Final = Claim(text="words that were taken for a decision", found=_taken_wrongly)

APPROVALS: Final = Scenario(
    name="approvals",
    outside="machines.demo.outside.receiver",
    outside_name="receiver",
    machines=(MACHINE,),
    runs_default=5,
    kills_per_run=1.6,
    occasions=occasions("receiver"),
    habits=habits,
    claims=(
        *(DECIDED_ONCE, FOLLOWED, ON_RECORD, SETTLED, TAKEN_WRONGLY),
        *(LOST, STUCK, TWISTED, UNANNOUNCED, INVENTED, REFUSED),
    ),
    control=FOLLOWED,
    deeds=effects,
    notes=notes,
    bystanders=Deciders,
)
