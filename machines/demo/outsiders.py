"""Everybody who sends something to the runs: customers, and the person who answers and decides.

They cannot know whether a command got through before a kill, so each is sent again, with the same
delivery id, until it is answered. A decision about an effect in doubt is the exception: it was made
from what was known then, so it is made anew after each kill and never repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from machines.demo.limits import GATE_SHARE_FIRST, RELEASE_SHARE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

REPEATS: Final = {
    "start": {"RunExistsError"},
    "wake": {"RunExistsError"},
    "answer": {"GateClosedError", "RunFinishedError"},
}
"""Refusals that tell the sender of a repeated command that the first one got through."""
OVERTAKEN: Final = frozenset({"UnsettledEffectError", "RunFinishedError"})
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


def plan_runs(runs: int, machines: tuple[str, ...]) -> tuple[PlannedRun, ...]:
    """Return the runs, the machines in turn, spread over the lives so that each life has some."""
    width = len(str(runs))
    gates_share = 1 - GATE_SHARE_FIRST
    plan: list[PlannedRun] = []
    for number in range(runs):
        machine = machines[number % len(machines)]
        plan.append(
            PlannedRun(
                run=f"{machine}-{number + 1:0{width}}",
                machine=machine,
                starts_at=RELEASE_SHARE * number / runs,
                gates_at=min(1.0, GATE_SHARE_FIRST + gates_share * (number + 1) / runs),
            )
        )
    return tuple(plan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A command that somebody wants to be sent once, known by its name among those of its run."""

    name: tuple[str, ...]
    line: dict[str, Any]
    losses: frozenset[str] = frozenset()
    """Refusals that are an answer too: somebody else was first."""


@dataclass(slots=True)
class Command:
    """One line for the orchestrator, and how often it was sent."""

    id: int
    run: str
    wish: Wish
    times: int = 0
    is_sent: bool = False
    """Whether it was sent to the orchestrator that lives now."""

    @property
    def verb(self) -> str:
        """What it asks for."""
        return str(self.wish.line["do"])

    @property
    def line(self) -> dict[str, Any]:
        """What is sent."""
        return {**self.wish.line, "run": self.run, "id": self.id}

    @property
    def tells_of_repeats(self) -> bool:
        """Whether a repeat is told by its answer, so that no refusal has to be read as one."""
        return self.verb != "start" and self.wish.line.get("delivery") is not None


Habits = Callable[["PlannedRun", "Outsiders"], Iterator[Wish]]
"""Says what is wanted of a run now; a wish that was uttered before is passed over."""


@dataclass(slots=True)
class Outsiders:
    """What was sent and is not answered yet, and what comes next for each run."""

    plan: tuple[PlannedRun, ...]
    service: str
    decide: Callable[[str, str], Verdict]
    """Says what became of the effect of this kind and key, as the process outside knows it."""
    habits: Habits
    share: float = 0.0
    """How much of all lives is over."""
    first_sends: int = 0
    repeats: int = 0
    taken: int = 0
    """Repeats that were answered with: taken already."""
    refused: list[str] = field(default_factory=list)
    """Refusals that nothing explains."""
    told: dict[tuple[str, ...], str] = field(default_factory=dict)
    """What each sender was told in the end, by run and wish: `done`, `taken` or a refusal."""
    decided: set[tuple[str, int]] = field(default_factory=set)
    """Effects that a person decided, with the attempt that was in doubt."""
    ended: set[str] = field(default_factory=set)
    """Runs that are known to have ended."""
    _numbers: Iterator[int] = field(default_factory=count)
    _pending: dict[int, Command] = field(default_factory=dict)
    _begun: set[tuple[str, ...]] = field(default_factory=set)
    _gates: dict[str, dict[str, str]] = field(default_factory=dict)

    @property
    def is_idle(self) -> bool:
        """Whether every command was answered."""
        return not self._pending

    def is_waiting(self, run: str) -> bool:
        """Whether a command to this run was not answered yet."""
        return any(command.run == run for command in self._pending.values())

    # -- what they learn ------------------------------------------------------------------------

    def see_gates(self, run: str, gates: Iterable[tuple[str, str]]) -> None:
        """Learn which gates of a run are open, each with the event that it is answered with."""
        self._gates[run] = dict(gates)

    def gates(self, run: str) -> Mapping[str, str]:
        """Return the gates of a run that are known to be open, each with its first event."""
        return self._gates.get(run, {})

    def see_status(self, run: str, status: str) -> None:
        """Learn how far a run is."""
        if status != "live":
            self.ended.add(run)

    def see_doubt(self, run: str, effect: str, attempt: int, kind: str, key: str) -> None:
        """Learn of an effect in doubt that nobody else decides: a person does, at once."""
        pending = (c.wish.line for c in self._pending.values() if c.verb == "resolve")
        if any(line["effect"] == effect for line in pending):
            return
        self.decided.add((effect, attempt))
        line = {"do": "resolve", "effect": effect, "verdict": self.decide(kind, key)}
        self._add(run, Wish(name=("resolve", effect), line=line, losses=OVERTAKEN))

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
        self.told[command.run, *command.wish.name] = error or answer["outcome"]
        if answer["outcome"] == "taken" or self._got_through_before(command, error):
            self.taken += 1
            return command
        if error is None:
            return command
        if error not in command.wish.losses:
            self.refused.append(f"{command.verb} for {command.run}: {answer['message']}")
        return None

    @staticmethod
    def _got_through_before(command: Command, error: str | None) -> bool:
        if command.times <= 1 or command.tells_of_repeats:
            return False
        return error in REPEATS.get(command.verb, ())

    # -- what they send -------------------------------------------------------------------------

    def to_send(self) -> Iterator[dict[str, Any]]:
        """Yield the lines that are to be sent now."""
        for planned in self.plan:
            if planned.starts_at <= self.share:
                for wish in self.habits(planned, self):
                    self.want(planned.run, wish)
        for command in self._pending.values():
            if not command.is_sent:
                command.is_sent = True
                command.times += 1
                self.first_sends += command.times == 1
                self.repeats += command.times > 1
                yield command.line

    def is_started(self, run: str) -> bool:
        """Whether the start of a run was answered."""
        return (run, "start") in self.told

    def want(self, run: str, wish: Wish) -> None:
        """Have something sent to a run, unless that was wanted before."""
        if (run, *wish.name) not in self._begun:
            self._begun.add((run, *wish.name))
            self._add(run, wish)

    def answered(self, run: str, wish: Wish, outcome: str) -> None:
        """Take note of what somebody was told who did not ask through a command of ours."""
        self.told[run, *wish.name] = outcome

    def _add(self, run: str, wish: Wish) -> None:
        number = next(self._numbers)
        self._pending[number] = Command(number, run, wish)


def start(planned: PlannedRun, given: dict[str, Any]) -> Wish:
    """Return the wish that a run be started with this input."""
    return Wish(name=("start",), line={"do": "start", "machine": planned.machine, "input": given})


def starting(given: Callable[[str, str], dict[str, Any]]) -> Habits:
    """Return the habits of who only starts runs.

    `given` makes the input of a run out of its id and the address of the process outside.
    """

    def habits(planned: PlannedRun, outsiders: Outsiders) -> Iterator[Wish]:
        yield start(planned, given(planned.run, outsiders.service))

    return habits
