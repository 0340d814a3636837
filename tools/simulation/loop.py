"""An event loop on a virtual clock that a seed drives: its order, its pace, and where it stops."""

from __future__ import annotations

import asyncio
import heapq
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable
    from random import Random

TURN_S = 0.003
"""What a turn of the loop may take at most, by the virtual clock."""
SHUFFLED = 0.5
"""How many of the turns run what is ready in another order than it became so."""


CALLBACKS_MAX = 50_000
"""After so many a process does something for ever."""


class Crash(BaseException):
    """The process is killed here: nothing that it was about to do happens any more."""


class StuckError(Exception):
    """The loop has nothing to do, now or later, or never comes to an end."""


class Time:
    """The one time of a world, which goes on whoever lives in it."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.wall_ms = 1_767_225_600_000
        """What the wall clock shows when `now_s` is 0; a step of that clock changes it."""
        self.back_ms = 0
        """How far the wall clock was ever set back, in all."""

    def now_ms(self) -> int:
        """Unix milliseconds: time is a `Clock`."""
        return self.wall_ms + int(self.now_s * 1000)

    def step(self, ms: int) -> None:
        """Set the wall clock forward, or back by a negative number."""
        self.wall_ms += ms
        self.back_ms += max(0, -ms)


class OrderedTask(asyncio.Task[Any]):
    """A task whose place in a set depends on when it was made, and not on where it lies."""

    _numbers = count()

    def __init__(self, *given: Any, **named: Any) -> None:
        self._number = next(self._numbers)
        super().__init__(*given, **named)

    def __hash__(self) -> int:
        return self._number

    def __eq__(self, other: object) -> bool:
        return self is other


class _Nothing:
    """Stands where a loop has its selector: there are no files to wait for."""

    def close(self) -> None:
        """Nothing is open."""


class VirtualLoop(asyncio.BaseEventLoop):
    """One process: it ends where it is told to, and nothing of it runs after that.

    `dies_at` is the number of the callback before which it is killed. `after_each` is called
    behind every callback.
    """

    # What asyncio's own loop is made of, as its `_run_once` uses it.
    _ready: deque[asyncio.Handle]
    _scheduled: list[asyncio.TimerHandle]
    _stopping: bool

    def __init__(self, rng: Random, time: Time) -> None:
        super().__init__()
        self._rng = rng
        self._virtual = time
        self._clock_resolution = 1e-9
        self._selector = _Nothing()
        self.callbacks = 0
        self.dies_at: int | None = None
        self.stops_at: int | None = None
        self.is_dead = False
        self.after_each: Callable[[], None] = lambda: None
        self.errors: list[dict[str, Any]] = []
        self.set_task_factory(self._make_task)
        self.set_exception_handler(lambda _, told: self.errors.append(told))

    @staticmethod
    def _make_task(loop: asyncio.AbstractEventLoop, work: Any, **named: Any) -> OrderedTask:
        return OrderedTask(work, loop=loop, **named)

    def time(self) -> float:
        """Return the seconds since the world began."""
        return self._virtual.now_s

    def _run_once(self) -> None:
        """Run what is ready, in an order of the seed's; let time pass if nothing is."""
        self._pass_time()
        batch = [*self._ready]
        self._ready.clear()
        if len(batch) > 1 and self._rng.random() < SHUFFLED:
            self._rng.shuffle(batch)
        for place, handle in enumerate(batch):
            if self.callbacks == self.stops_at and not self.is_dead:
                self._ready.extendleft(reversed(batch[place:]))
                self.stop()
                return
            self._run_one(handle)
        if self.is_dead:
            raise Crash

    def _pass_time(self) -> None:
        """Go on to when something is to be done, and find what is due by then."""
        scheduled, time = self._scheduled, self._virtual
        if not self._ready and not self._stopping:
            while scheduled and scheduled[0].cancelled():
                heapq.heappop(scheduled)
            if not scheduled:
                raise StuckError
            time.now_s = max(time.now_s, scheduled[0].when())
        time.now_s += self._rng.random() * TURN_S
        while scheduled and scheduled[0].when() <= time.now_s:
            self._ready.append(heapq.heappop(scheduled))

    def _run_one(self, handle: asyncio.Handle) -> None:
        if self.callbacks == self.dies_at:
            self.is_dead = True
        if self.is_dead:
            raise Crash
        self.callbacks += 1
        if self.callbacks > CALLBACKS_MAX:
            raise StuckError
        if not handle.cancelled():
            handle._run()  # noqa: SLF001 - as asyncio's own loop does
            self.after_each()

    def end(self) -> None:
        """Call nothing any more: the process is dead."""
        self.is_dead = True

        def refuse(*_: object, **__: object) -> Any:
            raise Crash

        vars(self).update(call_soon=refuse, call_at=refuse)

    def bury(self) -> None:
        """Forget what a dead process was doing, without a word from any of it."""
        task: Any
        for task in sorted(asyncio.all_tasks(self), key=hash):
            with suppress(BaseException):
                task.get_coro().close()
            task._log_destroy_pending = False  # noqa: SLF001 - nobody is to be told
        self._ready.clear()
        self._scheduled.clear()
        self.close()

    def _process_events(self, events: Any) -> None:
        del events

    def _write_to_self(self) -> None:
        """Wake nobody: there is one thread."""
