"""When the orchestrator is killed: moments drawn by a seed, and the watch that waits for one."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines.demo.limits import LIFE_S_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

WEIGHTS = {
    # It has begun to open the file.
    "opening": 2,
    # It has restored its runs; then any time.
    "open": 3,
    # It has committed a save.
    "saved": 4,
    # It has answered a command.
    "answer": 1,
    # A request is with the receiver, which has not accepted it.
    "arrived": 3,
    # The receiver has done what was asked, and has not answered.
    "accepted": 8,
    # The answer is on its way.
    "answered": 4,
}
AFTER_S_MAX = {"opening": 0.04, "open": 0.3, "accepted": 0.003, "answered": 0.002, "saved": 0.001}
"""How long the kill may come after what it waits for."""
PATIENT_SHARE = 0.5
IMPATIENT = {"opening", "open", "answer"}
"""What has been told when every command was answered."""
NTH_MAX = {"saved": 6, "accepted": 2, "answered": 2, "arrived": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """A time after the n-th time that something is told."""

    on: str
    nth: int
    after_s: float
    is_patient: bool = False
    """Whether it is only looked out for once every command was answered.

    An impatient kill mostly hits work that a restart has begun again; if all were like that, the
    runs would hardly get on between two kills.
    """


def draw_moments(seed: int) -> Iterator[Moment]:
    """Yield moments for ever: the same ones for the same seed."""
    dice = random.Random(f"moments {seed}")  # noqa: S311 - it guards nothing
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    while True:
        (on,) = dice.choices(names, weights)
        # Half of the kills come at once: the tightest places are directly behind a word.
        after_s = dice.choice((0.0, dice.uniform(0.0, AFTER_S_MAX.get(on, 0.0))))
        nth = dice.randint(1, NTH_MAX.get(on, 1))
        is_patient = on not in IMPATIENT and dice.random() < PATIENT_SHARE
        yield Moment(on=on, nth=nth, after_s=after_s, is_patient=is_patient)


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
        if moment is None or not self._is_looking or line["at"] != moment.on:
            return
        self._seen += 1
        if self._seen == moment.nth:
            self._due_s = now_s + moment.after_s
            self.why = f"{moment.after_s * 1000:.1f} ms after {in_words(line)}"

    def look(self) -> None:
        """Look out for a patient moment too, from now on."""
        self._is_looking = True

    def left_s(self, now_s: float) -> float:
        """Return how long it is to the moment, 0 if it is there."""
        return max(0.0, self._due_s - now_s)


def in_words(line: dict[str, Any]) -> str:
    """Say what a line tells."""
    match line["at"]:
        case "opening":
            return "it began to open the file"
        case "open":
            return "it had restored its runs"
        case "saved":
            return f"it saved {line['run']}"
        case "answer":
            return "it answered a command"
        case at:
            return f"the receiver {PHRASES[at].format(**line)}"


PHRASES = {
    "arrived": "got {what} of {subject}",
    "accepted": "accepted {what} of {subject} ({manner})",
    "answered": "answered {what} of {subject}",
}
