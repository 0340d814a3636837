"""A claim of a thread for the length of a block, whose holder never outlives it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from machines.limits import CLAIM_RENEWALS, CLAIM_RETRIES
from machines.offload.calls import settled
from snapshots.errors import LeaseLostError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from machines.offload.calls import Offload
    from snapshots.storage.workspaces import ThreadClaim

_MS_PER_S: Final = 1_000
# Of a claim's time to live: after so much of it without a renewal, its holder is stopped.
_PATIENCE: Final = 2 / 3


class Claiming:
    """A claim of a thread for the length of a block, renewed by a task of its own."""

    def __init__(
        self,
        offload: Offload,
        claim: Callable[[], ThreadClaim | None],
        *,
        thread: str,
        ttl_ms: int,
    ) -> None:
        """Claim by `claim` when the block is entered; `AsyncWorkspace.claim_thread` makes one."""
        self._offload = offload
        self._make = claim
        self._thread = thread
        self._ttl_s = ttl_ms / _MS_PER_S
        self._claim: ThreadClaim | None = None
        self._is_lost = False
        self._is_over = False

    async def __aenter__(self) -> ThreadClaim | None:
        """Claim the thread, None while another run has it."""
        self._loop = asyncio.get_running_loop()
        # From before the claim was asked for: the storage counts from later on.
        asked_s = self._loop.time()
        self._claim = await self._offload.call_or_undo(self._make, _give_up)
        if self._claim is None:
            return None
        holder = asyncio.current_task()
        assert holder is not None, "a coroutine is run by a task"
        self._holder = holder
        self._cancelling = holder.cancelling()
        self._deadline = self._loop.call_at(asked_s + _PATIENCE * self._ttl_s, self._lose)
        self._renewing = asyncio.create_task(self._renew(self._claim), name="renewal of a claim")
        self._renewing.add_done_callback(self._renewal_ended)
        return self._claim

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        if self._claim is None:
            return
        self._is_over = True
        self._deadline.cancel()
        is_ours = self._is_lost and self._holder.uncancel() <= self._cancelling
        is_cancelled = await self._end(self._claim)
        if is_cancelled:
            raise asyncio.CancelledError
        if is_ours and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise LeaseLostError(self._thread) from error

    async def _renew(self, claim: ThreadClaim) -> None:
        pause_s = self._ttl_s / CLAIM_RENEWALS
        while True:
            await asyncio.sleep(pause_s)
            asked_s = self._loop.time()
            try:
                await self._offload.call(claim.renew)
            except StorageError:
                # The deadline stands: until then it may work again.
                pause_s = self._ttl_s / CLAIM_RETRIES
                continue
            pause_s = self._ttl_s / CLAIM_RENEWALS
            self._deadline.cancel()
            self._deadline = self._loop.call_at(asked_s + _PATIENCE * self._ttl_s, self._lose)

    def _renewal_ended(self, renewing: asyncio.Task[None]) -> None:
        """Stop the holder if the claim is not renewed any more, because it is lost or otherwise."""
        if not renewing.cancelled() and renewing.exception() is not None:
            self._deadline.cancel()
            self._lose()

    def _lose(self) -> None:
        if not self._is_lost and not self._is_over:
            self._is_lost = True
            self._holder.cancel()

    async def _end(self, claim: ThreadClaim) -> bool:
        """Renew no more, and give up what is still held: whether the task was cancelled meanwhile.

        What cannot be given up now lapses by itself.
        """
        self._renewing.cancel()
        is_cancelled = await settled(self._renewing)
        try:
            with suppress(StorageError):
                await self._offload.call(claim.release)
        except asyncio.CancelledError:
            is_cancelled = True
        return is_cancelled


def _give_up(claim: ThreadClaim | None) -> None:
    if claim is not None:
        claim.release()
