"""Whether what was measured stayed flat: its second quarter against its last one, no more."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

QUARTERS: Final = 4
POINTS_MIN: Final = 8
"""So many points each of the two quarters has at least, for anything to be said."""
SLOPE_POINTS_MAX: Final = 200
SECONDS_PER_HOUR: Final = 3_600.0
HALF: Final = 0.5

Point = tuple[float, float]
"""A time in seconds, and what was measured at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """What the last quarter may have more than the second one: a share of it, and an amount.

    The amount is for what jumps: a page more, a neighbour on the same machine. What is not more
    than `free` is no growth at all. A leak that stays below in the time that was measured is not
    seen.
    """

    share: float
    amount: float
    free: float = 0.0

    def most(self, before: float) -> float:
        """Return the most that may be found where this was found before."""
        return max(self.free, before * (1 + self.share) + self.amount)


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One thing that was measured again and again; `unit` is that of values and allowance.

    `quantile` is what stands for a quarter: the median, or for what rises and falls by its nature
    something near its crests.
    """

    name: str
    unit: str
    points: Sequence[Point]
    allowance: Allowance
    quantile: float = HALF


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is said of a series. Without enough points there are no numbers, and it is not flat."""

    name: str
    unit: str
    before: float | None
    """What stands for the second quarter; the first one is left to whatever has to warm up."""
    after: float | None
    """The same for the last quarter."""
    most: float | None
    """What the last quarter could have had."""
    slope_per_hour: float | None
    """The robust slope over all but the first quarter (Theil and Sen), to be read, not judged."""

    @property
    def is_flat(self) -> bool:
        """Whether enough was measured, and it did not grow beyond its allowance."""
        return self.after is not None and self.most is not None and self.after <= self.most


def judge(series: Series) -> Verdict:
    """Compare the second quarter of the time with the last one; shrinking is no fault."""
    points = sorted(series.points)
    quarters = [_quarter(points, number) for number in range(QUARTERS)]
    second, last = quarters[1], quarters[-1]
    if min(len(second), len(last)) < POINTS_MIN:
        return Verdict(
            name=series.name,
            unit=series.unit,
            before=None,
            after=None,
            most=None,
            slope_per_hour=None,
        )
    before = quantile([value for _, value in second], series.quantile)
    return Verdict(
        name=series.name,
        unit=series.unit,
        before=before,
        after=quantile([value for _, value in last], series.quantile),
        most=series.allowance.most(before),
        slope_per_hour=slope([p for quarter in quarters[1:] for p in quarter]) * SECONDS_PER_HOUR,
    )


def _quarter(points: Sequence[Point], number: int) -> list[Point]:
    """Return the points of one quarter of the time, not of their number."""
    if not points:
        return []
    first, last = points[0][0], points[-1][0]
    width = (last - first) / QUARTERS
    begin, end = first + number * width, first + (number + 1) * width
    is_last = number == QUARTERS - 1
    return [point for point in points if begin <= point[0] and (point[0] < end or is_last)]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that at least this share of the values does not exceed."""
    assert values, "a quantile of nothing"
    ordered = sorted(values)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def slope(points: Sequence[Point]) -> float:
    """Return the median of the slopes between all pairs of points; 0 if there are none.

    At most `SLOPE_POINTS_MAX` points, evenly chosen, are paired.
    """
    step = max(1, len(points) // SLOPE_POINTS_MAX)
    chosen = points[::step]
    slopes = [
        (later[1] - earlier[1]) / (later[0] - earlier[0])
        for number, earlier in enumerate(chosen)
        for later in chosen[number + 1 :]
        if later[0] > earlier[0]
    ]
    return statistics.median(slopes) if slopes else 0.0
