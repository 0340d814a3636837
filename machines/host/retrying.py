"""Saves that failed and are tried again: after a wait that doubles, until one succeeds."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from machines.limits import SAVE_RETRY_MS, SAVE_RETRY_MS_MAX

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from machines.run.run import Run

_MS_PER_S = 1_000


class Retries:
    """The runs whose last save failed, and when each is tried again.

    `later` calls a function after so many seconds. `again` is given the run whose time has come.
    """

    def __init__(
        self,
        later: Callable[[float, Callable[[], object]], asyncio.TimerHandle],
        again: Callable[[Run], object],
    ) -> None:
        self._later = later
        self._again = again
        self.waits_ms: dict[str, int] = {}
        """How long the last wait of each was, until a save of it succeeds."""
        self._scheduled: dict[str, asyncio.TimerHandle] = {}

    def __contains__(self, run_id: str) -> bool:
        return run_id in self._scheduled

    def add(self, run: Run) -> None:
        """Try a run again, later than after its failure before this one."""
        if run.run_id in self._scheduled:
            return
        before_ms = self.waits_ms.get(run.run_id, SAVE_RETRY_MS)
        wait_ms = min(before_ms * 2, SAVE_RETRY_MS_MAX)
        self.waits_ms[run.run_id] = wait_ms
        self._scheduled[run.run_id] = self._later(wait_ms / _MS_PER_S, partial(self._try, run))

    def drop(self, run_id: str) -> None:
        """Try a run no more."""
        self.waits_ms.pop(run_id, None)
        scheduled = self._scheduled.pop(run_id, None)
        if scheduled is not None:
            scheduled.cancel()

    def _try(self, run: Run) -> None:
        del self._scheduled[run.run_id]
        self._again(run)
