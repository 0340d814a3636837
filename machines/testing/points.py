"""The points at which a host can be made to die, and which of them is the one."""

from __future__ import annotations

from typing import Final

from machines.errors import HostStoppedError

POINTS: Final = {
    "before save": "a run is about to be saved, and is not",
    "after save": "a save is on disk, and nothing that follows has begun",
    "before step": "a macrostep has run and is about to be saved, and is not",
    "after step": "the save of a macrostep is on disk, and nothing that follows has begun",
    "before call": "it is on disk that a call leaves, and it has not",
    "after call": "a call is back, or has raised, and that is nowhere on disk",
    "before outcome": "the outcome of a call is about to be recorded, and is not",
    "after outcome": "the outcome of a call is on disk, and the chart has not reacted",
}


class Crashed(BaseException):
    """The host died at the point that was asked for, as by SIGKILL; nothing of it goes on."""

    def __init__(self, at: str) -> None:
        """Say at which point."""
        super().__init__(f"the host has died {at}, as it was asked to")
        self.at = at


def is_of_a_death(error: BaseException | None) -> bool:
    """Whether an error says only that a host has died or is gone, or is a group of such alone."""
    if isinstance(error, BaseExceptionGroup):
        return error.split((Crashed, HostStoppedError))[1] is None
    return isinstance(error, Crashed | HostStoppedError)


class Plan:
    """At which point the next host is to die, and how often it passes there before."""

    def __init__(self) -> None:
        self._at = ""
        self._n = 0
        self._left = 0

    def set(self, at: str, n: int) -> None:
        """Plan a death at the n-th time that a point is reached; ValueError for what is none."""
        if at not in POINTS:
            message = f"there is no point {at!r}; there are {', '.join(map(repr, POINTS))}"
            raise ValueError(message)
        if type(n) is not int or n < 1:
            message = f"n is {n!r}: a point is reached for the first time at the earliest"
            raise ValueError(message)
        self._at, self._n, self._left = at, n, n

    def is_reached(self, at: str) -> bool:
        """Whether to die here and now; there is no plan any more then."""
        if at != self._at:
            return False
        self._left -= 1
        if self._left:
            return False
        self._at = ""
        return True

    def give_up(self) -> str:
        """Return what did not come about of the plan, empty if all did; there is none any more."""
        at, self._at = self._at, ""
        if not at:
            return ""
        return f"the host was to die {at!r} at time {self._n}, and was there {self._n - self._left}"
