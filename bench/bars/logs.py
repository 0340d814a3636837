"""The bars of the write-ahead log: what a save adds to it is constant in the run's size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from statemachine import StateChart

from bench.bars.values import Bar, Found, Measure
from bench.charts import WORKERS, Waiter, pool_of
from bench.logged import steps
from bench.payloads import WORKER_VALUES

KIB: Final = 1_024
HUGE_WORKERS: Final = 400
SAVES_BEFORE: Final = 50
"""Saves that are not counted: the layout has settled by then."""
STEPS: Final = 200


def _logged(name: str, chart: type[StateChart[Any]]) -> Measure:
    def measure(folder: Path) -> Found:
        with steps(folder / "ours.db", chart, WORKER_VALUES) as tell:
            tell(SAVES_BEFORE)
            log = tell.log()
            tell(STEPS)
            found = log.commits_bytes
            assert len(found) >= STEPS, "a step was not saved"
            tell.check()
        mean, longest = sum(found) / len(found) / KIB, max(found) / KIB
        return Found(
            values={f"{name}-mean": mean, f"{name}-max": longest},
            notes=(f"{len(found)} saves in {STEPS} steps, a timer set or dropped in each",),
        )

    return measure


def _bars(name: str, size: str, workers: int) -> tuple[Bar, Bar]:
    measure = _logged(name, pool_of(Waiter, workers))
    what = f"bytes that a save logs at {size}, timers coming and going"
    return (
        Bar(name=f"{name}-mean", what=f"{what}, mean", measure=measure, bar=12, unit="KiB"),
        Bar(name=f"{name}-max", what=f"{what}, most", measure=measure, bar=16, unit="KiB"),
    )


BARS: Final = (*_bars("wal-100kb", "100 KB", WORKERS), *_bars("wal-1mb", "1 MB", HUGE_WORKERS))
