"""When the orchestrator is killed: moments drawn by a seed, and the watch that waits for one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from machines.demo.limits import LIFE_S_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

PATIENT_SHARE: Final = 0.5
OPENING: Final = {"do": "open"}
"""What the last orchestrator is told, which nobody kills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occasion:
    """Something that is told, and that a kill can be tied to."""

    at: str
    weight: int
    phrase: str
    """What happened, with the fields of the line that tells it."""
    after_s_max: float = 0.0
    """How long the kill may come after it."""
    nth_max: int = 1
    is_always_told: bool = False
    """Whether it is told before every command was answered, so that no patience is needed."""
    is_point: bool = False
    """Whether the orchestrator itself stands still there, as the moment's line asks it to."""


def occasions(server: str, *more: Occasion) -> tuple[Occasion, ...]:
    """Return what every scenario tells, and `more` that its process outside does."""
    return (
        Occasion(
            at="opening",
            weight=2,
            phrase="it began to open the file",
            after_s_max=0.04,
            is_always_told=True,
        ),
        Occasion(
            at="open",
            weight=3,
            phrase="it had restored its runs",
            after_s_max=0.3,
            is_always_told=True,
        ),
        Occasion(at="saved", weight=4, phrase="it saved {run}", after_s_max=0.001, nth_max=6),
        Occasion(at="answer", weight=1, phrase="it answered a command", is_always_told=True),
        Occasion(
            at="arrived",
            weight=3,
            phrase=f"the {server} got {{what}} of {{subject}}",
            nth_max=2,
        ),
        Occasion(
            at="accepted",
            weight=8,
            phrase=f"the {server} accepted {{what}} of {{subject}} ({{manner}})",
            after_s_max=0.003,
            nth_max=2,
        ),
        Occasion(
            at="answered",
            weight=4,
            phrase=f"the {server} answered {{what}} of {{subject}}",
            after_s_max=0.002,
            nth_max=2,
        ),
        *more,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A time after the n-th time that something is told."""

    occasion: Occasion
    nth: int
    after_s: float
    is_patient: bool = False
    """Whether it is only looked out for once every command was answered.

    An impatient kill mostly hits work that a restart has begun again; if all were like that, the
    runs would hardly get on between two kills.
    """

    @property
    def opening(self) -> dict[str, Any]:
        """What the orchestrator is told so that it opens the file."""
        if not self.occasion.is_point:
            return OPENING
        return {**OPENING, "stand": [self.occasion.at, self.nth]}


def draw_moments(seed: int, known: Sequence[Occasion]) -> Iterator[Moment]:
    """Yield moments for ever: the same ones for the same seed and the same occasions."""
    dice = random.Random(f"moments {seed}")  # noqa: S311 - it guards nothing
    weights = [occasion.weight for occasion in known]
    while True:
        (occasion,) = dice.choices(known, weights)
        # Half of the kills come at once: the tightest places are directly behind a word.
        after_s = dice.choice((0.0, dice.uniform(0.0, occasion.after_s_max)))
        nth = dice.randint(1, occasion.nth_max)
        is_patient = not occasion.is_always_told and dice.random() < PATIENT_SHARE
        yield Moment(occasion=occasion, nth=nth, after_s=after_s, is_patient=is_patient)


class Watch:
    """Waits for one moment; a moment that does not come is given up after `LIFE_S_MAX`."""

    IDLE = "while it waited"

    def __init__(self, moment: Moment | None, now_s: float) -> None:
        """Begin to wait; without a moment it never comes. Times are of one monotonic clock."""
        self.why = self.IDLE
        """What was seen when the moment came, in words."""
        self._moment = moment
        self._is_looking = moment is None or not moment.is_patient
        self._seen = 0
        self._due_s = float("inf") if moment is None else now_s + LIFE_S_MAX

    def see(self, line: dict[str, Any], now_s: float) -> None:
        """Take note of what a process told."""
        moment = self._moment
        if moment is None or not self._is_looking or line["at"] != moment.occasion.at:
            return
        self._seen += 1
        if self._seen == moment.nth:
            self._due_s = now_s + moment.after_s
            what = moment.occasion.phrase.format(**line)
            self.why = f"{moment.after_s * 1000:.1f} ms after {what}"

    def look(self) -> None:
        """Look out for a patient moment too, from now on."""
        self._is_looking = True

    def left_s(self, now_s: float) -> float:
        """Return how long it is to the moment, 0 if it is there."""
        return max(0.0, self._due_s - now_s)
