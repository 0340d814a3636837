"""What a list of durations comes to: its median, its tail, its longest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

US_PER_MS: Final = 1_000
NS_PER_US: Final = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one arm, in ns."""

    count: int
    p50: float
    p99: float
    p999: float
    longest: float

    @classmethod
    def of(cls, durations_ns: Iterable[float]) -> Figures:
        """Sort durations, of which there is at least one, and take the figures."""
        ordered = sorted(durations_ns)
        return cls(
            count=len(ordered),
            p50=median(ordered),
            p99=quantile(ordered, 0.99),
            p999=quantile(ordered, 0.999),
            longest=ordered[-1],
        )

    def in_order(self) -> tuple[float, float, float, float]:
        """Return p50, p99, p99.9 and the longest."""
        return self.p50, self.p99, self.p999, self.longest


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the least duration that `share` of them, sorted, does not exceed (nearest rank)."""
    assert ordered, "a quantile of nothing"
    assert 0 < share <= 1, share
    # A share such as 0.999 is a little more than it says: without the slack, 0.999 of 1,000
    # durations would be the thousandth of them.
    rank = -int(-(share * len(ordered) - 1e-9) // 1)
    return ordered[max(rank, 1) - 1]


def ratio_of_medians(ours: Sequence[Sequence[float]], theirs: Sequence[Sequence[float]]) -> float:
    """Return the median over rounds of the ratio that the two medians of each round have.

    The two arms of a round ran side by side, so that whatever else the machine did falls on both.
    """
    assert len(ours) == len(theirs) > 0, "each round has both arms"
    return median(median(one) / median(other) for one, other in zip(ours, theirs, strict=True))


def shown(ns: float) -> str:
    """Return a duration for people, with three digits."""
    us = ns / NS_PER_US
    if us < US_PER_MS:
        return f"{us:,.1f} us" if us < 100 else f"{us:,.0f} us"
    ms = us / US_PER_MS
    return f"{ms:,.2f} ms" if ms < 10 else f"{ms:,.1f} ms"
