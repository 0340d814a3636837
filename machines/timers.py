"""Timeouts that a state invokes: the library's, with a policy for what a restart does to them.

    waiting = State(invoke=timeout(30, on="expired", resume="remaining"))

`statemachine.contrib.timeout.timeout`, `send(delay=…)` and `Event(delay=…)` are durable as they
are, with the policy `deadline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.contrib.timeout import _Timeout

from machines.errors import DefinitionError

if TYPE_CHECKING:
    from snapshots.ledgers.timers import ResumePolicy


class Timeout(_Timeout):
    """What `timeout` returns: a handler for `State(invoke=…)`."""

    def __init__(self, duration: float, on: str | None, resume: ResumePolicy) -> None:
        super().__init__(duration, on)
        self.resume = resume


def timeout(
    duration: float, *, on: str | None = None, resume: ResumePolicy = "deadline"
) -> Timeout:
    """Return what a state invokes to be left, or told, after a time.

    `duration` in seconds. When it is over the event `on` is sent, if one is named, and then
    `done.invoke.<state>`. `resume` says what a restart does: `deadline` keeps the due time,
    `remaining` waits for what was left at the last save, `restart` for the whole duration again.

    Raises DefinitionError if the duration is not positive or the policy is unknown.
    """
    if not duration > 0 or resume not in ("deadline", "remaining", "restart"):
        name = "timeout"
        raise DefinitionError(
            name,
            f"duration={duration!r}, resume={resume!r}",
            "give a positive number of seconds, and deadline, remaining or restart",
        )
    return Timeout(duration, on, resume)
