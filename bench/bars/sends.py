"""The bar of an event: `host.send`, its save included, beside the library's own `send`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench.bars.values import Bar, Found
from bench.figures import ratio_of_medians, shown
from bench.sending import HostSends, PlainSends, hosting
from bench.turns import Rounds, middle

ROUNDS: Final = 200
BATCHES: Final = 4
"""Rounds of the small chart in one arm's turn."""
_WARM_UPS: Final = 5


def measure(folder: Path) -> Found:
    """Drive both sides from one task of one loop, in turns."""
    ours: Rounds = []
    theirs: Rounds = []
    with hosting(folder / "ours.db") as (loop, host):
        arms = (HostSends(loop, host), ours), (PlainSends(loop), theirs)

        async def drive() -> None:
            for number in range(_WARM_UPS + ROUNDS):
                for arm, rounds in arms if number % 2 else reversed(arms):
                    took_ns = await arm.turn(BATCHES)
                    if number >= _WARM_UPS:
                        rounds.append(took_ns)

        loop.run_until_complete(drive())
        for arm, _ in arms:
            arm.check()
    note = f"host.send ({shown(middle(ours))}) : plain send ({shown(middle(theirs))})"
    return Found(values={"send": ratio_of_medians(ours, theirs)}, notes=(note,))


BARS: Final = (
    Bar(
        name="send",
        what="host.send of the small chart, save included, beside its plain send, p50",
        measure=measure,
        bar=0.7,
        goal=0.4,
    ),
)
