"""A host belongs to the thread of its loop; any other is told how to hand its call over."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from machines import Host, HostThreadError
from tests.host.charts import Door
from tests.host.world import World

RUN = "door-1"
VERBS: dict[str, Callable[[Host], Awaitable[Any]]] = {
    "start": lambda host: host.start(Door),
    "send": lambda host: host.send(RUN, "push"),
    "send with a delivery": lambda host: host.send(RUN, "push", delivery="mail-7"),
    "answer": lambda host: host.answer(RUN, "shut", "push"),
    "read": lambda host: host.read(RUN),
    "settled": lambda host: host.settled(RUN),
    "gates": lambda host: host.gates(RUN),
    "runs": lambda host: host.runs(),
    "cancel": lambda host: host.cancel(RUN),
    "revive": lambda host: host.revive(RUN),
    "sweep": lambda host: host.sweep(),
    "stop": lambda host: host.stop(),
}


@pytest.mark.parametrize("verb", VERBS)
async def test_a_host_that_is_called_from_another_thread_refuses(world: World, verb: str) -> None:
    """Nothing of the run moves, the host lives on, and the error says whose thread it is."""

    async def call() -> None:
        await VERBS[verb](host)

    async with world.host(Door) as host:
        await host.start(Door, run_id=RUN)
        before = await host.read(RUN)
        with pytest.raises(HostThreadError, match="run_coroutine_threadsafe") as caught:
            await asyncio.to_thread(asyncio.run, call())
        assert caught.value.fields["opener"] == threading.get_ident()
        assert await host.read(RUN) == before


async def test_a_call_that_was_handed_over_to_the_loop_is_done(world: World) -> None:
    """What the error advises works, from a thread that has no loop."""
    loop = asyncio.get_running_loop()

    def other_thread() -> str:
        started = asyncio.run_coroutine_threadsafe(host.start(Door, run_id=RUN), loop)
        return started.result()

    async with world.host(Door) as host:
        assert await asyncio.to_thread(other_thread) == RUN
        assert host.is_live(RUN)
