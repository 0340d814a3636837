"""The demo's loop: let the orchestrator run, kill it, look at what is left, start another."""

from __future__ import annotations

import select
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

from machines.charts.service import find
from machines.demo.limits import LOOK_S, PERSON_S, REST_S_MAX, STUCK_S
from machines.demo.log import Log
from machines.demo.moments import OPENING, Moment, Occasion, Watch, draw_moments
from machines.demo.outsiders import Outsiders, Verdict, plan_runs
from machines.demo.processes import Process
from machines.demo.results import Result, judged, run_results
from machines.demo.scenario import Case, Field
from machines.demo.witness import Row, Witness

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from machines.demo.scenario import Bystanders, Scenario

FILE: Final = "state.db"
LOG: Final = "requests.log"
ERRORS: Final = "errors.log"
"""What the processes write on standard error."""
ORCHESTRATOR: Final = "machines.demo.orchestrator"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far the loop is, for who watches."""

    text: str
    """What happened just now."""
    kills: int
    runs: dict[str, str]
    """The status of each run that was begun."""
    survived: Counter[str]
    """How many kills each run lived through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Siege:
    """What is to be done: `kills` kills, over the lives of `runs` runs, as `seed` draws them.

    `scenario` says what happens meanwhile. `folder` takes the files. `orchestrator` is the module
    that is run and killed; `verify` has it compare every save with a full capture. `points` are
    places in it at which it can be told to stand still, to be killed there.
    """

    scenario: Scenario
    folder: Path
    kills: int
    runs: int
    seed: int
    orchestrator: str = ORCHESTRATOR
    points: tuple[Occasion, ...] = ()
    verify: bool = False
    observe: Callable[[Progress], object] = field(default=lambda _: None)

    def lay(self) -> Result:
        """Do it, and return what it came to. Raises DemoError if a process fails by itself."""
        with Loop(self) as loop:
            return loop.run()


class Loop:
    """The processes and the books of one siege."""

    witness_class: type[Witness] = Witness

    def __init__(self, siege: Siege) -> None:
        scenario = siege.scenario
        self._siege = siege
        self._began_s = time.monotonic()
        self._processes = ExitStack()
        self._errors = siege.folder / ERRORS
        log = siege.folder / LOG
        self._outside = self._process(
            scenario.outside_name, scenario.outside, str(log), str(siege.seed)
        )
        self._victim: Process
        self._spare: Process | None = None
        self._witness = self.witness_class(siege.folder / FILE, Log(log), cyclic=scenario.cyclic)
        plan = plan_runs(siege.runs, scenario.machines)
        self._outsiders = Outsiders(plan, "", self._decide, scenario.habits)
        self._bystanders: Bystanders
        self._runs = [planned.run for planned in self._outsiders.plan]
        self._statuses: dict[str, str] = {}
        self._survived: Counter[str] = Counter()
        self._moments: Counter[str] = Counter()
        self._kills = 0
        self._is_open = False
        """Whether the orchestrator that lives now has said that it takes commands."""
        self._life_s = 0.0
        """When the orchestrator that lives now was told to open the file."""
        self._news_s = 0.0
        """When a run last moved."""
        self._looked_s = 0.0
        """When a person last read the file."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._processes.close()

    def _process(self, name: str, module: str, *arguments: str) -> Process:
        process = Process(name, module, arguments, self._errors)
        self._processes.callback(process.close)
        return process

    def _orchestrator(self) -> Process:
        siege = self._siege
        options = ("--verify",) if siege.verify else ()
        arguments = (str(siege.folder / FILE), siege.scenario.name, *options)
        return self._process("orchestrator", siege.orchestrator, *arguments)

    # -- the loop -------------------------------------------------------------------------------

    def run(self) -> Result:
        """Kill as often as asked, then let everything finish."""
        self._spare = self._orchestrator()
        self._meet_the_outside()
        siege = self._siege
        draws = draw_moments(siege.seed, (*siege.scenario.occasions, *siege.points))
        for life in range(siege.kills):
            moment = next(draws)
            self._begin_life(life, moment.opening)
            why = self._live(Watch(moment, time.monotonic()))
            self._bury(moment, why)
        self._begin_life(siege.kills, OPENING)
        self._live(Watch(None, time.monotonic()))
        self._finish()
        return self._result()

    def _meet_the_outside(self) -> None:
        service = f"127.0.0.1:{self._outside.wait_for('listening')['port']}"
        self._outsiders.service = service
        field = Field(
            file=self._siege.folder / FILE,
            service=service,
            outsiders=self._outsiders,
            witness=self._witness,
        )
        self._bystanders = self._siege.scenario.bystanders(field)
        self._processes.callback(self._bystanders.close)

    def _begin_life(self, life: int, opening: dict[str, Any]) -> None:
        """Have the spare open the file, and another one get ready."""
        assert self._spare is not None
        lives = self._siege.kills + 1
        self._outsiders.share = (life + 1) / lives
        self._victim = self._spare
        self._spare = self._orchestrator() if life + 1 < lives else None
        self._victim.wait_for("standing by")
        self._victim.say(opening)
        self._is_open = False
        self._life_s = self._news_s = time.monotonic()

    def _live(self, watch: Watch) -> str:
        """Let the orchestrator work until the moment comes, or until nothing is left to do."""
        while (left_s := watch.left_s(time.monotonic())) > 0:
            if self._is_over() or self._is_stuck(watch):
                break
            ready, _, _ = select.select([self._victim, self._outside], [], [], min(left_s, LOOK_S))
            for process in ready:
                if self._hear(process, watch):
                    return watch.why
            self._send()
            self._bystanders.act()
            if self._is_open and self._outsiders.is_idle:
                watch.look()
                self._look_again()
        return watch.why

    def _hear(self, process: Process, watch: Watch) -> bool:
        """Take what a process says; return whether the moment came meanwhile."""
        for line in process.hear():
            now_s = time.monotonic()
            watch.see(line, now_s)
            if watch.left_s(now_s) == 0:
                # Not a word later: what else it said is heard when it is dead.
                self._victim.kill()
            self._take(line)
        if process.has_ended and watch.left_s(time.monotonic()) > 0:
            process.fail(f"ended by itself with code {process.wait()}")
        return watch.left_s(time.monotonic()) == 0

    def _send(self) -> None:
        if self._is_open:
            for line in self._outsiders.to_send():
                self._victim.say(line)

    def _look_again(self) -> None:
        """Read the file as a person does who waits for something and hears nothing."""
        now_s = time.monotonic()
        if now_s - max(self._news_s, self._looked_s) > PERSON_S:
            self._looked_s = now_s
            self._learn(self._witness.read(self._runs))

    def _is_over(self) -> bool:
        has_ended = all(self._statuses.get(run, "live") != "live" for run in self._runs)
        return has_ended and self._outsiders.is_idle and self._bystanders.is_idle

    def _is_stuck(self, watch: Watch) -> bool:
        """Whether nothing moves any more, or only in circles, although nobody kills."""
        now_s = time.monotonic()
        is_late = now_s - self._life_s > REST_S_MAX or now_s - self._news_s > STUCK_S
        return watch.left_s(now_s) == float("inf") and is_late

    def _bury(self, moment: Moment, why: str) -> None:
        """Kill it, hear its last words, and look at what it left on disk."""
        self._victim.kill()
        for line in self._victim.hear_out():
            self._take(line)
        self._victim.close()
        self._outsiders.see_kill()
        self._kills += 1
        self._moments[moment.occasion.at if why != Watch.IDLE else "idle"] += 1
        self._look()
        self._bystanders.see_kill(self._witness.rows)
        self._survived.update(run for run, status in self._statuses.items() if status == "live")
        self._tell(f"kill {self._kills} of {self._siege.kills}: {why}")

    def _look(self) -> None:
        """Look at what is on disk while nobody writes, and hold it against what was told."""
        self._learn(self._witness.examine(self._runs))

    def _learn(self, rows: dict[str, Row]) -> None:
        """Have everybody know what anybody can read in the file."""
        for run, row in rows.items():
            self._statuses[run] = row.view.status
            self._outsiders.see_status(run, row.view.status)
            gates = [(gate.key, gate.events[0]) for gate in row.view.gates]
            self._outsiders.see_gates(run, gates)
            for effect in row.view.effects:
                if effect["status"] == "unknown" and not effect.get("offered"):
                    call = effect["kind"], effect["key"]
                    self._outsiders.see_doubt(run, effect["id"], effect["attempt"], *call)

    def _finish(self) -> None:
        """Stop the last orchestrator as one stops a service, and look at the end."""
        self._victim.say({"do": "stop"})
        for line in self._victim.hear_out():
            self._take(line)
        code = self._victim.wait()
        if code != 0:
            self._victim.fail(f"ended with code {code} when it was stopped")
        self._look()

    # -- what is heard --------------------------------------------------------------------------

    def _take(self, line: dict[str, Any]) -> None:
        match line["at"]:
            case "saved":
                self._take_save(line)
            case "answer":
                self._take_answer(line)
            case "open":
                self._is_open = True
                self._news_s = time.monotonic()
                self._tell(f"the orchestrator is up, runs that go on: {line['resumed']}")
                self._outsiders.refused += [
                    f"restore of {run}: {reason}" for run, reason in line["set_aside"].items()
                ]

    def _take_save(self, line: dict[str, Any]) -> None:
        run = line["run"]
        if run not in self._runs:
            # Nobody planned it: a run that another one, or a decision, has led to.
            self._runs.append(run)
        self._news_s = time.monotonic()
        self._witness.take_save(line)
        self._outsiders.see_gates(run, ((key, event) for key, event in line["gates"]))
        self._outsiders.see_status(run, line["status"])
        for effect, attempt, kind, key, was_offered in line["doubts"]:
            if not was_offered:
                self._outsiders.see_doubt(run, effect, attempt, kind, key)
        if self._statuses.get(run) != line["status"]:
            self._statuses[run] = line["status"]
            is_new = line["status"] == "live"
            self._tell(f"{run} has begun" if is_new else f"{run} is {line['status']}")

    def _take_answer(self, line: dict[str, Any]) -> None:
        command = self._outsiders.see_answer(line)
        if command is None:
            return
        delivery = command.line.get("delivery")
        if command.wish.name == ("start",):
            self._witness.take_start(command.run)
        elif delivery is not None:
            self._witness.take_delivery(command.run, delivery)

    def _decide(self, kind: str, key: str) -> Verdict:
        """Do what a person would do about an effect in doubt: ask whom it was meant for."""
        reference = find(self._outsiders.service, kind, key=key)
        return {"again": True} if reference is None else {"done": reference}

    # -- what is said ---------------------------------------------------------------------------

    def _tell(self, text: str) -> None:
        self._siege.observe(
            Progress(
                text=text,
                kills=self._kills,
                runs=dict(self._statuses),
                survived=Counter(self._survived),
            )
        )

    def _result(self) -> Result:
        witness, outsiders = self._witness, self._outsiders
        case = Case(
            scenario=self._siege.scenario,
            seed=self._siege.seed,
            witness=witness,
            outsiders=outsiders,
            bystanders=self._bystanders,
            doubts=tuple(
                (doubt, witness.settled_by(doubt, outsiders.decided))
                for doubt in witness.doubts.values()
            ),
        )
        return Result(
            scenario=case.scenario,
            file=self._siege.folder / FILE,
            took_s=time.monotonic() - self._began_s,
            kills=self._kills,
            moments=self._moments,
            runs=run_results(case, self._survived),
            acknowledged=witness.acknowledged,
            comparisons=witness.checks,
            sends=outsiders.first_sends,
            repeats=outsiders.repeats,
            taken=outsiders.taken,
            doubts=case.doubts,
            notes=tuple(case.scenario.notes(case)),
            checks=judged(case),
        )
