"""The bars of a boot: finished rows cost nothing, runs that only wait next to nothing."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Final

from bench import boots
from bench.bars.values import Bar, Found
from bench.figures import ratio_of_medians, shown

LIVE: Final = 1_000
FINISHED: Final = 100_000
WAITING: Final = 10_000
ROUNDS: Final = 9
BUILT_ROUNDS: Final = 3
WAITING_ROUNDS: Final = 9


def _beside(times: boots.Times) -> tuple[float, str]:
    """Return the median over rounds of the ratio, and both medians for people."""
    ours, theirs = times
    ratio = ratio_of_medians([[ns] for ns in ours], [[ns] for ns in theirs])
    return ratio, f"{shown(median(ours))} : {shown(median(theirs))}"


def among_finished(folder: Path) -> Found:
    """Boot 1,000 live runs among 100,000 finished ones, and without: built, and only noted.

    Those that only wait cost so little that a page which is read for one of them, and not for ten,
    shows: that value has no bar.
    """
    built, noted = folder / "built", folder / "noted"
    values, notes = {}, []
    for name, inner, rounds in (
        ("boot-finished", built, BUILT_ROUNDS),
        ("boot-finished-waiting", noted, ROUNDS),
    ):
        inner.mkdir()
        times = boots.among_finished(
            inner, live=LIVE, finished=FINISHED, rounds=rounds, parked=inner is noted
        )
        values[name], note = _beside(times)
        notes.append(f"{name}: {note}")
    return Found(values=values, notes=tuple(notes))


def of_waiting(folder: Path) -> Found:
    """Boot 10,000 runs that only wait."""
    ratio, note = _beside(boots.beside_select(folder, waiting=WAITING, rounds=WAITING_ROUNDS))
    return Found(values={"boot-waiting": ratio}, notes=(note,))


def held_for_waiting(folder: Path) -> Found:
    """Count what 10,000 runs that only wait take in memory."""
    return Found(values={"boot-waiting-bytes": boots.waiting_bytes(folder, waiting=WAITING)})


BARS: Final = (
    Bar(
        name="boot-finished",
        what="boot of 1,000 live runs among 100,000 finished, beside none finished, p50",
        measure=among_finished,
        bar=1.3,
    ),
    Bar(
        name="boot-finished-waiting",
        what="the same of 1,000 runs that only wait",
        measure=among_finished,
        bar=None,
    ),
    Bar(
        name="boot-waiting",
        what="boot of 10,000 runs that only wait, beside a select of their rows, p50",
        measure=of_waiting,
        bar=4,
    ),
    Bar(
        name="boot-waiting-bytes",
        what="memory of a run that only waits",
        measure=held_for_waiting,
        bar=1_000,
        unit="bytes",
    ),
)
