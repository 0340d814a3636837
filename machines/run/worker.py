"""What runs a run and does its outside work, and how the loop of its tree is left early."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from snapshots.errors import ConflictError, RunNotFoundError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines.engine.nodes import Call
    from machines.run.run import Run
    from machines.run.telling import Teller
    from snapshots.errors import SnapshotsError

UNSAVED = (StorageError, ConflictError, RunNotFoundError)
"""What a save fails with when the file, and not what was to be saved, is at fault."""


class Halt(BaseException):
    """Leaves the tree's loop at once: the run is over, or waits until it can be saved."""


class Worker(Protocol):
    """What does a run's outside work, and runs its tree."""

    has_loop: bool

    @property
    def told(self) -> Teller:
        """What hears of what happens in the runs."""

    def start_call(self, run: Run, call: Call) -> None:
        """Begin outside work, or go on with it if it is under way."""

    def stop_call(self, run: Run, path: str, invoke: str) -> None:
        """End outside work whose state was left."""

    def wake(self, run: Run) -> None:
        """See that the run's tree runs until it has nothing to do."""

    def post(self, function: Callable[[], object]) -> None:
        """Have the tree's thread call the function soon."""

    def stalled(self, run: Run, error: SnapshotsError) -> None:
        """Take note that the run could not be saved, and try again later if that may help."""

    def saved(self, run: Run) -> None:
        """Take note of a save: arm timers."""

    def ended(self, run: Run) -> None:
        """Take note that the run is not live any more."""

    def lost(self, run: Run, error: Exception) -> None:
        """Let go of a live run whose charts cannot be built anew from its last save."""
