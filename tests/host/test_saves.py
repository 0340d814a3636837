"""How often a run is saved: once for each macrostep, and for what an effect must write between."""

from __future__ import annotations

from statemachine import State, StateChart

from tests.host.charts import Door, Trunk, checkout
from tests.host.world import Outside, World, at_rest, ended


async def test_a_start_is_one_save(world: World) -> None:
    """The first macrostep of a run is its first save."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert world.saves(run) == 1


async def test_an_event_is_one_save(world: World) -> None:
    """Each event that moves a chart is saved once, however many states it passes."""

    class Steps(StateChart):
        one = State(initial=True)
        two = State()
        three = State()
        four = State()
        go = one.to(two)
        two.to(three)
        three.to(four)
        home = four.to(one)

    async with world.host(Steps) as host:
        run = await host.start(Steps)
        for saves in (2, 3, 4):
            await host.send(run, "go" if saves % 2 == 0 else "home")
            assert world.saves(run) == saves


async def test_an_event_that_nothing_takes_is_answered_and_harmless(world: World) -> None:
    """An event without a transition changes nothing but the number of saves."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        before = world.blob(run)["root"]
        assert await host.send(run, "pull") is None
        assert world.blob(run)["root"] == before


async def test_a_terminal_macrostep_is_one_save(world: World) -> None:
    """The macrostep that ends a run is saved once, with its terminal status."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        await host.send(run, "remove")
    assert world.saves(run) == 2
    assert world.stored(run).header.ended_ms == world.clock.now_ms()


async def test_an_effect_costs_two_saves_beside_its_macrosteps(
    world: World, outside: Outside
) -> None:
    """Start, the event, calling, the outcome with its event queued, and the transition."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        assert world.saves(run) == 2
        await ended(host, run)
    assert world.saves(run) == 5


async def test_each_chart_of_a_tree_is_saved_with_its_own_macrostep(world: World) -> None:
    """Three levels of charts that begin are three saves of one row."""
    async with world.host(Trunk) as host:
        run = await host.start(Trunk)
        await at_rest(host, run)
        assert world.saves(run) == 3


async def test_reading_and_listing_save_nothing(world: World) -> None:
    """Questions about a run leave its row as it is."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        before = world.stored(run)
        await host.read(run)
        await host.runs()
        await host.gates(run)
        assert world.stored(run) == before
