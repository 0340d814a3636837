"""No run keeps the others from running, however its chart behaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import Event, State, StateChart

from machines import Host, RunFinishedError, child, effect, gate
from machines.errors import GateClosedError
from machines.limits import PUMP_MACROSTEPS_MAX
from snapshots.limits import NO_TIMER_MS
from tests.host.letterbox import Letterbox
from tests.host.world import World


class Restless(StateChart[Any]):
    """Sends to itself as soon as it has run, for ever, once it was told to."""

    calm = State(initial=True)
    begin = calm.to.itself(on="again")
    tick = calm.to.itself(on="again")

    def again(self) -> None:
        """Ask for the next turn."""
        self.send("tick")


class Door(StateChart[Any]):
    """Opens and closes."""

    closed = State(initial=True)
    opened = State()
    move = closed.to(opened) | opened.to(closed)


async def test_a_chart_that_sends_to_itself_for_ever_lets_others_run(world: World) -> None:
    """Its sender is answered, another run answers, and it can be cancelled."""
    async with asyncio.timeout(10), world.host(Restless, Door) as host:
        restless, door = await host.start(Restless), await host.start(Door)
        await host.send(restless, "begin")
        await host.send(door, "move")
        assert (await host.read(door)).configuration == ("opened",)
        await host.cancel(restless)
        with pytest.raises(RunFinishedError):
            await host.send(restless, "begin")


class Busy(StateChart[Any]):
    """Sends to itself for ever, has a gate, and closes that after so many turns if told to."""

    class work(State.Parallel):  # noqa: N801 - a state
        class turning(State.Compound):  # noqa: N801 - a state
            calm = State(initial=True)
            begin = calm.to.itself(on="again")
            crowd = calm.to.itself(on="fill")
            tick = calm.to.itself(on="again")
            step = calm.to.itself()
            later = Event(calm.to.itself(), delay=60_000)

        class asking(State.Compound):  # noqa: N801 - a state
            waiting = State(initial=True, invoke=gate("approve", key="gate"))
            approved = State()
            shut = State()
            approve = waiting.to(approved, on="say")
            close = waiting.to(shut)

    def again(self) -> None:
        """Ask for the next turn."""
        self.send("tick")

    def fill(self) -> None:
        """Ask for more turns than one slice has; the last of them closes the gate."""
        for _ in range(2 * PUMP_MACROSTEPS_MAX):
            self.send("step")
        self.send("close")
        self.send("tick")

    def say(self) -> str:
        """Tell whoever approves."""
        return "approved"


async def test_a_run_that_never_comes_to_rest_takes_an_answer(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a caller and from the mailbox, and so does an event with a delay."""
    monkeypatch.setattr("machines.host.live_runs.ANSWER_REST_S", 0.01)
    async with asyncio.timeout(10), world.host(Busy) as host:
        with Letterbox(world) as box:
            mailed = await host.start(Busy)
            await host.send(mailed, "begin")
            assert await box.settled(box.answer(mailed, "gate", "approve")) == ["taken"]
        called = await host.start(Busy)
        await host.send(called, "begin")
        assert await host.answer(called, "gate", "approve") == "approved"
        assert await host.send(called, "later") is None
        assert world.stored(called).header.due_ms < NO_TIMER_MS
        for run in (called, mailed):
            assert "approved" in (await host.read(run)).configuration


async def test_an_answer_comes_behind_what_a_restless_run_had_accepted_before(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: what closes the gate was asked for before the answer."""
    monkeypatch.setattr("machines.host.live_runs.ANSWER_REST_S", 0)
    async with asyncio.timeout(10), world.host(Busy) as host:
        run = await host.start(Busy)
        await host.send(run, "crowd")
        assert "shut" not in (await host.read(run)).configuration
        with pytest.raises(GateClosedError):
            await host.answer(run, "gate", "approve")
        assert "shut" in (await host.read(run)).configuration


async def test_a_boot_ends_beside_a_chart_that_sends_to_itself_for_ever(world: World) -> None:
    """The restless run goes on, in slices, and the others answer."""
    async with asyncio.timeout(10), world.host(Restless, Door) as host:
        restless, door = await host.start(Restless), await host.start(Door)
        await host.send(restless, "begin")
    async with asyncio.timeout(10), world.host(Restless, Door) as host:
        await host.send(door, "move")
        assert (await host.read(door)).configuration == ("opened",)
        assert restless in host.report.resumed


async def test_blocking_work_that_raises_stop_iteration_is_heard_of(world: World) -> None:
    """A bare `next()` on an empty iterator fails the effect; it does not hang it."""

    def empty() -> Any:
        return next(iter(()))

    class Calling(StateChart[Any]):
        calling = State(initial=True, invoke=effect(empty, idempotent=True))
        sad = State(final=True)
        error_execution = calling.to(sad)

    async with asyncio.timeout(10), world.host(Calling) as host:
        run = await host.start(Calling)
        assert (await host.settled(run)).configuration == ("sad",)


async def test_a_child_under_a_given_id_numbers_on(world: World) -> None:
    """Invoked again, its effects have ids and keys of their own, and each is called once."""
    keys: list[str] = []

    def note(key: str) -> None:
        keys.append(key)

    class Kid(StateChart[Any]):
        k = State(initial=True, invoke=effect(note))
        over = State(final=True)
        done_invoke_k = k.to(over)

    class Parent(StateChart[Any]):
        a = State(initial=True)
        b = State(invoke=child(Kid, id="kid"))
        go = a.to(b)
        done_invoke_kid = b.to(a)

    async with asyncio.timeout(10), world.host(Parent) as host:
        run = await host.start(Parent, run_id="r")
        for _ in range(2):
            await host.send(run, "go")
            await host.settled(run)
            await host.unload(run)
    assert len(keys) == len(set(keys)) == 2


async def test_settled_waits_for_work_and_not_for_others(world: World) -> None:
    """It returns once the run waits for an event, and at once for a run that does nothing."""
    gone = asyncio.Event()

    async def work() -> str:
        await gone.wait()
        return "result"

    class Working(StateChart[Any]):
        working = State(initial=True, invoke=effect(work))
        waiting = State()
        done_invoke_working = working.to(waiting)
        again = waiting.to.itself()

    async with asyncio.timeout(10), world.host(Working) as host:
        run = await host.start(Working)
        settling = asyncio.ensure_future(host.settled(run))
        await asyncio.sleep(0)
        assert not settling.done()
        gone.set()
        assert (await settling).configuration == ("waiting",)
        assert (await host.settled(run)).configuration == ("waiting",)


async def test_two_machines_of_one_name_are_refused(world: World) -> None:
    """Which of them a row belongs to would be a guess."""
    with pytest.raises(Exception, match="another machine has that name"):
        Host(world.path, [Door, Door])
