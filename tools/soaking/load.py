"""What the soak's host is asked for, and what must hold of it in the end."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from machines.demo.moments import occasions
from machines.demo.outsiders import PlannedRun, Wish, start
from machines.demo.results import OF_EFFECTS, REPEATED, effects
from machines.demo.scenario import Claim, Scenario
from machines.demo.scenarios.checkout import habits as order_habits
from tools.soaking.books import LOGBOOK, LongWitness
from tools.soaking.bystanders import Surroundings

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from machines.demo.outsiders import Outsiders
    from machines.demo.scenario import Case

NAME: Final = "soak"
MACHINES: Final = (LOGBOOK, LOGBOOK, "checkout", LOGBOOK, LOGBOOK, "fulfilment")
LIVE: Final = 32
"""How many runs are live at a time, so that what grows is not the load."""
NOTES: Final = 40
NOTE_S: Final = 0.2
"""From one note to a logbook to the next."""
GO_AT: Final = 12
"""After so many notes a logbook begins its work, and takes the others meanwhile."""
CALLABLE_UNTIL: Final = 30
"""After so many nobody gives a command for it any more."""
ITEMS: Final = 5
TEXT_CHARS_MAX: Final = 2_000
NUMBER_WIDTH: Final = 7


def planned(number: int) -> PlannedRun:
    """Return the n-th run, which may do everything at once."""
    machine = MACHINES[number % len(MACHINES)]
    run = f"{machine}-{number:0{NUMBER_WIDTH}}"
    return PlannedRun(run=run, machine=machine, starts_at=0.0, gates_at=0.0)


@dataclass
class Clerks:
    """Everybody who has something to say to a run, at a pace."""

    surroundings: Surroundings | None = None
    taken: dict[str, int] = field(default_factory=dict)
    """By logbook, how many notes it has taken: they are sent one after the other."""
    told: list[tuple[str, int]] = field(default_factory=list)
    """Notes of which it is news that they were taken."""
    _due_s: dict[str, float] = field(default_factory=dict)
    _dice: random.Random = field(default_factory=lambda: random.Random("clerks"))

    def forget(self, run: str) -> None:
        """Have nothing more to do with a run."""
        self.taken.pop(run, None)
        self._due_s.pop(run, None)

    def habits(self, plan: PlannedRun, outsiders: Outsiders) -> Iterator[Wish]:
        """Yield what is wanted of a run now."""
        if plan.machine != LOGBOOK:
            yield from order_habits(plan, outsiders)
            return
        run = plan.run
        yield start(plan, {"number": run, "service": outsiders.service, "items": ITEMS})
        if not outsiders.is_started(run):
            return
        taken = self.taken.setdefault(run, 0)
        while (run, "note", str(taken)) in outsiders.told:
            self.told.append((run, taken))
            taken = self.taken[run] = taken + 1
        now_s = time.monotonic()
        if taken < NOTES and self._due_s.get(run, 0.0) <= now_s:
            # Looked at again and again until it is taken: the wish is known by its name.
            self._due_s[run] = now_s + self._dice.uniform(0.5, 1.5) * NOTE_S
            yield self._note(run, taken)
        if taken >= GO_AT:
            yield Wish(name=("go",), line={"do": "send", "event": "go", "delivery": f"{run}-go"})
        if taken == NOTES and not self._is_called(run):
            for gate, event in outsiders.gates(run).items():
                yield Wish(name=("gate", gate), line={"do": "answer", "gate": gate, "event": event})

    def _note(self, run: str, number: int) -> Wish:
        text = "x" * self._dice.randrange(TEXT_CHARS_MAX)
        line = {
            "do": "send",
            "event": "note",
            "delivery": f"{run}-note-{number}",
            "data": {"number": number, "text": text},
        }
        return Wish(name=("note", str(number)), line=line)

    def _is_called(self, run: str) -> bool:
        return self.surroundings is not None and self.surroundings.calls.concern(run)

    def callable_runs(self) -> list[str]:
        """Return the logbooks that may be told something by a command now."""
        return [run for run, taken in self.taken.items() if 0 < taken < CALLABLE_UNTIL]


def _of(case: Case) -> LongWitness:
    assert isinstance(case.witness, LongWitness)
    return case.witness


def _beside(case: Case) -> Iterable[str]:
    assert isinstance(case.bystanders, Surroundings)
    return case.bystanders.wrong


MISLED: Final = Claim(text="runs that ended otherwise", found=lambda case: _of(case).misled)
MISNOTED: Final = Claim(
    text="notes that were told as taken and are not there once",
    found=lambda case: _of(case).misnoted,
)
BESIDE: Final = Claim(text="readers and backups that failed", found=_beside)


def scenario(clerks: Clerks) -> Scenario:
    """Return the soak as a story like the demo's."""
    return Scenario(
        name=NAME,
        outside="machines.demo.outside.receiver",
        outside_name="receiver",
        machines=MACHINES,
        runs_default=LIVE,
        kills_per_run=1.0,
        occasions=occasions("receiver"),
        habits=clerks.habits,
        claims=(*OF_EFFECTS, MISLED, MISNOTED, BESIDE),
        control=REPEATED,
        deeds=effects,
        cyclic=frozenset({LOGBOOK}),
    )
