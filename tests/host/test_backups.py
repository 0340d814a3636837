"""A restored backup: every live run goes on from its moment, and what that cannot promise."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from snapshots import backup
from tests.host.charts import checkout
from tests.host.world import Outside, World, ended, settled, statuses, until


@pytest.fixture
def restored(world: World, tmp_path: Path) -> World:
    """Return the world whose file will be the backup."""
    return World(tmp_path / "restored.db", world.clock, world.outside)


async def test_every_live_run_of_a_backup_goes_on(
    world: World, restored: World, outside: Outside
) -> None:
    """A backup is made in a thread beside a host, and another host resumes all that it has."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        waiting = [await host.start(chart) for _ in range(5)]
        finished = await host.start(chart)
        await host.send(finished, "pay")
        await ended(host, finished)
        await asyncio.to_thread(backup, world.path, restored.path)
        async with restored.host(chart) as other:
            assert sorted(other.report.resumed) == sorted(waiting)
            assert other.report.unresumed == {}
            await other.send(waiting[0], "pay")
            await ended(other, waiting[0])
        # The file itself has its own owner still, and its own runs.
        await host.send(waiting[1], "pay")
        await ended(host, waiting[1])
    assert [world.status(waiting[0]), world.status(waiting[1])] == ["live", "done"]
    assert [restored.status(waiting[0]), restored.status(waiting[1])] == ["done", "live"]
    assert restored.status(finished) == "done"


async def test_a_call_under_way_at_a_backup_is_in_doubt_in_it(
    world: World, restored: World, outside: Outside
) -> None:
    """Nobody knows there what came of it: it is not repeated."""
    chart = checkout(outside.service("charge"))
    outside.hold("charge")
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await until(lambda: outside.count("charge") == 1, "the call")
        await asyncio.to_thread(backup, world.path, restored.path)
        outside.hold("charge").set()
        await ended(host, run)
    async with restored.host(chart) as other:
        await until(lambda: statuses(other, run) == ["unknown"], "doubt")
        await settled()
    assert outside.count("charge") == 1


async def test_what_was_called_after_a_backup_is_called_again_with_its_key(
    world: World, restored: World, outside: Outside
) -> None:
    """A backup cannot know it; the receiver can, since the key is the same."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await asyncio.to_thread(backup, world.path, restored.path)
        await host.send(run, "pay")
        await ended(host, run)
    async with restored.host(chart) as other:
        await other.send(run, "pay")
        await ended(other, run)
    first, second = outside.keys("charge")
    assert first == second
