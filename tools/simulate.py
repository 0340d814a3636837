"""Play whole worlds, each under one seed, and look whether every promise holds after each step.

    python tools/simulate.py --seeds 2000 [--first 0] [--jobs 2]
    python tools/simulate.py --seed 17
    python tools/simulate.py --plant forget-timer [--seeds 2000]

A world is a file, its hosts one after the other, their clients and the outside, on a virtual clock
and a loop whose order is the seed's. Hosts are killed, frozen and overtaken, saves fail, rows are
damaged, deploys forget machines. A seed is the whole of it: `--seed` plays one again and prints
its trace. With `--plant` the product has a bug, and what counts is that a seed finds it. Exit code
1 if a promise was broken, or a planted bug was not found.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.simulation.plants import PLANTS, planted
from tools.simulation.staging import play, staged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tools.simulation.world import Outcome

BATCH = 50
"""Seeds that one process plays before it is asked again."""
FAILURES_SHOWN = 20
TRACE_TAIL = 25
HASHES = "PYTHONHASHSEED"


@dataclass
class Tally:
    """What seeds came to."""

    worlds: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    """Seed, rule, what."""

    def take(self, outcome: Outcome) -> None:
        """Count one world."""
        self.worlds += 1
        self.counts.update(outcome.counts)
        self.failures += [(outcome.seed, *broken) for broken in outcome.broken[:1]]

    def add(self, other: Tally) -> None:
        """Count what another process has counted."""
        self.worlds += other.worlds
        self.counts += other.counts
        self.failures += other.failures

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in sorted(self.counts.items()))
        return f"{self.worlds} worlds ({counts}): {len(self.failures)} failures"


def play_batch(plant: str | None, seeds: range) -> Tally:
    """Play some seeds, one after the other; with a planted bug until one finds it."""
    tally = Tally()
    with staged(), planted(plant):
        for seed in seeds:
            tally.take(play(seed))
            if plant is not None and tally.failures:
                break
    return tally


def batches(first: int, count: int) -> Iterator[range]:
    """Yield the seeds, as many at a time as one process is given."""
    for begin in range(first, first + count, BATCH):
        yield range(begin, min(begin + BATCH, first + count))


def play_all(seeds: Iterable[range], plant: str | None, jobs: int) -> Tally:
    """Play seeds in several processes; with a planted bug until one finds it."""
    tally = Tally()
    work = partial(play_batch, plant)
    if jobs == 1:
        for batch in seeds:
            tally.add(work(batch))
            if plant is not None and tally.failures:
                break
        return tally
    with ProcessPoolExecutor(jobs) as processes:
        for part in processes.map(work, seeds):
            tally.add(part)
            if plant is not None and tally.failures:
                processes.shutdown(wait=True, cancel_futures=True)
                break
    return tally


def digest(trace: Iterable[str]) -> str:
    """Return what tells a trace from any other."""
    return hashlib.sha256("\n".join(trace).encode()).hexdigest()[:16]


def replay(seed: int, plant: str | None) -> int:
    """Play one seed and print all that happened."""
    with staged(), planted(plant):
        outcome = play(seed)
    print(*outcome.trace, sep="\n")
    for rule, what in outcome.broken:
        print(f"\nbroken: {rule}: {what}")
    print(f"\nseed {seed}: {len(outcome.broken)} broken, trace {digest(outcome.trace)}")
    return 1 if outcome.broken else 0


def report(tally: Tally, plant: str | None, elapsed_s: float) -> int:
    """Print what was found; return the exit code."""
    print(f"{tally}; {60 * tally.worlds / max(elapsed_s, 1e-9):,.0f} worlds a minute")
    option = f" --plant {plant}" if plant is not None else ""
    for seed, rule, what in tally.failures[:FAILURES_SHOWN]:
        print(f"  --seed {seed}{option}: {rule}: {what}"[:300])
    if plant is None:
        return 1 if tally.failures else 0
    found = f"found by seed {tally.failures[0][0]}" if tally.failures else "not found"
    print(f"{plant}: {found}")
    return 0 if tally.failures else 1


def main(arguments: list[str] | None = None) -> int:
    """Play what the arguments say; return the exit code."""
    parser = argparse.ArgumentParser(prog="simulate.py", description=__doc__)
    parser.add_argument("--seeds", type=int, default=2000, help="how many worlds are played")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="play this one alone, and print its trace")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="a bug that is to be found")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    given = parser.parse_args(arguments)
    if given.seed is not None:
        return replay(given.seed, given.plant)
    begun_s = time.monotonic()
    tally = play_all(batches(given.first, given.seeds), given.plant, given.jobs)
    return report(tally, given.plant, time.monotonic() - begun_s)


def _with_fixed_hashes() -> None:
    """Begin anew where the order of sets of texts would differ from process to process."""
    if os.environ.get(HASHES) != "0":
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, HASHES: "0"})  # noqa: S606 - this very program


if __name__ == "__main__":
    _with_fixed_hashes()
    sys.exit(main())
