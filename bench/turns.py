"""Times arms in turns, a few acts of each at a time, so that the machine's mood falls on all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

from bench.figures import Figures, ratio_of_medians, shown

if TYPE_CHECKING:
    from bench.beside import Arm

TURN_ACTS: Final = 10
"""Acts of one arm before the next one's turn: a processor's caches are warm for most of them."""
WARM_UPS: Final = 2

Rounds = list[list[int]]
"""What one arm took: the ns of each act, by the rounds in which all arms had their turn."""
Turn = Callable[[], list[int]]
"""One turn of an arm: it returns the ns of each of its acts."""


def rotate(
    turns: Sequence[Turn],
    *,
    rounds: int,
    warm_ups: int = WARM_UPS,
    before: Callable[[], object] | None = None,
) -> list[Rounds]:
    """Take rounds of turns; return what each arm took, without the first rounds.

    Each round begins with another arm, so that none always follows the same other one. `before`
    makes a round ready.
    """
    found: list[Rounds] = [[] for _ in turns]
    for number in range(warm_ups + rounds):
        if before is not None:
            before()
        for offset in range(len(turns)):
            place = (number + offset) % len(turns)
            took_ns = turns[place]()
            if number >= warm_ups:
                found[place].append(took_ns)
    return found


def turn_of(arm: Arm, acts: int = TURN_ACTS) -> Turn:
    """Return the turn of an arm: what its acts need is made ready beforehand, untimed."""

    def turn() -> list[int]:
        took_ns: list[int] = []
        for _ in range(acts):
            arm.prepare()
            start_ns = perf_counter_ns()
            arm.act()
            took_ns.append(perf_counter_ns() - start_ns)
        return took_ns

    return turn


class Pair:
    """Two arms that were measured in turns."""

    def __init__(self, ours: Arm, theirs: Arm, *, rounds: int, acts: int = TURN_ACTS) -> None:
        """Measure them, and have both show that their acts had their effect."""
        both = [turn_of(ours, acts), turn_of(theirs, acts)]
        self.ours, self.theirs = rotate(both, rounds=rounds)
        self._names = ours.name, theirs.name
        for arm in (ours, theirs):
            arm.check()

    @property
    def ratio(self) -> float:
        """How many times as long the first takes."""
        return ratio_of_medians(self.ours, self.theirs)

    def __str__(self) -> str:
        """Return a line for people."""
        times = [Figures.of(ns for turn in arm for ns in turn) for arm in (self.ours, self.theirs)]
        return " : ".join(
            f"{name} ({shown(each.p50)})" for name, each in zip(self._names, times, strict=True)
        )


def middle(rounds: Rounds) -> float:
    """Return the median of all acts of an arm, in ns."""
    return median(ns for turn in rounds for ns in turn)
