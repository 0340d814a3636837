"""The soak's loop: the demo's, for a time instead of a number of runs, with kills now and then."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from machines.demo.killer import Loop, Siege
from machines.demo.moments import OPENING, Watch, draw_moments
from machines.demo.scenario import Field
from tools.soaking.books import LongWitness
from tools.soaking.bystanders import Surroundings
from tools.soaking.load import LIVE, Clerks, planned, scenario
from tools.soaking.samples import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from machines.demo.killer import Progress
    from machines.demo.moments import Moment
    from machines.demo.results import Result
    from machines.demo.witness import Row

HOST: Final = "tools.soaking.host"
LONGEST_SHARE: Final = 0.45
"""The share of the time that one host lives through, so that its memory can be judged."""
LONGEST_FROM: Final = 0.5
KILLS_IN_ALL: Final = 30
LIFE_S_MIN: Final = 4.0
LIFE_SPREAD: Final = (0.5, 1.5)
KEPT_S: Final = (6.0, 20.0)
"""How long finished runs are kept: at least and at most, in between a share of the time."""
KEPT_SHARE: Final = 0.1
RETIRE_S: Final = 1.0
"""How long after its end a run is looked at for the last time, at least."""
MS_PER_S: Final = 1_000


def kept_s(total_s: float) -> float:
    """Return how long finished runs are kept in a soak of so many seconds."""
    least, most = KEPT_S
    return max(least, min(most, KEPT_SHARE * total_s))


def lives(total_s: float, seed: int) -> list[float]:
    """Return how long each host lives, in seconds: short ones, a long one, and short ones."""
    dice = random.Random(f"lives {seed}")
    mean_s = max(LIFE_S_MIN, total_s / KILLS_IN_ALL)

    def short(left_s: float) -> Iterator[float]:
        while left_s > 0:
            life_s = mean_s * dice.uniform(*LIFE_SPREAD)
            # What is left for another one would not be a life.
            yield (life_s := left_s if left_s < life_s + LIFE_S_MIN / 2 else life_s)
            left_s -= life_s

    after_s = total_s * (1 - LONGEST_FROM - LONGEST_SHARE)
    return [*short(total_s * LONGEST_FROM), total_s * LONGEST_SHARE, *short(after_s)]


class Lifetime(Watch):
    """Waits for so many seconds, and then for a moment."""

    def __init__(self, moment: Moment, now_s: float, life_s: float) -> None:
        super().__init__(moment, now_s)
        self._from_s = now_s + life_s
        self._due_s += life_s
        self._is_looking = False

    def look(self) -> None:
        """Do not mind whether anybody waits: somebody always does."""

    def see(self, line: dict[str, Any], now_s: float) -> None:
        """Take note of what a process told, once the time is over."""
        self._is_looking = now_s >= self._from_s
        super().see(line, now_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Soaked:
    """What a soak came to."""

    result: Result
    measured: Samples
    ended: int
    """How many runs have ended."""
    beside: Surroundings


class Soak(Loop):
    """A steady load for a time."""

    witness_class = LongWitness
    _witness: LongWitness
    _bystanders: Surroundings

    def __init__(self, siege: Siege, clerks: Clerks, total_s: float) -> None:
        super().__init__(siege)
        self.measured = Samples()
        self._clerks = clerks
        self._total_s = total_s
        self._outsiders.plan = ()
        self._runs = []
        self._begun = 0
        self._to_retire: dict[str, float] = {}
        self._is_ending = False

    @property
    def witness(self) -> LongWitness:
        """Who was told what, and what was found."""
        return self._witness

    @property
    def surroundings(self) -> Surroundings:
        """Who was about."""
        return self._bystanders

    # -- the loop -------------------------------------------------------------------------------

    def run(self) -> Result:
        """Load and kill for the time that was asked for, then let everything finish."""
        self._spare = self._orchestrator()
        self._meet_the_outside()
        draws = draw_moments(self._siege.seed, self._siege.scenario.occasions)
        opening = {**OPENING, "kept_ms": round(kept_s(self._total_s) * MS_PER_S)}
        for life, life_s in enumerate(lives(self._total_s, self._siege.seed)):
            self._begin_life(life, opening)
            moment = next(draws)
            why = self._live(Lifetime(moment, time.monotonic(), life_s))
            self._bury(moment, why)
        self._is_ending = True
        self._bystanders.end()
        self._begin_life(self._siege.kills, opening)
        self._live(Watch(None, time.monotonic()))
        self._finish()
        self._retire(time.monotonic() + self._total_s)
        return self._result()

    def _meet_the_outside(self) -> None:
        super()._meet_the_outside()
        field = Field(
            file=self._witness.file,
            service=self._outsiders.service,
            outsiders=self._outsiders,
            witness=self._witness,
        )
        siege = self._siege
        self._bystanders = Surroundings(field, siege.folder, siege.seed, self.measured)
        self._clerks.surroundings = self._bystanders
        self._processes.callback(self._bystanders.close)

    def _begin_life(self, life: int, opening: dict[str, Any]) -> None:
        super()._begin_life(life, opening)
        self._bystanders.life = life

    def _bury(self, moment: Moment, why: str) -> None:
        super()._bury(moment, why)
        self._bystanders.host = None

    def _send(self) -> None:
        self._roll()
        super()._send()

    def _is_over(self) -> bool:
        return self._is_ending and not self._runs and super()._is_over()

    # -- runs come and go -----------------------------------------------------------------------

    def _roll(self) -> None:
        """Take leave of runs that have ended, and begin as many."""
        now_s = time.monotonic()
        self._take_notes()
        self._retire(now_s)
        if self._is_ending:
            return
        live = sum(self._statuses.get(run, "live") == "live" for run in self._runs)
        for _ in range(LIVE - live):
            plan = planned(self._begun)
            self._begun += 1
            self._runs.append(plan.run)
            self._outsiders.plan = (*self._outsiders.plan, plan)
        self._bystanders.callable_runs = self._clerks.callable_runs()

    def _retire(self, now_s: float) -> None:
        due = [
            run
            for run, at_s in self._to_retire.items()
            if at_s <= now_s
            and not self._outsiders.is_waiting(run)
            and not self._bystanders.calls.concern(run)
        ]
        if not due:
            return
        self._witness.retire(due, self._outsiders.decided)
        gone = set(due)
        self._runs = [run for run in self._runs if run not in gone]
        self._outsiders.plan = tuple(p for p in self._outsiders.plan if p.run not in gone)
        for run in due:
            self._clerks.forget(run)
            for known in (self._to_retire, self._statuses, self._survived):
                known.pop(run, None)

    def _has_ended(self, run: str) -> None:
        if run in self._runs:
            self._to_retire.setdefault(run, time.monotonic() + RETIRE_S)

    def _take_notes(self) -> None:
        """Hold the host to the notes that somebody was told are taken."""
        calls, clerks = self._bystanders.calls, self._clerks
        while clerks.told:
            self._witness.take_note(*clerks.told.pop())
        while calls.taken:
            run, number = calls.taken.pop()
            self._witness.take_note(run, number)
            self._witness.take_delivery(run, f"{run}-note-{number}")

    # -- what is heard --------------------------------------------------------------------------

    def _learn(self, rows: dict[str, Row]) -> None:
        super()._learn(rows)
        for run, row in rows.items():
            if row.view.status != "live":
                self._has_ended(run)

    def _take(self, line: dict[str, Any]) -> None:
        match line["at"]:
            case "open":
                self._bystanders.host = self._victim
                self._bystanders.begin()
            case "window":
                at_s = self._bystanders.at_s(time.monotonic())
                self.measured.take_window(at_s, line["took_us"])
                self.measured.stall_ms = max(self.measured.stall_ms, line["stall_ms"])
            case "own backup":
                self._bystanders.take_own_backup(line)
        super()._take(line)

    def _take_save(self, line: dict[str, Any]) -> None:
        super()._take_save(line)
        if line["status"] != "live":
            self._has_ended(line["run"])


def soak(
    folder: Path, total_s: float, seed: int, *, verify: bool, observe: Callable[[Progress], None]
) -> Soaked:
    """Do it, and return what it came to, with what was measured. Raises DemoError."""
    clerks = Clerks()
    siege = Siege(
        scenario=scenario(clerks),
        folder=folder,
        kills=len(lives(total_s, seed)),
        runs=0,
        seed=seed,
        orchestrator=HOST,
        verify=verify,
        observe=observe,
    )
    with Soak(siege, clerks, total_s) as loop:
        result = loop.run()
        return Soaked(
            result=result,
            measured=loop.measured,
            ended=loop.witness.retired,
            beside=loop.surroundings,
        )
