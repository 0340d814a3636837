"""What neither grows nor is refused, however long a run lives and however large it is."""

from __future__ import annotations

from typing import Any

import pytest
from statemachine import State, StateChart

from machines import children, effect, spawn, stop_child
from snapshots.errors import LimitError
from snapshots.limits import BLOB_BYTES_MAX
from tests.host.world import Outside, World, resident, settled


async def test_charts_that_were_stopped_at_work_are_let_go(world: World, outside: Outside) -> None:
    """A run that has a call under way for good keeps none of its former children."""
    outside.hold("watch")
    outside.hold("work")

    class Busy(StateChart):
        working = State(initial=True, invoke=effect(outside.service("work")))
        worked = State(final=True)
        done_invoke_working = working.to(worked)

    class Boss(StateChart):
        watching = State(initial=True, invoke=[children(Busy), effect(outside.service("watch"))])
        over = State(final=True)
        done_invoke_watching = watching.to.itself(internal=True)
        begin = watching.to.itself(internal=True, on="spawn_one")
        end = watching.to.itself(internal=True, on="stop_one")
        close = watching.to(over)

        def spawn_one(self) -> None:
            spawn(self, "a")

        def stop_one(self) -> None:
            stop_child(self, "a")

    async with world.host(Boss) as host:
        run = await host.start(Boss)
        for _ in range(3):
            await host.send(run, "begin")
            await settled()
            await host.send(run, "end")
            await settled()
        tree = resident(host, run).tree
        assert tree.busy == {tree.root}
        assert outside.count("work") == 3
        outside.hold("watch").set()
        outside.hold("work").set()


async def test_charts_that_ended_with_events_behind_their_end_are_let_go(
    world: World, outside: Outside
) -> None:
    """What a child still had on its queue is dropped with it, and so is the child."""
    outside.hold("watch")

    class Hasty(StateChart):
        begun = State(initial=True)
        ended = State(final=True)
        finish = begun.to(ended)

        def on_enter_begun(self) -> None:
            self.send("finish")
            self.send("finish")

    class Boss(StateChart):
        watching = State(initial=True, invoke=[children(Hasty), effect(outside.service("watch"))])
        over = State(final=True)
        done_invoke_watching = watching.to.itself(internal=True)
        begin = watching.to.itself(internal=True, on="spawn_one")
        close = watching.to(over)

        def spawn_one(self) -> None:
            spawn(self, "a")

    async with world.host(Boss) as host:
        run = await host.start(Boss)
        for _ in range(3):
            await host.send(run, "begin")
            await settled()
        tree = resident(host, run).tree
        assert not tree.root.children
        assert tree.busy == {tree.root}
        outside.hold("watch").set()


@pytest.mark.parametrize("before", [100, 10_000], ids=["short before", "drawn before"])
async def test_a_run_may_be_as_long_as_the_limit_says(world: World, before: int) -> None:
    """The room that rows have to grow in counts for nothing where it does not fit."""

    class Grows(StateChart):
        there = State(initial=True)
        over = State(final=True)
        grow = there.to.itself(internal=True, on="keep")
        leave = there.to(over)

        def keep(self, text: str) -> None:
            self.model.text = text

    def length(blob: Any) -> int:
        return len(blob)

    async with world.host(Grows) as host:
        run = await host.start(Grows)
        await host.send(run, "grow", text="x" * before)
        for beside in (500_000, 5_000, 6_000):
            await host.send(run, "grow", text="y" * (BLOB_BYTES_MAX - beside))
            assert length(host.store.load(run).blob) <= BLOB_BYTES_MAX
        with pytest.raises(LimitError):
            await host.send(run, "grow", text="z" * BLOB_BYTES_MAX)
        books = await host.ledgers(run)
        books.notices.add("beside", "n" * 1_000)
        assert world.blob(run)["root"]["context"]["text"] == "y" * (BLOB_BYTES_MAX - 6_000)
        await host.send(run, "grow", text="short")
        assert world.blob(run)["root"]["context"]["text"] == "short"
        assert list(world.blob(run)["notices"]) == ["beside"]
