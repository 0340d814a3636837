"""Runs a chart on the library's own engine, in virtual time and in a fixed order.

The order is the one that a quiet system has: after each step of the script child charts are made
and every event that is due is taken, until nothing is left to do; only then the next step, the
next outstanding invoke or the next timer follows.
"""

from __future__ import annotations

import asyncio
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from statemachine.engines.async_ import AsyncEngine

from tools.charts import build
from tools.charts.spec import Advance, Finish, Send, Step, Subject
from tools.charts.trace import Recorder, Trace
from tools.charts.world import CALL, CHILD, TIMEOUT, Work, World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from statemachine import StateChart

ROUNDS_MAX = 10_000
"""More rounds than this without coming to rest mean a chart that never will."""


def run(cls: type[StateChart[Any]], subject: Subject, script: Sequence[Step]) -> Trace:
    """Run a script on a new chart of a class; it ends early if the chart reaches its end.

    ``subject`` says what the model and the constructor get and what the trace ends with: a
    specification, or a named chart. The class must be built for this run alone. Must not be
    called while an event loop runs.
    """
    recorder = Recorder()
    world = World(recorder.settled)
    with world.patched():
        return asyncio.run(_Run(cls, subject, world, recorder).play(script))


async def _value(result: Any) -> Any:
    return await result if isawaitable(result) else result


class _Run:
    """One run of one chart."""

    def __init__(
        self, cls: type[StateChart[Any]], subject: Subject, world: World, recorder: Recorder
    ) -> None:
        self.cls = cls
        self.subject = subject
        self.world = world
        self.recorder = recorder
        self.chart: Any = None

    async def play(self, script: Sequence[Step]) -> Trace:
        guards = build.guard_log(self.cls)
        del guards[:]
        await self._guarded(self._start)
        for step in script:
            if self.chart.is_terminated:
                break
            await self._step(step)
        children = {path: chart.model for path, chart in self.world.charts.items() if path}
        return self.recorder.finish(
            self.chart, self.subject, children=children, guards=list(guards)
        )

    async def _start(self) -> None:
        start: dict[str, Any] = dict(self.subject.start)
        # In two steps: a chart whose first macrostep raises is there all the same.
        self.chart = self.cls.__new__(self.cls)
        self.chart.__init__(model=build.model(self.subject), **start)
        if isinstance(_engine(self.chart), AsyncEngine):
            await _value(self.chart.activate_initial_state())
        await self._settle()

    async def _step(self, step: Step) -> None:
        match step:
            case Send():
                await self._guarded(lambda: self._send(step))
                await self._guarded(self._settle)
            case Advance():
                await self._advance(self.world.now_ms + step.ms)
            case Finish():
                found = self.world.take(CALL)
                for work in found if step.every else found[:1]:
                    if not work.is_cancelled:
                        await self._guarded(partial(self._finish, work))

    async def _guarded(self, action: Callable[[], Awaitable[None]]) -> None:
        """Do something that a chart may answer with an exception, which is then the result."""
        try:
            await action()
        except Exception as error:  # noqa: BLE001 - whatever a chart raises is what it shows
            self.recorder.failed(error)
        finally:
            for path, chart in self.world.charts.items():
                self.recorder.settled(path, chart)

    async def _send(self, step: Send) -> None:
        result = await _value(self.chart.send(step.event, *step.args, **step.kwargs))
        self.recorder.answered(result)

    async def _settle(self) -> None:
        for _ in range(ROUNDS_MAX):
            children = self.world.take(CHILD)
            chart = self._next_due()
            if children:
                await self._do(children[0])
            elif chart is not None:
                await _value(chart._processing_loop())  # noqa: SLF001 - what a sender calls
            else:
                return
        message = f"{self.subject.name} does not come to rest"
        raise AssertionError(message)

    def _next_due(self) -> Any:
        """The chart with the first event that is due, None if there is none."""
        due = [
            (event.execution_time, event.sequence, chart)
            for chart in self.world.charts.values()
            if _engine(chart).running
            for event in _waiting(chart)
            if event.execution_time <= self.world.monotonic()
        ]
        return min(due, key=lambda entry: entry[:2])[2] if due else None

    async def _do(self, work: Work) -> None:
        self.world.work.remove(work)
        await _value(work.finish())

    async def _finish(self, work: Work) -> None:
        await self._do(work)
        await self._settle()

    async def _advance(self, until_ms: int) -> None:
        for _ in range(ROUNDS_MAX):
            due_ms = self._next_due_ms()
            if due_ms is None or due_ms > until_ms or self.chart.is_terminated:
                self.world.now_ms = max(self.world.now_ms, until_ms)
                return
            self.world.now_ms = max(self.world.now_ms, due_ms)
            self.recorder.ties += self._is_tied()
            await self._guarded(self._settle)
            timeouts = self._timeouts()
            if timeouts and timeouts[0].due_ms <= self.world.now_ms:
                await self._guarded(partial(self._finish, timeouts[0]))
        message = f"{self.subject.name} sets timers without end"
        raise AssertionError(message)

    def _timeouts(self) -> list[Work]:
        found = self.world.take(TIMEOUT)
        return sorted(found, key=lambda work: (work.due_ms, work.sequence))

    def _next_due_ms(self) -> int | None:
        times = [work.due_ms for work in self._timeouts()]
        for chart in self.world.charts.values():
            if _engine(chart).running:
                times += [event.execution_time.ms for event in _waiting(chart)]
        return min(times, default=None)

    def _is_tied(self) -> bool:
        """Whether a timeout is due together with another timer."""
        now_ms = self.world.now_ms
        timeouts = sum(work.due_ms == now_ms for work in self._timeouts())
        events = sum(
            event.execution_time.ms == now_ms
            for chart in self.world.charts.values()
            for event in _waiting(chart)
        )
        return timeouts + events > 1 and timeouts > 0


def _engine(chart: Any) -> Any:
    return chart._engine  # noqa: SLF001 - the library has no other way to look at a queue


def _waiting(chart: Any) -> list[Any]:
    """The events of a chart's external queue that were not cancelled."""
    return [event for event in _engine(chart).external_queue.queue.queue if not event.cancelled]
