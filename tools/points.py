"""The demo's orchestrator with named points, at one of which it can be told to stand still.

A kill that is sent when a process is heard to do something comes a moment later. Here the process
says that it is at a point, and goes no further: it is killed exactly there. The points lie around
what a death must not tear apart: a save, a call that leaves, its outcome, a write to the storage
beside the runs. They are put around the product's functions in this process alone.
"""

from __future__ import annotations

import functools
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from machines.demo.lines import tell
from machines.demo.moments import Occasion

if TYPE_CHECKING:
    from collections.abc import Callable

PHRASES: Final = {
    "before save": "it was to save",
    "after save": "it had saved, and nobody knew",
    "before call": "it had saved that a call leaves, which did not",
    "after call": "a call was back, and no outcome on record",
    "before outcome": "it was to record an outcome",
    "after outcome": "it had recorded an outcome",
    "before write": "it was to write beside the runs",
    "after write": "it had written beside the runs",
}
POINTS: Final = tuple(
    Occasion(
        at=at,
        weight=3,
        phrase=phrase,
        nth_max=6 if at.endswith("save") else 2,
        is_always_told=True,
        is_point=True,
    )
    for at, phrase in PHRASES.items()
)


@dataclass(slots=True)
class Stand:
    """The point at which this process is to stand still, and how often it passes there before."""

    at: str = ""
    left: int = 0

    def take(self, command: dict[str, Any]) -> None:
        """Learn of the point from the command that opens the file."""
        self.at, self.left = command.get("stand", ("", 0))

    def reach(self, at: str) -> None:
        """Be at a point: say so and go no further, if it is the one."""
        if at != self.at:
            return
        self.left -= 1
        if self.left == 0:
            tell({"at": at})
            threading.Event().wait()


def around(stand: Stand, owner: Any, name: str, what: str) -> None:
    """Put a point before a function, and one after it."""
    function: Callable[..., Any] = getattr(owner, name)

    @functools.wraps(function)
    def called(*given: Any, **named: Any) -> Any:
        stand.reach(f"before {what}")
        result = function(*given, **named)
        stand.reach(f"after {what}")
        return result

    setattr(owner, name, called)


def around_calls(stand: Stand, effecting: Any) -> None:
    """Put a point where a call is on disk and has not left, and one where it is back."""
    leave, attempt = (getattr(effecting, name) for name in ("_leave", "_attempt"))

    @functools.wraps(leave)
    def leaving(self: Any) -> None:
        leave(self)
        stand.reach("before call")

    @functools.wraps(attempt)
    async def attempting(self: Any) -> Any:
        found = await attempt(self)
        stand.reach("after call")
        return found

    for name, function in {"_leave": leaving, "_attempt": attempting}.items():
        setattr(effecting, name, function)


def place(stand: Stand) -> None:
    """Put the points where they belong."""
    from machines.run import calls  # noqa: PLC0415 - only the process that is killed needs it
    from snapshots.storage.backends.sqlite.carry import SqliteCarryStates  # noqa: PLC0415 - as above
    from snapshots.storage.backends.sqlite.keyed import SqliteKeyedStates  # noqa: PLC0415 - as above
    from snapshots.store.sqlite import SqliteSnapshotStore  # noqa: PLC0415 - as above

    for name in ("create", "save", "mark"):
        around(stand, SqliteSnapshotStore, name, "save")
    for name in ("put", "put_if_absent", "replace", "delete"):
        around(stand, SqliteKeyedStates, name, "write")
    for name in ("save", "clear"):
        around(stand, SqliteCarryStates, name, "write")
    around(stand, calls, "settle", "outcome")
    # The way of an effect has no public name: it is the product's own, looked at here from outside.
    around_calls(stand, vars(calls)["_Effecting"])


def host(arguments: list[str]) -> None:
    """Be an orchestrator that stands still where it is told to."""
    from machines.demo.orchestrator import World, main  # noqa: PLC0415 - as above
    from tools.scenarios.hosted import APPROVALS, HOSTED  # noqa: PLC0415 - as above

    still = Stand()
    place(still)
    main(arguments, World(hosted=HOSTED, approvals=APPROVALS, prepare=still.take))


if __name__ == "__main__":
    host(sys.argv[1:])
