"""Kill the demo's orchestrator very often, and count: the demo's loop without the show.

    python tools/crash.py --scenario pool --kills 100 --seed 1 [--runs N] [--keep DIR] [--control]

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

from machines.demo.killer import FILE, ORCHESTRATOR, Progress, Siege
from machines.demo.scenarios import SCENARIOS

if TYPE_CHECKING:
    from machines.demo.results import Result

CARELESS = "tools.careless"


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


def main(arguments: list[str] | None = None) -> int:
    """Run the loop as the command line says."""
    parser = argparse.ArgumentParser(prog="tools/crash.py", description="Count what kills lose.")
    parser.add_argument("--scenario", choices=[*SCENARIOS], default="checkout")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, help="default: enough for the kills")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="where the files are left")
    parser.add_argument("--control", action="store_true", help="see a wrong one found")
    parser.add_argument("--verbose", action="store_true", help="tell each step")
    options = parser.parse_args(arguments)
    if options.keep is not None and (options.keep / FILE).exists():
        parser.error(f"{str(options.keep)!r} already holds {FILE!r}: name a folder that is new")

    def tell(progress: Progress) -> None:
        if options.verbose:
            print(progress.text, flush=True)

    scenario = SCENARIOS[options.scenario]
    with ExitStack() as folders:
        folder = options.keep or Path(folders.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        siege = Siege(
            scenario=scenario,
            folder=folder,
            kills=options.kills,
            # Enough that each life of the orchestrator has something under way.
            runs=options.runs
            or max(scenario.runs_default, round(options.kills / scenario.kills_per_run)),
            seed=options.seed,
            orchestrator=CARELESS if options.control else ORCHESTRATOR,
            verify=True,
            observe=tell,
        )
        result = siege.lay()
    print("\n".join(report(result)))
    return judge(result, control=options.control)


if __name__ == "__main__":
    raise SystemExit(main())
