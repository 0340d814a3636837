"""Does the outside work of a host's runs: tasks on the loop, threads for what blocks."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines.effects import CallTimeoutError
from machines.engine.turns import outside_context
from machines.host.threads import Threads
from machines.limits import ENDING_S, PLAIN_THREADS_MAX, THREADS_MAX
from machines.run.calls import perform
from machines.run.rollback import interrupted, put_back
from machines.run.worker import Halt
from machines.run.writing import save_timers

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from machines.engine.nodes import Call
    from machines.run.run import Run

Key = tuple[str, str]
"""Path of the chart, invoke id."""


class LoopHands:
    """Does pieces of work on the running loop and in threads.

    Plain work may go on for as long as its state is active, so it has threads of its own: it
    cannot keep effects waiting.
    """

    def __init__(self) -> None:
        self._effects = Threads("effect", THREADS_MAX)
        self._plain = Threads("call", PLAIN_THREADS_MAX)
        self._ending = asyncio.Event()

    @property
    def ending(self) -> bool:
        """Whether no new call may leave, because the host stops."""
        return self._ending.is_set()

    def end(self) -> None:
        """Let no new call leave, and nobody wait for its next attempt."""
        self._ending.set()

    def are_ended(self) -> bool:
        """Whether the task that asks is being cancelled by who runs it."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0

    async def perform(
        self,
        work: Callable[[], Any],
        *,
        asynchronous: bool,
        timeout_s: float | None = None,
        leaving: Callable[[], None] | None = None,
    ) -> Any:
        """Do the work; see `machines.calls.Hands`."""
        threads = self._plain if leaving is None else self._effects
        scope = self._scope(timeout_s)
        try:
            if not asynchronous:
                return await threads.perform(work, leaving, scope)
            if leaving is not None:
                leaving()
            async with scope:
                return await work()
        except TimeoutError as error:
            if scope.expired():
                message = f"no answer within {timeout_s} s"
                raise CallTimeoutError(message) from error
            raise

    def _scope(self, timeout_s: float | None) -> asyncio.Timeout:
        """Return what ends a call that takes too long."""
        return asyncio.timeout(timeout_s)

    async def sleep(self, seconds: float) -> None:
        """Wait, but not longer than the host goes on."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()

    async def close(self, wait_s: float) -> list[str]:
        """Give the threads up, after a while; return what has not returned from them by then."""
        left = await asyncio.gather(self._effects.close(wait_s), self._plain.close(wait_s))
        return [name for names in left for name in names]


@dataclass(slots=True, eq=False)
class Work:
    """Outside work of a run that is under way."""

    task: asyncio.Task[None]
    call: Call
    run: Run

    @property
    def is_effect(self) -> bool:
        """Whether it is a call by the ledger, which goes on whatever becomes of its state."""
        return self.call.spec is not None

    def give_up(self) -> None:
        """End it, though its state is not left: its handler is not told that it is."""
        if not self.is_effect:
            self.call.context.cancelled.set()
        self.task.cancel()


class Workshop:
    """The tasks of a host: outside work by run and invocation, and the trees being run."""

    def __init__(
        self, broken: Callable[[BaseException], None], hands: LoopHands | None = None
    ) -> None:
        self.hands = hands if hands is not None else LoopHands()
        self._loop = asyncio.get_running_loop()
        self._broken = broken
        self._work: dict[str, dict[Key, Work]] = {}
        """By run: whoever looks at one does not look through the work of all."""
        self._pumps: dict[str, tuple[asyncio.Task[None], Run]] = {}
        self._closed = False

    # -- outside work ---------------------------------------------------------------------------

    def start(self, run: Run, call: Call) -> None:
        """Begin outside work, unless it is under way: a rebuilt chart adopts it."""
        known = self._work.get(run.run_id, {}).get(call.key)
        adopted = known is not None and known.run is run and not known.task.done()
        if adopted or self.hands.ending:
            return
        task = self._task(perform(run, call, self.hands))
        task.set_name(call.context.key)
        work = Work(task, call, run)
        self._work.setdefault(run.run_id, {})[call.key] = work
        work.task.add_done_callback(lambda _: self._ended(work))

    def _ended(self, work: Work) -> None:
        run_id, key = work.run.run_id, work.call.key
        of_run = self._work.get(run_id, {})
        if of_run.get(key) is work:
            del of_run[key]
            if not of_run:
                del self._work[run_id]

    def stop(self, run: Run, path: str, invoke: str) -> None:
        """End plain work whose state was left; an effect finishes, its outcome is recorded."""
        work = self._work.get(run.run_id, {}).get((path, invoke))
        if work is None or work.is_effect:
            return
        if work.task.done() or work.task is asyncio.current_task():
            return  # its outcome is what left the state
        if work.call.on_cancel is not None:
            # As in the library: the state is left, whatever a handler makes of it.
            with suppress(Exception):
                work.call.on_cancel()
        work.task.cancel()

    # -- trees ----------------------------------------------------------------------------------

    def wake(self, run: Run) -> None:
        """Run a tree: here and now if no chart awaits anything, else in a task of its own."""
        if run.tree.pumping or self._closed:
            return
        if run.tree.unsaved and run.goes_on:
            save_timers(run)
        if run.told.each:
            run.told.begins(run)
        if run.tree.is_sync:
            self._drive(run)
        elif run.goes_on and self.pump_of(run) is None:
            task = self._task(self._pump(run))
            self._pumps[run.run_id] = task, run
            task.add_done_callback(lambda _: self._pumped(task, run))

    def pump_of(self, run: Run) -> asyncio.Task[None] | None:
        """Return the task that runs a run's tree, if there is one."""
        task, pumped = self._pumps.get(run.run_id, (None, None))
        return task if pumped is run else None

    def is_waited_for_by(self, run: Run) -> bool:
        """Whether the task that asks is a callback that a run's macrostep waits for.

        The library gathers the coroutines of a macrostep, so each is a task of its own.
        """
        pump = self.pump_of(run) if self._pumps else None
        if pump is None:
            return False
        asking = asyncio.current_task()
        gathered = getattr(getattr(pump, "_fut_waiter", None), "_children", ())
        return pump is asking or asking in gathered

    def _drive(self, run: Run) -> None:
        while run.goes_on and not run.paused:
            try:
                run.tree.pump_at_once()
            except Halt:
                return
            except asyncio.CancelledError as error:
                # Nothing awaits here, so nobody can have asked for it: a callback raised it.
                interrupted(run, error)
            except BaseException:
                # The process is told to end; who stops that must not find half a macrostep.
                if run.header is not None:
                    with suppress(Halt):
                        put_back(run)
                raise
            else:
                if run.tree.turn and run.goes_on:
                    self._loop.call_soon(self._call, run.wake)
                return

    async def _pump(self, run: Run) -> None:
        if run.told.each:
            run.told.begins(run)
        try:
            await run.tree.pump()
        except Halt:
            return
        except asyncio.CancelledError as error:
            if self.hands.are_ended():
                raise
            interrupted(run, error)

    def _pumped(self, task: asyncio.Task[None], run: Run) -> None:
        if self._pumps.get(run.run_id) == (task, run):
            del self._pumps[run.run_id]
        if run.tree.turn or run.tree.arrivals:
            self._call(run.wake)

    def abandon(self, run: Run) -> None:
        """Stop running a run's tree, and its plain work; a call of an effect cannot be undone."""
        pump, this = self.pump_of(run), asyncio.current_task()
        if pump is not None and pump is not this:
            pump.cancel()
        for work in self._of(run.run_id):
            if work.run is run and not work.is_effect and work.task is not this:
                work.give_up()

    # -- all of it ------------------------------------------------------------------------------

    def post(self, function: Callable[[], object]) -> None:
        """Have the loop call the function soon, unless all is over then; from any thread."""
        self._loop.call_soon_threadsafe(self._call, function)

    def later(self, seconds: float, function: Callable[[], object]) -> asyncio.TimerHandle:
        """Have the loop call the function after a while, unless all is over then."""
        return self._loop.call_later(seconds, self._call, function)

    def _call(self, function: Callable[[], object]) -> None:
        if self._closed:
            return
        try:
            outside_context().run(function)
        except Exception as error:  # noqa: BLE001 - nobody else hears of what the loop calls
            self._broken(error)

    def tasks_of(self, run_id: str) -> list[asyncio.Task[None]]:
        """Return what is under way of a run: its tree, if it is being run, and its work."""
        tasks = [work.task for work in self._of(run_id)]
        pump = self._pumps.get(run_id)
        return tasks if pump is None else [*tasks, pump[0]]

    def busy(self, run: Run) -> bool:
        """Whether anything of a run is under way."""
        return run.run_id in self._pumps or any(
            work.run is run and not work.task.done() for work in self._of(run.run_id)
        )

    def _of(self, run_id: str) -> list[Work]:
        return list(self._work.get(run_id, {}).values())

    def _all(self) -> list[Work]:
        return [work for of_run in self._work.values() for work in of_run.values()]

    async def close(self, grace_s: float) -> list[str]:
        """Let nothing new begin, wait for effects and macrosteps, then give up what is left.

        Work that was told to end has a while for it. Returns which has not returned from its
        thread even then: run and invocation.
        """
        self.hands.end()
        deadline = self._loop.time() + grace_s
        while (waiting := self._waited_for()) and (left_s := deadline - self._loop.time()) > 0:
            await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        self._closed = True
        for work in self._all():
            work.give_up()
        left = [work.task for work in self._all()]
        await _end([*left, *(task for task, _ in self._pumps.values())])
        await asyncio.sleep(0)  # threads that have returned are counted as free
        return await self.hands.close(min(grace_s, ENDING_S))

    def _waited_for(self) -> list[asyncio.Task[None]]:
        effects = [work.task for work in self._all() if work.is_effect]
        pumps = [task for task, _ in self._pumps.values()]
        this = asyncio.current_task()
        return [task for task in (*effects, *pumps) if not task.done() and task is not this]

    def _task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(coroutine, context=outside_context())
        task.add_done_callback(self._look)
        return task

    def _look(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(error)


async def _end(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks, and wait for them a while: one that swallows it cannot keep the host."""
    this = asyncio.current_task()
    others = [task for task in tasks if task is not this]
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=ENDING_S)
