"""Tickets: two people race to decide each by its key, in processes of their own, killed as well."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from machines.charts.triage import SCOPE
from machines.demo.moments import occasions
from machines.demo.outside.decider import BEFORE, DECIDED, LATE, UNKNOWN
from machines.demo.outsiders import Wish
from machines.demo.people import People
from machines.demo.results import INVENTED, LOST, REFUSED, STUCK, TWISTED, UNANNOUNCED, effects
from machines.demo.scenario import Claim, Field, Scenario
from snapshots.opening import open_storage
from snapshots.storage.approvals import Approvals
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.outsiders import Outsiders, PlannedRun
    from machines.demo.scenario import Case

PEOPLE: Final = ("ann", "bob")
MACHINE: Final = "mail"
"""What the machine is hosted as: a run is named after its mail."""


def habits(planned: PlannedRun, outsiders: Outsiders) -> Iterator[Wish]:
    """Yield a mail, and again what a poller that forgot it would bring."""
    id_ = planned.run.removeprefix(f"{MACHINE}-")
    mail = {"id": id_, "number": id_, "text": "help", "service": outsiders.service}
    line = {"do": "mail", "mail": mail}
    yield Wish(name=("start",), line=line)
    if outsiders.is_started(planned.run):
        yield Wish(name=("again",), line=line)


def ticket_of(run: str) -> str:
    """Return the key under which a run's decision is waited for."""
    return f"ticket-{run.removeprefix(f'{MACHINE}-')}"


class Deciders(People[tuple[str, str], str]):
    """Two people for each ticket, who see it wait and decide; whoever is second is told so.

    What they say is the run and who it is that decides.
    """

    module = "machines.demo.outside.decider"
    result = "outcome"
    too_early = UNKNOWN
    """The gate is on disk, and is announced a moment later."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self._begun: set[str] = set()

    def act(self) -> None:
        """Begin to decide tickets that wait, and hear what came of others."""
        outsiders = self.field.outsiders
        for planned in outsiders.plan:
            run = planned.run
            is_time = planned.gates_at <= outsiders.share and outsiders.gates(run)
            if is_time and run not in self._begun:
                self._begun.add(run)
                for by in self.dice.sample(PEOPLE, len(PEOPLE)):
                    self.say((run, by))
        self.hear()

    def arguments(self, saying: tuple[str, str]) -> tuple[str, ...]:
        """Return what the person's process is started with."""
        run, by = saying
        return str(self.field.file), ticket_of(run), "approve", by


def told(case: Case) -> dict[tuple[str, str], str]:
    """Return what each person was told, by run and name."""
    assert isinstance(case.bystanders, Deciders)
    return case.bystanders.told


def winners(case: Case) -> dict[str, list[str]]:
    """Return who was told to have decided, by run."""
    found: dict[str, list[str]] = defaultdict(list)
    for (run, by), outcome in told(case).items():
        if outcome in (DECIDED, BEFORE):
            found[run].append(by)
    return found


def answers(case: Case) -> dict[str, list[dict[str, Any]]]:
    """Return every answer that really went out, by the ticket's number."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in case.witness.log.accepted():
        if entry["what"] == "answer" and entry["happened"]:
            found[entry["subject"]].append(entry)
    return found


def _not_won_once(case: Case) -> Iterator[str]:
    won = winners(case)
    for run, _ in case.rows():
        if len(won[run]) != 1:
            yield f"{run}: {' and '.join(won[run]) or 'nobody'} decided"


def _not_answered_once(case: Case) -> Iterator[str]:
    sent, won = answers(case), winners(case)
    for run, _ in case.rows():
        by = [entry["details"]["by"] for entry in sent[run.removeprefix(f"{MACHINE}-")]]
        if by != won[run]:
            yield f"{run}: {won[run]} decided, and answers went out by {by}"


def _unsettled(case: Case) -> Iterator[str]:
    with open_storage(case.witness.file) as backend:
        approvals = Approvals(StateStore(backend.keyed, backend.leases, SCOPE))
        for decision in approvals.unsettled():
            yield f"{decision.key}: nobody took what {decision.by} decided"
        for run, _ in case.rows():
            if approvals.find(ticket_of(run)) is not None:
                yield f"{run}: still announced as waiting"


def notes(case: Case) -> list[str]:
    """Return how the races ended."""
    assert isinstance(case.bystanders, Deciders)
    outcomes = list(told(case).values())
    late = outcomes.count(LATE)
    return [
        f"Decisions: {len(outcomes)}, that counted: {len(outcomes) - late}, too late: {late}.",
        f"Deciding processes that were killed as well: {case.bystanders.interrupted}.",
    ]


WON: Final = Claim(text="tickets that not exactly one person decided", found=_not_won_once)
ANSWERED: Final = Claim(text="tickets not answered once, by who decided", found=_not_answered_once)
SETTLED: Final = Claim(text="decisions that nobody took", found=_unsettled)

TRIAGE: Final = Scenario(
    name="triage",
    outside="machines.demo.outside.receiver",
    outside_name="receiver",
    machines=(MACHINE,),
    runs_default=5,
    kills_per_run=1.6,
    occasions=occasions("receiver"),
    habits=habits,
    claims=(WON, ANSWERED, SETTLED, LOST, STUCK, TWISTED, UNANNOUNCED, INVENTED, REFUSED),
    control=ANSWERED,
    deeds=effects,
    notes=notes,
    bystanders=Deciders,
)
