"""Calls of a synchronous storage from an event loop, in place or in a bounded number of threads."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Self, TypeVar

from machines.limits import STORAGE_THREADS_MAX
from snapshots.errors import StorageClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.storage.protocols import Backend

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

_CALL: Final = "a call of the storage's asynchronous face"


class Offload:
    """Makes the calls of one storage for one event loop.

    A call of a memory or SQLite storage is made in place: it takes microseconds, and nothing comes
    between its beginning and its end. One of PostgreSQL is made in a thread of a bounded number.
    A caller that is cancelled before a thread has taken its call has done nothing; one that is
    cancelled later first waits for the thread, so that no statement is left half done and neither
    a connection nor a lock is left behind.

    `async with` it inside of the storage's own block: closing it waits for what is under way.
    """

    def __init__(self, backend: Backend, *, threads: int = STORAGE_THREADS_MAX) -> None:
        """Use `backend`, which stays its opener's to close, from the running loop."""
        self._path = backend.path
        self._threads = threads
        self._free = asyncio.Semaphore(threads)
        self._pool = None if backend.is_local else ThreadPoolExecutor(threads, "machines-storage")
        self._is_closed = False

    def __repr__(self) -> str:
        where = "in place" if self._pool is None else "in threads"
        return f"<Offload of {self._path!r} {where}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(
        self, function: Callable[Given, Answer], *args: Given.args, **kwargs: Given.kwargs
    ) -> Answer:
        """Return what a plain function returns that calls this storage and waits for nothing else.

        `await offload.call(state.get, "cursor")`. Raises what the function raises, and
        `StorageClosedError` after `close()`.
        """
        return await self.call_or_undo(partial(function, *args, **kwargs), _leave)

    async def call_or_undo(
        self, function: Callable[[], Answer], undo: Callable[[Answer], object]
    ) -> Answer:
        """Return what `function` returns; for a cancelled caller `undo` is called with it."""
        if self._pool is None:
            self._require_open()
            return function()
        async with self._free:
            self._require_open()
            running = self._submit(self._pool, function)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                await settled(running)
                if not running.cancelled() and running.exception() is None:
                    undoing = self._submit(self._pool, partial(undo, running.result()))
                    await settled(undoing)
                    undoing.exception()  # nobody is left to be told
                raise

    async def close(self) -> None:
        """Take no new call, and wait for those under way; a second time is harmless."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._pool is None:
            return
        taken = 0
        try:
            while taken < self._threads:
                await self._free.acquire()
                taken += 1
        finally:
            # With every turn taken no thread has work, and each ends at once.
            self._pool.shutdown(wait=taken == self._threads)
            for _ in range(taken):
                self._free.release()

    def _submit(
        self, pool: ThreadPoolExecutor, function: Callable[[], Answer]
    ) -> asyncio.Future[Answer]:
        work = partial(copy_context().run, told_apart, function)
        return asyncio.get_running_loop().run_in_executor(pool, work)

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageClosedError(_CALL, self._path)


async def settled(future: asyncio.Future[Any]) -> bool:
    """Wait until a future is done, and return whether the waiting task was cancelled meanwhile."""
    is_cancelled = False
    while not future.done():
        try:
            await asyncio.wait([future])
        except asyncio.CancelledError:
            is_cancelled = True
    return is_cancelled


def _leave(_answer: object) -> None:
    """Undo nothing: what a function has done stands."""


def told_apart(function: Callable[[], Answer]) -> Answer:
    """Call a function; a StopIteration of its own is no end of ours, and no future can hold one."""
    try:
        return function()
    except StopIteration as error:
        message = "the function raised StopIteration"
        raise RuntimeError(message) from error
