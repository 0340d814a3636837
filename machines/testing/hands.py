"""What a host's work waits for, by the clock that a test turns: backoffs and timeouts of calls."""

from __future__ import annotations

import asyncio
import heapq
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any

from machines.host.workshop import LoopHands

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from snapshots.clock import Clock


class Waits:
    """Functions that are called once the clock has come to their time."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._heap: list[tuple[int, int, Callable[[], object]]] = []
        self._numbers = count()
        self.idle: set[asyncio.Task[Any]] = set()
        """Tasks that do nothing until the clock is turned, or ever."""

    def after(self, seconds: float, function: Callable[[], object]) -> None:
        """Have a function called after a while."""
        due_ms = self._clock.now_ms() + max(1, round(seconds * 1000))
        heapq.heappush(self._heap, (due_ms, next(self._numbers), function))

    def nearest_ms(self) -> int | None:
        """Return when the next one is due; None if none is."""
        return self._heap[0][0] if self._heap else None

    def ring_due(self) -> None:
        """Call what is due."""
        while self._heap and self._heap[0][0] <= self._clock.now_ms():
            heapq.heappop(self._heap)[2]()

    @contextmanager
    def idling(self) -> Iterator[None]:
        """Say in the block that the task which runs only waits."""
        task = asyncio.current_task()
        assert task is not None
        self.idle.add(task)
        try:
            yield
        finally:
            self.idle.discard(task)


class ManualHands(LoopHands):
    """Does work as a host does, but waits by the clock of a test, and says where it is."""

    def __init__(self, waits: Waits, reach: Callable[[str], None]) -> None:
        super().__init__()
        self._waits = waits
        self._reach = reach

    def _scope(self, timeout_s: float | None) -> asyncio.Timeout:
        scope = asyncio.timeout(None)
        if timeout_s is not None:
            self._waits.after(timeout_s, partial(_expire, scope))
        return scope

    async def perform(
        self,
        work: Callable[[], Any],
        *,
        asynchronous: bool,
        timeout_s: float | None = None,
        leaving: Callable[[], None] | None = None,
    ) -> Any:
        """Do the work; a call that leaves is at a point before, and at another when it is back."""
        if leaving is None:
            return await super().perform(work, asynchronous=asynchronous, timeout_s=timeout_s)
        left = []

        def leave() -> None:
            leaving()
            left.append(True)
            self._reach("before call")

        try:
            return await super().perform(
                work, asynchronous=asynchronous, timeout_s=timeout_s, leaving=leave
            )
        finally:
            if left and not self.are_ended():
                self._reach("after call")

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock was turned so far, or the host ends."""
        over = asyncio.Event()
        self._waits.after(seconds, over.set)
        ending = asyncio.ensure_future(self._ending.wait())
        turned = asyncio.ensure_future(over.wait())
        try:
            with self._waits.idling():
                await asyncio.wait([turned, ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            turned.cancel()
            ending.cancel()


def _expire(scope: asyncio.Timeout) -> None:
    """End a call that still goes on."""
    with suppress(RuntimeError):  # it has ended by itself
        scope.reschedule(asyncio.get_running_loop().time())
