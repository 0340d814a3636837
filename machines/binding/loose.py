"""What keeps a chart that belongs to no run: nothing is saved, work runs in threads or tasks.

A chart that was rebuilt by hand behaves with it as under the library's own engine, but for delayed
events: they do not hold a caller up, and fire when the chart is next used after they are due.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from machines.engine.tree import Tree, drive
from machines.errors import NeedsLoopError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from machines.engine.nodes import Call, Node
    from machines.engine.queues import Queued


class Loose:
    """Keeps a tree of charts without a store."""

    tree: Tree

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._posted: deque[Callable[[], object]] = deque()
        self._calling = False
        self._calls: dict[tuple[str, str], Call] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        """The loop that runs a tree with coroutines."""

    @property
    def has_loop(self) -> bool:
        """Whether this is called from a running event loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return False
        return True

    def boundary(self, node: Node) -> None:
        """Save nothing."""

    def begun(self, node: Node) -> None:
        """Note nothing."""

    def ignores(self, item: Queued) -> bool:
        """Ignore nothing: conversations have epochs in runs only."""
        del item
        return False

    def failed(self, node: Node, item: Queued | None, error: Exception) -> bool:
        """Let the exception go to the caller, as the library does."""
        del node, item, error
        return False

    def arrived(self) -> None:
        """Go on with what arrived."""
        self.wake()

    def wake(self) -> None:
        """Run the tree here, or in a task of the running loop if a chart has coroutines.

        Where no loop runs, whoever sends to such a chart runs it, as under the library's engine.
        """
        self.tree.unsaved.clear()
        if self.tree.is_sync:
            with self._held():
                if not self.tree.pumping:
                    self.tree.thread = threading.get_ident()
                    drive(self.tree)
            if self.tree.turn and not self.tree.is_sync:
                self.wake()
        elif self.has_loop and not self.tree.pumping:
            self._loop = asyncio.get_running_loop()
            self._task(self._rest())
        elif self.tree.root is not None and not self.tree.root.engine.is_async:
            self._run_without_a_loop()

    async def _rest(self) -> None:
        try:
            await self.tree.at_rest()
        except asyncio.CancelledError:
            self._interrupted()
            raise

    def _interrupted(self) -> None:
        """Leave a macrostep that a cancellation left, as the library does; go on with the others.

        Who waits for its event is cancelled, as it would be if it ran the chart itself.
        """
        if self.tree.pumping or not self.tree.turn:
            return
        node = self.tree.turn[0]
        engine = node.engine
        current, engine.current, engine.between = engine.current, None, None
        engine.internal_queue.clear()
        if current is not None and current.trigger.future is not None:
            current.trigger.future.cancel()
        if engine.external_queue.is_empty():
            self.tree.rest(node)
        this = asyncio.current_task()
        if self.tree.turn and this is not None and not this.cancelling():  # its loop goes on
            asyncio.get_running_loop().call_soon(self.wake)

    def _run_without_a_loop(self) -> None:
        """Run coroutine callbacks below a synchronous root, which nobody awaits.

        Raises NeedsLoopError for one that waits for something.
        """
        with self._held():
            while self.tree.turn and not self.tree.pumping:
                pump = self.tree.pump()
                try:
                    pump.send(None)
                except StopIteration:
                    continue
                pump.close()
                assert self.tree.root is not None
                machine = self.tree.root.cls.__name__
                raise NeedsLoopError(machine, "invokes a chart with callbacks that wait")

    def start(self, call: Call) -> None:
        """Run the work in a task if it is a coroutine, else in a thread.

        Raises NeedsLoopError for a coroutine where no loop runs.
        """
        if call.is_async and not self.has_loop:
            machine = type(call.context.machine).__name__
            raise NeedsLoopError(machine, f"invokes the coroutine {call.invoke!r}")
        self._calls[call.key] = call
        if call.is_async or self.has_loop:
            self._task(self._await(call))
        else:
            threading.Thread(target=self._run, args=(call,), daemon=True).start()

    def _task(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _await(self, call: Call) -> None:
        try:
            result = await (call.work() if call.is_async else asyncio.to_thread(call.work))
        except Exception as error:  # noqa: BLE001 - the chart is told, as error.execution
            self.tree.finish(call.path, call.invoke, "error.execution", {"error": error})
        else:
            done = f"done.invoke.{call.invoke}"
            self.tree.finish(call.path, call.invoke, done, {"data": result})

    def _run(self, call: Call) -> None:
        try:
            event, kwargs = f"done.invoke.{call.invoke}", {"data": call.work()}
        except Exception as error:  # noqa: BLE001 - the chart is told, as error.execution
            event, kwargs = "error.execution", {"error": error}
        finish = partial(self.tree.finish, call.path, call.invoke, event, kwargs)
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(finish)
            return
        # It waits for its turn, or one thread would run a state that is entered again for ever.
        with self._held():
            self._call(finish)

    def stop(self, path: str, invoke: str) -> None:
        """Tell the work that nobody waits for it."""
        call = self._calls.pop((path, invoke), None)
        if call is not None and call.on_cancel is not None:
            call.on_cancel()

    def post(self, function: Callable[[], object]) -> None:
        """Call the function on the tree's loop, else here, or in the thread that runs the tree."""
        if self._loop is not None and self._loop.is_running():
            self._loop.call_soon_threadsafe(function)
            return
        self._posted.append(function)
        self._call_posted()

    @contextmanager
    def _held(self) -> Iterator[None]:
        """Keep other threads off the tree, and do then what they posted meanwhile."""
        try:
            with self._lock:
                yield
        finally:
            self._call_posted()

    def _call_posted(self) -> None:
        """Call what was posted, unless another thread runs the tree: that one will, behind it.

        Nobody waits for that thread: a callback that runs there may be waiting for this one.
        """
        while self._posted and self._lock.acquire(blocking=False):
            try:
                if self._calling or self.tree.pumping:
                    return  # this very thread goes on with them, further up
                if self._posted:
                    self._call(self._posted.popleft())
            finally:
                self._lock.release()

    def _call(self, function: Callable[[], object]) -> None:
        self._calling, self.tree.thread = True, threading.get_ident()
        try:
            function()
        finally:
            self._calling = False
