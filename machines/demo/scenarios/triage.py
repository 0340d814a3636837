"""Tickets: two people race to decide each by its key, in processes of their own, killed as well."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from machines.charts.triage import SCOPE
from machines.demo.limits import REPEAT_S
from machines.demo.moments import occasions
from machines.demo.outside.decider import BEFORE, DECIDED, LATE, UNKNOWN
from machines.demo.outsiders import Wish
from machines.demo.processes import Errand
from machines.demo.results import INVENTED, LOST, REFUSED, STUCK, TWISTED, UNANNOUNCED, effects
from machines.demo.scenario import Bystanders, Claim, Field, Scenario
from snapshots.codec import load
from snapshots.opening import open_storage
from snapshots.storage.approvals import Approvals
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.demo.outsiders import Outsiders, PlannedRun
    from machines.demo.scenario import Case
    from machines.demo.witness import Row

DECIDER: Final = "machines.demo.outside.decider"
PEOPLE: Final = ("ann", "bob")
INTERRUPTED_SHARE: Final = 0.3
"""The share of deciding processes that die together with the orchestrator, and begin again."""
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


class People(Bystanders):
    """Two people for each ticket, who see it wait and decide; whoever is second is told so."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.interrupted = 0
        """How many deciding processes were killed."""
        self.told: dict[tuple[str, str], str] = {}
        """What came of it, by run and person."""
        self._dice = random.Random("people")  # noqa: S311 - it guards nothing
        self._begun: set[str] = set()
        self._errands: dict[tuple[str, str], Errand] = {}
        self._again: list[tuple[float, tuple[str, str]]] = []

    @property
    def is_idle(self) -> bool:
        """Whether everybody was told."""
        return not (self._errands or self._again)

    def act(self) -> None:
        """Begin to decide tickets that wait, and hear what came of others."""
        outsiders, now_s = self.field.outsiders, time.monotonic()
        for planned in outsiders.plan:
            run = planned.run
            is_time = planned.gates_at <= outsiders.share and outsiders.gates(run)
            if is_time and run not in self._begun:
                self._begun.add(run)
                for by in self._dice.sample(PEOPLE, len(PEOPLE)):
                    self._decide((run, by))
        for due in [due for due in self._again if due[0] <= now_s]:
            self._again.remove(due)
            self._decide(due[1])
        for who in [who for who, errand in self._errands.items() if errand.poll() is not None]:
            self._hear(who, self._errands.pop(who))

    def _decide(self, who: tuple[str, str]) -> None:
        run, by = who
        given = (str(self.field.file), ticket_of(run), "approve", by)
        self._errands[who] = Errand(given, DECIDER)

    def _hear(self, who: tuple[str, str], errand: Errand) -> None:
        code, (output, complaint) = errand.poll(), errand.said()
        errand.close()
        if code != 0:
            words = complaint.decode("utf-8", "replace").strip()
            self.field.outsiders.refused.append(f"decision about {who[0]}: code {code}, {words}")
            return
        outcome = load(output)["outcome"]
        if outcome == UNKNOWN:
            # The gate is on disk, and is announced a moment later.
            self._again.append((time.monotonic() + REPEAT_S, who))
            return
        self.told[who] = outcome

    def see_kill(self, rows: dict[str, Row]) -> None:
        """Interrupt some who decide; they decide again."""
        del rows
        for who in list(self._errands):
            if self._dice.random() < INTERRUPTED_SHARE:
                self._errands.pop(who).close()
                self.interrupted += 1
                self._decide(who)

    def close(self) -> None:
        """End the processes that still decide."""
        for errand in self._errands.values():
            errand.close()


def told(case: Case) -> dict[tuple[str, str], str]:
    """Return what each person was told, by run and name."""
    assert isinstance(case.bystanders, People)
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
    assert isinstance(case.bystanders, People)
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
    bystanders=People,
)
