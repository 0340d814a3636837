"""How a sweep shares the loop: short slices by the clock, behind everything that waits."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from machines.limits import (
    SWEEP_BEHIND_S_MAX,
    SWEEP_PAUSE_S,
    SWEEP_QUIET_S,
    SWEEP_SLICE_S,
    SWEEP_TURNS_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


async def in_slices(
    delete: Callable[[], Awaitable[int]], *, now_s: Callable[[], float] = time.monotonic
) -> int:
    """Call `delete` until it has nothing left to delete; return how much it has deleted.

    `delete` is one slice, a transaction of its own. One begins every `SWEEP_SLICE_S`, or a little
    sooner if earlier ones were late, and never while something else has work to do: whatever is
    ready runs first, and what became ready meanwhile, for `SWEEP_TURNS_MAX` turns of the loop.
    """
    swept, due_s = 0, now_s()
    while (rows := await delete()) > 0:
        swept += rows
        due_s = max(due_s + SWEEP_SLICE_S, now_s() - SWEEP_BEHIND_S_MAX)
        await asyncio.sleep(max(due_s - now_s(), SWEEP_PAUSE_S))
        await _until_nothing_waits(now_s)
    return swept


async def _until_nothing_waits(now_s: Callable[[], float]) -> None:
    """Let turns of the loop pass until one was so short that nobody can have used it."""
    for _ in range(SWEEP_TURNS_MAX):
        began_s = now_s()
        await asyncio.sleep(0)
        if now_s() - began_s < SWEEP_QUIET_S:
            return
