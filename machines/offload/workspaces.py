"""The asynchronous face of a workspace: its transactions, its log as it grows, its claims."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeVar

from machines.offload.claiming import Claiming
from snapshots import limits
from snapshots.storage.workspaces.rules import require_poll

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines.offload.calls import Offload
    from snapshots.storage.workspaces import (
        Changes,
        Fact,
        Follower,
        LogEntry,
        Workspace,
        WorkspaceView,
    )

Answer = TypeVar("Answer")

_MS_PER_S: Final = 1_000


class AsyncWorkspace:
    """The asynchronous face of one workspace: what it does is what `Workspace` does."""

    def __init__(self, offload: Offload, workspace: Workspace) -> None:
        """Make the calls of `workspace` by `offload`."""
        self._offload = offload
        self._workspace = workspace

    def __repr__(self) -> str:
        return f"<AsyncWorkspace on {self._workspace!r}>"

    async def transact(self, function: Callable[[Changes], Answer]) -> Answer:
        """Return what a plain function returns that is given one transaction, and ends it.

        It runs in one go, on PostgreSQL in a thread, and touches nothing but the transaction.
        All that it has changed is stored when this returns, and nothing if it raises. For a
        caller that is cancelled meanwhile it is one or the other.
        """

        def transact() -> Answer:
            with self._workspace.transaction() as changes:
                answer = function(changes)
                _require_plain(answer, function)
                return answer

        return await self._offload.call(transact)

    async def ask(self, function: Callable[[WorkspaceView], Answer]) -> Answer:
        """Return what a plain function returns that reads the workspace: its lists, its history.

        `await workspace.ask(lambda view: view.artifacts(type="note"))`.
        """

        def ask() -> Answer:
            answer = function(self._workspace)
            _require_plain(answer, function)
            return answer

        return await self._offload.call(ask)

    async def record(self, fact: Fact, *, history: bytes | None = None) -> LogEntry:
        """Record a fact, and the history of the segment that it ends; see `Changes.record`."""
        return await self._offload.call(self._workspace.record, fact, history=history)

    async def read(
        self,
        after_seq: int = 0,
        limit: int = 100,
        *,
        thread: str | None = None,
        last: int | None = None,
    ) -> list[LogEntry]:
        """Return entries of the log; see `WorkspaceView.read`."""
        read = self._workspace.read
        return await self._offload.call(read, after_seq, limit, thread=thread, last=last)

    def subscribe(
        self, after_seq: int = 0, *, thread: str | None = None, poll_ms: int = limits.LOG_POLL_MS
    ) -> AsyncSubscription:
        """Return an asynchronous iterator over the log; see `WorkspaceView.subscribe`."""
        require_poll(poll_ms)
        follower = self._workspace.follow(after_seq, thread=thread)
        return AsyncSubscription(self._offload, follower, poll_ms=poll_ms)

    def claim_thread(
        self, thread: str, run: str, *, ttl_ms: int = limits.CLAIM_TTL_MS, holder: str = ""
    ) -> Claiming:
        """Return a context that claims a thread for a run, and renews the claim while it lasts.

        ```python
        async with workspace.claim_thread("support", "run-7") as claim:
            if claim is None: ...  # another run has it
        ```

        The task in it is cancelled when two thirds of `ttl_ms` have passed since the last
        renewal, or when somebody else has the thread; the block then raises `LeaseLostError`.
        """
        claim = partial(self._workspace.claim_thread, thread, run, ttl_ms=ttl_ms, holder=holder)
        return Claiming(self._offload, claim, thread=thread, ttl_ms=ttl_ms)


class AsyncSubscription:
    """An asynchronous iterator over the log behind a seq, that waits at its end and goes on.

    It looks again at a hint, and every `poll_ms` in any case. A task that is cancelled while it
    waits for an entry misses none: the next one to ask is given it. `async with` it, or `stop` it.
    """

    def __init__(self, offload: Offload, follower: Follower, *, poll_ms: int) -> None:
        """Go on where `follower` stands; `AsyncWorkspace.subscribe` makes one."""
        self._offload = offload
        self._follower = follower
        self._poll_s = poll_ms / _MS_PER_S
        self._news = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._is_stopped = False
        self._watch = follower.watch(self._wake)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LogEntry:
        """Return the next entry, waiting for it; StopAsyncIteration once it is stopped."""
        while not self._is_stopped:
            found = self._follower.pop()
            if found is not None:
                return found
            # Cleared before the look: what comes behind the look sets it again.
            self._news.clear()
            if not await self._offload.call(self._follower.look) and not self._is_stopped:
                await self._wait()
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()

    @property
    def seq(self) -> int:
        """How far the log was handed out: where a later subscription would go on."""
        return self._follower.seq

    def stop(self) -> None:
        """End the iteration, wherever it waits, from the loop's thread; twice is harmless."""
        self._is_stopped = True
        self._watch.close()
        self._news.set()

    async def _wait(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(self._poll_s):
                await self._news.wait()

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the loop is closed, and nobody waits in it
            self._loop.call_soon_threadsafe(self._news.set)


def _require_plain(answer: object, function: object) -> None:
    """Raise `TypeError` for the answer of a coroutine function, which would run too late."""
    if inspect.isawaitable(answer):
        if inspect.iscoroutine(answer):
            answer.close()
        message = f"expected a plain function, not {function!r}: nothing may wait in a transaction"
        raise TypeError(message)
