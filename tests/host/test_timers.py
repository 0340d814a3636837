"""Timers: each fires once, at its time, over every restart and whatever the clock does."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import Event, State, StateChart

from machines import Context, Machine, timeout
from machines.errors import DefinitionError
from snapshots.errors import StorageError
from snapshots.limits import NO_TIMER_MS
from tests.host.charts import Door, Reminder, waiter
from tests.host.world import Disk, World, ended, resident, ring, settled, until

HOUR_MS = 3_600_000


async def fired(world: World, host: Any, run: str) -> bool:
    """Turn the alarm, let everything run, and say whether the run has ended by it."""
    ring(host)
    await settled()
    return world.status(run) == "done"


async def test_a_timeout_fires_at_its_time_and_once(world: World) -> None:
    """Not a millisecond before, and the run ends by that one event."""
    chart = waiter(60)
    async with world.host(chart) as host:
        run = await host.start(chart)
        world.clock.advance(59_999)
        assert not await fired(world, host, run)
        world.clock.advance(1)
        assert await fired(world, host, run)
        assert world.blob(run)["trail"][-1][2] == "expired"


async def test_a_delayed_event_fires_once_over_a_restart(world: World) -> None:
    """A delayed `send` is in the ledger: the next host fires it, and none fires it again."""
    async with world.host(Reminder) as host:
        run = await host.start(Reminder)
        await host.send(run, "arm", seconds=60)
        after = world.after_kill()
    async with after.host(Reminder) as host:
        after.clock.advance(60_000)
        assert await fired(after, host, run)
    rung = [entry for entry in after.blob(run)["trail"] if entry[2] == "ring"]
    assert len(rung) == 1


async def test_a_timeout_of_a_state_that_was_left_never_fires(world: World) -> None:
    """Left and entered again, the state has a new timeout, and the old one is gone."""
    chart = waiter(60)
    async with world.host(chart) as host:
        run = await host.start(chart)
        world.clock.advance(30_000)
        await host.send(run, "leave")
        assert "timers" not in world.blob(run)
        world.clock.advance(HOUR_MS)
        assert not await fired(world, host, run)
        await host.send(run, "back")
        world.clock.advance(59_999)
        assert not await fired(world, host, run)
        world.clock.advance(1)
        assert await fired(world, host, run)


async def test_a_cancelled_event_never_fires(world: World) -> None:
    """`cancel_event` takes a delayed event out of the ledger."""
    async with world.host(Reminder) as host:
        run = await host.start(Reminder)
        await host.send(run, "arm")
        await host.send(run, "disarm")
        assert world.stored(run).header.due_ms == NO_TIMER_MS
        world.clock.advance(HOUR_MS)
        assert not await fired(world, host, run)
        assert world.configuration(run) == ["idle"]


async def test_a_cancelled_event_never_fires_after_a_restart(world: World) -> None:
    """It can be cancelled by the next host too."""
    async with world.host(Reminder) as host:
        run = await host.start(Reminder)
        await host.send(run, "arm")
        after = world.after_kill()
    async with after.host(Reminder) as host:
        await host.send(run, "disarm")
        after.clock.advance(HOUR_MS)
        assert not await fired(after, host, run)


async def test_the_remaining_policy_waits_for_what_was_left(world: World) -> None:
    """Saved with 40 s left and restored an hour later, it fires 40 s after that."""
    chart = waiter(60, resume="remaining")
    async with world.host(chart) as host:
        run = await host.start(chart)
        world.clock.advance(20_000)
        await host.send(run, "unknown")
        after = world.after_kill()
    after.clock.advance(HOUR_MS)
    async with after.host(chart) as host:
        after.clock.advance(39_999)
        assert not await fired(after, host, run)
        after.clock.advance(1)
        assert await fired(after, host, run)


async def test_the_restart_policy_waits_for_the_whole_span_again(world: World) -> None:
    """Whatever was left, a restart begins the span anew."""
    chart = waiter(60, resume="restart")
    async with world.host(chart) as host:
        run = await host.start(chart)
        world.clock.advance(59_000)
        after = world.after_kill()
    async with after.host(chart) as host:
        after.clock.advance(59_999)
        assert not await fired(after, host, run)
        after.clock.advance(1)
        assert await fired(after, host, run)


@pytest.mark.parametrize("resume", ["deadline", "remaining", "restart"])
async def test_being_out_of_memory_is_no_restart(world: World, resume: str) -> None:
    """A run that was unloaded and built again in the same process keeps its due time."""
    chart = waiter(60, resume=resume)
    async with world.host(chart) as host:
        run = await host.start(chart)
        world.clock.advance(20_000)
        assert await host.unload(run)
        world.clock.advance(20_000)
        await host.send(run, "unknown")
        assert await host.unload(run)
        world.clock.advance(19_999)
        assert not await fired(world, host, run)
        world.clock.advance(1)
        assert await fired(world, host, run)


async def test_a_policy_may_be_given_for_a_delayed_event(world: World) -> None:
    """`Machine(resume={event: policy})` says it for `send(delay=…)`."""
    machine = Machine(Reminder, resume={"ring": "restart"})
    async with world.host(machine) as host:
        run = await host.start(machine)
        await host.send(run, "arm", seconds=60)
        world.clock.advance(50_000)
        after = world.after_kill()
    async with after.host(machine) as host:
        after.clock.advance(59_999)
        assert not await fired(after, host, run)
        after.clock.advance(1)
        assert await fired(after, host, run)


@pytest.mark.parametrize("options", [{"duration": 0}, {"duration": -1}, {"resume": "never"}])
def test_a_senseless_timeout_is_refused_at_definition(options: dict[str, Any]) -> None:
    """A duration that is not positive, and a policy that nobody knows."""
    with pytest.raises(DefinitionError):
        timeout(**{"duration": 1, **options})


async def test_the_alarm_reads_the_clock_again_while_it_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It sleeps in slices: a clock that steps to the due time is noticed, nobody rings for it."""
    monkeypatch.setattr("machines.host.alarm.TIMER_SLICE_MS", 5)
    chart = waiter(7_200)
    async with world.host(chart) as host:
        run = await host.start(chart)
        world.clock.advance(2 * HOUR_MS)
        await ended(host, run)
    assert world.status(run) == "done"


async def test_a_timer_of_a_parked_run_is_armed_without_its_blob(world: World) -> None:
    """The header has the due time; the run is built when that comes."""
    chart = waiter(60)
    async with world.host(chart) as host:
        run = await host.start(chart)
    async with world.host(chart) as host:
        assert run in host.waiting
        assert run not in host._resident
        world.clock.advance(60_000)
        assert await fired(world, host, run)


class Later(StateChart):
    """Takes an event that is declared with a delay."""

    idle = State(initial=True)
    rung = State(final=True)
    ring = Event(idle.to(rung), delay=60_000)


async def test_an_event_with_a_declared_delay_is_on_disk_when_its_sender_is_answered(
    world: World,
) -> None:
    """`send` returns once the timer is saved; dying then loses nothing."""
    async with world.host(Later) as host:
        run = await host.start(Later)
        assert await host.send(run, "ring", delivery="d1") is None
        after = world.after_kill()
        assert world.stored(run).header.due_ms == world.clock.now_ms() + 60_000
        world.clock.advance(60_000)
        assert await fired(world, host, run)
    async with after.host(Later) as host:
        await ended(host, run)
    assert after.status(run) == "done"
    assert after.blob(run)["deliveries"] == ["d1"]


async def test_an_event_with_a_declared_delay_whose_save_fails_is_not_kept(world: World) -> None:
    """The sender gets the error, and the timer never fires."""
    async with world.host(Later) as host:
        run = await host.start(Later)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageError):
            await host.send(run, "ring")
        world.clock.advance(HOUR_MS)
        assert not await fired(world, host, run)
        await host.send(run, "unknown")
        assert "timers" not in world.blob(run)


async def test_a_delayed_event_from_work_is_saved_and_fires(world: World) -> None:
    """`ctx.send(…, delay=…)` out of an invoke sets a timer that is on disk at once."""

    async def work(ctx: Context) -> None:
        ctx.send("finish", delay=5_000)
        await asyncio.Event().wait()

    class Working(StateChart):
        working = State(initial=True, invoke=work)
        over = State(final=True)
        finish = working.to(over)

    async with world.host(Working) as host:
        run = await host.start(Working)
        await until(lambda: "timers" in world.blob(run))
        world.clock.advance(5_000)
        assert await fired(world, host, run)


async def test_many_timers_that_are_set_anew_leave_nothing_behind(world: World) -> None:
    """The alarm's order does not grow with how often a timer was set."""
    chart = waiter(7_200)
    async with world.host(chart, Door) as host:
        run = await host.start(chart)
        alarm = host._alarm
        for _ in range(2_000):
            world.clock.advance(1)
            alarm.set(run, world.clock.now_ms() + HOUR_MS)
        assert len(alarm._heap) < 1_100
        assert resident(host, run)


async def test_a_due_timer_of_a_chart_with_coroutines_fires_and_holds_nobody(
    world: World,
) -> None:
    """Its task runs after the alarm: ringing ends, and the timer fires once."""
    fired_at: list[int] = []

    class Slowly(StateChart):
        waiting = State(initial=True, invoke=timeout(5, on="expired"))
        late = State(final=True)
        expired = waiting.to(late)

        async def on_expired(self) -> None:
            await asyncio.sleep(0)
            fired_at.append(world.clock.now_ms())

    async with world.host(Slowly) as host:
        run = await host.start(Slowly)
        world.clock.advance(5_000)
        ring(host)
        ring(host)
        await ended(host, run)
    assert fired_at == [world.clock.now_ms()]


@pytest.mark.parametrize(("resume", "left_ms"), [("remaining", 40_000), ("restart", 60_000)])
async def test_a_revived_run_follows_its_timers_policies(
    world: World, resume: str, left_ms: int
) -> None:
    """Set aside for an hour, it waits for what was left when it was saved, or for all of it."""
    chart = waiter(60, resume=resume)
    async with world.host(chart) as host:
        run = await host.start(chart)
        world.clock.advance(20_000)
        await host.send(run, "unknown")
        assert await host.unload(run)
        world.clock.advance(HOUR_MS)
        host.store.mark(world.stored(run).header, "lost", "for the test")
        host.waiting.discard(run)
        world.clock.advance(HOUR_MS)
        await host.revive(run)
        world.clock.advance(left_ms - 1)
        assert not await fired(world, host, run)
        world.clock.advance(1)
        assert await fired(world, host, run)
