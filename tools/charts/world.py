"""A virtual world for the library's own engines: its clock, its threads and its random ids.

Everything here is patched in for the length of one run, in this process only, by name; nothing
of it is thread-safe and two runs must not overlap. What is patched, and why that is enough:

- ``monotonic`` in the three modules that read it gives the virtual time.
- ``EventQueue.is_empty`` answers that a queue whose head is not yet due is empty. The engines
  poll a queue that holds an undue event by sleeping for a millisecond at a time, which would
  hold every sender up until its delayed events have run. Told that nothing is there they leave
  their loop as they do at rest, with the result of the event that they were called for. Both
  ``sleep`` functions are replaced by one that refuses, as a proof that nobody polls.
- ``threading.Thread`` in the invoke module keeps the work until the script lets it finish; so
  do its event loop's ``create_task`` and ``run_in_executor``. Cancelled before that, it never
  runs. The executor of a group runs each callable at once.
- ``uuid4`` in the invoke module gives the number of the invocation within its chart, from 1.
- An invocation's ``cancelled.wait`` answers at once; a timeout is work that the clock finishes.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import uuid
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Literal
from unittest.mock import patch

import statemachine.engines.async_
import statemachine.engines.base
import statemachine.engines.sync
import statemachine.event_data
import statemachine.invoke
from statemachine.contrib.timeout import _Timeout
from statemachine.engines.base import EventQueue
from statemachine.invoke import InvokeManager, StateChartInvoker
from statemachine.io.invoke import Invoker
from statemachine.utils import _cached_loop

from tools.charts.trace import spawn_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Kind = Literal["child", "timeout", "call"]
CHILD: Kind = "child"
TIMEOUT: Kind = "timeout"
CALL: Kind = "call"


class Instant(float):
    """A time in seconds whose sums are rounded to milliseconds, so that due times compare."""

    __slots__ = ()

    @classmethod
    def at(cls, ms: int) -> Instant:
        """The instant so many milliseconds from the start."""
        return cls(ms / 1000)

    @property
    def ms(self) -> int:
        """The milliseconds since the start."""
        return round(self * 1000)

    def __add__(self, seconds: float) -> Instant:
        return Instant.at(round((float(self) + seconds) * 1000))


class _Signal(threading.Event):
    """A cancellation flag for which nobody waits."""

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        return self.is_set()


class _Executor:
    """Runs what is submitted to it at once."""

    def __init__(self, max_workers: int) -> None:
        del max_workers

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function())
        except Exception as error:  # noqa: BLE001 - a future carries whatever was raised
            future.set_exception(error)
        return future

    def shutdown(self, **_options: Any) -> None:
        """Do nothing."""


@dataclass(slots=True, eq=False)
class Work:
    """An invocation whose work was started and did not finish yet."""

    path: str
    invocation: Any
    kind: Kind
    finish: Callable[[], Any]
    """Does the work and sends what comes of it; a coroutine where the engine is asynchronous."""
    due_ms: int = 0
    sequence: int = 0

    @property
    def order(self) -> Any:
        """Where it stands among the outstanding ones."""
        return spawn_order(self.path, self.invocation.invokeid)

    @property
    def is_cancelled(self) -> bool:
        """Whether its state was left."""
        return bool(self.invocation.ctx.cancelled.is_set())


@dataclass(slots=True)
class World:
    """The clock, the charts and the outstanding work of one run."""

    on_settled: Callable[[str, Any], None]
    now_ms: int = 0
    charts: dict[str, Any] = field(default_factory=dict)
    work: list[Work] = field(default_factory=list)
    _making: list[str] = field(default_factory=lambda: [""])
    _spawned: dict[str, int] = field(default_factory=dict)
    _naming: str = ""

    def monotonic(self) -> Instant:
        """What the library takes for the time."""
        return Instant.at(self.now_ms)

    def path_of(self, chart: Any) -> str:
        """Where a chart is in its tree; one seen for the first time is the one being made."""
        for path, known in self.charts.items():
            if known is chart:
                return path
        self.charts[self._making[-1]] = chart
        return self._making[-1]

    def take(self, kind: Kind) -> list[Work]:
        """The work of a kind that is outstanding, the next to finish first."""
        self.work = [work for work in self.work if not work.is_cancelled]
        return sorted((work for work in self.work if work.kind == kind), key=lambda w: w.order)

    @contextmanager
    def patched(self) -> Iterator[None]:
        """Replace the library's clock, threads and ids for the length of a block."""
        invoke, engines = statemachine.invoke, statemachine.engines
        patches: list[AbstractContextManager[Any]] = [
            patch.object(statemachine.event_data, "monotonic", self.monotonic),
            patch.object(engines.sync, "monotonic", self.monotonic),
            patch.object(engines.async_, "monotonic", self.monotonic),
            patch.object(engines.sync, "sleep", _refuse_to_poll),
            patch.object(engines.async_, "asyncio", _with(asyncio, sleep=_refuse_to_poll)),
            patch.object(EventQueue, "is_empty", self._is_empty()),
            patch.object(invoke, "threading", _with(threading, Thread=self._thread)),
            patch.object(invoke, "asyncio", _with(asyncio, get_running_loop=lambda: _Loop(self))),
            patch.object(invoke, "uuid", _with(uuid, uuid4=self._next_id)),
            patch.object(invoke, "ThreadPoolExecutor", _Executor),
            patch.object(InvokeManager, "_make_context", self._context_maker()),
            patch.object(InvokeManager, "_run_async_handler", self._task_starter()),
            patch.object(InvokeManager, "spawn_pending_sync", self._spawner("sync")),
            patch.object(InvokeManager, "spawn_pending_async", self._spawner("async")),
            patch.object(StateChartInvoker, "run", self._child_maker(StateChartInvoker.run)),
            patch.object(Invoker, "run", self._child_maker(Invoker.run)),
        ]
        with ExitStack() as stack:
            for each in patches:
                stack.enter_context(each)
            yield

    def _spawner(self, kind: str) -> Callable[..., Any]:
        """What each engine calls after a macrostep, with a look at the configuration before."""
        original = getattr(InvokeManager, f"spawn_pending_{kind}")

        def spawn(invokes: Any) -> Any:
            self.on_settled(self.path_of(invokes.sm), invokes.sm)
            return original(invokes)

        return spawn

    def _is_empty(self) -> Callable[[EventQueue], bool]:
        def is_empty(queue: EventQueue) -> bool:
            with queue.queue.mutex:
                queue._drop_cancelled_head()  # noqa: SLF001 - what the original does first
                heap = queue.queue.queue
                return not heap or heap[0].execution_time > self.monotonic()

        return is_empty

    def _next_id(self) -> Any:
        return SimpleNamespace(hex=str(self._spawned[self._naming]))

    def _context_maker(self) -> Callable[..., Any]:
        original = InvokeManager._make_context  # noqa: SLF001 - the method that is replaced

        def make_context(invokes: Any, *args: Any, **kwargs: Any) -> Any:
            self._naming = path = self.path_of(invokes.sm)
            self._spawned[path] = self._spawned.get(path, 0) + 1
            context = original(invokes, *args, **kwargs)
            context.cancelled = _Signal()
            return context

        return make_context

    def _child_maker(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def run(handler: Any, context: Any) -> Any:
            above = self.path_of(context.machine)
            path = f"{above}/{context.invokeid}" if above else context.invokeid
            self._making.append(path)
            try:
                result = original(handler, context)
            finally:
                self._making.pop()
            if handler._child is not None:  # noqa: SLF001 - the only place that has the child
                self.charts.setdefault(path, handler._child)  # noqa: SLF001 - as above
            return result

        return run

    def _start(self, handler: Any, context: Any, invocation: Any, finish: Callable[[], Any]) -> Any:
        kind: Kind = CALL
        due_ms = 0
        if isinstance(handler, (StateChartInvoker, Invoker)):
            kind = CHILD
        elif isinstance(handler, _Timeout):
            kind, due_ms = TIMEOUT, self.now_ms + round(handler.duration * 1000)
        # Timeouts take a number of the library's own, so that they stand in line with its events.
        sequence = next(statemachine.event_data._sequence)  # noqa: SLF001 - as above
        path = self.path_of(context.machine)
        self.work.append(Work(path, invocation, kind, finish, due_ms, sequence))

    def _thread(self, target: Callable[..., Any], args: tuple[Any, ...], **_options: Any) -> Any:
        _callback, handler, context, invocation = args

        def start() -> None:
            self._start(handler, context, invocation, lambda: target(*args))

        return SimpleNamespace(start=start, is_alive=lambda: False, join=lambda **_: None)

    def _task_starter(self) -> Callable[..., Any]:
        original = InvokeManager._run_async_handler  # noqa: SLF001 - the method that is replaced

        def start(invokes: Any, *args: Any) -> None:
            _callback, handler, context, invocation = args
            inherited = contextvars.copy_context()

            async def finish() -> None:
                run = original(invokes, *args)
                await asyncio.get_running_loop().create_task(run, context=inherited)

            self._start(handler, context, invocation, finish)

        return start


class _Loop:
    """The event loop as the invoke module sees it: tasks wait, and executors run at once."""

    def __init__(self, world: World) -> None:
        self.world = world

    def create_task(self, started: None) -> Any:
        """Give something to be cancelled; the world has the work already."""
        assert started is None, "an invoke's task is made by the world"
        return SimpleNamespace(cancel=lambda: None, done=lambda: False)

    async def run_in_executor(
        self, _executor: None, function: Callable[..., Any], *args: Any
    ) -> Any:
        """Run a function on a thread of its own while nothing else runs.

        On the loop's own thread the library would hand a function that sends an event a coroutine
        to await, which a plain function cannot do.
        """
        outcome: Future[Any] = Future()

        def call() -> None:
            try:
                outcome.set_result(function(*args))
            except Exception as error:  # noqa: BLE001 - the caller gets whatever was raised
                outcome.set_exception(error)
            finally:
                loop = vars(_cached_loop).pop("loop", None)
                if loop is not None:
                    loop.close()

        thread = threading.Thread(target=call, name="charts-executor")
        thread.start()
        thread.join()
        return outcome.result()


def _refuse_to_poll(*_args: Any) -> None:
    message = "an engine polls its queue in virtual time"
    raise AssertionError(message)


def _with(module: Any, **replaced: Any) -> SimpleNamespace:
    """A module's names, some of them replaced; the module itself stays as it is."""
    return SimpleNamespace(**{**vars(module), **replaced})
