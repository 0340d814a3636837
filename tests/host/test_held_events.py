"""An event that the row holds is not taken back by a failed save: its sender goes on waiting."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import State, StateChart

from tests.host.world import Disk, World, resident, settled, until


class SpoiltError(Exception):
    """What the chart raises where it is told to."""


class Slow(StateChart):
    """Holds its first note up until it is let go, so that a second one is queued in the row."""

    catch_errors_as_events = False
    go: asyncio.Event

    calm = State(initial=True)
    note = calm.to(None, on="keep")
    spoil = calm.to(None, on="fail")

    async def keep(self, text: str) -> str:
        if text == "first":
            await type(self).go.wait()
        self.model.seen = [*getattr(self.model, "seen", ()), text]
        return text

    def fail(self) -> None:
        raise SpoiltError


async def two_notes(
    world: World, host: Any, event: str, failing: range
) -> tuple[asyncio.Task[Any], asyncio.Task[Any]]:
    """Send two events, the second while the first runs; the saves from the n-th on fail."""
    Slow.go = asyncio.Event()
    run = await host.start(Slow, run_id="a")
    first = asyncio.create_task(host.send(run, "note", text="first"))
    await settled()
    named = {"text": "second"} if event == "note" else {}
    second = asyncio.create_task(host.send(run, event, delivery="d", **named))
    await settled()
    disk = Disk(host)
    disk.fails = lambda write: write in failing
    Slow.go.set()
    assert await first == "first"
    await until(lambda: disk.writes >= 2, "the second save")
    await settled()
    return first, second


async def test_the_sender_of_a_queued_event_waits_for_the_file(world: World) -> None:
    """Its macrostep runs again once the file takes it, and it is acknowledged, once."""
    async with world.host(Slow) as host:
        _, second = await two_notes(world, host, "note", range(2, 3))
        assert not second.done()
        assert world.blob("a")["root"]["queue"] != []
        assert await second == "second"
        assert (await host.read("a")).context["seen"] == ["first", "second"]


async def test_a_queued_event_that_raises_is_refused_once_the_row_has_forgotten_it(
    world: World,
) -> None:
    """While the row cannot be written its sender waits: a restart would run the event."""
    async with world.host(Slow) as host:
        _, second = await two_notes(world, host, "spoil", range(2, 3))
        assert not second.done()
        assert resident(host, "a").trouble is not None
        with pytest.raises(SpoiltError):
            await second
        assert "queue" not in world.blob("a")["root"]
        assert "deliveries" not in world.blob("a")
        assert world.status("a") == "live"
