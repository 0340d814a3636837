"""Load a host steadily for minutes, kill it now and then, and see that nothing grows.

    python tools/soak.py --minutes 12 --seed 1 [--png FILE] [--folder DIR] [--verify]

Some thirty runs are live at a time: they are told notes, call effects, work pools of children, wait
for timers and gates, end, and are swept, since a week is some seconds here. Two readers look
meanwhile, one of which holds read transactions and is killed in some of them; the host and the
command `snapshots backup` make copies; notes also come by `snapshots send`. A witness outside
compares what was acknowledged with what is in the rows and with what really happened.

What is measured each second is compared at the end: the last quarter of the time may not have more
than the second one, but for an allowance that is told. Under `MINUTES_MIN` that says nothing and is
not claimed. Exit code 1 if anything was lost, repeated or stuck, or (in a run that is long enough)
anything was not flat.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from machines.demo.errors import DemoError
from machines.demo.killer import FILE
from tools.soaking.drawing import draw
from tools.soaking.judging import judge
from tools.soaking.load import LIVE
from tools.soaking.samples import bounds, to_judge
from tools.soaking.siege import kept_s, soak

if TYPE_CHECKING:
    from machines.demo.killer import Progress
    from tools.soaking.judging import Verdict
    from tools.soaking.samples import Bound
    from tools.soaking.siege import Soaked

MINUTES_MIN: Final = 5.0
"""In less than that memory has not found its level, and nothing is said about flatness."""
MINUTES_LEAST: Final = 0.25
SECONDS_PER_MINUTE: Final = 60.0
SWEPT_SHARE_MIN: Final = 0.25
"""The share of the finished runs that sweeps have deleted at least, where there was time for it."""


def row_of(verdict: Verdict, *, is_claimed: bool) -> str:
    """Return the line of one series; a run that is too short says nothing of it."""
    if verdict.before is None or verdict.after is None or verdict.most is None:
        return f"{verdict.name:<34}    too few points{': not flat' if is_claimed else ''}"
    word = ("flat" if verdict.is_flat else "GROWS") if is_claimed else ""
    slope = verdict.slope_per_hour or 0.0
    line = (
        f"{verdict.name:<34}{verdict.before:>10.2f}{verdict.after:>10.2f}{verdict.most:>10.2f}"
        f" {verdict.unit:<5}{slope:>+10.1f}/h  {word}"
    )
    return line.rstrip()


def table(verdicts: list[Verdict], *, is_claimed: bool) -> list[str]:
    """Return the lines about what has to stay flat."""
    head = f"{'':<34}{'2nd qu.':>10}{'last qu.':>10}{'allowed':>10}"
    return [head, *(row_of(verdict, is_claimed=is_claimed) for verdict in verdicts)]


def limits_table(found: list[Bound]) -> list[str]:
    """Return the lines about what has a limit."""
    return [
        f"{bound.name}: at most {bound.found:.2f} of {bound.most:.2f} {bound.unit}"
        f"{'' if bound.holds else ': TOO MUCH'}"
        for bound in found
    ]


def story(soaked: Soaked) -> list[str]:
    """Return what happened, in counts."""
    result, beside, measured = soaked.result, soaked.beside, soaked.measured
    sends = sum(len(took) for _, took in measured.windows)
    kills = f"{result.kills} kills of the host, {beside.killed} of a reader that held the log"
    told = f"{result.sends} commands ({result.repeats} sent again), {beside.commands} by the CLI"
    copies = f"{beside.backups} by the CLI, {beside.own_backups} by the host"
    stall = f"longest wait of a save for a checkpoint: {measured.stall_ms:.1f} ms"
    return [
        f"{result.took_s:.0f} s, {kills}",
        f"runs: {soaked.ended} ended, {swept(soaked)} of them swept; {told}",
        f"comparisons with the rows: {result.comparisons}; sends measured: {sends}",
        f"looks: {beside.looks}, {beside.pins} that held the log; backups: {copies}",
        f"effects in doubt: {len(result.doubts)}; {stall}",
    ]


def swept(soaked: Soaked) -> int:
    """Return how many finished runs are not in the file any more, as a reader saw it last."""
    seen = [s.ended for s in soaked.measured.samples if s.ended is not None]
    return soaked.ended - (seen[-1] if seen else 0)


def faults(soaked: Soaked, total_s: float) -> list[str]:
    """Return everything that speaks against what must hold however short the time is."""
    found = [f"{c.claim}: {len(c.found)}" for c in soaked.result.checks if c.found]
    found += [bound.name for bound in bounds(soaked.measured, LIVE) if not bound.holds]
    if total_s >= 3 * kept_s(total_s) and swept(soaked) < SWEPT_SHARE_MIN * soaked.ended:
        found.append(f"only {swept(soaked)} of {soaked.ended} finished runs were swept")
    return found


def report(soaked: Soaked, total_s: float) -> int:
    """Print what was found, and return the exit code."""
    print("\n".join(story(soaked)))
    for check in soaked.result.checks:
        print("\n  ".join([f"{check.claim}: {len(check.found)}", *check.shown()]))
    print("\n".join(limits_table(bounds(soaked.measured, LIVE))))
    verdicts = [judge(series) for series in to_judge(soaked.measured)]
    is_claimed = total_s >= MINUTES_MIN * SECONDS_PER_MINUTE
    print("\n".join(table(verdicts, is_claimed=is_claimed)))
    bad = faults(soaked, total_s)
    if is_claimed:
        bad += [f"{verdict.name} is not flat" for verdict in verdicts if not verdict.is_flat]
    else:
        print(f"flatness: not claimed, as it takes {MINUTES_MIN:g} minutes or more to say anything")
    print(f"soak: {'; '.join(bad) if bad else 'all that was claimed holds'}")
    return 1 if bad else 0


def main(arguments: list[str] | None = None) -> int:
    """Soak as the command line says."""
    parser = argparse.ArgumentParser(prog="tools/soak.py", description="See that nothing grows.")
    parser.add_argument("--minutes", type=float, default=MINUTES_MIN)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--png", type=Path, metavar="FILE", help="where to draw what was measured")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="where the files are left")
    parser.add_argument("--verify", action="store_true", help="compare each save (slower)")
    parser.add_argument("--verbose", action="store_true", help="tell each step")
    options = parser.parse_args(arguments)
    total_s = options.minutes * SECONDS_PER_MINUTE
    if options.minutes < MINUTES_LEAST:
        parser.error(f"--minutes: from {MINUTES_LEAST:g} on")
    if options.folder is not None and (options.folder / FILE).exists():
        parser.error(f"{str(options.folder)!r} already holds {FILE!r}: name a folder that is new")

    def tell(progress: Progress) -> None:
        if options.verbose:
            print(progress.text, flush=True)

    with ExitStack() as folders:
        folder = options.folder or Path(folders.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(parents=True, exist_ok=True)
        try:
            soaked = soak(folder, total_s, options.seed, verify=options.verify, observe=tell)
        except DemoError as error:
            print(f"soak: it came to no end: {error}")
            return 1
        code = report(soaked, total_s)
    if options.png is not None:
        title = f"tools/soak.py --minutes {options.minutes:g} --seed {options.seed}"
        print(draw(soaked.measured, title, options.png))
    return code


if __name__ == "__main__":
    raise SystemExit(main())
