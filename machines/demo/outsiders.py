"""Everybody who sends something to the runs: customers, and the person who answers and decides.

They cannot know whether a command got through before a kill, so each is sent again, with the same
delivery id, until it is answered. A decision about an effect in doubt is the exception: it was made
from what was known then, so it is made anew after each kill and never repeated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from machines.demo.limits import GATE_SHARE_FIRST, RELEASE_SHARE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

REPEATS: Final = {
    "start": {"RunExistsError"},
    "answer": {"GateClosedError", "RunFinishedError"},
}
"""Refusals that tell the sender of a repeated command that the first one got through."""
OVERTAKEN: Final = {"UnsettledEffectError", "RunFinishedError"}
"""Refusals of a decision that a probe, or an earlier decision, has made needless."""

Verdict = dict[str, Any]
"""`{"done": reference}` or `{"again": True}`, as `Host.resolve` takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRun:
    """One run of the demo, and when it may go on; shares are of all lives, from 0 to 1."""

    run: str
    machine: str
    starts_at: float
    gates_at: float


@dataclass(slots=True)
class Command:
    """One line for the orchestrator, and how often it was sent."""

    id: int
    line: dict[str, Any]
    times: int = 0
    is_sent: bool = False
    """Whether it was sent to the orchestrator that lives now."""

    @property
    def verb(self) -> str:
        """What it asks for."""
        return str(self.line["do"])

    @property
    def run(self) -> str:
        """The run that it is for."""
        return str(self.line["run"])


def plan_runs(runs: int) -> tuple[PlannedRun, ...]:
    """Return the runs, both charts in turn, spread over the lives so that each life has some."""
    width = len(str(runs))
    gates_share = 1 - GATE_SHARE_FIRST
    plan: list[PlannedRun] = []
    for number in range(runs):
        machine = ("checkout", "fulfilment")[number % 2]
        plan.append(
            PlannedRun(
                run=f"{machine}-{number + 1:0{width}}",
                machine=machine,
                starts_at=RELEASE_SHARE * number / runs,
                gates_at=min(1.0, GATE_SHARE_FIRST + gates_share * (number + 1) / runs),
            )
        )
    return tuple(plan)


@dataclass(slots=True)
class Outsiders:
    """What was sent and is not answered yet, and what comes next for each run."""

    plan: tuple[PlannedRun, ...]
    service: str
    decide: Callable[[str, str], Verdict]
    """Says what became of the effect of this kind and key, as the receiver knows it."""
    share: float = 0.0
    """How much of all lives is over."""
    first_sends: int = 0
    repeats: int = 0
    taken: int = 0
    """Repeats that were answered with: taken already."""
    refused: list[str] = field(default_factory=list)
    """Refusals that nothing explains."""
    decided: set[tuple[str, int]] = field(default_factory=set)
    """Effects that a person decided, with the attempt that was in doubt."""
    _numbers: Iterator[int] = field(default_factory=count)
    _pending: dict[int, Command] = field(default_factory=dict)
    _begun: set[tuple[str, ...]] = field(default_factory=set)
    _gates: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Whether every command was answered."""
        return not self._pending

    # -- what they learn ------------------------------------------------------------------------

    def see_gates(self, run: str, gates: Iterable[tuple[str, str]]) -> None:
        """Learn which gates of a run are open, each with the event that it is answered with."""
        self._gates[run] = dict(gates)

    def see_doubt(self, run: str, effect: str, attempt: int, kind: str, key: str) -> None:
        """Learn of an effect in doubt that nobody else decides: a person does, at once."""
        if any(c.verb == "resolve" and c.line["effect"] == effect for c in self._pending.values()):
            return
        self.decided.add((effect, attempt))
        verdict = self.decide(kind, key)
        self._add({"do": "resolve", "run": run, "effect": effect, "verdict": verdict})

    def see_kill(self) -> None:
        """Learn that the orchestrator died: what was not answered is sent again."""
        for command in list(self._pending.values()):
            command.is_sent = False
            if command.verb == "resolve":
                del self._pending[command.id]

    def see_answer(self, answer: dict[str, Any]) -> Command | None:
        """Take an answer; return the command if it is acknowledged, None if it was refused."""
        command = self._pending.pop(answer["id"])
        error = answer.get("error")
        if answer["outcome"] == "taken" or self._got_through_before(command, error):
            self.taken += 1
            return command
        if error is None:
            return command
        if not (command.verb == "resolve" and error in OVERTAKEN):
            self.refused.append(f"{command.verb} for {command.run}: {answer['message']}")
        return None

    @staticmethod
    def _got_through_before(command: Command, error: str | None) -> bool:
        return command.times > 1 and error in REPEATS.get(command.verb, ())

    # -- what they send -------------------------------------------------------------------------

    def to_send(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that are to be sent now."""
        for planned in self.plan:
            self._think(planned)
        for command in self._pending.values():
            if not command.is_sent:
                command.is_sent = True
                command.times += 1
                self.first_sends += command.times == 1
                self.repeats += command.times > 1
                yield {**command.line, "id": command.id}

    def _think(self, planned: PlannedRun) -> None:
        run = planned.run
        if planned.starts_at > self.share:
            return
        if self._once(run, "start"):
            given: dict[str, Any] = {"number": run, "service": self.service}
            if planned.machine == "checkout":
                given["amount_cents"] = 1_999
            self._add({"do": "start", "run": run, "machine": planned.machine, "input": given})
        is_started = not any(c.run == run and c.verb == "start" for c in self._pending.values())
        if planned.machine == "checkout" and is_started and self._once(run, "pay"):
            self._add({"do": "send", "run": run, "event": "pay", "delivery": f"{run}-pay"})
        if planned.gates_at <= self.share:
            for gate, event in self._gates.get(run, {}).items():
                if self._once(run, "gate", gate):
                    self._add({"do": "answer", "run": run, "gate": gate, "event": event})

    def _once(self, *what: str) -> bool:
        if what in self._begun:
            return False
        self._begun.add(what)
        return True

    def _add(self, line: dict[str, Any]) -> None:
        number = next(self._numbers)
        self._pending[number] = Command(number, line)
