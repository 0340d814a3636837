"""The promise of order: what a run does outside begins only after its row is on disk."""

from __future__ import annotations

import asyncio
from typing import Any

from statemachine import State, StateChart

from machines import Context, child, effect, gate, timeout
from tests.host.charts import Door, Trunk
from tests.host.world import World, ended, ring, settled, until


def on_disk(world: World, run_id: str | None, path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a chart of a run as another connection reads it now."""
    assert run_id is not None
    node: dict[str, Any] = world.blob(run_id)["root"]
    for part in path:
        node = node["children"][part]
    return node


async def test_start_returns_after_the_first_save(world: World) -> None:
    """The row of a run is there when `start` returns, and not half of it."""
    async with world.host(Door) as host:
        run = await host.start(Door, {"colour": "red"})
        blob = world.blob(run)
    assert blob["root"]["configuration"] == ["shut"]
    assert blob["root"]["context"] == {"colour": "red"}
    assert blob["input"] == {"colour": "red"}


async def test_an_answer_comes_after_the_save(world: World) -> None:
    """What `send` returns to its caller is on disk when it returns."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert await host.send(run, "push", by="me") == "pushed by me"
        assert on_disk(world, run)["configuration"] == ["ajar"]
        assert on_disk(world, run)["context"]["by"] == "me"


async def test_an_effect_begins_after_the_save_of_its_state(world: World) -> None:
    """An effect of a state that a macrostep entered finds that state on disk."""
    seen: list[list[str]] = []

    async def look(ctx: Context) -> None:
        seen.append(on_disk(world, ctx.run_id)["configuration"])

    class Looking(StateChart):
        idle = State(initial=True)
        looking = State(invoke=effect(look))
        over = State(final=True)
        go = idle.to(looking)
        done_invoke_looking = looking.to(over)

    async with world.host(Looking) as host:
        run = await host.start(Looking)
        await host.send(run, "go")
        await ended(host, run)
    assert seen == [["looking"]]


async def test_a_plain_invoke_begins_after_the_save_of_its_state(world: World) -> None:
    """A coroutine and a blocking function that a state invokes find that state on disk."""
    seen: list[tuple[str, list[str]]] = []

    async def coroutine(ctx: Context) -> None:
        seen.append(("coroutine", on_disk(world, ctx.run_id)["configuration"]))

    def blocking(ctx: Context) -> None:
        seen.append(("blocking", on_disk(world, ctx.run_id)["configuration"]))

    class Looking(StateChart):
        first = State(initial=True, invoke=coroutine)
        second = State(invoke=blocking)
        over = State(final=True)
        done_invoke_first = first.to(second)
        done_invoke_second = second.to(over)

    async with world.host(Looking) as host:
        run = await host.start(Looking)
        await ended(host, run)
    assert seen == [("coroutine", ["first"]), ("blocking", ["second"])]


async def test_a_child_begins_after_the_save_of_its_parent(world: World) -> None:
    """The first callback of a child chart finds its parent's state, with the child to come."""
    seen: list[tuple[list[str], list[str]]] = []
    runs: list[str] = []

    class Small(StateChart):
        only = State(initial=True, final=True)

        def on_enter_only(self) -> None:
            root = on_disk(world, runs[0])
            seen.append((root["configuration"], [mark["id"] for mark in root["pending"]]))

    class Large(StateChart):
        idle = State(initial=True)
        holding = State(invoke=child(Small))
        over = State(final=True)
        go = idle.to(holding)
        done_invoke_holding = holding.to(over)

    async with world.host(Large) as host:
        runs.append(await host.start(Large))
        await host.send(runs[0], "go")
        await ended(host, runs[0])
    assert seen == [(["holding"], ["holding.1"])]


async def test_a_grandchild_begins_after_the_save_of_its_parent(world: World) -> None:
    """Each level of nested charts is on disk before the next one begins."""
    async with world.host(Trunk) as host:
        run = await host.start(Trunk)
        await settled()
        leaf = on_disk(world, run, ("alive.1", "growing.1"))
    assert leaf["configuration"] == ["budding"]


async def test_a_timer_fires_only_from_the_disk(world: World) -> None:
    """When a timeout's event runs, the save before held the timer with its due time."""
    seen: list[Any] = []
    runs: list[str] = []

    class Waiting(StateChart):
        waiting = State(initial=True, invoke=timeout(5, on="expired"))
        late = State(final=True)
        expired = waiting.to(late)

        def on_expired(self) -> None:
            seen.append(world.blob(runs[0])["timers"][0]["due"])

    async with world.host(Waiting) as host:
        start_ms = world.clock.now_ms()
        runs.append(await host.start(Waiting))
        assert world.stored(runs[0]).header.due_ms == start_ms + 5_000
        world.clock.advance(5_000)
        ring(host)
        await ended(host, runs[0])
    assert seen == [start_ms + 5_000]


async def test_a_gate_is_listed_only_once_it_is_on_disk(world: World) -> None:
    """While the macrostep that leads to a gate awaits, the gate is not open."""
    entered, release = asyncio.Event(), asyncio.Event()

    class Asking(StateChart):
        idle = State(initial=True)
        asking = State(invoke=gate("yes"))
        over = State(final=True)
        ask = idle.to(asking)
        yes = asking.to(over)

        async def on_enter_asking(self) -> None:
            entered.set()
            await release.wait()

    async with world.host(Asking) as host:
        run = await host.start(Asking)
        asked = asyncio.create_task(host.send(run, "ask"))
        await entered.wait()
        assert await host.gates(run) == []
        assert (await host.read(run)).gates == ()
        release.set()
        await asked
        assert [gate.key for gate in await host.gates(run)] == ["asking"]
        assert [gate.key for gate in (await host.read(run)).gates] == ["asking"]
        assert [invoke["key"] for invoke in on_disk(world, run)["invokes"]] == ["asking"]


async def test_work_is_stopped_after_the_save_that_leaves_its_state(world: World) -> None:
    """A plain call whose state is left is told so only when the row says that it was left."""
    seen: list[list[str]] = []

    class Worker:
        def run(self, ctx: Context) -> None:
            self.ctx = ctx
            ctx.cancelled.wait(5)

        def on_cancel(self) -> None:
            seen.append(on_disk(world, self.ctx.run_id)["configuration"])

    worker = Worker()

    class Working(StateChart):
        working = State(initial=True, invoke=worker)
        over = State(final=True)
        stop = working.to(over)

    async with world.host(Working) as host:
        run = await host.start(Working)
        await until(lambda: hasattr(worker, "ctx"))
        await host.send(run, "stop")
    assert seen == [["over"]]


async def test_the_terminal_save_comes_before_the_answer(world: World) -> None:
    """The event that ends a run is answered when the row says that the run has ended."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        await host.send(run, "remove")
        assert world.status(run) == "done"
        assert on_disk(world, run)["status"] == "finished"
