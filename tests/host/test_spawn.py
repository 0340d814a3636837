"""Children that a chart spawns and stops by ids of its own, at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import (
    ChildExistsError,
    Machine,
    children,
    effect,
    gate,
    send_down,
    spawn,
    spawned,
    stop_child,
)
from machines.errors import EventRefusedError
from snapshots.errors import InvalidKeyError
from tests.host.world import Outside, World, at_rest, resident


@dataclass
class Item:
    """What a worker works on."""

    number: int = 0


class Worker(StateChart[Item]):
    """Waits until it may go, and says what it worked on."""

    held = State(initial=True, invoke=gate("go", "give_up"))
    worked = State(final=True, donedata="say")
    given_up = State(final=True)
    go = held.to(worked)
    give_up = held.to(given_up)

    def say(self) -> int:
        return self.model.number


class Boss(StateChart):
    """Spawns what it is told, and writes down how each child ended."""

    catch_errors_as_events = False

    idle = State(initial=True)
    working = State(invoke=children(Worker))
    over = State(final=True)

    open = idle.to(working)
    close = working.to(over)
    more = working.to.itself(internal=True, on="begin")
    early = idle.to.itself(on="begin")
    halt = working.to.itself(internal=True, on="end_one")
    tell = working.to.itself(internal=True, on="tell_one")
    count = working.to.itself(internal=True, on="list_them")
    done_invoke_working = working.to.itself(internal=True, on="collect")

    def begin(self, name: str, number: int = 0) -> str:
        return spawn(self, name, {"number": number})

    def end_one(self, name: str) -> bool:
        return stop_child(self, name)

    def tell_one(self, name: str, what: str) -> None:
        send_down(self, name, what)

    def list_them(self) -> tuple[str, ...]:
        return spawned(self)

    def collect(self, child: str, data: Any, ended: list[str]) -> None:
        self.model.ends = [*getattr(self.model, "ends", []), [child, data, ended]]


async def with_children(host: Any, *names: str) -> str:
    """Start a boss with these children, numbered from 1."""
    run: str = await host.start(Boss)
    await host.send(run, "open")
    for number, name in enumerate(names, start=1):
        await host.send(run, "more", name=name, number=number)
    return run


async def test_a_spawned_child_has_the_id_that_its_chart_gave(world: World) -> None:
    """Its gate is addressed by that id, and its end says which child it was and how it ended."""
    async with world.host(Boss) as host:
        run = await with_children(host, "a", "7")
        assert await host.send(run, "count") == ("a", "7")
        assert [gate.key for gate in await host.gates(run)] == [
            "working.@a/held",
            "working.@7/held",
        ]
        await host.answer(run, "working.@7/held", "go")
        await host.answer(run, "working.@a/held", "give_up")
        await at_rest(host, run)
        ends = (await host.read(run)).context["ends"]
        assert ends == [["7", 2, ["worked"]], ["a", None, ["given_up"]]]
        assert await host.send(run, "count") == ()


async def test_spawned_children_are_restored_with_their_inputs(world: World) -> None:
    """After a death every child is there, to the byte, and goes on."""
    async with world.host(Boss) as host:
        run = await with_children(host, "a", "b", "c")
        await host.send(run, "tell", name="b", what="go")
        before = world.stored(run).blob
        after = world.after_kill()
    async with after.host(Boss) as host:
        await host.gates(run)
        assert resident(host, run).as_stored().blob == before
        await host.answer(run, "working.@c/held", "go")
        await at_rest(host, run)
        assert (await host.read(run)).context["ends"] == [
            ["b", 2, ["worked"]],
            ["c", 3, ["worked"]],
        ]


async def test_an_id_in_use_is_refused_and_a_free_one_may_be_used_again(world: World) -> None:
    """The run stays as it was; once the first one's end was taken the id is free."""
    async with world.host(Boss) as host:
        run = await with_children(host, "a")
        before = world.stored(run).blob
        with pytest.raises(ChildExistsError, match="'a'"):
            await host.send(run, "more", name="a", number=5)
        assert world.stored(run).blob == before
        await host.send(run, "tell", name="a", what="go")
        await at_rest(host, run)
        await host.send(run, "more", name="a", number=9)
        assert await host.send(run, "count") == ("a",)


async def test_a_stopped_child_ends_without_a_word(world: World) -> None:
    """Its gate is closed, its id is free, and nothing of it reaches its chart."""
    async with world.host(Boss) as host:
        run = await with_children(host, "a", "b")
        assert await host.send(run, "halt", name="a") is True
        assert await host.send(run, "halt", name="a") is False
        assert [gate.key for gate in await host.gates(run)] == ["working.@b/held"]
        assert "ends" not in (await host.read(run)).context
        await host.send(run, "more", name="a", number=3)
        assert await host.send(run, "count") == ("b", "a")


async def test_children_end_with_the_state_of_their_nursery(world: World) -> None:
    """Nobody is left when the state that invokes the nursery is left."""
    async with world.host(Boss) as host:
        run = await with_children(host, "a", "b")
        await host.send(run, "close")
        view = await host.read(run)
        assert view.status == "done"
        assert view.gates == ()
        assert b'"children"' not in world.stored(run).blob


async def test_a_child_is_spawned_only_where_a_nursery_is_open(world: World) -> None:
    """In another state, outside a macrostep, or by an id that no path holds: typed refusals."""
    async with world.host(Boss) as host:
        run = await host.start(Boss)
        with pytest.raises(EventRefusedError, match="0 active states"):
            await host.send(run, "early", name="a")
        await host.send(run, "open")
        with pytest.raises(InvalidKeyError, match="slash"):
            await host.send(run, "more", name="a/b")
        with pytest.raises(InvalidKeyError):
            await host.send(run, "more", name="")
        with pytest.raises(EventRefusedError, match="macrostep"):
            spawn(resident(host, run).tree.root.chart, "a")
        with pytest.raises(EventRefusedError, match="macrostep"):
            stop_child(resident(host, run).tree.root.chart, "a")


async def test_keys_of_a_child_are_never_those_of_an_earlier_one_under_its_id(
    world: World, outside: Outside
) -> None:
    """Spawned anew, a child calls with keys of its own, also after a restart."""

    class Caller(StateChart):
        calling = State(initial=True, invoke=effect(outside.service("call")))
        called = State(final=True)
        done_invoke_calling = calling.to(called)

    class Caller2(Boss):
        idle = State(initial=True)
        working = State(invoke=children(Caller))
        over = State(final=True)
        open = idle.to(working)
        close = working.to(over)
        more = working.to.itself(internal=True, on="begin")
        done_invoke_working = working.to.itself(internal=True, on="collect")

    async with world.host(Machine(Caller2, name="Boss")) as host:
        run = await host.start("Boss")
        await host.send(run, "open")
        for _ in range(2):
            await host.send(run, "more", name="x")
            await at_rest(host, run)
        after = world.after_kill()
    async with after.host(Machine(Caller2, name="Boss")) as host:
        await host.send(run, "more", name="x")
        await host.settled(run)
        ends = (await host.read(run)).context["ends"]
    assert [end[0] for end in ends] == ["x", "x", "x"]
    assert len(outside.keys("call")) == 3
    assert len(set(outside.keys("call"))) == 3


async def test_ended_children_leave_nothing_in_the_row(world: World) -> None:
    """Children without end: the row does not grow by them."""
    async with world.host(Boss) as host:
        run = await with_children(host)
        sizes = []
        for number in range(1_000, 1_200):
            await host.send(run, "more", name=f"child-{number}", number=0)
            await host.send(run, "tell", name=f"child-{number}", what="give_up")
            await at_rest(host, run)
            live = resident(host, run)
            live.tree.root.chart.model.ends = []
            sizes.append(len(live.tree.root.engine.invokes.active))
        assert max(sizes) <= 2
        floors = resident(host, run).tree.root.engine.invokes.floors
        assert list(floors) == ["working.@"]
