"""Faults of timers: each was met in a system of this kind, none here.

What they are is told in `docs/faults.md`, each with its test.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Machine, timeout
from snapshots.limits import NO_TIMER_MS
from tests.host.charts import Reminder, waiter
from tests.host.lives import Lives
from tests.host.world import World, ended, ring, settled, until

HOUR_MS = 3_600_000


async def fired(world: World, host: Any, run: str) -> bool:
    """Turn the alarm, let everything run, and say whether the run has ended by it."""
    ring(host)
    await settled()
    return world.status(run) == "done"


def firings(world: World, run: str, event: str = "expired") -> int:
    """Return how often an event led a run from one state to another."""
    return sum(1 for _, _, came, _, _ in world.blob(run)["trail"] if came == event)


# -- what a death must not lose --------------------------------------------------------------------


async def test_a_timer_that_was_pending_at_a_death_fires_once(lives: Lives) -> None:
    """Killed with a timer set: its due time stays, and the event comes once."""
    lives.die("wait", "started")
    due_ms = lives.world.blob("a")["timers"][0]["due"]
    assert due_ms == lives.world.clock.now_ms() + 60_000
    lives.world.clock.advance(60_000)
    async with lives.host() as host:
        await ended(host, "a")
    async with lives.host():
        await settled()
    assert lives.log.lines("expired") == ["expired"]


async def test_a_timer_that_is_overdue_at_a_restore_fires_promptly_and_once(lives: Lives) -> None:
    """Killed with a timer set, and nobody there when it fell due: the next host fires it."""
    lives.die("wait", "started")
    lives.world.clock.advance(HOUR_MS)
    for _ in range(2):
        async with lives.host() as host:
            await ended(host, "a")
            await settled()
    assert lives.log.lines("expired") == ["expired"]
    assert firings(lives.world, "a") == 1


async def test_a_timer_that_had_fired_and_was_still_queued_at_a_death_is_run_once(
    world: World,
) -> None:
    """It fell due during another macrostep: in that save's queue, it is run by the next host."""
    entered, release = asyncio.Event(), asyncio.Event()

    class Busy(StateChart):
        class Both(State.Parallel):
            class Left(State.Compound):
                waiting = State(initial=True, invoke=timeout(5, on="expired"))
                late = State(final=True)
                expired = waiting.to(late)

            class Right(State.Compound):
                quiet = State(initial=True)
                loud = State(final=True)
                shout = quiet.to(loud)

        over = State(final=True)
        done_state_Both = Both.to(over)  # noqa: N815 - the library's name

        async def on_shout(self) -> None:
            entered.set()
            await release.wait()

        def on_expired(self) -> None:
            self.model.late = getattr(self.model, "late", 0) + 1

    copies: list[World] = []
    async with world.host(Busy) as host:
        run = await host.start(Busy)
        shout = asyncio.create_task(host.send(run, "shout"))
        await entered.wait()
        world.clock.advance(5_000)
        ring(host)
        save = host.store.save

        def copy_then_save(header: Any, blob: Any, **options: Any) -> Any:
            saved = save(header, blob, **options)
            if not copies:
                copies.append(world.after_kill())
            return saved

        host.store.save = copy_then_save
        release.set()
        await shout
        await ended(host, run)
    after = copies[0]
    queued = [item["event"] for item in after.blob(run)["root"]["queue"]]
    assert queued[0] == "expired"
    assert "timers" not in after.blob(run)
    async with after.host(Busy) as host:
        await ended(host, run)
    assert after.status(run) == "done"
    assert after.blob(run)["root"]["context"]["late"] == 1


@pytest.mark.parametrize("chart", [waiter(60), Reminder])
async def test_a_timer_is_not_dropped_by_a_save_after_a_restore_and_fires_once(
    world: World, chart: Any
) -> None:
    """Restored, saved for another reason, and dead again: the timer is in the row as it was."""
    async with world.host(chart) as host:
        run = await host.start(chart)
        if chart is Reminder:
            await host.send(run, "arm", seconds=60)
        timers = world.blob(run)["timers"]
        after = world.after_kill()
    async with after.host(chart) as host:
        saves = after.saves(run)
        await host.send(run, "note" if chart is Reminder else "unknown")
        assert after.saves(run) > saves
        assert after.blob(run)["timers"] == timers
        last = after.after_kill()
    last.clock.advance(60_000)
    async with last.host(chart) as host:
        await ended(host, run)
    assert firings(last, run, "ring" if chart is Reminder else "expired") == 1


# -- what a due time is counted from ---------------------------------------------------------------


async def for_ever() -> None:
    """Work for as long as the state is active."""
    await asyncio.Event().wait()


class Working(StateChart):
    """Works while it waits, so that it is built anew at every boot."""

    waiting = State(initial=True, invoke=[timeout(60, on="expired"), for_ever])
    late = State(final=True)
    expired = waiting.to(late)


@pytest.mark.parametrize("chart", [waiter(60), Working])
async def test_a_deadline_is_fixed_once_and_never_counted_anew_from_a_boot(
    world: World, chart: Any
) -> None:
    """Three boots, and a save at each, leave the due time as it was set."""
    due_ms = world.clock.now_ms() + 60_000
    async with world.host(chart) as host:
        run = await host.start(chart)
    for _ in range(3):
        world.clock.advance(10_000)
        async with world.host(chart) as host:
            assert (run in host.waiting) == (chart is not Working)
            await host.send(run, "unknown")
            assert world.blob(run)["timers"][0]["due"] == due_ms
            assert world.stored(run).header.due_ms == due_ms
    world.clock.advance(29_999)
    async with world.host(chart) as host:
        assert not await fired(world, host, run)
        world.clock.advance(1)
        assert await fired(world, host, run)


async def test_a_timeout_set_before_a_restart_never_fires_in_a_later_state(world: World) -> None:
    """Left before the death or after it: only the state that is active now has a timeout.

    The later state takes the event too, so a firing that belongs to no state would be seen.
    """
    chart = waiter(60)
    async with world.host(chart) as host:
        run = await host.start(chart)
        left_before = await host.start(chart)
        await host.send(left_before, "leave")
        after = world.after_kill()
    async with after.host(chart) as host:
        await host.send(run, "leave")
        after.clock.advance(HOUR_MS)
        for one in (run, left_before):
            assert not await fired(after, host, one)
            assert after.configuration(one) == ["elsewhere"]
        await host.send(run, "back")
        after.clock.advance(59_999)
        assert not await fired(after, host, run)
        after.clock.advance(1)
        assert await fired(after, host, run)
    assert firings(after, run) == 1


# -- a wall clock that steps -----------------------------------------------------------------------


async def test_a_clock_that_steps_an_hour_back_fires_nothing_twice_or_early_and_sleeps_no_hour(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fired stays fired, what is pending waits, and a new timer keeps its own time.

    The alarm itself looks at the clock: nobody rings for it.
    """
    monkeypatch.setattr("machines.host.alarm.TIMER_SLICE_MS", 5)
    chart = waiter(60)
    async with world.host(chart, Reminder) as host:
        early = await host.start(chart)
        world.clock.advance(60_000)
        await until(lambda: world.status(early) == "done")
        pending = await host.start(chart)
        await settled()
        world.clock.advance(-HOUR_MS)
        new = await host.start(Reminder)
        await host.send(new, "arm", seconds=10)
        world.clock.advance(10_000)
        await until(lambda: world.status(new) == "done")
        assert world.status(pending) == "live"
        world.clock.advance(HOUR_MS + 50_000)
        await until(lambda: world.status(pending) == "done")
    assert firings(world, early) == firings(world, pending) == firings(world, new, "ring") == 1


async def test_a_clock_that_steps_an_hour_forward_fires_what_is_due_and_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer of half an hour fires, one of two hours does not, and neither is lost."""
    monkeypatch.setattr("machines.host.alarm.TIMER_SLICE_MS", 5)
    soon, late = waiter(1_800), waiter(7_200)
    async with world.host(Machine(soon, name="soon"), Machine(late, name="late")) as host:
        first = await host.start("soon")
        second = await host.start("late")
        await settled()
        world.clock.advance(HOUR_MS)
        await until(lambda: world.status(first) == "done")
        await settled()
        assert world.status(second) == "live"
        world.clock.advance(HOUR_MS)
        await until(lambda: world.status(second) == "done")
    assert firings(world, first) == firings(world, second) == 1


# -- runs that have ended --------------------------------------------------------------------------


class Armed(StateChart):
    """Ends by itself, or is ended, with a timeout and a delayed event pending."""

    waiting = State(initial=True, invoke=timeout(60, on="expired"))
    over = State(final=True)
    late = State(final=True)

    finish = waiting.to(over)
    expired = waiting.to(late)

    def on_enter_waiting(self) -> None:
        self.send("expired", delay=30_000)


@pytest.mark.parametrize("end", ["finish", "cancel"])
async def test_a_timer_of_a_run_that_has_ended_is_dropped_and_the_row_says_so(
    world: World, end: str
) -> None:
    """Nothing is due of it, here or at the next boot.

    The row of a run that ended by itself has no timer any more; that of one that somebody ended
    still shows what it had waited for.
    """
    async with world.host(Armed) as host:
        run = await host.start(Armed)
        pending = world.blob(run)["timers"]
        assert len(pending) == 2
        await (host.cancel(run) if end == "cancel" else host.send(run, "finish"))
        before = world.stored(run)
        world.clock.advance(HOUR_MS)
        ring(host)
        await settled()
    async with world.host(Armed) as host:
        await settled()
        assert host.report.resumed == []
    assert before.header.status == ("cancelled" if end == "cancel" else "done")
    assert before.header.due_ms == NO_TIMER_MS
    assert world.blob(run).get("timers", []) == (pending if end == "cancel" else [])
    assert world.stored(run) == before
