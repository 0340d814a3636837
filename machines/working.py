"""Does the outside work of a host's runs: tasks on the loop, threads for what blocks."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context
from typing import Any

from machines.calls import perform
from machines.engine.nodes import Call
from machines.engine.tree import drive
from machines.engine.turns import outside_context
from machines.limits import THREADS_MAX
from machines.run import Run

Key = tuple[str, str, str]
"""Run id, path of the chart, invoke id."""


class LoopHands:
    """Does one piece of work at a time for its caller, on the running loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS_MAX, thread_name_prefix="machines-call")
        self.ending = False

    async def perform(
        self, work: Callable[[], Any], *, asynchronous: bool, timeout_s: float | None
    ) -> Any:
        """Do the work; a thread that takes too long is left behind, its result is not used."""
        async with asyncio.timeout(timeout_s):
            if asynchronous:
                return await work()
            loop = asyncio.get_running_loop()
            context = copy_context()
            return await loop.run_in_executor(self._threads, context.run, work)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Start no more work in threads; those that run are not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class Workshop:
    """The tasks of a host: outside work by run and invocation, and the trees being run."""

    def __init__(self, broken: Callable[[BaseException], None]) -> None:
        self.hands = LoopHands()
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._broken = broken
        self._work: dict[Key, tuple[asyncio.Task[None], Call]] = {}
        self._pumps: dict[str, asyncio.Task[None]] = {}

    def start(self, run: Run, call: Call) -> None:
        """Begin outside work, unless it is under way: a rebuilt chart adopts it."""
        key = (run.run_id, *call.key)
        if key not in self._work and not self.hands.ending:
            task = self._task(perform(run, call, self.hands))
            self._work[key] = task, call
            task.add_done_callback(lambda _: self._work.pop(key, None))

    def stop(self, run: Run, path: str, invoke: str) -> None:
        """End plain work whose state was left; an effect finishes, its outcome is recorded."""
        task, call = self._work.get((run.run_id, path, invoke), (None, None))
        if task is None or call is None or call.spec is not None:
            return
        if call.on_cancel is not None:
            call.on_cancel()
        task.cancel()

    def wake(self, run: Run) -> None:
        """Run a tree: here and now if no chart awaits anything, else in a task of its own."""
        if run.tree.pumping:
            return
        if run.tree.is_sync:
            drive(run.tree)
        elif run.run_id not in self._pumps:
            task = self._task(run.tree.pump())
            self._pumps[run.run_id] = task
            task.add_done_callback(lambda _: self._pumped(run))

    def _pumped(self, run: Run) -> None:
        del self._pumps[run.run_id]
        if not self.hands.ending and (run.tree.turn or run.tree.arrivals):
            run.wake()

    def post(self, function: Callable[[], object]) -> None:
        """Have the loop call the function soon; from any thread."""
        self._loop.call_soon_threadsafe(function)

    def in_flight(self, run_id: str | None = None) -> list[asyncio.Task[None]]:
        """Return the tasks of effects under way, of one run or of all."""
        return [
            task
            for key, (task, call) in self._work.items()
            if call.spec is not None and run_id in (None, key[0])
        ]

    def busy(self, run_id: str) -> bool:
        """Whether anything of a run is under way."""
        return run_id in self._pumps or any(key[0] == run_id for key in self._work)

    def abandon(self, run_id: str) -> None:
        """Stop running a run's tree; its outside work is stopped one by one."""
        task = self._pumps.get(run_id)
        if task is not None and task is not asyncio.current_task():
            task.cancel()

    async def close(self, grace_s: float) -> None:
        """Take no new work, wait for effects in flight, then give up what is left."""
        self.hands.ending = True
        waiting = self.in_flight()
        if waiting and grace_s > 0:
            await asyncio.wait(waiting, timeout=grace_s)
        left = [task for task, _ in self._work.values()] + list(self._pumps.values())
        for task in left:
            task.cancel()
        if left:
            await asyncio.gather(*left, return_exceptions=True)
        self.hands.close()

    def _task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        context: Context = outside_context()
        task = self._loop.create_task(coroutine, context=context)
        task.add_done_callback(self._look)
        return task

    def _look(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._broken(error)
