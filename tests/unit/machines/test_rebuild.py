"""`rebuild`: new objects that behave as the captured ones would have, or a reason why not."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import attrs
import pytest
import yaml
from statemachine import State, StateChart, StateMachine
from statemachine.contrib.timeout import timeout as library_timeout
from statemachine.contrib.weighted import weighted_transitions
from statemachine.event import BoundEvent
from statemachine.invoke import invoke_group
from statemachine.io import load
from statemachine.model import Model

from machines import Machine, Snapshot, capture, child, gate, rebuild, timeout
from machines.binding import start
from machines.binding.capturing import tree_fields
from machines.binding.loose import Loose
from machines.binding.planting import make_child, plant
from machines.engine.nodes import Node
from machines.engine.tree import Tree
from machines.errors import (
    DefinitionError,
    DriftError,
    IllegalConfigurationError,
    MachinesError,
    NeedsLoopError,
)
from snapshots.errors import DecodeError, SnapshotsError
from snapshots.layout import join
from snapshots.testing import ManualClock
from tests.unit.machines import charts
from tests.unit.machines.behaviours import RootJoin
from tests.unit.machines.charts import Awaited, Logged, log_of, note, settle, signal, until

MAKERS: dict[str, Callable[..., StateChart[Any]]] = {
    "the library's engine": lambda cls: cls(),
    "the durable engine": start,
}
under_both_engines = pytest.mark.parametrize("engine", MAKERS)


def states(chart: StateChart[Any]) -> list[str]:
    """Return the ids of the active states."""
    return [state.id for state in chart.configuration]


def again(chart: StateChart[Any], **known: Any) -> StateChart[Any]:
    """Return a chart rebuilt from the snapshot of another, which it equals byte for byte."""
    types = {key: value for key, value in known.items() if key in ("types", "context")}
    snapshot = capture(chart, **types)
    rebuilt = rebuild(type(chart), snapshot, **known)
    assert capture(rebuilt, **types) == snapshot
    return rebuilt


# -- it goes on ----------------------------------------------------------------------------------

CASES: dict[str, tuple[type[StateChart[Any]], Sequence[str], Sequence[str]]] = {
    "a new chart": (charts.Flat, [], ["work", "rest", "leave"]),
    "a chart that moved": (charts.Flat, ["work"], ["rest", "work"]),
    "a chart that ended": (charts.Flat, ["leave"], []),
    "compound states": (charts.Compound, ["step"], ["away", "back", "step"]),
    "the inner of compound states": (charts.Compound, [], ["step", "away", "back"]),
    "parallel states": (charts.Regions, ["flip"], ["end_left", "end_right", "again"]),
    "one region at its end": (charts.Regions, ["end_right"], ["flip", "end_left"]),
    "the order of regions": (charts.Regions, ["flip"], ["leave"]),
    "the other order of regions": (charts.Regions, [], ["leave", "again", "flip", "leave"]),
    "a shallow history": (
        charts.Histories, ["enter_part", "step", "away"], ["resume", "step", "away"],
    ),
    "a deep history": (charts.Histories, ["enter_part", "step", "away"], ["resume_deeply"]),
    "a history without a record": (charts.Histories, [], ["away", "resume"]),
    "eventless transitions": (charts.Eventless, ["add", "add"], ["add", "drain", "refill"]),
}  # fmt: skip

ASYNC_CASES: dict[str, tuple[type[StateChart[Any]], Sequence[str], Sequence[str]]] = {
    "a new chart": (charts.AsyncFlat, [], ["work", "rest", "leave"]),
    "a chart that moved": (charts.AsyncFlat, ["work"], ["rest", "work"]),
    "a chart that ended": (charts.AsyncFlat, ["leave"], []),
    "one region at its end": (charts.AsyncRegions, ["end_left"], ["end_right", "again"]),
}


@under_both_engines
@pytest.mark.parametrize("case", CASES)
def test_a_rebuilt_chart_goes_on_as_the_captured_one_would(case: str, engine: str) -> None:
    """The same events lead to the same callbacks, results and states, in the same order."""
    cls, before, after = CASES[case]
    chart = MAKERS[engine](cls)
    for event in before:
        chart.send(event)
    rebuilt = again(chart)
    assert states(rebuilt) == states(chart)
    assert log_of(rebuilt) == log_of(chart)
    assert rebuilt.is_terminated == chart.is_terminated
    for event in after:
        assert rebuilt.send(event) == chart.send(event)
        assert states(rebuilt) == states(chart)
    assert log_of(rebuilt) == log_of(chart)


@under_both_engines
@pytest.mark.parametrize("case", ASYNC_CASES)
async def test_a_rebuilt_chart_with_coroutines_goes_on(case: str, engine: str) -> None:
    """The same holds for charts whose callbacks are awaited."""
    cls, before, after = ASYNC_CASES[case]
    chart = MAKERS[engine](cls)
    await chart.activate_initial_state()
    for event in before:
        await chart.send(event)
    rebuilt = again(chart)
    assert (states(rebuilt), log_of(rebuilt)) == (states(chart), log_of(chart))
    for event in after:
        assert await rebuilt.send(event) == await chart.send(event)
    assert (states(rebuilt), log_of(rebuilt)) == (states(chart), log_of(chart))


def test_a_rebuilt_chart_with_coroutines_goes_on_where_no_loop_runs() -> None:
    """Rebuilt in code without a loop, such a chart is run by whoever sends to it."""
    chart = charts.AsyncFlat()
    chart.send("work")
    rebuilt = again(chart)
    assert rebuilt.send("rest") == "did rest"
    assert states(rebuilt) == ["idle"]


@under_both_engines
async def test_a_chart_that_was_not_activated_is_activated_after_its_restart(engine: str) -> None:
    """A chart that had not been begun yet is begun once, by whoever uses it first."""
    rebuilt = rebuild(charts.AsyncFlat, capture(MAKERS[engine](charts.AsyncFlat)))
    assert states(rebuilt) == []
    await rebuilt.activate_initial_state()
    assert log_of(rebuilt) == ["+idle"]


async def test_a_start_value_is_kept_until_the_chart_is_activated() -> None:
    """Where a chart was told to begin elsewhere, it does so after a restart too."""
    rebuilt = rebuild(charts.AsyncFlat, capture(charts.AsyncFlat(start_value="busy")))
    await rebuilt.activate_initial_state()
    assert states(rebuilt) == ["busy"]


@under_both_engines
def test_a_rebuilt_chart_has_nothing_in_common_with_the_captured_one(engine: str) -> None:
    """Neither model nor lists are shared: what one does is not seen in the other."""
    chart = MAKERS[engine](charts.Flat)
    chart.model.lines = [[1]]
    rebuilt = again(chart)
    rebuilt.send("work")
    rebuilt.model.lines[0].append(2)
    assert states(chart) == ["idle"]
    assert chart.model.lines == [[1]]
    assert log_of(chart) == ["+idle"]


def test_a_chart_is_rebuilt_from_bytes_as_from_a_snapshot() -> None:
    """The bytes alone are enough, wherever they were kept."""
    snapshot = capture(charts.Flat())
    assert capture(rebuild(charts.Flat, snapshot.blob)) == snapshot
    assert capture(rebuild(charts.Flat, bytes(bytearray(snapshot.blob)))) == snapshot


def test_one_snapshot_gives_any_number_of_charts() -> None:
    """Two charts of one snapshot are two charts."""
    snapshot = capture(charts.Flat())
    first, second = rebuild(charts.Flat, snapshot), rebuild(charts.Flat, snapshot)
    first.send("work")
    assert (states(first), states(second)) == (["busy"], ["idle"])


def test_rebuilding_calls_no_callback() -> None:
    """Nothing is entered again: the log is the one that was captured."""
    chart = charts.Regions()
    chart.send("flip")
    before = list(log_of(chart))
    assert log_of(rebuild(charts.Regions, capture(chart))) == before


def test_a_rebuilt_chart_can_be_captured_by_the_librarys_copy() -> None:
    """States that a history recorded belong to the new chart, not to the old one."""
    chart = charts.Histories()
    for event in ("enter_part", "step", "away"):
        chart.send(event)
    rebuilt = again(chart)
    recorded = rebuilt.history_values["deep"]
    assert [state.id for state in recorded] == ["part", "p2"]
    assert all(state._machine() is rebuilt for state in recorded)


# -- chart and model -----------------------------------------------------------------------------


@dataclass(slots=True)
class Slotted:
    """A dataclass with slots and nested data."""

    amount: int = 0
    state: Any = None
    lines: list[dict[str, int]] = field(default_factory=list)


@attrs.define
class Defined:
    """An attrs class, slotted, with a private field."""

    amount: int = 0
    state: Any = None
    _hidden: int = 4


@attrs.frozen
class Price:
    """A value inside a model."""

    cents: int


class Plain:
    """A plain class whose constructor must not run again."""

    made = 0

    def __init__(self, amount: int = 0) -> None:
        type(self).made += 1
        self.amount = amount
        self.own = {"lines": [Price(3)]}


class Mixed:
    """A plain class with slots, a private one too, beside its dictionary."""

    __slots__ = ("__dict__", "__hidden", "amount")

    def __init__(self, amount: int = 0) -> None:
        self.amount = amount
        self.extra = (1, 2)
        self.__hidden = amount

    def hidden(self) -> int:
        return self.__hidden


def holding(cls: type) -> type[StateChart[Any]]:
    """Return a chart whose model is of a class, and which counts in it."""

    class Holding(StateChart[cls]):  # type: ignore[valid-type]  # a parameter of the test
        a = State(initial=True)
        b = State()
        go = a.to(b) | b.to(a)

        def on_go(self, model: Any) -> None:
            model.amount += 1

    return Holding


@pytest.mark.parametrize("cls", [charts.Ledger, Slotted, Defined, Plain, Mixed])
@under_both_engines
def test_a_model_comes_back_as_it_was(cls: type, engine: str) -> None:
    """Fields of every kind, slots and private ones included; no constructor is run again."""
    chart = charts.Flat(cls()) if cls is charts.Ledger else holding(cls)(cls(5))
    if engine == "the durable engine" and cls is not charts.Ledger:
        chart = start(holding(cls), {"amount": 5})
    Plain.made = 0
    rebuilt = again(chart, types=[cls, Price])
    assert type(rebuilt.model) is cls
    assert Plain.made == 0
    if cls is not charts.Ledger:
        rebuilt.send("go")
        assert rebuilt.model.amount == 6
    if cls is Mixed:
        assert (rebuilt.model.hidden(), rebuilt.model.extra) == (5, (1, 2))
    if cls is Plain:
        assert rebuilt.model.own == {"lines": [Price(3)]}


def test_a_pydantic_model_comes_back_as_it_was() -> None:
    """Private attributes and the set of fields that were given come back with the fields."""
    pydantic = import_module("pydantic")

    class Cart(pydantic.BaseModel):  # type: ignore[name-defined,misc]  # not installed everywhere
        amount: int = 0
        note: str = "none"
        state: Any = None
        _seen: int = pydantic.PrivateAttr(default=0)

    chart = holding(Cart)(Cart(amount=5))
    chart.model._seen = 3
    rebuilt = again(chart)
    assert (rebuilt.model.amount, rebuilt.model._seen) == (5, 3)
    assert rebuilt.model.model_fields_set == chart.model.model_fields_set == {"amount", "state"}
    assert rebuilt.model == chart.model


def test_a_pydantic_model_with_extra_fields_comes_back_as_it_was() -> None:
    """A model that takes any field keeps the state there: that field is not held twice."""
    pydantic = import_module("pydantic")

    class Bag(pydantic.BaseModel):  # type: ignore[name-defined,misc]  # not installed everywhere
        model_config = pydantic.ConfigDict(extra="allow")
        amount: int = 0

    class Both(StateChart[Bag]):
        class both(State.Parallel):  # noqa: N801 - a state is named as its id
            class left(State.Compound):  # noqa: N801 - as above
                l1 = State(initial=True)
                l2 = State(final=True)
                flip = l1.to(l2)

            class right(State.Compound):  # noqa: N801 - as above
                r1 = State(initial=True)
                r2 = State(final=True)
                turn = r1.to(r2)

    chart = Both(Bag(amount=1, colour="red"))
    rebuilt = again(chart)
    assert (rebuilt.model.amount, rebuilt.model.colour) == (1, "red")
    rebuilt.send("flip")
    assert "l2" in states(rebuilt)


@under_both_engines
def test_a_chart_keeps_its_state_in_the_field_it_was_told(engine: str) -> None:
    """`state_field` comes back; the field holds the state, and nothing else does."""
    chart = charts.Flat(charts.Ledger(), state_field="where")
    rebuilt = again(chart, context=charts.Ledger)
    rebuilt.send("work")
    assert rebuilt.model.where == "busy"
    assert not hasattr(rebuilt.model, "state")


class Placed(charts.Flat):
    """Its constructor says itself where its state is kept, and passes on whatever else it gets."""

    def __init__(self, model: Any = None, **kwargs: Any) -> None:
        super().__init__(model, state_field="where", **kwargs)


@under_both_engines
def test_a_chart_that_chooses_the_field_of_its_state_comes_back(engine: str) -> None:
    """What its constructor gives the library's is not given to it a second time."""
    chart = MAKERS[engine](Placed)
    chart.send("work")
    rebuilt = again(chart)
    rebuilt.send("rest")
    assert (rebuilt.model.where, rebuilt.model.state) == ("idle", None)


class Guarded(Logged, StateMachine):
    """Its guard looks up what its constructor set, and what a callback changed."""

    low = State(initial=True)
    high = State()

    up = low.to(high, cond="may_go_up")
    try_again = low.to.itself(on="count")
    down = high.to(low)

    def __init__(self, model: Any = None, *, needed: int = 2, **kwargs: Any) -> None:
        self.needed = needed
        self.tries = 0
        super().__init__(model, **kwargs)

    def count(self) -> None:
        self.tries += 1

    @property
    def may_go_up(self) -> bool:
        return self.tries >= self.needed


@under_both_engines
def test_attributes_that_guards_look_up_come_back(engine: str) -> None:
    """What a callback put on the chart is there again, not what the constructor sets."""
    chart = MAKERS[engine](Guarded)
    chart.send("try_again")
    chart.send("try_again")
    rebuilt = again(chart)
    assert (rebuilt.tries, rebuilt.needed) == (2, 2)
    rebuilt.send("up")
    assert states(rebuilt) == ["high"]


def test_attributes_that_a_guard_names_are_there_before_callbacks_are_looked_up() -> None:
    """A guard may be an attribute that only a callback put there."""

    class Late(StateMachine):
        a = State(initial=True)
        b = State()
        go = a.to(b, cond="is_open")
        back = b.to(a)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            vars(self).setdefault("is_open", False)
            super().__init__(*args, **kwargs)

    chart = Late()
    chart.is_open = True
    rebuilt = again(chart)
    rebuilt.send("go")
    assert states(rebuilt) == ["b"]


def test_constructor_arguments_come_back() -> None:
    """A chart that was begun with arguments is made with them again, with its attributes then."""
    chart = start(Guarded, {"needed": 1, "amount": 9})
    chart.send("try_again")
    rebuilt = again(chart)
    assert (rebuilt.needed, rebuilt.tries, rebuilt.model.amount) == (1, 1, 9)
    rebuilt.send("up")
    assert states(rebuilt) == ["high"]


class OwnModel(StateChart):
    """Its constructor takes no model and makes one with slots, kept under another name."""

    a = State(initial=True)
    b = State(final=True)
    go = a.to(b)

    def __init__(self) -> None:
        super().__init__(Slotted(amount=None), state_field="amount")


@under_both_engines
def test_a_chart_that_makes_its_own_model_gets_its_fields_back(engine: str) -> None:
    """The chart's constructor makes the model, the snapshot says what is in it."""
    chart = MAKERS[engine](OwnModel)
    chart.model.lines = [{"x": 1}]
    rebuilt = again(chart, types=[Slotted])
    assert rebuilt.model.lines == [{"x": 1}]
    assert rebuilt.model.lines is not chart.model.lines
    rebuilt.send("go")
    assert rebuilt.model.amount == "b"


def test_an_input_reaches_a_model_that_the_chart_makes_itself() -> None:
    """Where the constructor takes no model, an input is put into the one that it makes."""
    chart = start(OwnModel, {"lines": [{"x": 1}]})
    assert chart.model.lines == [{"x": 1}]


class Watcher:
    """A listener, made anew for each chart, that is told how its chart was made."""

    told: list[str] = []

    def setup(self, machine: StateChart[Any], region: str = "none") -> None:
        type(self).told.append(f"set up for {region}")

    def on_enter_state(self, state: State) -> None:
        type(self).told.append(f"saw {state.id}")


class Watched(StateMachine):
    """Has a listener of its class."""

    listeners = [Watcher]
    a = State(initial=True)
    b = State(final=True)
    go = a.to(b)

    def __init__(self, model: Any = None, *, region: str = "eu", **kwargs: Any) -> None:
        super().__init__(model, region=region, **kwargs)


def test_listeners_of_a_class_are_made_anew() -> None:
    """A class's listeners are there again, were told how the chart is made, and not of its past."""
    chart = start(Watched, {"region": "us"})
    snapshot = capture(chart)
    Watcher.told.clear()
    rebuilt = rebuild(Watched, snapshot)
    assert Watcher.told == ["set up for us"]
    rebuilt.send("go")
    assert Watcher.told == ["set up for us", "saw b"]


class Stubborn(StateChart):
    """Its constructor takes whatever it is given, and makes a model of its own all the same."""

    a = State(initial=True)
    go = a.to.itself(on="count")

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{**kwargs, "model": Model()})

    def count(self, model: Any) -> None:
        model.counted = getattr(model, "counted", 0) + 1


def test_a_chart_that_takes_another_model_than_it_is_given_gets_its_fields_back() -> None:
    """Whichever model its constructor settles on has what was saved."""
    chart = start(Stubborn)
    chart.send("go")
    rebuilt = again(again(chart))
    rebuilt.send("go")
    assert rebuilt.model.counted == 2


class Counter:
    """A listener that begins its count on the model when it is set up."""

    def setup(self, machine: StateChart[Any]) -> None:
        machine.model.heard = 0

    def on_enter_state(self, model: Any) -> None:
        model.heard += 1


class Counted(StateChart):
    """Its constructor begins a count on the model, too, behind the library's."""

    listeners = [Counter]
    a = State(initial=True)
    go = a.to.itself(on="count")

    def __init__(self, model: Any = None, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        self.model.counted = 0

    def count(self, model: Any) -> None:
        model.counted += 1


def test_what_making_a_chart_sets_on_its_model_gives_way_to_what_was_saved() -> None:
    """Constructor and `setup` run again, and the model is as it was before them."""
    chart = start(Counted)
    chart.send("go")
    rebuilt = again(again(chart))
    assert (rebuilt.model.heard, rebuilt.model.counted) == (2, 1)
    rebuilt.send("go")
    assert (rebuilt.model.heard, rebuilt.model.counted) == (3, 2)


def test_listeners_of_one_chart_are_not_in_its_snapshot() -> None:
    """Who listened to a chart from outside is asked to listen again."""
    seen: list[str] = []

    class Ear:
        def on_enter_state(self, state: State) -> None:
            seen.append(state.id)

    chart = charts.Flat(listeners=[Ear()])
    rebuilt = again(chart)
    seen.clear()
    rebuilt.send("work")
    assert seen == []
    rebuilt.add_listener(Ear())
    rebuilt.send("rest")
    assert seen == ["idle"]


@under_both_engines
def test_a_chart_that_ended_stays_at_its_end(engine: str) -> None:
    """Rebuilt in its final state a chart is finished: no callback runs, nothing is taken."""
    chart = MAKERS[engine](charts.Flat)
    chart.send("leave")
    rebuilt = again(chart)
    assert rebuilt.is_terminated
    with pytest.raises(StateMachine.TransitionNotAllowed):
        rebuilt.send("work")
    assert log_of(rebuilt) == log_of(chart)


# -- events that wait ----------------------------------------------------------------------------


@under_both_engines
def test_events_that_waited_run_once_in_their_order(engine: str) -> None:
    """What was accepted and had not run does so as the chart is rebuilt, with what it carried."""

    class Takes(Logged, StateChart):
        here = State(initial=True)
        take = here.to.itself(on="keep")

        def keep(self, *args: Any, what: Any = None) -> None:
            vars(self.model).setdefault("taken", []).append([*args, what])

    chart = MAKERS[engine](Takes)
    BoundEvent("take", name="Take", _sm=chart).put(1, (2,), what={"k": 3})
    BoundEvent("take", name="Take", _sm=chart).put(4)
    snapshot = capture(chart)
    rebuilt = rebuild(Takes, snapshot)
    assert rebuilt.model.taken == [[1, (2,), {"k": 3}], [4, None]]
    rebuilt.send("nothing")
    assert len(rebuilt.model.taken) == 2


async def test_events_that_waited_run_on_the_loop_where_there_are_coroutines() -> None:
    """A chart with coroutines is rebuilt as it was, and goes on when the loop comes round."""
    chart = start(charts.AsyncFlat)
    await chart.activate_initial_state()
    BoundEvent("work", name="Work", _sm=chart).put()
    rebuilt = again(chart)
    assert states(rebuilt) == ["idle"]
    await settle()
    assert states(rebuilt) == ["busy"]


def test_a_delayed_event_keeps_its_due_time() -> None:
    """A timer fires when its time has come, whatever became of the chart that set it."""
    clock = ManualClock()
    chart = start(charts.Flat, clock=clock)
    chart.send("work", delay=1_000)
    clock.advance(400)
    rebuilt = again(chart, clock=clock)
    clock.advance(599)
    rebuilt._engine.tree.keeper.wake()
    assert states(rebuilt) == ["idle"]
    clock.advance(1)
    rebuilt._engine.tree.keeper.wake()
    assert states(rebuilt) == ["busy"]


def test_a_delayed_event_that_is_overdue_fires_once_at_once() -> None:
    """What became due while nobody ran the chart fires as it is rebuilt, and then is gone."""
    clock = ManualClock()
    chart = start(charts.Flat, clock=clock)
    chart.send("work", delay=1_000)
    snapshot = capture(chart)
    clock.advance(3_600_000)
    rebuilt = rebuild(charts.Flat, snapshot, clock=clock)
    assert states(rebuilt) == ["busy"]
    assert "timers" not in capture(rebuilt).read()


def test_a_delayed_event_can_be_cancelled_after_a_restart() -> None:
    """The id that an event was sent with is good for taking it back later."""
    clock = ManualClock()
    chart = start(charts.Flat, clock=clock)
    chart.send("work", delay=1_000, send_id="s")
    rebuilt = again(chart, clock=clock)
    rebuilt.cancel_event("s")
    clock.advance(2_000)
    rebuilt._engine.tree.keeper.wake()
    assert states(rebuilt) == ["idle"]


async def test_a_waiting_event_can_be_cancelled_after_a_restart() -> None:
    """The same holds for an event that is in the queue."""
    chart = start(charts.AsyncFlat)
    await chart.activate_initial_state()
    BoundEvent("work", name="Work", _sm=chart).put(send_id="s")
    rebuilt = again(chart)
    rebuilt.cancel_event("s")
    await settle()
    assert states(rebuilt) == ["idle"]


def test_events_due_together_run_in_the_order_they_were_sent_in_over_a_restart() -> None:
    """Numbers of events go on: one sent before a restart comes before one sent after it."""

    class Ordered(Logged, StateChart):
        here = State(initial=True)
        first = here.to.itself()
        second = here.to.itself()

    clock = ManualClock()
    chart = start(Ordered, clock=clock)
    chart.send("nothing")
    chart.send("first", delay=1_000)
    rebuilt = again(chart, clock=clock)
    rebuilt.send("second", delay=1_000)
    clock.advance(1_000)
    rebuilt._engine.tree.keeper.wake()
    assert [text for text in log_of(rebuilt) if ">" in text] == ["first>here", "second>here"]


def test_a_delayed_event_of_the_librarys_engine_fires_after_a_restart() -> None:
    """What the library's own loop had to wait for is waited for by the rebuilt chart."""
    chart = charts.Flat()
    BoundEvent("work", name="Work", delay=3_600_000, _sm=chart).put(send_id="s")
    snapshot = capture(chart)
    (timer,) = snapshot.read()["timers"]
    clock = ManualClock(now_ms=timer["due"] - 1)
    rebuilt = rebuild(charts.Flat, snapshot, clock=clock)
    assert states(rebuilt) == ["idle"]
    clock.advance(1)
    rebuilt._engine.tree.keeper.wake()
    assert states(rebuilt) == ["busy"]


# -- what was invoked ----------------------------------------------------------------------------


class Bench:
    """What the handlers of a test do and saw: they work until they are told to go on."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.go_on = threading.Event()

    def work(self, ctx: Any, what: str) -> str:
        told = (what, ctx.invokeid, getattr(ctx, "restored", None), getattr(ctx, "attempt", None))
        self.seen.append(told)
        signal()
        self.go_on.wait(10)
        return what

    def wait_for(self, count: int) -> list[tuple[Any, ...]]:
        """Return what the first handlers saw, once so many have begun."""
        assert until(lambda: len(self.seen) >= count)
        return list(self.seen)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A bench that is cleared when the test ends."""
    made = Bench()
    yield made
    made.go_on.set()


def invoking(*handlers: Any) -> type[StateChart[Any]]:
    """Return a chart that invokes these while it works, and keeps what comes back."""

    class Invoking(Logged, StateChart):
        idle = State(initial=True)
        busy = State(invoke=list(handlers))
        over = State(final=True)

        enable_self_transition_entries = False

        begin = idle.to(busy)
        done_invoke_busy = busy.to.itself(internal=True, on="keep")
        late = busy.to(over)
        approve = busy.to(over)
        error_execution = busy.to(over)
        stop = busy.to(idle)

        def keep(self, data: Any = None) -> None:
            vars(self.model).setdefault("results", []).append(data)
            signal()

    return Invoking


def results(chart: StateChart[Any]) -> list[Any]:
    """Return what came back to a chart."""
    return list(getattr(chart.model, "results", []))


def handlers_of(bench: Bench) -> dict[str, Any]:
    """Return one handler of each kind that works at a bench."""

    def plain(ctx: Any) -> str:
        return bench.work(ctx, "plain")

    class ByClass:
        def run(self, ctx: Any) -> str:
            return bench.work(ctx, "class")

    class ByInstance:
        def run(self, ctx: Any) -> str:
            return bench.work(ctx, "instance")

    return {"plain": plain, "class": ByClass, "instance": ByInstance()}


@under_both_engines
@pytest.mark.parametrize("kind", ["plain", "class", "instance"])
def test_work_that_was_under_way_is_begun_again_and_told_so(
    kind: str, engine: str, bench: Bench
) -> None:
    """A handler is started again after a restart, and learns that, and for the how-manieth time."""
    cls = invoking(handlers_of(bench)[kind])
    chart = MAKERS[engine](cls)
    chart.send("begin")
    bench.wait_for(1)
    snapshot = capture(chart)
    (held,) = snapshot.read()["root"]["invokes"]
    for attempt in (2, 3):
        bench.seen.clear()
        snapshot = capture(rebuild(cls, snapshot))
        assert bench.wait_for(1) == [(kind, held["id"], True, attempt)]
    (counted,) = snapshot.read()["root"]["invokes"]
    assert counted == held | {"attempt": 3}


@under_both_engines
def test_the_result_of_work_that_was_begun_again_arrives_once(engine: str, bench: Bench) -> None:
    """Each rebuilt chart gets the result of its own work, and of that only."""
    cls = invoking(handlers_of(bench)["plain"])
    chart = MAKERS[engine](cls)
    chart.send("begin")
    rebuilt = rebuild(cls, capture(chart))
    bench.go_on.set()
    assert until(lambda: results(rebuilt) == ["plain"] and results(chart) == ["plain"])
    rebuilt.send("nothing")
    third = again(rebuilt)
    assert results(third) == ["plain"]
    assert len(bench.seen) == 2


@under_both_engines
def test_work_that_had_ended_is_not_begun_again(engine: str, bench: Bench) -> None:
    """What reported its end before the restart is over, though its state is still active."""
    cls = invoking(handlers_of(bench)["plain"])
    chart = MAKERS[engine](cls)
    chart.send("begin")
    bench.go_on.set()
    assert until(lambda: results(chart) == ["plain"])
    if engine == "the library's engine":
        (invocation,) = chart._engine._invoke_manager._active.values()
        invocation.thread.join(10)
    chart.send("nothing")
    rebuilt = again(again(chart))
    assert len(bench.seen) == 1
    rebuilt.send("stop")
    assert results(rebuilt) == ["plain"]


@under_both_engines
def test_work_that_is_begun_again_gets_the_data_of_its_event(engine: str, bench: Bench) -> None:
    """What the event carried that entered the state is given to the work a second time."""
    given: list[tuple[int, dict[str, Any]]] = []

    def needs(ctx: Any, amount: int) -> None:
        given.append((amount, ctx.kwargs))
        bench.work(ctx, "needs")

    cls = invoking(needs)
    chart = MAKERS[engine](cls)
    chart.send("begin", amount=3)
    bench.wait_for(1)
    rebuild(cls, capture(chart))
    bench.wait_for(2)
    assert given == [(3, {"amount": 3})] * 2


@under_both_engines
def test_a_group_is_begun_again_with_calls_of_its_own(engine: str, bench: Bench) -> None:
    """A group runs anew as a whole, without touching the group that the other chart runs."""
    calls: list[str] = []
    go_on = threading.Event()

    def one() -> int:
        calls.append("one")
        signal()
        go_on.wait(10)
        return 1

    def two() -> int:
        calls.append("two")
        signal()
        go_on.wait(10)
        return 2

    cls = invoking(invoke_group(one, two))
    chart = MAKERS[engine](cls)
    chart.send("begin")
    assert until(lambda: sorted(calls) == ["one", "two"])
    rebuilt = rebuild(cls, capture(chart))
    assert until(lambda: sorted(calls) == ["one", "one", "two", "two"])
    go_on.set()
    assert until(lambda: results(rebuilt) == [[1, 2]] and results(chart) == [[1, 2]])


def test_handlers_given_as_a_class_are_not_shared_between_charts(bench: Bench) -> None:
    """Each invocation has a handler of its own, so leaving a state in one chart is not heard."""
    cancelled: list[int] = []

    class Own:
        def run(self, ctx: Any) -> None:
            bench.work(ctx, "own")

        def on_cancel(self) -> None:
            cancelled.append(id(self))

    cls = invoking(Own)
    first, second = start(cls), start(cls)
    first.send("begin")
    second.send("begin")
    bench.wait_for(2)
    first.send("stop")
    second.send("stop")
    assert len(set(cancelled)) == 2


def test_a_timeout_keeps_its_due_time_over_a_restart() -> None:
    """A timeout is due when it was due, and fires once: its event, then the end of its invoke."""
    clock = ManualClock()
    cls = invoking(library_timeout(10, on="late"))
    chart = start(cls, clock=clock)
    chart.send("begin")
    clock.advance(9_999)
    rebuilt = again(chart, clock=clock)
    assert states(rebuilt) == ["busy"]
    clock.advance(1)
    rebuilt._engine.tree.keeper.wake()
    assert states(rebuilt) == ["over"]


def test_a_timeout_without_an_event_ends_its_invoke() -> None:
    """A timeout that names no event is heard of by the end of its invocation."""
    clock = ManualClock()
    cls = invoking(timeout(10))
    chart = start(cls, clock=clock)
    chart.send("begin")
    rebuilt = again(chart, clock=clock)
    clock.advance(10_000)
    rebuilt._engine.tree.keeper.wake()
    assert results(rebuilt) == [None]


def test_a_timeout_of_a_state_that_was_left_does_not_fire() -> None:
    """A timeout that was set before a restart means nothing to a state entered afterwards."""
    clock = ManualClock()
    cls = invoking(timeout(10, on="late"))
    chart = start(cls, clock=clock)
    chart.send("begin")
    rebuilt = again(chart, clock=clock)
    clock.advance(9_000)
    rebuilt.send("stop")
    rebuilt.send("begin")
    clock.advance(9_000)
    rebuilt._engine.tree.keeper.wake()
    assert states(rebuilt) == ["busy"]
    clock.advance(1_000)
    rebuilt._engine.tree.keeper.wake()
    assert states(rebuilt) == ["over"]


def test_a_timeout_of_the_librarys_engine_waits_for_its_whole_span_again() -> None:
    """Since the library does not keep when it began, it begins with the capture."""
    cls = invoking(library_timeout(3_600, on="late"))
    chart = cls()
    chart.send("begin")
    snapshot = capture(chart)
    chart.send("stop")
    (timer,) = snapshot.read()["timers"]
    clock = ManualClock(now_ms=timer["due"])
    rebuilt = rebuild(cls, snapshot, clock=clock)
    assert states(rebuilt) == ["over"]


def test_a_gate_is_open_after_a_restart() -> None:
    """A gate lives in the snapshot alone: nothing is begun, and its event leads on."""
    cls = invoking(gate("approve"))
    chart = start(cls)
    chart.send("begin")
    rebuilt = again(chart)
    rebuilt.send("approve")
    assert states(rebuilt) == ["over"]


def test_ids_of_invocations_go_on_where_they_were() -> None:
    """The counter is part of the snapshot, so no id is given twice."""
    cls = invoking(gate("approve"))
    chart = start(cls)
    chart.send("begin")
    chart.send("stop")
    rebuilt = again(chart)
    rebuilt.send("begin")
    assert [invoke.id for invoke in rebuilt._engine.invokes.active.values()] == ["busy.2"]


class Leaf(Logged, StateChart):
    """The last of three charts."""

    first = State(initial=True)
    second = State()
    done = State(final=True)
    step = first.to(second)
    finish = second.to(done)

    def on_enter_done(self) -> int:
        return 42


class Branch(Logged, StateChart):
    """The second of three charts."""

    holding = State(initial=True, invoke=Leaf)
    held = State(final=True)
    done_invoke_holding = holding.to(held, on="keep")

    def keep(self, data: Any) -> None:
        self.model.data = data


class Grove(Logged, StateChart):
    """The first of three charts."""

    growing = State(initial=True, invoke=child(Branch, input={"kind": "oak"}, forward=True))
    grown = State(final=True)
    done_invoke_growing = growing.to(grown)


def below(chart: StateChart[Any], path: str) -> StateChart[Any]:
    """Return a chart of a tree by its path."""
    found: StateChart[Any] = chart._engine.node.tree.find(path).chart
    return found


def test_three_levels_of_charts_come_back() -> None:
    """A tree comes back as it was, each chart at its place, and ends as it would have."""
    chart = start(Grove)
    below(chart, "growing.1/holding.1").send("step")
    rebuilt = again(again(chart))
    assert below(rebuilt, "growing.1").model.kind == "oak"
    leaf = below(rebuilt, "growing.1/holding.1")
    assert states(leaf) == ["second"]
    branch = below(rebuilt, "growing.1")
    leaf.send("finish")
    assert branch.model.data == 42
    assert states(rebuilt) == ["grown"]


def test_a_child_of_the_librarys_engine_goes_on_as_a_child() -> None:
    """A chart that the library runs inside another is a chart of the rebuilt tree."""

    class Parent(Logged, StateChart):
        here = State(initial=True, invoke=Leaf)
        there = State(final=True)
        go = here.to(there)
        done_invoke_leaf = here.to(there)

    chart = Parent()
    (invocation,) = chart._engine._invoke_manager._active.values()
    invocation.thread.join(10)
    invocation._handler._child.send("step")
    rebuilt = again(chart)
    leaf = below(rebuilt, invocation.invokeid)
    assert states(leaf) == ["second"]
    assert log_of(leaf) == ["+first", "-first", "step>second", "+second"]


async def test_coroutine_work_is_begun_again_on_the_loop() -> None:
    """What a chart with coroutines had invoked is awaited anew."""
    told: list[tuple[bool, int]] = []

    class Awaiting(Awaited, StateChart):
        here = State(initial=True)
        there = State(final=True)
        done_invoke_here = here.to(there)

        async def on_invoke_here(self, ctx: Any) -> int:
            told.append((ctx.restored, ctx.attempt))
            await asyncio.sleep(0)
            return 5

    chart = start(Awaiting)
    await chart.activate_initial_state()
    snapshot = capture(chart)
    rebuilt = rebuild(Awaiting, snapshot)
    await settle()
    assert chart.is_terminated
    assert rebuilt.is_terminated
    assert told == [(False, 1), (True, 2)]


def test_coroutine_work_needs_a_loop() -> None:
    """A coroutine that was under way cannot be begun again where no loop runs."""

    class Awaiting(Awaited, StateChart):
        here = State(initial=True)
        there = State(final=True)
        done_invoke_here = here.to(there)

        async def on_invoke_here(self, ctx: Any) -> None:
            await asyncio.sleep(3_600)

    async def begun() -> Snapshot:
        chart = start(Awaiting)
        await chart.activate_initial_state()
        snapshot = capture(chart)
        await chart.send("done.invoke.here")
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        return snapshot

    snapshot = asyncio.run(begun())
    with pytest.raises(NeedsLoopError, match=r"'Awaiting' invokes the coroutine 'here.1'"):
        rebuild(Awaiting, snapshot)


# -- at the boundary between a macrostep and what follows it ---------------------------------------


class Witness(Loose):
    """Keeps what the charts of a tree are at each boundary, before anything begins."""

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self.machine = machine
        self.held: list[bytes] = []

    def boundary(self, node: Node) -> None:
        """Keep the tree as a row would hold it."""
        del node
        fields = {"digest": json.dumps(self.machine.digest).encode()}
        self.held.append(join(fields | tree_fields(self.tree, self.machine)))


def witnessed(cls: type[StateChart[Any]]) -> tuple[StateChart[Any], list[bytes]]:
    """Return a chart, and what it was at each of its boundaries so far."""
    keeper = Witness(Machine(cls))
    keeper.tree = tree = Tree(ManualClock(), keeper, make_child)
    node = plant(tree, keeper.machine, {})
    keeper.wake()
    return node.chart, keeper.held


def test_work_that_had_not_begun_is_begun_after_a_restart(bench: Bench) -> None:
    """A crash between the save and the start of what a state invokes does not lose it."""
    cls = invoking(handlers_of(bench)["plain"])
    chart, held = witnessed(cls)
    chart.send("begin", amount=3)
    bench.wait_for(1)
    (mark,) = json.loads(held[-1])["root"]["pending"]
    assert (mark["id"], mark["kwargs"]) == ("busy.1", {"amount": 3})
    rebuilt = rebuild(cls, held[-1])
    assert sorted(bench.wait_for(2)) == [
        ("plain", "busy.1", False, 1), ("plain", "busy.1", True, 2),
    ]  # fmt: skip
    assert capture(rebuilt).read()["root"]["invokes"][0]["attempt"] == 2


@pytest.mark.parametrize("boundary", range(4))
def test_a_chart_goes_on_from_each_of_its_boundaries(boundary: int) -> None:
    """Wherever a chain of macrosteps is cut, the rest of it follows, and only the rest."""

    class Chain(Logged, StateChart):
        a = State(initial=True)
        b = State()
        c = State()
        d = State()
        go = a.to(b, on="send_on")
        on_to_c = b.to(c, on="send_on")
        on_to_d = c.to(d)
        back = d.to(a)

        def send_on(self, event: str) -> None:
            self.send("on_to_c" if event == "go" else "on_to_d")

    chart, held = witnessed(Chain)
    chart.send("go")
    assert len(held) == 4
    rebuilt = rebuild(Chain, held[boundary])
    if boundary == 0:
        rebuilt.send("go")
    assert (states(rebuilt), log_of(rebuilt)) == (states(chart), log_of(chart))


def test_a_chart_whose_regions_have_ended_ends_after_a_restart() -> None:
    """That a parallel state at the root is final is known at the boundary, and is held there."""
    chart, held = witnessed(RootJoin)
    chart.send("end_left")
    chart.send("end_right")
    assert chart.is_terminated
    ending = [blob for blob in held if json.loads(blob)["root"].get("final") == "work"]
    assert ending
    assert all(rebuild(RootJoin, blob).is_terminated for blob in ending)


class Above(Logged, StateChart):
    """Invokes a chart that ends when it is told to."""

    here = State(initial=True, invoke=child(charts.Flat))
    there = State(final=True)
    done_invoke_here = here.to(there)


def test_a_child_that_ended_tells_its_parent_after_a_restart() -> None:
    """A crash between the end of a child and its parent's reaction loses nothing."""
    chart, held = witnessed(Above)
    chart._engine.node.tree.find("here.1").chart.send("leave")
    assert states(chart) == ["there"]
    for blob in held[-3:]:
        rebuilt = rebuild(Above, blob)
        below = rebuilt._engine.node.tree.find("here.1")
        if below is not None and not below.finished:
            below.chart.send("leave")
        assert states(rebuilt) == ["there"]
        assert log_of(rebuilt).count("+there") == 1


# -- loaded documents and shared classes ---------------------------------------------------------

SCXML = """
<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="a" datamodel="python">
  <datamodel><data id="n" expr="1"/></datamodel>
  <state id="a">
    <transition event="add" target="a"><assign location="n" expr="n + 1"/></transition>
    <transition event="go" cond="n == 3" target="b"/>
  </state>
  <state id="b"><transition event="back" target="a"/></state>
</scxml>
"""
NATIVE = {
    "name": "document",
    "datamodel": {"n": "1"},
    "states": {
        "a": {
            "initial": True,
            "transitions": [
                {
                    "event": "add",
                    "target": "a",
                    "on": [{"assign": {"location": "n", "expr": "n + 1"}}],
                },
                {"event": "go", "target": "b", "cond": "n == 3"},
            ],
        },
        "b": {"transitions": [{"event": "back", "target": "a"}]},
    },
}
DOCUMENTS = {"scxml": SCXML, "json": json.dumps(NATIVE), "yaml": yaml.safe_dump(NATIVE)}


@pytest.mark.parametrize("written", DOCUMENTS)
@under_both_engines
def test_a_loaded_document_goes_on(engine: str, written: str) -> None:
    """Documents of each form keep their data and go on where they were."""
    cls = load(DOCUMENTS[written], format=written, name="document")
    chart = MAKERS[engine](cls)
    chart.send("add")
    rebuilt = again(chart)
    rebuilt.send("go")
    assert states(rebuilt) == ["a"]
    rebuilt.send("add")
    rebuilt.send("go")
    assert states(rebuilt) == ["b"]
    assert rebuilt.model.n == 3


def test_two_machines_of_one_document_do_not_share_its_state() -> None:
    """Each machine has its own data, session and flags, though their class has one of each."""
    cls = load(SCXML, format="scxml", name="document")
    first, second = start(cls), start(cls)
    first.send("add")
    third = again(first)
    second.send("add")
    second.send("add")
    third.send("add")
    third.send("go")
    assert (first.model.n, second.model.n, third.model.n) == (2, 3, 3)
    assert (states(first), states(second), states(third)) == (["a"], ["a"], ["b"])


def test_a_documents_session_comes_back() -> None:
    """`_sessionid` is the same after a restart, and another one in another machine."""
    text = SCXML.replace('<data id="n" expr="1"/>', '<data id="n" expr="_sessionid"/>')
    cls = load(text, format="scxml", name="document")
    first, second = start(cls), start(cls)
    sessions = [chart._engine.node.shared.session_id for chart in (first, second, again(first))]
    assert sessions == [first.model.n, second.model.n, first.model.n]
    assert first.model.n != second.model.n


INVOKING = """
<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="a" datamodel="python">
  <datamodel><data id="n" expr="7"/><data id="got" expr="0"/></datamodel>
  <state id="a">
    <invoke id="below" type="scxml">
      <param name="start" expr="n"/>
      <content>
        <scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="c"
               datamodel="python">
          <datamodel><data id="start" expr="0"/></datamodel>
          <state id="c">
            <transition event="report">
              <send target="#_parent" event="told"><param name="value" expr="start"/></send>
            </transition>
            <transition event="finish" target="d"/>
          </state>
          <final id="d"/>
        </scxml>
      </content>
    </invoke>
    <transition event="ask"><send target="#_below" event="report"/></transition>
    <transition event="told"><assign location="got" expr="_event.data.value"/></transition>
    <transition event="end"><send target="#_below" event="finish"/></transition>
    <transition event="done.invoke" target="b"/>
  </state>
  <final id="b"/>
</scxml>
"""


def test_a_document_invoked_by_a_document_comes_back_with_its_link() -> None:
    """An invoked document keeps its text, its parameters and the way to its parent."""
    cls = load(INVOKING, format="scxml", name="outer")
    chart = start(cls)
    rebuilt = again(again(chart))
    rebuilt.send("ask")
    assert rebuilt.model.got == 7
    rebuilt.send("end")
    assert states(rebuilt) == ["b"]


class Dice(StateChart):
    """Its next state is drawn."""

    a = State(initial=True)
    b = State()
    c = State()
    move = weighted_transitions(a, (b, 50), (c, 50), seed=7)
    back = b.to(a) | c.to(a)


def draws(chart: StateChart[Any], count: int = 20) -> str:
    """Return the states that a chart draws, one after the other."""
    drawn = ""
    for _ in range(count):
        chart.send("move")
        drawn += states(chart)[0]
        chart.send("back")
    return drawn


def test_a_weighted_chart_draws_on_where_it_was() -> None:
    """The generator is part of the snapshot: the next draws are those that would have come."""
    chart = start(Dice)
    draws(chart, 5)
    rebuilt = again(chart)
    following = draws(chart)
    assert draws(rebuilt) == following
    assert "b" in following
    assert "c" in following


def test_two_machines_of_one_weighted_class_do_not_share_its_generator() -> None:
    """What one chart draws takes nothing from what another one would draw."""
    alone = draws(start(Dice))
    first, second = start(Dice), start(Dice)
    together = [draws(chart, 1) for _ in range(20) for chart in (first, second)]
    assert "".join(together[::2]) == "".join(together[1::2]) == alone


# -- refusals ------------------------------------------------------------------------------------


def changed(cls: type[StateChart[Any]], change: Callable[[dict[str, Any]], object]) -> bytes:
    """Return a snapshot of a new chart with something changed in it."""
    value = capture(start(cls)).read()
    change(value)
    return json.dumps(value).encode()


def set_in(*path: str | int, to: Any) -> Callable[[dict[str, Any]], None]:
    """Return a change: the value at a path becomes another."""

    def change(value: dict[str, Any]) -> None:
        inside: Any = value
        for part in path[:-1]:
            inside = inside[part]
        inside[path[-1]] = to

    return change


@pytest.mark.parametrize(
    ("configuration", "reason"),
    [
        ([], "no state is active"),
        (["outer"], "state 'outer' is active and none of its children is"),
        (["outer", "inner"], "state 'inner' is active and none of its children is"),
        (["outer", "inner", "third"], "it names the state 'third', which Compound does not have"),
    ],
)
def test_a_configuration_that_no_chart_can_be_in_is_refused(
    configuration: list[str], reason: str
) -> None:
    """Bytes that were cut or mixed up are not made into a chart that is half alive."""
    blob = changed(charts.Compound, set_in("root", "configuration", to=configuration))
    with pytest.raises(IllegalConfigurationError) as caught:
        rebuild(charts.Compound, blob)
    assert caught.value.reason == reason
    assert caught.value.machine == "Compound"


def test_an_illegal_configuration_of_a_child_is_refused_with_its_path() -> None:
    """The refusal says which chart of the tree it is."""
    blob = changed(
        Grove, set_in("root", "children", "growing.1", "children", "holding.1", "configuration",
                     to=[]),
    )  # fmt: skip
    with pytest.raises(IllegalConfigurationError) as caught:
        rebuild(Grove, blob)
    assert caught.value.path == "growing.1/holding.1"


def test_a_turn_of_a_chart_that_is_not_there_is_refused() -> None:
    """A snapshot cannot give a turn to nobody."""
    blob = changed(charts.Flat, lambda value: value.update(turn=["elsewhere.1"]))
    with pytest.raises(IllegalConfigurationError, match="no chart is there to run"):
        rebuild(charts.Flat, blob)


class Version1(StateChart):
    a = State(initial=True)
    b = State(final=True)
    go = a.to(b)


class Version2(StateChart):
    a = State(initial=True)
    c = State(final=True)
    go = a.to(c)


def test_a_chart_of_another_shape_is_refused_with_the_difference_in_words() -> None:
    """What was captured from one shape is not rebuilt into another, and the change is named."""
    with pytest.raises(DriftError) as caught:
        rebuild(Version2, capture(Version1()))
    assert caught.value.changes == (
        "'go' in 'a' now leads to 'c', not 'b'",
        "state 'b' is gone",
        "state 'c' is new",
    )
    assert "'go' in 'a' now leads to 'c', not 'b'" in str(caught.value)


def test_the_name_of_a_class_may_change() -> None:
    """Of two classes of one shape either can be rebuilt from the other's snapshot."""

    class Renamed(Version1):
        pass

    assert states(rebuild(Renamed, capture(Version1()))) == ["a"]


def test_a_model_of_an_unknown_class_is_refused() -> None:
    """The class of a stored model has to be given; it is never imported by its name."""
    snapshot = capture(charts.Flat(charts.Ledger()), types=[charts.Ledger])
    with pytest.raises(DecodeError, match=r"charts:Ledger.*context=\.\.\."):
        rebuild(charts.Flat, snapshot)
    assert type(rebuild(charts.Flat, snapshot, types=[charts.Ledger]).model) is charts.Ledger


def test_a_value_of_an_unknown_class_is_refused() -> None:
    """The same holds for what a model holds."""
    chart = charts.Flat()
    chart.model.price = Price(3)
    snapshot = capture(chart, types=[Price])
    with pytest.raises(DecodeError, match="Price"):
        rebuild(charts.Flat, snapshot)
    assert rebuild(charts.Flat, snapshot, types=[Price]).model.price == Price(3)


class AwaitingEar:
    """A listener with a coroutine: a chart that has it gets the other engine."""

    async def on_enter_state(self) -> None:
        """Nothing: it is there to be awaited."""


async def test_another_kind_of_engine_is_refused() -> None:
    """A listener that decided how a chart runs, and is not there any more, is missed by name."""
    chart = charts.Flat(listeners=[AwaitingEar()])
    await chart.activate_initial_state()
    with pytest.raises(DefinitionError, match=r"written by the async engine.*now has the sync one"):
        rebuild(charts.Flat, capture(chart))


MALFORMED: dict[str, Callable[[dict[str, Any]], object]] = {
    "no root": lambda value: value.pop("root"),
    "no digest": lambda value: value.pop("digest"),
    **{
        f"{name} that is {shown}": set_in("root", name, to=wrong)
        for name in ("configuration", "queue", "invokes", "pending", "context", "init", "children")
        for shown, wrong in (("a number", 7), ("null", None), ("a text", "x"), ("a list", [1]))
    },
    "a root that is a number": set_in("root", to=7),
    "a clock that is null": set_in("clock", to=None),
    "a clock that is a text": set_in("clock", to="x"),
    "a turn that is a number": set_in("turn", to=7),
    "timers that say nothing": set_in("timers", to=[{}]),
    "a queued event that says nothing": set_in("root", "queue", to=[{}]),
    "an invocation of an unknown state": set_in(
        "root", "invokes", to=[{"id": "x.1", "state": "x", "index": 0, "kind": "call"}]
    ),
    "an invocation that the state does not have": set_in(
        "root", "invokes", to=[{"id": "idle.1", "state": "idle", "index": 5, "kind": "call"}]
    ),
    "a counter that is a text": set_in("root", "spawned", to="many"),
    "a child without an invocation": set_in("root", "children", to={"idle.9": {}}),
    "a history of an unknown state": set_in("root", "history", to={"nowhere": ["idle"]}),
}


@pytest.mark.parametrize("what", MALFORMED)
def test_bytes_that_are_no_snapshot_are_refused_by_type(what: str) -> None:
    """Whatever is wrong with the bytes, the refusal is one of ours, never a stranger's error."""
    blob = changed(charts.Flat, MALFORMED[what])
    with pytest.raises((DecodeError, IllegalConfigurationError)) as caught:
        rebuild(charts.Flat, blob)
    assert isinstance(caught.value, SnapshotsError | MachinesError)


@pytest.mark.parametrize("blob", [b"", b"x", b"{}", b"[]", b"null", b"7", b'{"v":1', b"\xff"])
def test_what_is_not_json_or_not_a_snapshot_is_refused_by_type(blob: bytes) -> None:
    """Bytes from anywhere are no snapshot, and that is said."""
    with pytest.raises(DecodeError):
        rebuild(charts.Flat, blob)


def test_a_snapshot_that_is_refused_starts_nothing() -> None:
    """No work is begun for a chart that could not be rebuilt."""
    begun: list[str] = []
    cls = invoking(lambda ctx: begun.append(ctx.invokeid))
    chart = start(cls)
    chart.send("begin")
    assert until(lambda: bool(results(chart)))
    chart.send("nothing")
    begun.clear()
    value = capture(chart).read()
    value["root"]["invokes"][0].pop("sent", None)
    value["root"]["invokes"][0].pop("terminated", None)
    value["turn"] = ["elsewhere.1"]
    with pytest.raises(IllegalConfigurationError):
        rebuild(cls, json.dumps(value).encode())
    assert begun == []


def test_the_note_of_a_chart_is_its_own() -> None:
    """What a rebuilt chart writes is not read by the one it was rebuilt from."""
    chart = charts.Flat()
    rebuilt = again(chart)
    note(rebuilt, "mine")
    assert log_of(chart) == ["+idle"]


class Ready(StateChart):
    """Has a coroutine callback that waits for nothing; its parent has none."""

    only = State(initial=True)
    over = State(final=True)
    go = only.to(over)

    async def on_enter_only(self) -> None:
        self.send("go")


class Patient(StateChart):
    """Has a callback that waits for what only a loop could bring about."""

    only = State(initial=True)
    over = State(final=True)
    go = only.to(over)

    async def on_enter_only(self) -> None:
        await asyncio.sleep(0)


def beginning(worker: type[StateChart]) -> StateChart[Any]:
    """Return a rebuilt chart without coroutines that begins this one when it is told to."""

    class Begins(StateChart):
        idle = State(initial=True)
        holding = State(invoke=worker)
        over = State(final=True)
        begin = idle.to(holding)
        done_invoke_holding = holding.to(over)

    return again(Begins())


def test_without_a_loop_a_child_with_coroutines_runs_if_they_wait_for_nothing() -> None:
    """Nobody awaits it where the chart that begins it is synchronous, and it ends all the same."""
    chart = beginning(Ready)
    chart.send("begin")
    assert states(chart) == ["over"]


def test_without_a_loop_a_child_that_waits_is_refused_by_type() -> None:
    """It would never go on."""
    with pytest.raises(NeedsLoopError, match="wait"):
        beginning(Patient).send("begin")
