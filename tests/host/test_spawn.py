"""Children that a chart spawns and stops by ids of its own, at run time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import (
    ChildExistsError,
    Machine,
    child,
    children,
    effect,
    gate,
    send_down,
    send_up,
    spawn,
    spawned,
    stop_child,
)
from machines.errors import EventRefusedError
from snapshots.errors import InvalidKeyError
from tests.host.world import Outside, World, at_rest, resident, settled


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


class Verbs:
    """What charts with children do when they are told to."""

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


class Boss(Verbs, StateChart):
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


async def test_children_of_two_states_may_have_one_id(world: World) -> None:
    """Each is stopped by its invoke id, and says which state it was of."""

    class Two(Verbs, StateChart):
        class both(State.Parallel):  # noqa: N801 - a state, named as states are
            class left(State.Compound):  # noqa: N801 - a state, named as states are
                l1 = State(initial=True, invoke=children(Worker))

            class right(State.Compound):  # noqa: N801 - a state, named as states are
                r1 = State(initial=True, invoke=children(Worker))

        over = State(final=True)
        more = both.to(None, on="begin_two")
        halt = both.to(None, on="end_one")
        count = both.to(None, on="list_them")
        close = both.to(over)

        def begin_two(self, name: str) -> list[str]:
            return [spawn(self, name, state=state) for state in ("l1", "r1")]

    async with world.host(Two) as host:
        run = await host.start(Two)
        assert await host.send(run, "more", name="a") == ["l1.@a", "r1.@a"]
        assert await host.send(run, "halt", name="r1.@a")
        assert list(world.blob(run)["root"]["children"]) == ["l1.@a"]
        assert await host.send(run, "halt", name="a")
        assert await host.send(run, "count") == ()


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
        with pytest.raises(EventRefusedError, match="0 active states") as caught:
            await host.send(run, "early", name="a")
        assert caught.value.fields["run_id"] == run
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


IDS = ["a.b", "\u00e9", "x" * 200, "@", ".@", "a b", "a.@b", "*", "$", "working.@a", "\U0001f600"]


async def test_any_printable_text_without_a_slash_is_an_id(world: World) -> None:
    """Over a death, too: each is found by it, and its end says it."""
    async with world.host(Boss) as host:
        run = await with_children(host, *IDS)
        after = world.after_kill()
    async with after.host(Boss) as host:
        assert await host.send(run, "count") == tuple(IDS)
        for name in IDS:
            await host.answer(run, f"working.@{name}/held", "go")
            await at_rest(host, run)
        ends = (await host.read(run)).context["ends"]
        assert [end[0] for end in ends] == IDS
        for wrong in ("x" * 201, "a\nb", "\u200b"):
            with pytest.raises(InvalidKeyError):
                await host.send(run, "more", name=wrong)


class Asks(StateChart[Item]):
    """A worker that may ask its chart to begin another in its place."""

    held = State(initial=True, invoke=gate("go", "ask"))
    worked = State(final=True, donedata="say")
    go = held.to(worked)
    ask = held.to(None, on="ask_above")

    def say(self) -> int:
        return self.model.number

    def ask_above(self) -> None:
        send_up(self, "swap", name="a", number=2)


class Swaps(Verbs, StateChart):
    """Begins a child under the id of one whose end it has not taken yet."""

    working = State(initial=True, invoke=children(Asks))
    over = State(final=True)
    close = working.to(over)
    more = working.to(None, on="begin")
    swap = working.to(None, on="begin_anew")
    both = working.to(None, on="tell_both")
    count = working.to(None, on="list_them")
    done_invoke_working = working.to(None, on="collect")

    def begin_anew(self, name: str, number: int) -> None:
        assert stop_child(self, name)
        spawn(self, name, {"number": number})

    def tell_both(self) -> None:
        send_down(self, "b", "ask")
        send_down(self, "a", "go")


async def test_the_end_of_a_stopped_child_is_not_taken_for_that_of_the_next_under_its_id(
    world: World,
) -> None:
    """It was on its way when its chart stopped the child and began another under the same id."""
    async with world.host(Swaps) as host:
        run = await host.start(Swaps)
        for name in "ab":
            await host.send(run, "more", name=name, number=1)
        await host.send(run, "both")
        await at_rest(host, run)
        assert "ends" not in (await host.read(run)).context
        assert await host.send(run, "count") == ("b", "a")
        await host.answer(run, "working.@a/held", "go")
        await at_rest(host, run)
        assert (await host.read(run)).context["ends"] == [["a", 2, ["worked"]]]


class Restarts(Verbs, StateChart):
    """Begins each child anew as it hears of its end."""

    working = State(initial=True, invoke=children(Worker))
    over = State(final=True)
    close = working.to(over)
    more = working.to(None, on="begin")
    tell = working.to(None, on="tell_one")
    done_invoke_working = working.to(None, on="begin_again")

    def begin_again(self, child: str, data: int) -> None:
        assert spawned(self) == ()
        assert not stop_child(self, child)
        spawn(self, child, {"number": data + 1})


async def test_an_id_is_free_for_the_callback_that_hears_of_the_end(world: World) -> None:
    """A chart can begin a child anew as it ends, over and over."""
    async with world.host(Restarts) as host:
        run = await host.start(Restarts)
        await host.send(run, "more", name="a", number=1)
        for _ in range(3):
            await host.send(run, "tell", name="a", what="go")
            await at_rest(host, run)
        below = world.blob(run)["root"]["children"]["working.@a"]
        assert below["context"] == {"number": 4}


def leaving(base: type[StateChart], where: str) -> type[StateChart]:
    """Return a chart that spawns at one moment of leaving the state with its nursery."""

    def begin(self: Any) -> None:
        self.model.refused = None
        try:
            spawn(self, "late")
        except EventRefusedError as error:
            self.model.refused = str(error)

    working, after, over = State(initial=True, invoke=children(Worker)), State(), State(final=True)
    parts = {"working": working, "after": after, "over": over, "end": after.to(over)}
    return type(StateChart)("Leaves", (base,), parts | {"leave": working.to(after), where: begin})


@pytest.mark.parametrize("where", ["on_exit_working", "on_leave", "after_leave", "on_enter_after"])
@pytest.mark.parametrize("base", [StateChart, StateMachine])
async def test_nothing_is_spawned_into_a_state_that_is_being_left(
    world: World, base: type[StateChart], where: str
) -> None:
    """From its exit on, however the chart updates its configuration: a typed refusal, no orphan."""
    chart = leaving(base, where)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "leave")
        await at_rest(host, run)
        assert "0 active states" in (await host.read(run)).context["refused"]
        assert b'"children"' not in world.stored(run).blob


async def test_work_outside_spawns_nothing_while_a_callback_waits(world: World) -> None:
    """A macrostep of its chart is under way then, and it is none of its callbacks."""
    asked, refused = asyncio.Event(), asyncio.Event()

    async def intrude(machine: Any) -> None:
        await asked.wait()
        with pytest.raises(EventRefusedError, match="macrostep"):
            spawn(machine, "a")
        refused.set()

    class Awaits(StateChart):
        working = State(initial=True, invoke=[children(Worker), effect(intrude)])
        over = State(final=True)
        go = working.to(None, on="wait")
        end = working.to(over)

        async def wait(self) -> None:
            asked.set()
            await refused.wait()

    async with world.host(Awaits) as host:
        run = await host.start(Awaits)
        await settled()
        await host.send(run, "go")
        assert refused.is_set()


async def test_keys_never_come_again_below_children_of_children(
    world: World, outside: Outside
) -> None:
    """Numbers that a chart used below itself stay used once it has gone, with all below it."""

    class Calls(StateChart):
        calling = State(initial=True, invoke=effect(outside.service("call")))
        called = State(final=True)
        done_invoke_calling = calling.to(called)

    class Middle(StateChart):
        working = State(initial=True, invoke=children(Calls))
        over = State(final=True)
        more = working.to(None, on="begin")
        end = working.to(over)

        def begin(self) -> None:
            spawn(self, "x")

    class Top(StateChart):
        working = State(initial=True, invoke=children(Middle))
        over = State(final=True)
        more = working.to(None, on="begin")
        tell = working.to(None, on="tell_it")
        close = working.to(over)

        def begin(self) -> None:
            spawn(self, "m")

        def tell_it(self, what: str) -> None:
            send_down(self, "m", what)

    async with world.host(Top) as host:
        run = await host.start(Top)
        for _ in range(2):
            await host.send(run, "more")
            for what in ("more", "more", "more", "end"):
                await host.send(run, "tell", what=what)
                await at_rest(host, run)
    assert len(outside.keys("call")) == len(set(outside.keys("call"))) == 6


# -- what a chart gives another --------------------------------------------------------------------


class Keeps(StateChart):
    """Adds to the lines that it was given."""

    held = State(initial=True, invoke=gate("add", "show"))
    over = State(final=True)
    add = held.to(None, on="add_one")
    show = held.to(None, on="show_above")
    end = held.to(over)

    def add_one(self) -> None:
        self.model.lines.append("below")

    def show_above(self) -> None:
        send_up(self, "shown", lines=self.model.lines)


class Gives(StateChart):
    """Gives its own lines to a child, by the input that the state names or by spawning it."""

    given = child(Keeps, input=lambda model: {"lines": model.lines}, id="kid")
    working = State(initial=True, invoke=[children(Keeps), given])
    over = State(final=True)
    more = working.to(None, on="begin")
    shown = working.to(None, on="keep")
    close = working.to(over)

    def begin(self) -> None:
        spawn(self, "a", {"lines": self.model.lines})

    def keep(self, lines: list[str]) -> None:
        self.model.shown = lines


async def test_what_a_chart_gives_another_is_not_shared(world: World) -> None:
    """What one does to it the other does not see, restarted in between or not."""
    async with world.host(Gives) as host:
        run = await host.start(Gives, {"lines": ["above"]})
        await host.send(run, "more")
        for key in ("kid/held", "working.@a/held"):
            await host.answer(run, key, "show")
            await host.answer(run, key, "add")
            assert (await host.read(run)).context == {"lines": ["above"], "shown": ["above"]}
        below = world.blob(run)["root"]["children"].values()
        assert [node["context"]["lines"] for node in below] == [["above", "below"]] * 2


async def test_an_input_that_a_state_names_is_not_shared_between_runs(world: World) -> None:
    """What the child of one run does to it no other run sees."""

    class Names(StateChart):
        working = State(initial=True, invoke=child(Keeps, input={"lines": []}, id="kid"))
        over = State(final=True)
        close = working.to(over)

    async with world.host(Names) as host:
        first = await host.start(Names)
        await host.answer(first, "kid/held", "add")
        second = await host.start(Names)
        assert world.blob(second)["root"]["children"]["kid"]["context"] == {"lines": []}


async def test_the_trail_of_a_child_spawned_anew_begins_anew(world: World) -> None:
    """Whether or not a restart lies between the end of the first and the beginning of the next."""

    async def moves(host: Any, run: str) -> list[Any]:
        await host.send(run, "more", name="a", number=2)
        return [entry[3:] for entry in world.blob(run)["trail"] if entry[1] == "working.@a"][-1:]

    async with world.host(Boss) as host:
        run = await with_children(host, "a")
        await host.answer(run, "working.@a/held", "go")
        await at_rest(host, run)
        assert await moves(host, run) == [[[], ["held"]]]
