"""`capture`: what a snapshot holds of a chart, what it refuses, and that it stays as it is."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import attrs
import pytest
from statemachine import State, StateChart
from statemachine.contrib.timeout import timeout as library_timeout
from statemachine.event import BoundEvent
from statemachine.invoke import InvokeContext, invoke_group
from statemachine.io import load

from machines import Machine, Snapshot, capture, child, effect, gate, rebuild, timeout
from machines.binding import start
from machines.errors import DefinitionError, IllegalConfigurationError, MachinesError
from machines.shape import digest_of, shape_of
from snapshots.errors import EncodeError, SnapshotsError
from snapshots.testing import ManualClock
from tests.unit.machines import charts
from tests.unit.machines.charts import Awaited, Logged, log_of, settle

MAKERS: dict[str, Callable[[type[StateChart[Any]]], StateChart[Any]]] = {
    "the library's engine": lambda cls: cls(),
    "the durable engine": start,
}
under_both_engines = pytest.mark.parametrize("engine", MAKERS)


def make(engine: str, cls: type[StateChart[Any]]) -> StateChart[Any]:
    """Return a new chart under one of the two engines."""
    return MAKERS[engine](cls)


def root_of(chart: StateChart[Any], **known: Any) -> dict[str, Any]:
    """Return what a snapshot of a chart says of the chart itself."""
    root: dict[str, Any] = capture(chart, **known).read()["root"]
    return root


# -- what a snapshot holds -----------------------------------------------------------------------


@under_both_engines
def test_a_snapshot_says_what_wrote_it(engine: str) -> None:
    """It begins with its version, the machine's name, and the digest and shape of the chart."""
    read = capture(make(engine, charts.Flat)).read()
    assert list(read)[:4] == ["v", "machine", "digest", "shape"]
    assert (read["v"], read["machine"]) == (1, "Flat")
    assert read["digest"] == digest_of(charts.Flat)
    assert read["shape"] == shape_of(charts.Flat)


@under_both_engines
def test_a_snapshot_is_json_that_anything_reads(engine: str) -> None:
    """The bytes are UTF-8 JSON: no parser of ours is needed."""
    snapshot = capture(make(engine, charts.Flat))
    assert json.loads(snapshot.blob) == snapshot.read()


@under_both_engines
def test_the_configuration_is_held_in_its_order(engine: str) -> None:
    """All active states are named, in the order in which they were entered."""
    chart = make(engine, charts.Regions)
    assert root_of(chart)["configuration"] == ["both", "left", "l1", "right", "r1"]
    chart.send("flip")
    assert root_of(chart)["configuration"] == ["both", "left", "right", "r1", "l2"]


@under_both_engines
def test_what_history_states_recorded_is_held(engine: str) -> None:
    """Shallow and deep histories are held by their ids, with the states they recorded."""
    chart = make(engine, charts.Histories)
    for event in ("enter_part", "step", "away"):
        chart.send(event)
    assert root_of(chart)["history"] == {"shallow": ["part"], "deep": ["part", "p2"]}


@under_both_engines
def test_the_model_is_held_without_the_field_of_the_state(engine: str) -> None:
    """The fields of the model are the context; the configuration is not held twice."""
    chart = make(engine, charts.Flat)
    chart.model.amount = 3
    assert root_of(chart)["context"] == {"log": ["+idle"], "amount": 3}


@under_both_engines
def test_attributes_that_the_chart_put_on_itself_are_held(engine: str) -> None:
    """What guards may look up on the chart is held, what the library keeps there is not."""
    chart = make(engine, charts.Flat)
    assert "attributes" not in root_of(chart)
    chart.tries = 3
    chart.notes = ("a", 1)
    assert root_of(chart)["attributes"] == {"tries": 3, "notes": {"$": "tuple", "v": ["a", 1]}}


@under_both_engines
def test_the_engine_and_the_status_are_held(engine: str) -> None:
    """Which engine ran the chart, and whether it has ended."""
    chart = make(engine, charts.Flat)
    assert (root_of(chart)["engine"], root_of(chart)["status"]) == ("sync", "active")
    chart.send("leave")
    assert root_of(chart)["status"] == "finished"


async def test_a_chart_that_was_not_activated_is_held_as_not_started() -> None:
    """A chart with coroutines that nobody has activated yet has no state, and says so."""
    root = root_of(charts.AsyncFlat())
    assert (root["engine"], root["started"]) == ("async", False)
    assert "configuration" not in root
    assert [item["event"] for item in root["queue"]] == ["__initial__"]


@under_both_engines
def test_events_that_wait_are_held_in_their_order(engine: str) -> None:
    """An accepted event that did not run yet is held with all that it carries."""
    chart = make(engine, charts.Flat)
    BoundEvent("work", name="Work", _sm=chart).put(1, [2], send_id="s", key="k")
    BoundEvent("rest", name="Rest", _sm=chart).put()
    first, second = root_of(chart)["queue"]
    assert (first["event"], first["name"], first["send_id"]) == ("work", "Work", "s")
    assert (first["args"], first["kwargs"]) == ([1, [2]], {"key": "k"})
    assert second["event"] == "rest"
    assert (first["at"], first["seq"]) < (second["at"], second["seq"])


@under_both_engines
def test_a_chart_with_waiting_events_has_the_turn(engine: str) -> None:
    """The snapshot says that the chart has something to do as soon as it is rebuilt."""
    chart = make(engine, charts.Flat)
    BoundEvent("work", name="Work", _sm=chart).put()
    assert capture(chart).read()["turn"] == [""]


def test_a_delayed_event_is_held_with_its_absolute_due_time() -> None:
    """A delayed event is a timer: due at a time of the wall clock, fixed when it was sent."""
    clock = ManualClock(now_ms=5_000_000)
    chart = start(charts.Flat, clock=clock)
    chart.send("work", 7, delay=2_500, send_id="s", key="k")
    clock.advance(1_000)
    (timer,) = capture(chart).read()["timers"]
    assert timer == {
        "id": "work.2", "node": "", "due": 5_002_500, "seq": 2, "event": "work", "name": "Work",
        "send_id": "s", "args": [7], "kwargs": {"key": "k"}, "policy": "deadline", "span": 2_500,
    }  # fmt: skip


def test_a_cancelled_event_is_not_held() -> None:
    """Neither a queued nor a delayed event is held once it was cancelled."""
    chart = start(charts.Flat, clock=ManualClock())
    chart.send("work", delay=2_500, send_id="s")
    chart.cancel_event("s")
    assert "timers" not in capture(chart).read()


def test_a_delayed_event_of_the_librarys_engine_is_held_with_what_is_left_of_it() -> None:
    """The library's stamp, on a clock of its process, becomes a time of the wall clock."""
    chart = charts.Flat()
    BoundEvent("work", name="Work", delay=3_600_000, _sm=chart).put(send_id="s")
    BoundEvent("work", name="Work", delay=3_600_000, _sm=chart).put(send_id="gone")
    chart.cancel_event("gone")
    read = capture(chart).read()
    (timer,) = read["timers"]
    assert (timer["event"], timer["send_id"], timer["span"]) == ("work", "s", 3_600_000)
    assert "queue" not in read["root"]


# -- what a state invokes ------------------------------------------------------------------------


class Waits:
    """A handler that works until its state is left."""

    def run(self, ctx: InvokeContext) -> None:
        ctx.cancelled.wait(20)


def waits(ctx: InvokeContext) -> None:
    """Work until the state is left."""
    ctx.cancelled.wait(20)


class Worker(Logged, StateChart):
    """Invokes one thing of each kind."""

    idle = State(initial=True)
    busy = State(
        invoke=[
            waits,
            Waits,
            Waits(),
            invoke_group(waits_alone := threading.Event().is_set, waits_alone),
            library_timeout(20, on="late"),
            gate("approve", key="desk", meta={"role": "editor"}),
            child(charts.Flat, input={"amount": 1}),
        ]
    )
    begin = idle.to(busy)
    stop = busy.to(idle)
    late = busy.to(idle)
    approve = busy.to(idle)


@pytest.fixture
def worker() -> Iterator[StateChart[Any]]:
    """A chart of the durable engine, working; told to stop at the end of the test."""
    chart = start(Worker, clock=ManualClock(now_ms=1_000_000))
    chart.send("begin", amount=3)
    yield chart
    chart.send("stop")


def test_what_a_state_invoked_is_held(worker: StateChart[Any]) -> None:
    """Each invocation is held with a numbered id, its place in its state, its kind and its data.

    A timeout and a gate call nothing, and keep nothing of the event.
    """
    invokes = {item["id"]: item for item in root_of(worker)["invokes"]}
    kinds = {key: item["kind"] for key, item in invokes.items()}
    assert kinds == {
        "busy.1": "call", "busy.2": "call", "busy.3": "call", "busy.4": "call",
        "busy.5": "timeout", "busy.6": "gate", "busy.7": "child",
    }  # fmt: skip
    assert [invokes[f"busy.{n}"]["index"] for n in range(1, 8)] == list(range(7))
    called = {key: item["kwargs"] for key, item in invokes.items() if "kwargs" in item}
    assert called == {key: {"amount": 3} for key in kinds.keys() - {"busy.5", "busy.6"}}
    assert root_of(worker)["spawned"] == 7


def test_a_timeout_is_held_as_a_timer(worker: StateChart[Any]) -> None:
    """A timeout's due time is fixed when its state was entered."""
    (timer,) = capture(worker).read()["timers"]
    assert (timer["invoke"], timer["event"], timer["due"]) == ("busy.5", "late", 1_020_000)


def test_a_gate_is_held_with_its_address(worker: StateChart[Any]) -> None:
    """A gate says by what address, with which events and to whom it is open."""
    (found,) = [item for item in root_of(worker)["invokes"] if item["kind"] == "gate"]
    assert (found["key"], found["events"], found["meta"]) == (
        "desk", ["approve"], {"role": "editor"},
    )  # fmt: skip


def test_a_child_chart_is_held_as_a_node_of_its_own(worker: StateChart[Any]) -> None:
    """A child is a node of the same form under the id of its invocation."""
    node = root_of(worker)["children"]["busy.7"]
    assert (node["class"], node["configuration"]) == ("Flat", ["idle"])
    assert node["context"] == {"amount": 1, "log": ["+idle"]}


def test_work_that_ended_is_held_as_ended() -> None:
    """What has reported its end is not told again, and is not started again."""
    reported = threading.Event()

    class Quick(Logged, StateChart):
        here = State(initial=True, invoke=lambda: 7)
        there = State(final=True)
        done_invoke_here = here.to.itself(internal=True, on="report")
        go = here.to(there)

        def report(self, data: int) -> None:
            self.model.data = data
            reported.set()

    chart = start(Quick)
    assert reported.wait(10)
    chart.send("nothing")
    assert root_of(chart)["context"]["data"] == 7
    held = {item["id"]: item for item in root_of(chart)["invokes"]}
    assert held["here.1"]["sent"] is held["here.1"]["terminated"] is True


def test_what_the_librarys_engine_invoked_is_held() -> None:
    """Of a chart of the library's engine the same is held, with the ids that the library gave."""
    chart = Worker()
    chart.send("begin", amount=3)
    read = capture(chart).read()
    invokes = read["root"]["invokes"]
    assert [item["kind"] for item in invokes if not item.get("sent")][:3] == ["call"] * 3
    assert [item["index"] for item in invokes] == list(range(7))
    assert all(item["id"].startswith("busy.") for item in invokes)
    chart.send("stop")


def test_a_timeout_of_the_librarys_engine_begins_again() -> None:
    """The library does not keep when a timeout began: its whole span is held as still to come."""

    class Waiting(StateChart):
        here = State(initial=True, invoke=library_timeout(3_600, on="late"))
        there = State(final=True)
        late = here.to(there)

    chart = Waiting()
    read = capture(chart).read()
    (timer,) = read["timers"]
    (invoke,) = read["root"]["invokes"]
    assert (timer["invoke"], timer["event"], timer["span"]) == (invoke["id"], "late", 3_600_000)
    chart.send("late")


# -- models --------------------------------------------------------------------------------------


@dataclass(slots=True)
class Slotted:
    """A dataclass with slots."""

    amount: int = 0
    state: Any = None
    lines: list[str] = field(default_factory=list)


@attrs.define
class Defined:
    """An attrs class, slotted, with a private field."""

    amount: int = 0
    state: Any = None
    _hidden: int = 4


class Mixed:
    """A plain class with a slot beside its dictionary."""

    __slots__ = ("__dict__", "amount")

    def __init__(self, amount: int = 0) -> None:
        self.amount = amount
        self.extra = "x"


def holding(cls: type) -> type[StateChart[Any]]:
    """Return a chart whose model is of a class."""

    class Holding(StateChart[cls]):  # type: ignore[valid-type]  # a parameter of the test
        a = State(initial=True)
        b = State(final=True)
        go = a.to(b)

    return Holding


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (Slotted, {"amount": 3, "lines": []}),
        (Defined, {"amount": 3, "_hidden": 4}),
        (Mixed, {"amount": 3, "extra": "x"}),
    ],
)
def test_the_fields_of_a_model_are_held_wherever_it_keeps_them(
    cls: type, fields: dict[str, Any]
) -> None:
    """Slots, dictionaries and both: every field is held, private ones too, but not the state's."""
    root = root_of(holding(cls)(cls(3)))
    assert root["context"] == fields
    assert root["model"].endswith(f":{cls.__name__}")


def test_a_model_keeps_its_state_in_the_field_that_the_chart_was_told() -> None:
    """`state_field` is held, and that field is not part of the context."""
    chart = charts.Flat(charts.Ledger(), state_field="where")
    root = root_of(chart, types=[charts.Ledger])
    assert root["state_field"] == "where"
    assert "where" not in root["context"]


# -- refusals ------------------------------------------------------------------------------------


def refused(function: Callable[[], object]) -> SnapshotsError | MachinesError:
    """Return what a call was refused with."""
    with pytest.raises((SnapshotsError, MachinesError)) as caught:
        function()
    return caught.value


class Introspective(StateChart):
    """Captures itself in each of its callbacks."""

    a = State(initial=True)
    b = State()
    go = a.to(b)
    back = b.to(a)

    def look(self) -> None:
        self.model.__dict__.setdefault("refusals", []).append(refused(lambda: capture(self)))

    prepare_event_looks = False

    def before_go(self) -> None:
        self.look()

    def on_exit_a(self) -> None:
        self.look()

    def on_go(self) -> None:
        self.look()

    def on_enter_b(self) -> None:
        self.look()

    def after_go(self) -> None:
        self.look()


@under_both_engines
def test_a_chart_is_not_captured_inside_a_macrostep(engine: str) -> None:
    """In no callback is there a safe place: each capture is refused, and the chart goes on."""
    chart = make(engine, Introspective)
    chart.send("go")
    refusals = chart.model.__dict__.pop("refusals")
    assert len(refusals) == 5
    for error in refusals:
        assert isinstance(error, DefinitionError)
        assert "inside a macrostep" in str(error)
    assert root_of(chart)["configuration"] == ["b"]


async def test_a_chart_is_not_captured_while_a_callback_awaits() -> None:
    """Another task cannot capture a chart whose coroutine has not returned."""
    inside, go_on = asyncio.Event(), asyncio.Event()

    class Slow(StateChart):
        a = State(initial=True)
        b = State()
        go = a.to(b)
        back = b.to(a)

        async def on_go(self) -> None:
            inside.set()
            await go_on.wait()

    for chart in (Slow(), start(Slow)):
        await chart.activate_initial_state()
        inside.clear()
        go_on.clear()
        sending = asyncio.ensure_future(chart.send("go"))
        await inside.wait()
        error = refused(lambda chart=chart: capture(chart))
        assert "inside a macrostep" in str(error)
        go_on.set()
        await sending
        assert root_of(chart)["configuration"] == ["b"]


async def test_a_chart_that_sleeps_until_an_event_is_due_is_captured() -> None:
    """Between two macrosteps the library's loop only waits: the chart is at rest."""

    class Later(Awaited, StateChart):
        a = State(initial=True)
        b = State()
        plan = a.to.itself(on="send_later")
        ring = a.to(b)
        back = b.to(a)

        async def send_later(self) -> None:
            await self.send("ring", delay=3_600_000)

    chart = Later()
    sending = asyncio.ensure_future(chart.send("plan"))
    await settle()
    assert log_of(chart)[-2:] == ["plan>a", "+a"]
    (timer,) = capture(chart).read()["timers"]
    assert timer["event"] == "ring"
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)


def test_a_child_chart_is_not_captured_alone() -> None:
    """A chart that is part of a tree is captured with its root."""

    class Parent(StateChart):
        here = State(initial=True, invoke=child(charts.Flat))
        there = State(final=True)
        done_invoke_here = here.to(there)

    chart = start(Parent)
    below = chart._engine.node.children["here.1"].chart
    error = refused(lambda: capture(below))
    assert isinstance(error, DefinitionError)
    assert "it is a child chart" in str(error)


@under_both_engines
def test_a_chart_held_as_an_attribute_is_refused_by_its_path(engine: str) -> None:
    """A chart inside a chart has a life that no attribute can keep."""
    chart = make(engine, charts.Compound)
    chart.other = charts.Flat()
    error = refused(lambda: capture(chart))
    assert isinstance(error, EncodeError)
    assert error.path == "root.attributes.other"
    assert "child(...)" in str(error)


def test_a_chart_held_by_a_child_is_refused_by_its_path() -> None:
    """The path of a refusal leads through the tree."""

    class Parent(StateChart):
        here = State(initial=True, invoke=child(charts.Flat))
        there = State(final=True)
        done_invoke_here = here.to(there)

    chart = start(Parent)
    below = chart._engine.node.children["here.1"]
    below.chart.other = charts.Flat()
    below.mark_moved()
    assert refused(lambda: capture(chart)).path == "root.children.here.1.attributes.other"
    del below.chart.other
    below.chart.model.lines = [1, {"lock": threading.Lock()}]
    error = refused(lambda: capture(chart))
    assert error.path == "root.children.here.1.context.lines[1].lock"


UNENCODABLE: dict[str, Callable[[StateChart[Any]], None]] = {
    "root.context.lines[1].lock": lambda c: vars(c.model).update(lines=[1, {"lock": open}]),
    "root.context.call": lambda c: vars(c.model).update(call=lambda: 1),
    "root.context.thing": lambda c: vars(c.model).update(thing=object()),
    "root.context.other": lambda c: vars(c.model).update(other=charts.Ledger()),
    "root.context.chart": lambda c: vars(c.model).update(chart=charts.Flat()),
    "root.attributes.client": lambda c: vars(c).update(client=threading.Lock()),
    "root.queue[0].kwargs.sink": lambda c: BoundEvent("work", name="W", _sm=c).put(sink=open),
    "root.queue[0].args[0]": lambda c: BoundEvent("work", name="W", _sm=c).put(open),
    "root.timers[0].kwargs.sink": lambda c: BoundEvent("work", name="W", delay=9_000, _sm=c).put(
        sink=open
    ),
}


@under_both_engines
@pytest.mark.parametrize("path", UNENCODABLE)
def test_what_could_not_come_back_is_refused_by_its_path(path: str, engine: str) -> None:
    """A value that no snapshot could give back is refused where it lies."""
    chart = make(engine, charts.Flat)
    UNENCODABLE[path](chart)
    error = refused(lambda: capture(chart))
    assert isinstance(error, EncodeError)
    assert error.path == path
    assert error.path in str(error)


def test_a_model_of_an_unknown_class_is_refused() -> None:
    """The class of a model has to be given, and then it is not refused any more."""
    chart = charts.Flat(charts.Ledger())
    error = refused(lambda: capture(chart))
    assert (error.path, error.type_name) == ("root.context", "Ledger")
    assert root_of(chart, types=[charts.Ledger])["context"]["log"] == ["+idle"]
    assert root_of(chart, context=charts.Ledger) == root_of(chart, types=[charts.Ledger])


def test_a_childs_model_of_an_unknown_class_is_refused_by_its_path() -> None:
    """Whose model it is, is said by the path."""

    class Below(charts.Flat):
        def __init__(self, model: Any = None, **kwargs: Any) -> None:
            super().__init__(charts.Ledger(), **kwargs)

    class Parent(StateChart):
        here = State(initial=True, invoke=Below)
        there = State(final=True)
        done_invoke_here = here.to(there)

    error = refused(lambda: capture(start(Parent)))
    assert (error.path, error.type_name) == ("root.children.here.1.context", "Ledger")


def test_one_model_in_two_charts_is_refused() -> None:
    """Two charts that share their model would not share it any more after a restart."""

    class Nested(charts.Flat):
        pass

    class Parent(StateChart):
        here = State(initial=True, invoke=child(Nested))
        there = State(final=True)
        done_invoke_here = here.to(there)

    chart = start(Parent)
    node = chart._engine.node
    node.children["here.1"].chart.model = chart.model
    error = refused(lambda: capture(chart))
    assert isinstance(error, DefinitionError)
    assert "share one model object" in str(error)


@under_both_engines
def test_a_configuration_that_cannot_be_is_never_written(engine: str) -> None:
    """A chart whose state somebody set by hand to what no chart can rest in is refused."""
    chart = make(engine, charts.Compound)
    chart.current_state_value = "outer"
    error = refused(lambda: capture(chart))
    assert isinstance(error, IllegalConfigurationError)
    assert "state 'outer' is active and none of its children is" in str(error)
    chart.current_state_value = None
    assert "no state is active" in str(refused(lambda: capture(chart)))


def test_a_chart_that_cannot_be_kept_alive_is_refused() -> None:
    """What a machine cannot be made of cannot be captured either."""

    class Odd(StateChart):
        here = State(initial=True, value=object())
        there = State()
        move = here.to(there) | there.to(here)

    assert "state 'here'" in str(refused(lambda: capture(Odd())))


class Demanding(StateChart):
    """Its constructor cannot be called without an argument of its own."""

    a = State(initial=True)
    b = State(final=True)
    go = a.to(b)

    def __init__(self, region: str, model: Any = None) -> None:
        self.region = region
        super().__init__(model)


def test_a_chart_that_could_not_be_made_again_is_refused() -> None:
    """The library does not keep what a constructor was given; the durable engine does."""
    error = refused(lambda: capture(Demanding("eu")))
    assert isinstance(error, DefinitionError)
    assert "its constructor needs region" in str(error)
    assert root_of(start(Demanding, {"region": "eu"}))["init"] == {"region": "eu"}


# -- a snapshot stays as it is -------------------------------------------------------------------


@under_both_engines
def test_later_changes_do_not_reach_a_snapshot(engine: str) -> None:
    """Lists, dictionaries and the chart itself may change: the bytes are those of the moment."""
    chart = make(engine, charts.Flat)
    lines = chart.model.lines = [{"amount": 1}]
    chart.settings = {"a": [1]}
    payload = {"deep": [1]}
    BoundEvent("work", name="Work", _sm=chart).put(payload=payload)
    snapshot = capture(chart)
    before = bytes(snapshot.blob)
    lines[0]["amount"] = 2
    chart.settings["a"].append(2)
    payload["deep"].append(2)
    chart.send("rest")
    assert snapshot.blob == before
    root = snapshot.read()["root"]
    assert root["context"]["lines"] == [{"amount": 1}]
    assert root["attributes"]["settings"] == {"a": [1]}
    assert root["queue"][0]["kwargs"] == {"payload": {"deep": [1]}}


@under_both_engines
def test_capturing_changes_nothing(engine: str) -> None:
    """A chart that was captured keeps its engine, its attributes and all that it waits for."""
    chart = make(engine, charts.Flat)
    BoundEvent("work", name="Work", _sm=chart).put()
    before = dict(vars(chart)), chart._engine, dict(vars(chart._engine))
    first = capture(chart)
    assert (dict(vars(chart)), chart._engine, dict(vars(chart._engine))) == before
    assert capture(chart).read()["root"]["queue"][0]["event"] == "work"
    assert capture(chart).read()["root"].keys() == first.read()["root"].keys()
    chart.send("rest")
    assert log_of(chart)[-3:] == ["-busy", "rest>idle", "+idle"]


def test_two_captures_of_one_chart_at_rest_are_equal() -> None:
    """A snapshot of a chart at rest does not depend on when it is taken."""
    clock = ManualClock()
    chart = start(charts.Flat, clock=clock)
    chart.send("work", delay=9_000)
    first = capture(chart)
    clock.advance(500)
    assert capture(chart) == first


def test_a_snapshot_is_a_value() -> None:
    """Snapshots of equal bytes are equal, and none can be changed."""
    snapshot = capture(charts.Flat())
    assert snapshot == Snapshot(snapshot.blob)
    with pytest.raises(AttributeError):
        snapshot.blob = b""  # type: ignore[misc]  # what is refused


def test_reading_a_snapshot_gives_something_fresh() -> None:
    """Who looks into a snapshot may change what he got."""
    snapshot = capture(charts.Flat())
    snapshot.read()["root"]["configuration"].append("x")
    assert snapshot.read()["root"]["configuration"] == ["idle"]


# -- loaded documents ----------------------------------------------------------------------------

DOCUMENT = """
<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="a" datamodel="python">
  <datamodel><data id="n" expr="1"/><data id="kept" expr="0"/></datamodel>
  <state id="a">
    <transition event="keep"><assign location="kept" expr="_event"/></transition>
    <transition event="go" target="b"/>
  </state>
  <state id="b"><state id="c"><transition event="back" target="a"/></state></state>
</scxml>
"""


@under_both_engines
def test_a_documents_session_and_flags_are_held(engine: str) -> None:
    """What the library keeps in closures and on the class of a document belongs to the machine."""
    cls = load(DOCUMENT, format="scxml", name="document")
    chart = make(engine, cls)
    shared = root_of(chart)["shared"]
    assert shared["flags"] == [True]
    assert shared["session"].startswith("document:")
    assert shared["raised"] is False
    chart.send("go")
    assert root_of(chart)["shared"]["raised"] is True
    assert root_of(chart)["context"] == {"n": 1, "kept": 0}


@under_both_engines
def test_a_documents_event_is_held_by_what_it_said(engine: str) -> None:
    """`_event` assigned to a variable is a record of the event, not the objects behind it."""
    cls = load(DOCUMENT, format="scxml", name="document", trusted=True)
    chart = make(engine, cls)
    chart.send("keep", amount=3)
    kept = root_of(chart)["context"]["kept"]
    assert (kept["$"], kept["class"]) == ("object", "scxml.event")
    assert (kept["v"]["event"], kept["v"]["kwargs"]) == ("keep", {"amount": 3})
    assert rebuild(cls, capture(chart)).model.kept.data.amount == 3


# -- this package's own --------------------------------------------------------------------------


def pay() -> int:
    """Stand for a call to the outside."""
    return 3


def test_an_effect_counts_as_outside_work_of_a_chart_without_a_run() -> None:
    """Without a store there is no ledger: an effect is held as an invocation of its kind."""
    gate_open, ended = threading.Event(), threading.Event()

    class Paying(StateChart):
        here = State(initial=True, invoke=effect(lambda: gate_open.wait(10) and pay()))
        there = State(final=True)
        done_invoke_here = here.to(there)

        def on_enter_there(self) -> None:
            ended.set()

    chart = start(Paying)
    (found,) = root_of(chart)["invokes"]
    assert (found["id"], found["kind"], found["attempt"]) == ("here.1", "effect", 1)
    gate_open.set()
    assert ended.wait(10)
    chart.send("nothing")
    assert chart.is_terminated


@pytest.mark.parametrize("policy", ["deadline", "remaining", "restart"])
def test_a_timeout_is_held_with_its_policy(policy: Any) -> None:
    """What a restart does to a timeout is held with it."""

    class Waiting(StateChart):
        here = State(initial=True, invoke=timeout(5, on="late", resume=policy))
        there = State(final=True)
        late = here.to(there)

    chart = start(Waiting, clock=ManualClock())
    (timer,) = capture(chart).read()["timers"]
    assert (timer["policy"], timer["span"]) == (policy, 5_000)


def test_a_snapshot_of_a_machine_is_the_same_as_that_of_its_chart() -> None:
    """How the chart was begun, by its class or by a machine, makes no difference."""
    clock = ManualClock()
    first = capture(start(Machine(charts.Flat), {"a": 1}, clock=clock))
    assert first == capture(start(charts.Flat, {"a": 1}, clock=clock))


@under_both_engines
def test_a_state_whose_value_looks_like_a_configuration_is_none(engine: str) -> None:
    """What is known of one configuration is never taken for another one of the same class."""

    class Odd(StateChart):
        class Pair(State.Parallel):
            one = State()
            two = State()

        alone = State(value=("Pair", "one", "two"))
        leave = Pair.to(alone)
        back = alone.to(Pair)

    chart = make(engine, Odd)
    assert root_of(chart)["configuration"] == ["Pair", "one", "two"]
    chart.send("leave")
    assert root_of(chart)["configuration"] == ["alone"]
    chart.send("back")
    assert root_of(chart)["configuration"] == ["Pair", "one", "two"]


def test_a_model_may_hold_its_states_in_a_set() -> None:
    """The library takes any mutable set that it finds there; so does a snapshot."""

    @dataclass
    class Kept:
        state: Any

    class Switch(StateChart):
        off = State(initial=True)
        on = State()
        turn = off.to(on) | on.to(off)

    chart = Switch(Kept({"on"}))
    assert root_of(chart, context=Kept)["configuration"] == ["on"]
    chart.send("turn")
    assert root_of(chart, context=Kept)["configuration"] == ["off"]
