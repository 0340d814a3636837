"""Approvals: several gates open at once, and two approvers who race for each of them."""

from __future__ import annotations

import random
import time
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from machines.demo.limits import ANSWER_WAIT_S, HESITATION_S_MAX
from machines.demo.moments import occasions
from machines.demo.outsiders import Wish, starting
from machines.demo.processes import Errand
from machines.demo.results import OF_EFFECTS, effects
from machines.demo.scenario import Bystanders, Claim, Deed, Field, Scenario
from snapshots.codec import dump, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from machines.demo.scenario import Case
    from machines.demo.witness import Row

OFFICES: Final = ("legal", "security", "budget")
BY_COMMAND: Final = {"security": {"bob"}, "budget": {"ann", "bob"}}
"""Who answers an office's gate by `snapshots answer`, and not through the host."""
APPROVERS: Final = ("ann", "bob")
TOO_LATE: Final = frozenset({"GateClosedError", "RunFinishedError"})
"""What an approver is told by the host who comes second."""
WON: Final = frozenset({"done", "taken", "taken before"})
CLI_ANSWERS: Final = (0, 1)
"""Exit codes of a command that has an answer: yes, and no."""
INTERRUPTED_SHARE: Final = 0.3
"""The share of commands that die together with the orchestrator, and are given again."""


def proposal(run: str, service: str) -> dict[str, Any]:
    """Return the input of a run."""
    return {"number": run, "offices": list(OFFICES), "service": service}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One approver's answer to one gate."""

    run: str
    gate: str
    event: str
    by: str

    @property
    def wish(self) -> Wish:
        """Return it as a command for the orchestrator."""
        line = {
            "do": "answer",
            "gate": self.gate,
            "event": self.event,
            "data": {"by": self.by},
            "delivery": self.delivery,
        }
        return Wish(name=("gate", self.gate, self.by), line=line, losses=TOO_LATE)

    @property
    def delivery(self) -> str:
        """Return the approver's own id for it."""
        return f"{self.gate} {self.by}"

    def command(self, file: Path) -> tuple[str, ...]:
        """Return it as arguments of `snapshots`."""
        told = ("--data", dump({"by": self.by}).decode(), "--delivery", self.delivery)
        options = (*told, "--wait", str(ANSWER_WAIT_S), "--json")
        return ("answer", self.run, self.gate, self.event, str(file), *options)


class Approvers(Bystanders):
    """Two approvers who see every gate open, and race for it in their ways."""

    def __init__(self, field: Field) -> None:
        super().__init__(field)
        self.interrupted = 0
        """How many commands were killed."""
        self._dice = random.Random("approvers")  # noqa: S311 - it guards nothing
        self._seen: set[tuple[str, str]] = set()
        self._hesitating: list[tuple[float, Answer]] = []
        self._errands: list[tuple[Answer, Errand]] = []

    @property
    def is_idle(self) -> bool:
        """Whether everybody was told."""
        return not (self._hesitating or self._errands)

    def act(self) -> None:
        """Begin to answer gates that have opened, and hear what commands came to."""
        for planned in self.field.outsiders.plan:
            if planned.gates_at <= self.field.outsiders.share:
                self._see_gates(planned.run)
        now_s = time.monotonic()
        for due in [due for due in self._hesitating if due[0] <= now_s]:
            self._hesitating.remove(due)
            self.field.outsiders.want(due[1].run, due[1].wish)
        for pair in [pair for pair in self._errands if pair[1].poll() is not None]:
            self._errands.remove(pair)
            self._hear(*pair)

    def _see_gates(self, run: str) -> None:
        for gate, event in self.field.outsiders.gates(run).items():
            if (run, gate) in self._seen:
                continue
            self._seen.add((run, gate))
            for by in self._dice.sample(APPROVERS, len(APPROVERS)):
                answer = Answer(run=run, gate=gate, event=event, by=by)
                office = office_of(gate)
                if by in BY_COMMAND.get(office, ()):
                    self._give(answer)
                else:
                    wait_s = self._dice.uniform(0, HESITATION_S_MAX) if office in BY_COMMAND else 0
                    self._hesitating.append((time.monotonic() + wait_s, answer))

    def _give(self, answer: Answer) -> None:
        self._errands.append((answer, Errand(answer.command(self.field.file))))

    def _hear(self, answer: Answer, errand: Errand) -> None:
        """Take what a command said; give it again if it says that it does not know."""
        code = errand.poll()
        output, complaint = errand.said()
        errand.close()
        if code not in CLI_ANSWERS:
            words = complaint.decode("utf-8", "replace").strip()
            self.field.outsiders.refused.append(f"answer for {answer.run}: code {code}, {words}")
            return
        outcome = load(output)["outcome"]
        if outcome == "waiting":
            self._give(answer)
            return
        self.field.outsiders.answered(answer.run, answer.wish, outcome)
        if outcome in WON:
            self.field.witness.take_delivery(answer.run, answer.delivery)

    def see_kill(self, rows: dict[str, Row]) -> None:
        """Interrupt some of the commands too; whoever gave one gives it again."""
        del rows
        for pair in list(self._errands):
            if self._dice.random() < INTERRUPTED_SHARE:
                self._errands.remove(pair)
                pair[1].close()
                self.interrupted += 1
                self._give(pair[0])

    def close(self) -> None:
        """End the commands that still run."""
        for _, errand in self._errands:
            errand.close()


def office_of(gate: str) -> str:
    """Return the office whose gate has this address: `collecting.@legal/waiting` is legal's."""
    return gate.partition("@")[2].partition("/")[0]


def winners(case: Case) -> dict[tuple[str, str], list[str]]:
    """Return who was told that his answer counts, by run and office."""
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (run, *name), outcome in case.outsiders.told.items():
        if name[0] == "gate" and outcome in WON:
            found[run, office_of(name[1])].append(name[2])
    return found


def _not_won_once(case: Case) -> Iterator[str]:
    won = winners(case)
    for run, _ in case.rows():
        for office in OFFICES:
            told = won[run, office]
            if len(told) != 1:
                yield f"{run}, {office}: {' and '.join(told) or 'nobody'} won"


def _told_wrongly(case: Case) -> Iterator[str]:
    signed = {
        entry["subject"]: entry["details"]["by"]
        for entry in case.witness.log.accepted()
        if entry["what"] == "sign"
    }
    for (run, office), told in winners(case).items():
        row = case.witness.rows.get(run)
        noted = row.view.context["signed"].get(office) if row is not None else None
        for who in told:
            if (noted, signed.get(f"{run}-{office}")) != (who, who):
                by = signed.get(f"{run}-{office}")
                yield f"{run}, {office}: {who} won, {noted} is noted, {by} has signed"


def deeds(case: Case, row: Row) -> Iterator[Deed]:
    """Yield the signatures with who answered for them, and the publication."""
    for deed in effects(case, row):
        who = row.view.context["signed"].get(deed.about, "")
        way = ", by command" if who in BY_COMMAND.get(deed.about, ()) else ""
        yield replace(deed, note=f"{who}{way}")


def notes(case: Case) -> list[str]:
    """Return how the races ended."""
    assert isinstance(case.bystanders, Approvers)
    outcomes = [outcome for name, outcome in case.outsiders.told.items() if name[1] == "gate"]
    won = sum(outcome in WON for outcome in outcomes)
    firsts = [told[0] for told in winners(case).values() if told]
    told = ", ".join(f"{who} {firsts.count(who)}" for who in APPROVERS)
    lost, interrupted = len(outcomes) - won, case.bystanders.interrupted
    return [
        f"Answers: {len(outcomes)}, that counted: {won} ({told}), that came too late: {lost}.",
        f"Commands that were killed as well, and given again: {interrupted}.",
    ]


RACED: Final = Claim(text="gates that not exactly one approver won", found=_not_won_once)
CROSSED: Final = Claim(
    text="approvers told that they won, and another is on paper", found=_told_wrongly
)

APPROVAL: Final = Scenario(
    name="approval",
    outside="machines.demo.outside.receiver",
    outside_name="receiver",
    machines=("release",),
    runs_default=4,
    kills_per_run=2.0,
    occasions=occasions("receiver"),
    habits=starting(proposal),
    claims=(RACED, CROSSED, *OF_EFFECTS),
    control=RACED,
    deeds=deeds,
    headings=("EFFECT", "LEFT", "SEEN", "ANSWERED BY"),
    notes=notes,
    bystanders=Approvers,
)
