"""History is a week: what is swept, and what never is."""

from __future__ import annotations

from typing import Any

import pytest

from machines.errors import RunFinishedError
from snapshots.errors import RunNotFoundError
from snapshots.limits import RETENTION_MS, SWEEP_SLICE_ROWS
from tests.host.charts import Door, Review
from tests.host.world import World, settled, until


async def finished(host: Any, run_id: str | None = None) -> str:
    """Return a run that has just ended."""
    run: str = await host.start(Door, run_id=run_id)
    await host.send(run, "remove")
    return run


@pytest.mark.parametrize(("after_ms", "swept"), [(-1, 0), (0, 0), (1, 1)])
async def test_a_finished_run_is_kept_for_seven_days_exactly(
    world: World, after_ms: int, swept: int
) -> None:
    """At the limit it is there, one millisecond past it it is not."""
    async with world.host(Door) as host:
        run = await finished(host)
        world.clock.advance(RETENTION_MS + after_ms)
        assert await host.sweep() == swept
        assert world.ids() == ([] if swept else [run])
    assert RETENTION_MS == 7 * 24 * 60 * 60 * 1000


async def test_age_counts_from_the_end_and_not_from_the_start(world: World) -> None:
    """A run that lived for a month and ended today is kept for a week from today."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        world.clock.advance(30 * 24 * 60 * 60 * 1000)
        await host.send(run, "remove")
        world.clock.advance(RETENTION_MS)
        assert await host.sweep() == 0
        world.clock.advance(1)
        assert await host.sweep() == 1


async def test_a_live_run_is_never_swept(world: World) -> None:
    """A gate that waits for a year is still open."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        world.clock.advance(365 * 24 * 60 * 60 * 1000)
        assert await host.sweep() == 0
    async with world.host(Review) as host:
        await host.answer(run, "review", "approve")


@pytest.mark.parametrize("status", ["cancelled", "lost", "drifted", "error", "failed"])
async def test_every_status_that_is_not_live_ages(world: World, status: Any) -> None:
    """Whatever ended it, a week later it goes."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert await host.unload(run)
        host.store.mark(world.stored(run).header, status, "for the test")
        world.clock.advance(RETENTION_MS + 1)
        assert await host.sweep() == 1
        with pytest.raises(RunNotFoundError):
            await host.read(run)


async def test_a_revived_run_is_not_swept(world: World) -> None:
    """What lives again has no end to count from."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert await host.unload(run)
        host.store.mark(world.stored(run).header, "lost", "for the test")
        await host.revive(run)
        world.clock.advance(RETENTION_MS + 1)
        assert await host.sweep() == 0
        await host.send(run, "push")


async def test_more_than_a_slice_is_swept_in_several_transactions(world: World) -> None:
    """No transaction deletes more than a slice, and all of it goes."""
    async with world.host(Door) as host:
        await settled()  # the boot's own sweep
        count = 2 * SWEEP_SLICE_ROWS + 3
        for _ in range(count):
            await finished(host)
        deletes: list[str] = []
        database: Any = host.store
        world.clock.advance(RETENTION_MS + 1)
        database.database.trace_statements(
            lambda sql, _: deletes.append(sql) if "delete from runs" in sql else None
        )
        assert await host.sweep() == count
        database.database.trace_statements(None)
    assert len(deletes) >= 3
    assert world.ids() == []


async def test_a_boot_sweeps(world: World) -> None:
    """What grew old while no host ran is gone soon after the next one opened."""
    async with world.host(Door) as host:
        run = await finished(host)
    world.clock.advance(RETENTION_MS + 1)
    async with world.host(Door):
        await until(lambda: world.ids() == [])
    assert run not in world.ids()


async def test_an_id_that_was_swept_can_be_used_again(world: World) -> None:
    """Nothing of the old run is left to be mistaken for the new one's."""
    async with world.host(Door) as host:
        await finished(host, "a")
        with pytest.raises(RunFinishedError):
            await host.send("a", "push")
        world.clock.advance(RETENTION_MS + 1)
        await host.sweep()
        assert await host.start(Door, run_id="a") == "a"
        await host.send("a", "push")
    assert world.configuration("a") == ["ajar"]
