"""Kill the demo's orchestrator very often, and count: the demo's loop without the show.

    python tools/crash.py --scenario pool --kills 100 --seed 1 [--runs N] [--keep DIR] [--control]
                          [--long-rows]
    python tools/crash.py --all --kills 200 --seed 11

The moments are drawn: some kills come behind something that is heard, some at a named point (see
`tools/points.py`). `--all` shares the kills among all scenarios. With `--long-rows` every save
writes over a part of its row, as those of runs of 64 KB do.

Exit code 1 if anything acknowledged was lost, anything that may happen once happened twice, any
run is stuck, or any other claim does not hold. `--control` runs a careless orchestrator instead
(see `tools/careless.py`): then the loop has to find what it does, and the exit code is 1 if it does
not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from machines.demo.killer import FILE, Progress, Siege
from machines.demo.results import LOST, REPEATED, STUCK, TWISTED
from tools.careless_state import WRONGS as BESIDE_THE_RUNS
from tools.points import POINTS
from tools.scenarios.known import SCENARIOS

if TYPE_CHECKING:
    from machines.demo.moments import Occasion
    from machines.demo.results import Result
    from machines.demo.scenario import Scenario

CARELESS = "tools.careless"
POINTED = "tools.points"
POINTED_LONG = "tools.long_points"
WORDS = {
    LOST.text: "lost",
    REPEATED.text: "repeated",
    TWISTED.text: "repeated",
    STUCK.text: "stuck",
}
"""In which word of the last line a claim's faults are counted."""
OTHERWISE = "otherwise wrong"


def report(result: Result) -> list[str]:
    """Return the counts, a line each."""
    statuses = Counter(run.status for run in result.runs)
    moments = ", ".join(f"{name} {n}" for name, n in sorted(result.moments.items()))
    lines = [
        f"kills: {result.kills} in {result.took_s:.1f} s ({moments})",
        f"runs: {', '.join(f'{n} {status}' for status, n in sorted(statuses.items()))}",
        f"acknowledged transitions: {result.acknowledged} ({result.comparisons} comparisons)",
        f"commands: {result.sends} ({result.repeats} sent again, {result.taken} taken before)",
        *(_of_effects(result) if result.has_effects else ()),
        *result.notes,
    ]
    for check in result.checks:
        lines.append(f"{check.claim}: {len(check.found)}")
        lines += [f"  {found}" for found in check.shown()]
    return lines


def _of_effects(result: Result) -> list[str]:
    once_left, once_seen = result.calls(once=True)
    free_left, free_seen = result.calls(once=False)
    by = Counter(who or "nobody" for _, who in result.doubts)
    causes = Counter(doubt.cause for doubt, _ in result.doubts)
    happened = sum(doubt.had_happened for doubt, _ in result.doubts)
    return [
        f"non-idempotent effects: left {once_left} times, seen {once_seen} times",
        f"idempotent effects: left {free_left} times, seen {free_seen} times",
        f"in doubt: {len(result.doubts)} ({_listed(causes)}; {happened} had happened)",
        f"settled: {_listed(by)}",
    ]


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{n} by {name}" for name, n in sorted(counts.items())) or "none"


def judge(result: Result, *, control: bool) -> int:
    """Return the exit code."""
    if not control:
        return 0 if result.is_good else 1
    wanted = result.scenario.control.text
    return 0 if any(check.claim == wanted and check.found for check in result.checks) else 1


def points_of(scenario: Scenario) -> tuple[Occasion, ...]:
    """Return the points that a scenario's orchestrator comes to."""
    writes = scenario.name in BESIDE_THE_RUNS
    return tuple(point for point in POINTS if writes or not point.at.endswith("write"))


def shares(kills: int, scenarios: int) -> list[int]:
    """Return how many of the kills each scenario has, as equal as can be."""
    return [kills // scenarios + (number < kills % scenarios) for number in range(scenarios)]


def sum_up(results: list[Result]) -> str:
    """Return the last line about several scenarios."""
    found: Counter[str] = Counter()
    for result in results:
        for check in result.checks:
            found[WORDS.get(check.claim, OTHERWISE)] += len(check.found)
    kills = sum(result.kills for result in results)
    words = ", ".join(f"{found[word]} {word}" for word in ("lost", "repeated", "stuck", OTHERWISE))
    return f"all: {kills} kills in {len(results)} scenarios: {words}"


def lay(scenario: Scenario, folder: Path, kills: int, options: argparse.Namespace) -> Result:
    """Run one scenario's loop."""

    def tell(progress: Progress) -> None:
        if options.verbose:
            print(progress.text, flush=True)

    siege = Siege(
        scenario=scenario,
        folder=folder,
        kills=kills,
        # Enough that each life of the orchestrator has something under way.
        runs=options.runs or max(scenario.runs_default, round(kills / scenario.kills_per_run)),
        seed=options.seed,
        orchestrator=_orchestrator(options),
        points=() if options.control else points_of(scenario),
        verify=True,
        observe=tell,
    )
    return siege.lay()


def _orchestrator(options: argparse.Namespace) -> str:
    if options.control:
        return CARELESS
    return POINTED_LONG if options.long_rows else POINTED


def main(arguments: list[str] | None = None) -> int:
    """Run the loop as the command line says."""
    parser = argparse.ArgumentParser(prog="tools/crash.py", description="Count what kills lose.")
    parser.add_argument("--scenario", choices=[*SCENARIOS], default="checkout")
    parser.add_argument("--all", action="store_true", help="every scenario, the kills shared")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, help="default: enough for the kills")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the files are left")
    parser.add_argument("--control", action="store_true", help="see a wrong one found")
    parser.add_argument("--long-rows", action="store_true", help="save as long rows are saved")
    parser.add_argument("--verbose", action="store_true", help="tell each step")
    options = parser.parse_args(arguments)
    names = [*SCENARIOS] if options.all else [options.scenario]
    if options.keep is not None and any(options.keep.rglob(FILE)):
        parser.error(f"{str(options.keep)!r} already holds {FILE!r}: name a folder that is new")
    if options.all and options.kills < len(names):
        parser.error(f"--all needs a kill for each of the {len(names)} scenarios")
    results: list[Result] = []

    with ExitStack() as folders:
        kept = options.keep or Path(folders.enter_context(tempfile.TemporaryDirectory()))
        for name, kills in zip(names, shares(options.kills, len(names)), strict=True):
            folder = kept / name if options.all else kept
            folder.mkdir(parents=True, exist_ok=True)
            results.append(lay(SCENARIOS[name], folder, kills, options))
            if options.all:
                print(f"-- {name}")
            print("\n".join(report(results[-1])), flush=True)
    if options.all:
        print(sum_up(results))
    return max(judge(result, control=options.control) for result in results)


if __name__ == "__main__":
    raise SystemExit(main())
