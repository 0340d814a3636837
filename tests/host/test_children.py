"""Charts within charts: one row, restored as the tree that it was."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import Machine, child, effect, open_run, send_down, send_up
from machines.errors import DefinitionError, EventRefusedError, NeedsLoopError
from tests.host.charts import Branch, Leaf, Trunk
from tests.host.world import Outside, World, at_rest, ended, resident, settled, until

LEAF = "alive.1/growing.1/budding"


async def test_three_levels_are_restored_as_they_were(world: World) -> None:
    """The last one waits at its gate: the restored tree is the same, to the byte."""
    async with world.host(Trunk) as host:
        run = await host.start(Trunk)
        await at_rest(host, run)
        before = world.stored(run).blob
        after = world.after_kill()
    async with after.host(Trunk) as host:
        await host.gates(run)
        assert resident(host, run).as_stored().blob == before
        await host.answer(run, LEAF, "bloom", colour="red")
        await at_rest(host, run)
        assert (await host.read(run)).context == {"told": 1, "seen": "red"}


async def test_a_chart_with_an_effect_below_two_others_is_restored(
    world: World, outside: Outside
) -> None:
    """The innermost chart calls: its row is addressed by its path, and settled there."""

    class Caller(StateChart):
        calling = State(initial=True, invoke=effect(outside.service("call"), idempotent=True))
        called = State(final=True, donedata="reply")
        done_invoke_calling = calling.to(called, on="keep")

        def keep(self, data: str) -> None:
            self.model.data = data

        def reply(self) -> Any:
            return self.model.data

    class Middle(StateChart):
        holding = State(initial=True, invoke=child(Caller))
        held = State(final=True, donedata="reply")
        done_invoke_holding = holding.to(held, on="keep")

        def keep(self, data: str) -> None:
            self.model.data = data

        def reply(self) -> Any:
            return self.model.data

    class Outer(StateChart):
        holding = State(initial=True, invoke=child(Middle))
        held = State(final=True)
        done_invoke_holding = holding.to(held, on="keep")

        def keep(self, data: str) -> None:
            self.model.data = data

    outside.hold("call")
    async with world.host(Outer, grace_s=0) as host:
        run = await host.start(Outer)
        await until(lambda: outside.count("call") == 1)
        after = world.after_kill()
    outside.hold("call").set()
    async with after.host(Outer) as host:
        await ended(host, run)
        view = await host.read(run)
    assert view.context["data"] == "call done"
    assert outside.keys("call") == [f"{run}/holding.1/holding.1/calling.1"] * 2


async def test_a_finished_child_is_reported_once_over_a_restart(world: World) -> None:
    """Dead after the child's last save and before its parent's reaction: it moves on, once."""
    copies: list[World] = []
    async with world.host(Trunk) as host:
        run = await host.start(Trunk)
        await at_rest(host, run)
        save = host.store.save

        def copy_when_the_branch_is_done(header: Any, blob: Any, **options: Any) -> Any:
            saved = save(header, blob, **options)
            root = world.blob(run)["root"]
            if root["configuration"] == ["alive"] and root.get("queue"):
                copies.append(world.after_kill())
            return saved

        host.store.save = copy_when_the_branch_is_done
        await host.answer(run, LEAF, "bloom", colour="red")
        await at_rest(host, run)
    assert len(copies) == 1
    after = copies[0]
    async with after.host(Trunk) as host:
        await until(lambda: after.configuration(run) == ["resting"])
        await settled()
        assert (await host.read(run)).context == {"told": 1, "seen": "red"}
    async with after.host(Trunk) as host:
        await host.send(run, "fell")
        assert (await host.read(run)).context["told"] == 1


async def test_done_invoke_comes_when_the_child_reaches_its_final_state(world: World) -> None:
    """Not when it was made: the parent waits as long as the child lives."""
    async with world.host(Branch) as host:
        run = await host.start(Branch)
        await at_rest(host, run)
        assert world.configuration(run) == ["growing"]
        await host.answer(run, "growing.1/budding", "bloom", colour="pink")
        await ended(host, run)
    assert world.blob(run)["root"]["output"] == "pink"


async def test_leaving_a_state_ends_its_child(world: World, outside: Outside) -> None:
    """A child whose state is left is gone, with its gates, timers and what waits for it."""

    class Parent(StateChart):
        holding = State(initial=True, invoke=child(Leaf))
        idle = State()
        over = State(final=True)
        drop = holding.to(idle)
        back = idle.to(holding)
        done_invoke_holding = holding.to(over)

    async with world.host(Parent) as host:
        run = await host.start(Parent)
        await at_rest(host, run)
        await host.send(run, "drop")
        assert await host.gates(run) == []
        assert "children" not in world.blob(run)["root"]
        await host.send(run, "back")
        await at_rest(host, run)
        assert [gate.key for gate in await host.gates(run)] == ["holding.2/budding"]


async def test_a_childs_effect_in_flight_is_recorded_after_its_parent_left(
    world: World, outside: Outside
) -> None:
    """The call of a child that was ended finishes, and its outcome is in its row."""

    class Caller(StateChart):
        calling = State(initial=True, invoke=effect(outside.service("call")))
        called = State(final=True)
        done_invoke_calling = calling.to(called)

    class Parent(StateChart):
        holding = State(initial=True, invoke=child(Caller))
        idle = State()
        over = State(final=True)
        drop = holding.to(idle)
        done_invoke_holding = holding.to(over)
        finish = idle.to(over)

    outside.hold("call")
    async with world.host(Parent) as host:
        run = await host.start(Parent)
        await until(lambda: outside.count("call") == 1)
        await host.send(run, "drop")
        assert world.effects(run) == ["calling"]
        outside.hold("call").set()
        await until(lambda: world.effects(run) == ["done"])
        assert world.configuration(run) == ["idle"]


async def test_events_go_up_and_down(world: World) -> None:
    """`send_up` reaches the parent, `send_down` the child that is named, `forward` every child."""

    class Small(StateChart):
        quiet = State(initial=True)
        loud = State()
        gone = State(final=True)
        wake = quiet.to(loud)
        tick = loud.to.itself(on="report")
        end = loud.to(gone)

        def on_wake(self) -> None:
            send_up(self, "woken", who="small")

        def report(self) -> None:
            send_up(self, "ticked")

    class Large(StateChart):
        holding = State(initial=True, invoke=child(Small, id="small", forward=True))
        over = State(final=True)
        poke = holding.to.itself(internal=True, cond="never") | holding.to(over, cond="never")
        woken = holding.to(over, cond="never")
        done_invoke_small = holding.to(over)
        knock = holding.to(over, cond="never")

        def never(self, event: str = "", who: str = "") -> bool:
            self.model.heard = [*getattr(self.model, "heard", []), f"{event} {who}".strip()]
            if event == "knock":
                send_down(self, "small", "wake")
            return False

    async with world.host(Large) as host:
        run = await host.start(Large)
        await at_rest(host, run)
        await host.send(run, "knock")
        await at_rest(host, run)
        small = world.blob(run)["root"]["children"]["small"]
        assert small["configuration"] == ["loud"]
        assert (await host.read(run)).context["heard"] == ["knock", "woken small"]
        await host.send(run, "end")
        await ended(host, run)
    assert world.status(run) == "done"


async def test_sending_to_nobody_is_refused(world: World) -> None:
    """A root has no parent, and a child that is not there takes nothing."""

    class Alone(StateMachine):
        only = State(initial=True)
        over = State(final=True)
        up = only.to.itself(on="send_it_up")
        down = only.to.itself(on="send_it_down")
        finish = only.to(over)

        def send_it_up(self) -> None:
            send_up(self, "hello")

        def send_it_down(self) -> None:
            send_down(self, "nobody", "hello")

    async with world.host(Alone) as host:
        run = await host.start(Alone)
        for event in ("up", "down"):
            with pytest.raises(EventRefusedError):
                await host.send(run, event)


@pytest.mark.parametrize("name", ["", "a/b"])
def test_an_id_that_a_path_cannot_hold_is_refused(name: str) -> None:
    """The path of a chart is made of ids."""
    with pytest.raises(DefinitionError):
        child(Leaf, id=name)


async def test_a_child_gets_its_model_from_the_input(world: World) -> None:
    """`child(input=…)` is a mapping, or a function of the event's data and the parent."""

    class Item(StateChart):
        waiting = State(initial=True)
        gone = State(final=True)
        end = waiting.to(gone)

    class Box(StateChart):
        idle = State(initial=True)
        holding = State(
            invoke=child(Item, input=lambda model, size: {"size": size, "of": model.number})
        )
        over = State(final=True)
        fill = idle.to(holding)
        done_invoke_holding = holding.to(over)

    async with world.host(Box) as host:
        run = await host.start(Box, {"number": 7})
        await host.send(run, "fill", size=3)
        await at_rest(host, run)
        assert world.blob(run)["root"]["children"]["holding.1"]["context"] == {"size": 3, "of": 7}


async def test_a_child_that_cannot_be_made_is_an_error_for_its_parent(world: World) -> None:
    """As in the library: the parent gets `error.execution`, and nothing else stops."""

    class Broken(StateChart):
        only = State(initial=True, final=True)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            message = "cannot be made"
            raise RuntimeError(message)

    class Parent(StateChart):
        holding = State(initial=True, invoke=child(Broken))
        over = State(final=True)
        sad = State(final=True)
        done_invoke_holding = holding.to(over)
        error_execution = holding.to(sad, on="note")

        def note(self, error: Any) -> None:
            self.model.why = str(error)

    async with world.host(Machine(Parent, failed=("sad",))) as host:
        run = await host.start("Parent")
        await ended(host, run)
    assert world.status(run) == "failed"
    assert world.blob(run)["root"]["context"]["why"] == "cannot be made"


async def test_an_exception_in_a_strict_child_ends_the_run_with_it(world: World) -> None:
    """Nobody waits for a child's event: the run is `error`, its tree as it was saved last."""

    class Inner(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        smash = calm.to(over)

        def on_smash(self) -> None:
            self.model.smashed = True
            message = "smashed below"
            raise ValueError(message)

    class Outer(StateChart):
        holding = State(initial=True, invoke=child(Inner, id="inner"))
        over = State(final=True)
        hit = holding.to.itself(internal=True, cond="never") | holding.to(over, cond="never")
        done_invoke_inner = holding.to(over)

        def never(self) -> bool:
            send_down(self, "inner", "smash")
            return False

    async with world.host(Outer) as host:
        run = await host.start(Outer)
        await at_rest(host, run)
        await host.send(run, "hit")
        await ended(host, run)
    stored = world.stored(run).header
    assert stored.status == "error"
    assert stored.reason == "ValueError: smashed below"
    inner = world.blob(run)["root"]["children"]["inner"]
    assert inner["configuration"] == ["calm"]
    assert "context" not in inner


async def test_a_catching_child_handles_its_own_errors(world: World) -> None:
    """A StateChart child takes `error.execution` itself, as in the library."""

    class Inner(StateChart):
        calm = State(initial=True)
        sad = State(final=True)
        smash = calm.to.itself(on="fail")
        error_execution = calm.to(sad)

        def fail(self) -> None:
            message = "smashed below"
            raise ValueError(message)

    class Outer(StateChart):
        holding = State(initial=True, invoke=child(Inner, id="inner", forward=True))
        over = State(final=True)
        done_invoke_inner = holding.to(over)

    async with world.host(Outer) as host:
        run = await host.start(Outer)
        await at_rest(host, run)
        await host.send(run, "smash")
        await ended(host, run)
    assert world.status(run) == "done"


async def test_asynchronous_children_of_a_synchronous_parent(world: World) -> None:
    """A tree of both kinds runs in turns, and is restored with its kinds."""
    release = asyncio.Event()

    class Inner(StateChart):
        calm = State(initial=True)
        over = State(final=True)
        end = calm.to(over)

        async def on_end(self) -> None:
            await release.wait()

    class Outer(StateChart):
        holding = State(initial=True, invoke=child(Inner, id="inner", forward=True))
        over = State(final=True)
        done_invoke_inner = holding.to(over)

    async with world.host(Outer) as host:
        run = await host.start(Outer)
        await at_rest(host, run)
        assert world.blob(run)["root"]["children"]["inner"]["engine"] == "async"
        after = world.after_kill()
    async with after.host(Outer) as host:
        sent = asyncio.create_task(host.send(run, "end"))
        await settled()
        release.set()
        await sent
        await ended(host, run)
    assert after.status(run) == "done"


class Slow(StateChart):
    """Has coroutine callbacks, which its parent has not."""

    only = State(initial=True)
    over = State(final=True, donedata="say")
    go = only.to(over)

    async def on_enter_only(self) -> None:
        await asyncio.sleep(0)
        self.send("go")

    async def say(self) -> str:
        return "said"


class Begins(StateChart):
    """Has plain callbacks, and begins a chart with coroutines in the middle of its life."""

    idle = State(initial=True)
    holding = State(invoke=child(Slow))
    over = State(final=True)
    begin = idle.to(holding)
    done_invoke_holding = holding.to(over, on="keep")

    def keep(self, data: str) -> None:
        self.model.data = data


async def test_a_synchronous_chart_may_begin_one_with_coroutines(world: World) -> None:
    """The child's turn is awaited in a task, and both go on to their end."""
    async with world.host(Begins) as host:
        run = await host.start(Begins)
        await host.send(run, "begin")
        await ended(host, run)
        view = await host.read(run)
        assert (view.status, view.context["data"]) == ("done", "said")


def test_without_a_loop_a_child_with_coroutines_is_refused(world: World) -> None:
    """Its parent is told before anything of it runs."""
    with (
        world.opened(read_only=False) as store,
        open_run(store, Begins, "a") as chart,
        pytest.raises(NeedsLoopError, match="coroutine"),
    ):
        chart.begin()
