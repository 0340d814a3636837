"""What a start stores, refuses, and leaves untouched."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import Machine
from machines.errors import DefinitionError, UnknownMachineError
from snapshots.errors import EncodeError, InvalidKeyError, RunExistsError, RunNotFoundError
from tests.host.charts import Door
from tests.host.world import World, resident, settled, until


@dataclass
class Order:
    """What a run is about."""

    number: str
    lines: Any = None


async def test_an_id_of_a_finished_run_is_refused_too(world: World) -> None:
    """A run that has ended keeps its id until it is swept."""
    async with world.host(Door) as host:
        await host.start(Door, {"a": 1}, run_id="door-1")
        await host.send("door-1", "remove")
        with pytest.raises(RunExistsError) as caught:
            await host.start(Door, {"a": 1}, run_id="door-1")
    assert caught.value.same_input is True


async def test_an_id_of_a_run_out_of_memory_is_refused_too(world: World) -> None:
    """The input is compared with the row's where the run is not in memory."""
    async with world.host(Door) as host:
        await host.start(Door, {"a": 1}, run_id="door-1")
        assert await host.unload("door-1")
        with pytest.raises(RunExistsError) as caught:
            await host.start(Door, {"a": 2}, run_id="door-1")
    assert caught.value.same_input is False


@pytest.mark.parametrize("run_id", ["", "x" * 201, "a\nb", "\ud800"])
async def test_an_id_that_no_run_may_have_is_refused(world: World, run_id: str) -> None:
    """Empty, too long, unprintable ids are refused, and nothing is stored."""
    async with world.host(Door) as host:
        with pytest.raises(InvalidKeyError):
            await host.start(Door, run_id=run_id)
        assert world.ids() == []


async def test_a_machine_that_the_host_was_not_given_is_refused(world: World) -> None:
    """By its name and by its class; the error names what the host knows."""

    class Stranger(StateChart):
        only = State(initial=True, final=True)

    async with world.host(Door) as host:
        with pytest.raises(UnknownMachineError) as by_class:
            await host.start(Stranger)
        with pytest.raises(UnknownMachineError, match="Door"):
            await host.start("nobody")
        assert await host.start("Door")
    assert by_class.value.fields["machine"] == "Stranger"


class Fails(StateMachine):
    """Cannot be entered."""

    only = State(initial=True, final=True)

    def on_enter_only(self) -> None:
        message = "not today"
        raise ValueError(message)


class FailsLater(StateMachine):
    """Cannot be entered, which it finds out after a while."""

    only = State(initial=True, final=True)

    async def on_enter_only(self) -> None:
        await asyncio.sleep(0)
        message = "not today"
        raise ValueError(message)


@pytest.mark.parametrize("chart", [Fails, FailsLater])
async def test_a_first_macrostep_that_raises_stores_nothing(world: World, chart: Any) -> None:
    """The caller gets the exception, no row is there, and the id can be used again."""
    async with world.host(chart, Door) as host:
        with pytest.raises(ValueError, match="not today"):
            await host.start(chart, run_id="a")
        assert world.ids() == []
        with pytest.raises(RunNotFoundError):
            await host.send("a", "push")
        assert await host.start(Door, run_id="a") == "a"
        await settled()
    assert world.ids() == ["a"]


async def test_a_constructor_that_raises_stores_nothing(world: World) -> None:
    """An exception while the chart or its model is made reaches the caller."""
    machine = Machine(Door, context=Order)
    async with world.host(machine) as host:
        with pytest.raises(TypeError):
            await host.start(machine, {"nonsense": 1}, run_id="a")
        assert world.ids() == []
        assert await host.start(machine, {"number": "7"}, run_id="a")


async def test_an_input_that_cannot_be_stored_is_refused_by_path(world: World) -> None:
    """The error names the place in the input, and nothing is stored."""
    async with world.host(Door) as host:
        with pytest.raises(EncodeError) as caught:
            await host.start(Door, {"lines": [1, {"price": object()}]}, run_id="a")
        assert world.ids() == []
    assert caught.value.path == "input.lines[1].price"


async def test_a_context_that_cannot_be_stored_is_refused_by_path(world: World) -> None:
    """What a callback put on the model is refused at the first save, by its place."""

    class Careless(StateChart):
        only = State(initial=True)
        over = State(final=True)
        finish = only.to(over)

        def on_enter_only(self) -> None:
            self.model.handles = {"lock": [lambda: None]}

    async with world.host(Careless) as host:
        with pytest.raises(EncodeError) as caught:
            await host.start(Careless, run_id="a")
        assert world.ids() == []
    assert caught.value.path == "root.context.handles.lock[0]"


async def test_an_unstorable_field_leaves_the_last_good_row(world: World) -> None:
    """A macrostep that makes a value that cannot be stored is undone, model included."""

    class Careless(StateChart):
        only = State(initial=True)
        over = State(final=True)
        spoil = only.to.itself(internal=True, on="put")
        finish = only.to(over)

        def put(self) -> None:
            self.model.lock = open  # a function, which is nothing to be stored

    async with world.host(Careless) as host:
        run = await host.start(Careless, {"a": 1})
        before = world.stored(run).blob
        with pytest.raises(EncodeError) as caught:
            await host.send(run, "spoil")
        assert world.stored(run).blob == before
        assert (await host.read(run)).context == {"a": 1}
        await host.send(run, "finish")
    assert caught.value.path == "root.context.lock"
    assert world.status(run) == "done"


async def test_a_run_that_is_being_started_is_not_there_yet(world: World) -> None:
    """Until its first save a run takes nothing, cannot be cancelled, and its id is in use."""
    release = asyncio.Event()

    class Slow(StateChart):
        only = State(initial=True)
        over = State(final=True)
        finish = only.to(over)

        async def on_enter_only(self) -> None:
            await release.wait()

    async with world.host(Slow) as host:
        starting = asyncio.create_task(host.start(Slow, run_id="slow"))
        await settled()
        with pytest.raises(RunNotFoundError):
            await host.send("slow", "finish")
        with pytest.raises(RunNotFoundError):
            await host.cancel("slow")
        with pytest.raises(RunNotFoundError):
            await host.read("slow")
        with pytest.raises(RunExistsError):
            await host.start(Slow, run_id="slow")
        release.set()
        await starting
        await host.send("slow", "finish")
    assert world.status("slow") == "done"


async def test_a_start_whose_caller_is_cancelled_stores_nothing(world: World) -> None:
    """Nobody would know the run: its first macrostep is given up, and does not go on unseen."""
    release = asyncio.Event()
    entered: list[str] = []

    class Slow(StateChart):
        only = State(initial=True)
        over = State(final=True)
        finish = only.to(over)

        async def on_enter_only(self) -> None:
            entered.append("in")
            await release.wait()

    async with world.host(Slow) as host:
        starting = asyncio.create_task(host.start(Slow, run_id="slow"))
        await until(lambda: entered == ["in"])
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        release.set()
        await settled()
        assert world.ids() == []
        assert "slow" not in host._resident
        assert await host.start(Slow, run_id="slow") == "slow"
    assert entered == ["in", "in"]
    assert world.ids() == ["slow"]


async def test_a_chart_that_ends_at_once_is_stored_as_ended(world: World) -> None:
    """A run whose first macrostep is its last one has a row that says so."""

    class Flash(StateChart):
        only = State(initial=True, final=True)

    async with world.host(Flash) as host:
        run = await host.start(Flash)
        assert run not in host._resident
    assert world.status(run) == "done"
    assert world.saves(run) == 1


async def test_a_failure_state_makes_the_run_failed(world: World) -> None:
    """A final state that `failed=` names ends the run as failed."""
    machine = Machine(Door, failed=("gone",))
    async with world.host(machine) as host:
        run = await host.start(machine)
        await host.send(run, "remove")
    assert world.status(run) == "failed"


class Collects(StateChart):
    """Adds to what it was given."""

    empty = State(initial=True)
    filled = State()
    add = empty.to(filled, on="collect") | filled.to(empty)

    def __init__(self, model: Any = None, *, limits: list[int] | None = None) -> None:
        self.limits = [0] if limits is None else limits
        super().__init__(model)

    def on_enter_empty(self, model: Any) -> None:
        model.lines.append("entered")
        self.limits.append(2)

    def collect(self, model: Any) -> None:
        model.lines.append("added")


async def test_an_input_is_the_callers_and_its_copy_the_charts(world: World) -> None:
    """Neither sees what the other does to it later, and the row keeps what was given."""
    given = {"lines": ["given"], "limits": [1]}
    async with world.host(Collects) as host:
        run = await host.start(Collects, given)
        assert given == {"lines": ["given"], "limits": [1]}
        assert world.blob(run)["input"] == given
        given["lines"].append("by the caller")
        await host.send(run, "add")
        root = world.blob(run)["root"]
        assert root["context"]["lines"] == ["given", "entered", "added"]
        assert (root["init"], root["attributes"]) == ({"limits": [1]}, {"limits": [1, 2]})


async def test_a_context_class_gets_the_input(world: World) -> None:
    """The input makes the model, and the model is what callbacks see."""
    machine = Machine(Door, name="orders", context=Order)
    async with world.host(machine) as host:
        run = await host.start("orders", {"number": "7"})
        model = resident(host, run).tree.root.chart.model
        assert model == Order("7")
        assert type(model) is Order
    assert world.stored(run).header.machine == "orders"


@pytest.mark.parametrize("given", [7, "amount", [("amount", 12)], {7: 12}, object()])
async def test_an_input_that_is_no_mapping_is_refused(world: World, given: Any) -> None:
    """A caller who hands the model itself, say, is told what to give; nothing is stored."""
    async with world.host(Door) as host:
        with pytest.raises(DefinitionError, match="mapping"):
            await host.start(Door, given)
        assert world.ids() == []


async def test_a_refused_start_leaves_no_warning_behind(world: World) -> None:
    """Its caller has the error: nobody else is told of it when objects are thrown away."""

    @dataclass
    class Needs:
        amount: int

    warned: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: warned.append(context))
    async with world.host(Machine(Door, context=Needs)) as host:
        with pytest.raises(TypeError):
            await host.start(Door, {"x": 1})
    gc.collect()
    await asyncio.sleep(0)
    assert warned == []
