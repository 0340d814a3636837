"""What of the product a world stands in for: its file, its threads, its slices of time."""

from __future__ import annotations

import asyncio
import gc
import sys
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from machines.host import host as hosts
from machines.host import sweeping, workshop
from snapshots.database.checkpoints import Checkpoints
from tools.simulation.stage import STAGE
from tools.simulation.threads import SeededThreads
from tools.simulation.world import Outcome, World

if TYPE_CHECKING:
    from collections.abc import Iterator


def _open_store(path: str, *, clock: Any) -> Any:
    process = STAGE.world.process
    assert process is not None
    return process.open_store(path, clock=clock)


async def _in_slices(delete: Any) -> int:
    return await sweeping.in_slices(delete, now_s=asyncio.get_running_loop().time)


@contextmanager
def staged() -> Iterator[None]:
    """Stand in for files, threads and the real clock while worlds are played."""
    with ExitStack() as back:
        put = partial(replace, back)
        put(hosts, "open_own_store", _open_store)
        put(hosts, "in_slices", _in_slices)
        put(workshop, "Threads", SeededThreads)
        put(Checkpoints, "start", lambda _: None)
        # What a killed process leaves to the collector has nothing to say.
        put(sys, "unraisablehook", lambda _: None)
        was_enabled = gc.isenabled()
        gc.disable()
        # What is there by now is never looked at again, so that a world can collect its own.
        gc.freeze()
        if was_enabled:
            back.callback(gc.enable)
        back.callback(gc.unfreeze)
        yield


def replace(back: ExitStack, place: Any, name: str, stand_in: Any) -> None:
    """Put something in a place until `back` ends."""
    back.callback(setattr, place, name, getattr(place, name))
    setattr(place, name, stand_in)


def play(seed: int) -> Outcome:
    """Play the world of one seed; to be called while the stage is set."""
    outcome = World(seed).play()
    gc.collect()
    return outcome
