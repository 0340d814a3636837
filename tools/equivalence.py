"""Compare the library's own engine, the durable one, and the durable one restarted everywhere.

    python tools/equivalence.py --charts N --seed S
    python tools/equivalence.py --ablate [--charts N --seed S]

Each random chart gets a random script of events, and all named charts theirs. The durable one runs
it by plans and without them, and must save the same bytes. `--ablate` leaves each item of a
snapshot out in turn and says which charts noticed: a table; an item that nobody misses is a
failure. Exit code 1 on any difference.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from machines.engine import fast
from tools.charts import build, generate, plain
from tools.charts.durable import EVERYWHERE, NOWHERE, DurableRun, Where
from tools.charts.named import named_charts

if TYPE_CHECKING:
    from tools.charts.spec import Step, Subject
    from tools.charts.trace import Trace

PLACES = {
    "before the invokes": Where(before=True),
    "after the invokes": Where(after=True),
    "everywhere": EVERYWHERE,
}


@dataclass(frozen=True, slots=True)
class Case:
    """One chart and its script."""

    name: str
    subject: Subject
    make: Callable[[], Any]
    script: tuple[Step, ...]
    remake: Callable[[], Any] | None = None
    refused: bool = False
    """Whether the process after a restart must refuse it."""

    def run(
        self, where: Where, ablate: Any = None, *, plans: bool = True
    ) -> tuple[Trace, DurableRun]:
        """Run the case on the durable engine; without restarts, what is saved is kept."""
        run = DurableRun(self.subject, self.make, where, ablate, self.remake)
        run.keeps_blobs = where is NOWHERE
        with fast.enabled(plans):
            return run.play(self.script), run


def random_cases(charts: int, seed: int) -> Iterator[Case]:
    """Yield random charts; the n-th depends on the seed and on n alone."""
    for number in range(charts):
        rng = random.Random(f"{seed}/{number}")
        spec = generate.chart(rng)
        script = tuple(generate.script(rng, spec))
        made = partial(build.chart_class, spec)
        yield Case(f"random {seed}/{number}", spec, made, script)


def named_cases() -> Iterator[Case]:
    """Yield the hand-written charts."""
    for name, chart in named_charts().items():
        yield Case(name, chart, chart.build, chart.script, chart.rebuild, chart.is_refused)


@dataclass
class Tally:
    """What was compared, and what differed."""

    charts: int = 0
    with_plain: int = 0
    runs: int = 0
    restarts: int = 0
    planned: int = 0
    """Events that were run by plans."""
    differences: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Take in what another process counted."""
        self.charts += other.charts
        self.with_plain += other.with_plain
        self.runs += other.runs
        self.restarts += other.restarts
        self.planned += other.planned
        self.differences += other.differences

    def __str__(self) -> str:
        return (
            f"{self.charts} charts, {self.with_plain} also against the library's own engine, "
            f"{self.runs} runs, {self.restarts} restarts, {self.planned} events by plans: "
            f"{len(self.differences)} differences"
        )


def compare(case: Case, tally: Tally) -> None:
    """Run a case in every way and note the differences."""
    tally.charts += 1
    ours = _run_both_ways(case, tally)
    if case.subject.comparable_with_plain:
        library = plain.run(case.make(), case.subject, case.script)
        if not library.ties:
            tally.with_plain += 1
            _note(tally, case, "library's own", library.difference(ours))
    for place, where in PLACES.items():
        tally.runs += 1
        try:
            restarted, run = case.run(where)
        except Exception as error:  # noqa: BLE001 - a run that breaks is a difference, reported by its case
            if not case.refused:
                _note(tally, case, place, f"raises {type(error).__name__}: {error}")
            continue
        tally.restarts += run.restarts
        if case.refused and run.restarts:
            _note(tally, case, place, "a changed engine kind was not refused")
        elif not case.refused:
            _note(tally, case, place, ours.difference(restarted))


def _run_both_ways(case: Case, tally: Tally) -> Trace:
    """Run a case by plans and without them, and return what it showed by plans."""
    ours, by_plans = case.run(NOWHERE)
    others, without = case.run(NOWHERE, plans=False)
    tally.runs += 2
    tally.planned += sum(by_plans.planned.values())
    assert not any(without.planned.values()), f"{case.name} has plans although it may not"
    _note(tally, case, "without plans", ours.difference(others))
    if by_plans.blobs != without.blobs:
        _note(tally, case, "without plans", "other bytes were saved")
    return ours


def _note(tally: Tally, case: Case, place: str, difference: str | None) -> None:
    if difference is not None:
        tally.differences.append(f"{case.name} ({place}): {difference}")


Ablation = Callable[[dict[str, Any]], None]


def _each_node(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    waiting = [value["root"]]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += node.get("children", {}).values()


def _without(*keys: str) -> Ablation:
    def ablate(value: dict[str, Any]) -> None:
        for node in _each_node(value):
            for key in keys:
                node.pop(key, None)

    return ablate


def _shared_without(*keys: str) -> Ablation:
    def ablate(value: dict[str, Any]) -> None:
        for node in _each_node(value):
            for key in keys:
                node.get("shared", {}).pop(key, None)

    return ablate


def _tree_without(*keys: str) -> Ablation:
    def ablate(value: dict[str, Any]) -> None:
        for key in keys:
            value.pop(key, None)

    return ablate


def _sorted_configuration(value: dict[str, Any]) -> None:
    for node in _each_node(value):
        node["configuration"] = sorted(node.get("configuration", ()))


def _invokes_without(*keys: str) -> Ablation:
    def ablate(value: dict[str, Any]) -> None:
        for node in _each_node(value):
            for invoke in node.get("invokes", ()):
                for key in keys:
                    invoke.pop(key, None)

    return ablate


def _empty_models(value: dict[str, Any]) -> None:
    for node in _each_node(value):
        for key in list(node.get("context", {})):
            if key not in ("trace", "notes"):
                del node["context"][key]


ABLATIONS: dict[str, Ablation] = {
    "configuration: order": _sorted_configuration,
    "history": _without("history"),
    "model fields": _empty_models,
    "own attributes": _without("attributes"),
    "constructor arguments": _without("init"),
    "external queue": _without("queue"),
    "timers": _without("timers"),
    "pending invokes": _without("pending"),
    "active invokes": _without("invokes", "children"),
    "active invokes: done-sent flag": _invokes_without("sent", "terminated"),
    "children": _without("children"),
    "status flag": _without("status"),
    "started: initial state not entered": _without("started", "queue"),
    "invoke counter": _without("spawned"),
    "root parallel is final": _without("final"),
    "whose turn it was": _tree_without("turn", "between"),
    "engine kind": _without("engine"),
    "document: initialised flags": _shared_without("flags"),
    "document: session id": _shared_without("session"),
    "document: first event raised": _shared_without("raised"),
    "weighted generators": _shared_without("weighted"),
}
"""What is left out of a snapshot: one entry per item, some items by their parts."""


def ablate(cases: list[Case]) -> int:
    """Print which item is missed by how many charts; return how many are missed by none."""
    nobody = 0
    print(f"{'left out':38} {'missed by':>9}   first chart that missed it")
    for item, ablation in ABLATIONS.items():
        missed = [case.name for case in cases if misses(case, ablation)]
        nobody += not missed
        first = missed[0] if missed else "NOBODY"
        print(f"{item:38} {len(missed):9}   {first}", flush=True)
    print(f"{len(ABLATIONS) - nobody} of {len(ABLATIONS)} items are missed when they are left out")
    return nobody


def misses(case: Case, ablation: Ablation) -> bool:
    """Whether a case behaves differently over restarts when something is left out."""
    try:
        maimed, _ = case.run(EVERYWHERE, ablation)
    except Exception:  # noqa: BLE001 - a snapshot that cannot be rebuilt is missed too
        return not case.refused
    return case.refused or case.run(NOWHERE)[0].difference(maimed) is not None


def _compare_slice(charts: int, seed: int, first: int, step: int) -> Tally:
    """Compare every `step`-th random chart from `first` on, in a process of its own."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    tally = Tally()
    for case in islice(random_cases(charts, seed), first, None, step):
        compare(case, tally)
    return tally


def _compare_all(charts: int, seed: int) -> Tally:
    total = Tally()
    for case in named_cases():
        compare(case, total)
    slices = os.cpu_count() or 1
    with ProcessPoolExecutor(slices) as pool:
        jobs = [pool.submit(_compare_slice, charts, seed, n, slices) for n in range(slices)]
        for job in jobs:
            total.add(job.result())
    return total


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison that the command line asks for; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--charts", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ablate", action="store_true")
    given = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    if given.ablate:
        return int(ablate([*named_cases(), *random_cases(min(given.charts, 20), given.seed)]) > 0)
    tally = _compare_all(given.charts, given.seed)
    for difference in tally.differences:
        print(difference)
    print(tally)
    return int(bool(tally.differences))


if __name__ == "__main__":
    sys.exit(main())
