"""A bar, what a measurement finds, and what of the two is reported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What one measurement found."""

    values: Mapping[str, float]
    """By the names of the bars that they are held against."""
    notes: tuple[str, ...] = ()
    """The times behind the ratios, and other lines for people."""


Measure = Callable[[Path], Found]
"""Measures in a folder that is empty and goes afterwards."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value that must not be exceeded, or must be reached."""

    name: str
    what: str
    measure: Measure
    """Bars of one measurement share it: it is taken once for all of them."""
    bar: float | None
    """None: the value is shown beside its goal, and nothing hangs on it."""
    goal: float | None = None
    unit: str = "x"
    is_floor: bool = False
    """Whether the value must be at least the bar, instead of at most."""

    def holds(self, value: float) -> bool:
        """Return whether a value keeps the bar; one that is no number keeps none."""
        return self.bar is None or (isfinite(value) and self._reaches(value, self.bar))

    def reaches_goal(self, value: float) -> bool:
        """Return whether a value is where one would like it to be."""
        return self.goal is None or (isfinite(value) and self._reaches(value, self.goal))

    def _reaches(self, value: float, limit: float) -> bool:
        return value >= limit if self.is_floor else value <= limit


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A bar with its value, or with why there is none."""

    bar: Bar
    value: float | None
    failure: str = ""

    @property
    def holds(self) -> bool:
        """Whether the bar was measured, and kept."""
        return self.value is not None and self.bar.holds(self.value)

    def as_json(self) -> dict[str, object]:
        """Return the verdict as JSON's values."""
        return {
            "name": self.bar.name,
            "what": self.bar.what,
            "value": self.value,
            "bar": self.bar.bar,
            "goal": self.bar.goal,
            "unit": self.bar.unit,
            "at_least": self.bar.is_floor,
            "holds": self.holds,
            "failure": self.failure,
        }
