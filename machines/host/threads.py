"""Threads for work that blocks, which hold neither the loop nor the end of the process up."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from machines.offload.calls import told_apart

if TYPE_CHECKING:
    from collections.abc import Callable

Piece = tuple["Future[Any]", Context, "Callable[[], Any]"]


class Threads:
    """Threads for work that blocks: it leaves at once, or waits until it can.

    They are daemons. Nobody can end a thread from outside, so what has not returned when its host
    is closed goes on until the process ends, and is cut off there, wherever it is: for the run
    that is a crash, and its row says that the call had left. A process that waited for it instead
    would go on to act on the world beside the host that comes next, maybe for ever.
    """

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._free = asyncio.Semaphore(limit)
        self._loop = asyncio.get_running_loop()
        self._pieces: SimpleQueue[Piece | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy: dict[Future[Any], str] = {}
        """What is in a thread, or about to be: the name of the task that waits for it."""
        self._all_back = asyncio.Event()
        self._is_closed = False

    async def perform(
        self, work: Callable[[], Any], leaving: Callable[[], None] | None, scope: asyncio.Timeout
    ) -> Any:
        """Do the work in a thread; one that is not done within `scope` is left behind."""
        await self._free.acquire()
        try:
            if leaving is not None:
                leaving()
            running = self._begin(work)
        except BaseException:
            self._free.release()
            raise
        async with scope:
            return await asyncio.wrap_future(running)

    def _begin(self, work: Callable[[], Any]) -> Future[Any]:
        if self._is_closed:
            message = "the host of these threads has stopped"
            raise RuntimeError(message)
        running = Future[Any]()
        try:
            self._hand_over((running, copy_context(), work))
        except BaseException:
            running.cancel()
            raise
        task = asyncio.current_task()
        self._busy[running] = task.get_name() if task is not None else ""
        self._all_back.clear()
        running.add_done_callback(self._returned)
        return running

    def _hand_over(self, piece: Piece) -> None:
        """Have a thread do a piece of work: one that is free, else a new one."""
        self._pieces.put(piece)
        if len(self._busy) == len(self._threads):
            self._start()

    def _start(self) -> None:
        name = f"machines-{self._name}_{len(self._threads)}"
        thread = threading.Thread(target=_work, args=(self._pieces,), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _returned(self, future: Future[Any]) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits for a thread
            self._loop.call_soon_threadsafe(self._release, future)

    def _release(self, future: Future[Any]) -> None:
        del self._busy[future]
        self._free.release()
        if not self._busy:
            self._all_back.set()

    async def close(self, wait_s: float) -> list[str]:
        """Start no more work, wait so long for what runs; return the names of what is left."""
        if self._is_closed:
            return []
        self._is_closed = True
        if self._busy:
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._all_back.wait()
        for _ in self._threads:
            self._pieces.put(None)
        if not self._busy:
            for thread in self._threads:
                thread.join()
        return [*self._busy.values()]


def _work(pieces: SimpleQueue[Piece | None]) -> None:
    while (piece := pieces.get()) is not None:
        future, context, work = piece
        if future.set_running_or_notify_cancel():
            try:
                result = context.run(told_apart, work)
            except BaseException as error:  # noqa: BLE001 - who waits for the work is told
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
        del piece, future, context, work  # a thread that idles holds no run
