"""One alarm for all timers of a host: who is due, by the wall clock, however that steps."""

from __future__ import annotations

import asyncio
import heapq
from contextlib import suppress
from typing import TYPE_CHECKING

from machines.limits import STALE_ALARMS_MAX, TIMER_SLICE_MS
from snapshots.limits import NO_TIMER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.clock import Clock


class Alarm:
    """Calls a function for each run whose nearest timer is due.

    It sleeps in bounded slices and reads the clock again: a step of the wall clock neither
    fires everything nor holds everything back.
    """

    def __init__(self, clock: Clock, ring: Callable[[str], None]) -> None:
        self._clock = clock
        self._ring = ring
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._nearer = asyncio.Event()

    def set(self, run_id: str, due_ms: int) -> None:
        """Set a run's nearest due time; NO_TIMER_MS takes it away."""
        if due_ms == NO_TIMER_MS:
            self._due.pop(run_id, None)
            return
        if self._due.get(run_id) == due_ms:
            return
        self._due[run_id] = due_ms
        heapq.heappush(self._heap, (due_ms, run_id))
        if len(self._heap) > 2 * len(self._due) + STALE_ALARMS_MAX:
            # What was set anew left its old place behind.
            self._heap = [(due, of) for of, due in self._due.items()]
            heapq.heapify(self._heap)
        if self._heap[0][1] == run_id:
            self._nearer.set()

    def drop(self, run_id: str) -> None:
        """Forget a run."""
        self._due.pop(run_id, None)

    def nearest_ms(self) -> int | None:
        """Return when the next run is due; None if none is."""
        return min(self._due.values(), default=None)

    def ring_due(self) -> None:
        """Call for every run that is due now."""
        now = self._clock.now_ms()
        while self._heap and self._heap[0][0] <= now:
            due, run_id = heapq.heappop(self._heap)
            if self._due.get(run_id) == due:
                del self._due[run_id]
                self._ring(run_id)

    async def run(self) -> None:
        """Ring for ever."""
        while True:
            self.ring_due()
            self._nearer.clear()
            wait = TIMER_SLICE_MS
            if self._heap:
                wait = min(wait, max(self._heap[0][0] - self._clock.now_ms(), 1))
            # Not `wait_for`: in Python 3.11 it can swallow the cancellation that ends this.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait / 1000):
                    await self._nearer.wait()
