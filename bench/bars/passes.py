"""The bar of a loop: its passes do not become dearer by those that lie behind."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.bars.values import Bar, Found
from bench.looping import passes
from bench.turns import TURN_ACTS, WARM_UPS, Pair

LATE: Final = 10_000
EARLY: Final = 100
ROUNDS: Final = 10


def measure(folder: Path) -> Found:
    """Take passes around both, in turns."""
    half = (ROUNDS // 2 + WARM_UPS) * TURN_ACTS
    with (
        passes(folder / "late.db", LATE - half) as late,
        passes(folder / "early.db", EARLY - half) as early,
    ):
        late.name, early.name = f"pass {LATE:,}", f"pass {EARLY:,}"
        pair = Pair(late, early, rounds=ROUNDS)
    return Found(values={"loop": pair.ratio}, notes=(str(pair),))


BARS: Final = (
    Bar(
        name="loop",
        what="pass 10,000 of a looping effect, beside pass 100, p50",
        measure=measure,
        bar=1.5,
    ),
)
