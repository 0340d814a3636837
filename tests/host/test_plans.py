"""A host's runs by plans and without them: the same answers, errors and rows, byte for byte."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import child, effect, gate, timeout
from machines.engine import fast
from machines.host.host import Host
from machines.limits import PUMP_MACROSTEPS_MAX
from snapshots.testing import ManualClock
from tests.host.charts import Door
from tests.host.world import Disk, Outside, World, ended, resident, ring, settled

Step = tuple[str, dict[str, Any]]


class Counter(StateMachine):
    """Counts, fails where it is told to, and goes on by itself."""

    low = State(initial=True)
    high = State()

    up = low.to(high)
    down = high.to(low)
    chain = low.to.itself(on="send_on") | high.to.itself(on="send_on")

    def on_up(self, model: Any, by: int = 1) -> int:
        model.count = getattr(model, "count", 0) + by
        return int(model.count)

    def on_enter_high(self, model: Any, fail: Any = None) -> None:
        model.seen = "high"
        if fail:
            message = "too high"
            raise ValueError(message)

    def send_on(self, event: str) -> str:
        self.send("up", by=10)
        self.send("down")
        return event


class Forgiving(Counter, StateChart[Any]):
    """The same, with errors as events that no transition takes."""

    catch_errors_as_events = True
    allow_event_without_transition = True
    atomic_configuration_update = False


class Waits(StateChart):
    """Waits for a gate, a timer and a child in turn."""

    asked = State(initial=True, invoke=gate("yes", "no", key="ask"))
    timed = State(invoke=timeout(5, on="no"))
    nested = State(invoke=child(Door, id="door"))
    yes = asked.to(timed) | timed.to(nested) | nested.to(asked)
    no = asked.to(nested) | timed.to(asked) | nested.to(asked)


SCRIPT: list[Step] = [
    ("up", {}), ("down", {"x": "y"}), ("up", {"by": 5}), ("unknown", {}), ("down", {}),
    ("up", {"fail": True}), ("up", {"by": [1]}), ("down", {}), ("chain", {}), ("up", {"self": 3}),
    ("up", {"key": 3}), ("up", {"on_error": 3}), ("up", {"name": "\ud800"}), ("down", {}),
]  # fmt: skip


async def follow(
    folder: Path, machine: type[StateChart[Any]], script: Sequence[Step], *, plans: bool
) -> tuple[list[object], list[bytes], int]:
    """Send a script to a new run; return what came of each event, each row, and how many plans."""
    world = World(folder / f"{plans}.db", ManualClock(), Outside())
    answers: list[object] = []
    blobs: list[bytes] = []
    planned: dict[Any, int] = {}
    with fast.enabled(plans):
        async with world.host(machine) as host:
            run = await host.start(machine, run_id="run")
            for number, (event, data) in enumerate(script):
                world.clock.advance(10)
                answers.append(await answer_of(host, run, event, number, data))
                blobs.append(world.stored(run).blob)
                root: Any = resident(host, run).tree.root
                planned[root.engine] = root.engine.planned  # one that is built anew counts anew
    return answers, blobs, sum(planned.values())


async def answer_of(host: Host, run: str, event: str, number: int, data: dict[str, Any]) -> object:
    """Return what a sender gets, an error in words; every third event has a delivery."""
    delivery = None if number % 3 else f"delivery {number}"
    try:
        return await host.send(run, event, delivery=delivery, **data)
    except Exception as error:  # noqa: BLE001 - what a chart raises is what is compared
        return type(error), str(error)


WAITING: list[Step] = [("yes", {}), ("unknown", {}), ("yes", {"n": 1}), ("no", {}), ("no", {})]


@pytest.mark.parametrize(
    ("machine", "script", "planned"),
    [(Counter, SCRIPT, 7), (Forgiving, SCRIPT, 12), (Waits, WAITING, 5), (Door, [], 0)],
)
async def test_answers_and_rows_are_the_same(
    tmp_path: Path, machine: type[StateChart[Any]], script: list[Step], planned: int
) -> None:
    """What senders get, and each row with its ledgers and its trail, do not tell how it was run."""
    by_plans = await follow(tmp_path, machine, script, plans=True)
    without = await follow(tmp_path, machine, script, plans=False)
    assert by_plans[0] == without[0]
    assert by_plans[1] == without[1]
    assert (by_plans[2], without[2]) == (planned, 0)


async def test_a_save_that_fails_puts_a_planned_transition_back(world: World) -> None:
    """The sender gets the disk's error, and the run is at its last row, model included."""
    async with world.host(Counter) as host:
        run = await host.start(Counter)
        await host.send(run, "up")
        before = world.stored(run)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(Exception, match="readonly"):
            await host.send(run, "down")
        assert world.stored(run) == before
        assert await host.send(run, "down") is None
        assert await host.send(run, "up") == 2
        assert world.configuration(run) == ["high"]


async def test_each_planned_event_of_a_queue_is_saved_before_the_next(world: World) -> None:
    """Of events that are queued together each has a save of its own."""
    async with world.host(Counter) as host:
        run = await host.start(Counter)
        before = world.saves(run)
        assert await host.send(run, "chain") == "chain"
        await settled()
        assert world.saves(run) == before + 3


class Exhausted(StateMachine):
    """Looks for one more where there is none."""

    begun = State(initial=True)
    going = State()
    over = State(final=True)
    go = begun.to(going, on="advance")
    wait = begun.to.itself(internal=True, on="set_timer")
    finish = going.to(over)

    def advance(self) -> None:
        self.model.reached = True
        next(iter(()))

    def set_timer(self) -> None:
        self.send("go", delay=1_000)


@pytest.mark.parametrize("plans", [True, False])
async def test_an_iterator_at_its_end_is_an_error_as_any_other(
    world: World, *, plans: bool
) -> None:
    """No future takes a StopIteration: the sender gets a RuntimeError, and so does the row."""
    with fast.enabled(plans):
        async with world.host(Exhausted) as host:
            run = await host.start(Exhausted)
            with pytest.raises(RuntimeError, match="raised StopIteration") as caught:
                await host.send(run, "go")
            assert isinstance(caught.value.__cause__, StopIteration)
            assert world.configuration(run) == ["begun"]
            assert "context" not in world.blob(run)["root"]
            await host.send(run, "wait")
            world.clock.advance(1_000)
            ring(host)
            await ended(host, run)
        assert world.status(run) == "error"
        assert world.blob(run)["error"]["type"] == "RuntimeError"


class Endless(StateChart):
    """Sends to itself for ever."""

    on = State(initial=True)
    off = State()
    tick = on.to(off) | off.to(on)

    def after_tick(self) -> None:
        self.send("tick")


async def test_planned_events_without_end_let_others_run(world: World) -> None:
    """After so many macrosteps the loop has its turn, and the run goes on from the same point."""
    async with world.host(Endless, Door) as host:
        run, door = await host.start(Endless), await host.start(Door)
        sent = asyncio.ensure_future(host.send(run, "tick"))
        await asyncio.wait([sent])
        assert await host.send(door, "push", by="me") == "pushed by me"
        root: Any = resident(host, run).tree.root
        assert root.engine.planned >= PUMP_MACROSTEPS_MAX
        await host.cancel(run)


class Effecting(StateChart):
    """Leaves for a state with an effect, and comes back with its outcome."""

    def charge() -> str:  # type: ignore[misc]  # it is no method: the state invokes it
        return "paid"

    idle = State(initial=True)
    paying = State(invoke=effect(charge))
    go = idle.to(paying)
    done_invoke_paying = paying.to(idle, on="keep")

    def keep(self, model: Any, data: str) -> None:
        model.kept = data


@pytest.mark.parametrize("plans", [True, False])
async def test_an_effect_that_a_planned_transition_begins_is_called(
    world: World, plans: bool
) -> None:
    """Its intent is in the save of the transition, its outcome comes back as an event."""
    with fast.enabled(plans):
        async with world.host(Effecting) as host:
            run = await host.start(Effecting)
            await host.send(run, "go")
            view = await host.settled(run)
            assert view.configuration == ("idle",)
            assert view.context == {"kept": "paid"}
            assert world.effects(run) == ["done"]


async def test_a_timer_fires_into_a_planned_transition(world: World) -> None:
    """What is due is run like what is sent."""
    async with world.host(Waits) as host:
        run = await host.start(Waits)
        await host.send(run, "yes")
        world.clock.advance(5_000)
        ring(host)
        await settled()
        assert world.configuration(run) == ["asked"]
