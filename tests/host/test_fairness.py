"""No run keeps the others from running, however its chart behaves."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Host, RunFinishedError, child, effect
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
