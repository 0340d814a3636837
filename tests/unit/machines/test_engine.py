"""The durable engine does what the library's own does, in the same order, with the same results."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from statemachine import Event, State, StateChart, StateMachine
from statemachine.exceptions import TransitionNotAllowed

from machines import capture, child, rebuild, send_down, send_up
from machines.binding import start
from machines.errors import DefinitionError, EventRefusedError, MicrostepLimitError
from machines.limits import MICROSTEPS_MAX
from snapshots.testing import ManualClock
from tests.unit.machines import behaviours, charts
from tests.unit.machines.charts import Awaited, Logged, log_of, note, settle

Step = str | tuple[Any, ...]

SCRIPTS: dict[str, tuple[type[StateChart[Any]], Sequence[Step]]] = {
    "results": (
        behaviours.Results,
        ["none", "none", "one", "one", "many", "many", "listed", "listed", "falsy"],
    ),
    "the order of all callbacks": (behaviours.Order, ["go", "back", "go"]),
    "sends inside callbacks": (behaviours.Nested, ["ask", "go", "go"]),
    "internal before external events": (behaviours.Queues, ["go", "external"]),
    "internal transitions": (behaviours.Internal, ["inside", "step", "inside", "down", "outside",
                                                   "over"]),
    "internal transitions of a StateMachine": (
        behaviours.InternalMachine, ["inside", "outside", "over", "inside", "over", "outside"],
    ),
    "an internal transition that loses its compound state": (
        behaviours.InternalCompound, ["inside", "step", "inside"],
    ),
    "errors as events": (
        behaviours.Caught,
        ["in_on", "mend", "in_before", "mend", "in_after", "mend", "in_guard", "mend", "in_enter",
         "mend", "nothing"],
    ),
    "errors that reach the caller": (
        behaviours.Uncaught,
        ["in_on", "in_before", "in_after", "in_guard", "move", "in_on", "move", "move"],
    ),
    "conditions": (
        behaviours.Guarded, ["up", "down", "arm", "up", "down", "shut", "up", "arm", "up"],
    ),
    "validators": (
        behaviours.Validated,
        ["pay", ("pay", {"amount": 0}), ("pay", {"amount": 5}), "back", "pay"],
    ),
    "data of events": (
        behaviours.Data,
        ["put", ("put", 1, 2), ("put", {"key": "k"}), ("put", 1, {"key": "k", "x": [1]})],
    ),
    "declared events": (
        behaviours.Declared, ["go", "either", "either", "either", "else", "error.mine", "go"],
    ),
    "joins": (behaviours.Joined, ["end_right", "end_left", "more"]),
    "a join at the root": (behaviours.RootJoin, ["end_right", "end_left", "more"]),
    "conflicts": (
        behaviours.Conflicts, ["flip", "leave", "again", "leave", "again", "deep", "deep"],
    ),
    "events that no transition takes": (charts.Flat, ["rest", "nothing", "work", "work", "rest"]),
    "a final state": (charts.Flat, ["work", "rest", "leave", "work"]),
    "a final state of a StateChart": (behaviours.Nested, ["go", "go"]),
    "compound states": (charts.Compound, ["step", "away", "back", "step", "away", "back"]),
    "parallel states": (
        charts.Regions, ["flip", "leave", "again", "flip", "end_left", "end_right", "again"],
    ),
    "histories": (
        charts.Histories,
        ["enter_part", "step", "away", "resume", "away", "resume_deeply", "away"],
    ),
    "eventless transitions": (
        charts.Eventless, ["add", "add", "add", "drain", "refill", "add"],
    ),
}  # fmt: skip

ASYNC_SCRIPTS: dict[str, tuple[type[StateChart[Any]], Sequence[Step]]] = {
    "results": (behaviours.AsyncResults, ["go", "go", "chain", "go"]),
    "errors that reach the caller": (behaviours.AsyncErrors, ["fail", "go", "fail", "go", "go"]),
    "errors as events": (behaviours.AsyncCaught, ["fail", "go", "go"]),
    "events that no transition takes": (charts.AsyncFlat, ["rest", "work", "nothing", "rest"]),
    "a final state": (charts.AsyncFlat, ["leave", "work"]),
    "parallel states": (charts.AsyncRegions, ["end_left", "end_right", "again"]),
}


def parts(step: Step) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """Return the event, its arguments and its data."""
    event, *rest = (step,) if isinstance(step, str) else step
    data = rest.pop() if rest and isinstance(rest[-1], dict) else {}
    return event, tuple(rest), data


def seen(chart: StateChart[Any], outcome: object) -> tuple[object, ...]:
    """Return what is to be seen of a chart after a step."""
    states = [state.id for state in chart.configuration]
    return outcome, states, list(log_of(chart)), chart.is_terminated


def play(chart: StateChart[Any], script: Sequence[Step]) -> list[tuple[object, ...]]:
    """Send the events of a script; return what was seen at first and after each of them."""
    trace = [seen(chart, None)]
    for step in script:
        event, args, data = parts(step)
        try:
            outcome: object = chart.send(event, *args, **data)
        except Exception as error:  # noqa: BLE001 - what a chart raises is what is compared
            outcome = type(error), str(error)
        trace.append(seen(chart, outcome))
    return trace


async def play_async(chart: StateChart[Any], script: Sequence[Step]) -> list[tuple[object, ...]]:
    """Send the events of a script, each awaited."""
    await chart.activate_initial_state()
    trace = [seen(chart, None)]
    for step in script:
        event, args, data = parts(step)
        try:
            outcome: object = await chart.send(event, *args, **data)
        except Exception as error:  # noqa: BLE001 - what a chart raises is what is compared
            outcome = type(error), str(error)
        trace.append(seen(chart, outcome))
    return trace


# -- the same as under the library's engine ------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_chart_does_the_same_in_the_same_order(name: str) -> None:
    """Callbacks, their order, results, errors and configurations are those of the library."""
    cls, script = SCRIPTS[name]
    assert play(start(cls), script) == play(cls(), script)


@pytest.mark.parametrize("name", ASYNC_SCRIPTS)
async def test_a_chart_with_coroutines_does_the_same_in_the_same_order(name: str) -> None:
    """The same holds for charts whose callbacks are awaited."""
    cls, script = ASYNC_SCRIPTS[name]
    assert await play_async(start(cls), script) == await play_async(cls(), script)


@pytest.mark.parametrize("name", ASYNC_SCRIPTS)
def test_a_chart_with_coroutines_does_the_same_where_no_loop_runs(name: str) -> None:
    """Called from code without a loop, such a chart is run by whoever sends to it."""
    cls, script = ASYNC_SCRIPTS[name]
    ours, theirs = start(cls), cls()
    ours.activate_initial_state()
    theirs.activate_initial_state()
    assert play(ours, script) == play(theirs, script)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_chart_does_the_same_when_it_is_rebuilt_before_each_event(name: str) -> None:
    """A chart that is captured and rebuilt before every event shows the same trace."""
    cls, script = SCRIPTS[name]
    chart = start(cls)
    trace = [seen(chart, None)]
    for step in script:
        chart = rebuild(cls, capture(chart))
        trace += play(chart, [step])[1:]
    assert trace == play(cls(), script)


# -- time ----------------------------------------------------------------------------------------


class Bell(Logged, StateChart):
    """Rings later, once or twice, unless it is told not to."""

    quiet = State(initial=True)
    loud = State()
    over = State(final=True)

    set_up = quiet.to.itself(on="plan")
    ring = quiet.to(loud) | loud.to.itself()
    give_up = quiet.to.itself(on="forget")
    hush = loud.to(quiet)
    tick = Event(quiet.to.itself(on="count"), delay=1_000)
    end = loud.to(over)

    def plan(self, after: int = 500, name: str = "ring") -> None:
        self.send("ring", delay=after, send_id=name)

    def forget(self, name: str = "ring") -> None:
        self.cancel_event(name)

    def count(self) -> None:
        note(self, "tick")


def states(chart: StateChart[Any]) -> list[str]:
    """Return the ids of the active states."""
    return [state.id for state in chart.configuration]


def test_a_delayed_event_does_not_hold_its_sender_up() -> None:
    """Unlike under the library's engine, a sender returns at once, with no result."""
    chart = start(Bell, clock=ManualClock())
    assert chart.send("ring", delay=3_600_000) is None
    assert chart.tick() is None
    assert states(chart) == ["quiet"]


@pytest.mark.parametrize(("passed", "expected"), [(499, "quiet"), (500, "loud"), (501, "loud")])
def test_a_delayed_event_fires_when_it_is_due_and_not_before(passed: int, expected: str) -> None:
    """A timer that is due fires when the chart is next used, one that is not stays."""
    clock = ManualClock()
    chart = start(Bell, clock=clock)
    chart.send("set_up")
    clock.advance(passed)
    chart.send("nothing")
    assert states(chart) == [expected]


def test_a_delayed_event_fires_once() -> None:
    """A timer that fired is gone, however often the chart is used afterwards."""
    clock = ManualClock()
    chart = start(Bell, clock=clock)
    chart.send("set_up")
    clock.advance(500)
    chart.send("nothing")
    chart.send("hush")
    clock.advance(10_000)
    chart.send("nothing")
    assert states(chart) == ["quiet"]


def test_the_delay_that_an_event_declares_counts() -> None:
    """`Event(delay=...)` waits without being told at the call; an explicit 0 runs at once."""
    clock = ManualClock()
    chart = start(Bell, clock=clock)
    chart.tick()
    chart.send("tick", delay=0)
    assert log_of(chart).count("tick") == 1
    clock.advance(1_000)
    chart.send("nothing")
    assert log_of(chart).count("tick") == 2


def test_delayed_events_run_in_the_order_in_which_they_are_due() -> None:
    """What is due first runs first; what is due together runs in the order it was sent in."""

    class Ordered(Logged, StateChart):
        here = State(initial=True)
        a = here.to.itself()
        b = here.to.itself()
        c = here.to.itself()

    clock = ManualClock()
    chart = start(Ordered, clock=clock)
    chart.send("c", delay=30)
    chart.send("a", delay=10)
    chart.send("b", delay=10)
    clock.advance(60)
    chart.send("nothing")
    assert [text for text in log_of(chart) if ">" in text] == ["a>here", "b>here", "c>here"]


def test_an_event_that_is_due_runs_before_one_that_is_sent_now() -> None:
    """A due event takes its place in the queue by the time at which it was due."""
    clock = ManualClock()
    chart = start(Bell, clock=clock)
    chart.send("set_up")
    clock.advance(1_000)
    chart.send("hush")
    assert states(chart) == ["quiet"]


def test_a_cancelled_event_does_not_fire() -> None:
    """`cancel_event` drops what was sent with that id, and nothing else."""
    clock = ManualClock()
    chart = start(Bell, clock=clock)
    chart.send("set_up", after=500, name="first")
    chart.send("set_up", after=700, name="second")
    chart.send("give_up", name="first")
    clock.advance(600)
    chart.send("nothing")
    assert states(chart) == ["quiet"]
    clock.advance(100)
    chart.send("nothing")
    assert states(chart) == ["loud"]


def test_an_event_that_waits_in_the_queue_can_be_cancelled_too() -> None:
    """`cancel_event` also drops an event that is due and did not run yet."""

    class Hasty(Logged, StateChart):
        here = State(initial=True)
        there = State()
        go = here.to.itself(on="send_and_take_back")
        move = here.to(there)
        back = there.to(here)

        def send_and_take_back(self) -> None:
            self.send("move", send_id="m")
            self.cancel_event("m")

    ours, theirs = start(Hasty), Hasty()
    assert play(ours, ["go", "move"]) == play(theirs, ["go", "move"])


def test_the_timers_of_a_chart_that_ended_are_gone() -> None:
    """A chart that reached its end waits for nothing."""
    clock = ManualClock()
    chart = start(Bell, clock=clock)
    chart.send("ring")
    chart.send("ring", delay=500)
    chart.send("end")
    assert chart._engine.node.tree.timers.items == []
    clock.advance(500)
    chart.send("nothing")
    assert chart.is_terminated


# -- bounds --------------------------------------------------------------------------------------


class Restless(StateChart):
    """Never comes to rest once it was sent off."""

    still = State(initial=True)
    to_and = State()
    fro = State()

    go = still.to(to_and)
    to_and.to(fro)
    fro.to(to_and)
    echo = still.to.itself(on="shout")
    again = still.to.itself(internal=True, on="shout")

    def shout(self) -> None:
        self.raise_("again")


@pytest.mark.parametrize("event", ["go", "echo"])
def test_a_macrostep_that_never_rests_is_ended(event: str) -> None:
    """Eventless transitions in a circle, or events raised for ever, meet the bound."""
    chart = start(Restless)
    with pytest.raises(MicrostepLimitError, match=r"Restless.*without coming to rest") as caught:
        chart.send(event)
    assert caught.value.limit == MICROSTEPS_MAX


def test_the_bound_counts_one_macrostep_only() -> None:
    """A chart may take more microsteps than that in its life."""
    chart = start(charts.Eventless)
    chart._engine._steps = MICROSTEPS_MAX
    chart.send("add")
    assert states(chart) == ["filling"]


# -- what a raise leaves behind ------------------------------------------------------------------


def test_events_behind_one_that_raised_are_dropped_as_in_the_library() -> None:
    """A chart without a run drops what was queued behind an event whose callback raised."""

    class Chained(Logged, StateMachine):
        a = State(initial=True)
        b = State()
        go = a.to.itself(on="send_two")
        bad = a.to.itself(on="fail")
        move = a.to(b)
        back = b.to(a)

        def send_two(self) -> None:
            self.send("bad")
            self.send("move")

        def fail(self) -> None:
            message = "it broke"
            raise ValueError(message)

    ours, theirs = start(Chained), Chained()
    script = ["go", "bad", "move", "go", "back"]
    assert play(ours, script) == play(theirs, script)


def test_events_behind_one_that_no_transition_takes_stay_as_in_the_library() -> None:
    """A synchronous chart keeps what was queued behind an event that was not allowed."""

    class Strict(Logged, StateMachine):
        a = State(initial=True)
        b = State()
        go = a.to.itself(on="send_two")
        move = a.to(b)
        back = b.to(a)

        def send_two(self) -> None:
            self.send("back")
            self.send("move")

    def without_results(trace: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
        return [step[1:] for step in trace]

    ours, theirs = play(start(Strict), ["go", "back"]), play(Strict(), ["go", "back"])
    assert without_results(ours) == without_results(theirs)
    # The library answers a sender with the result of the first event that runs, here one that
    # was left over; a sender here gets the result of what it sent.
    assert (ours[-1][0], theirs[-1][0]) == ("did back", "did move")


# -- copies --------------------------------------------------------------------------------------


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda chart: pickle.loads(pickle.dumps(chart)),  # noqa: S301 - made in this line
}


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_chart_does_not_drive_the_original(how: str) -> None:
    """A copied chart has an engine of its own: the library's, as any chart made by hand."""
    chart = start(charts.Flat)
    chart.send("work")
    other = COPIES[how](chart)
    assert other._engine is not chart._engine
    assert not hasattr(other._engine, "node")
    steps = chart._engine._macrostep_count
    other.send("rest")
    assert states(other) == ["idle"]
    assert chart._engine._macrostep_count == steps


@pytest.mark.parametrize("how", ["deepcopy", "pickle"])
def test_a_deep_copy_of_a_chart_leaves_the_original_where_it_is(how: str) -> None:
    """The model of a deep copy is another one, so the original does not move."""
    chart = start(charts.Flat)
    other = COPIES[how](chart)
    other.send("work")
    assert (states(chart), states(other)) == (["idle"], ["busy"])
    assert log_of(chart) == ["+idle"]


def test_a_copy_can_be_captured_and_rebuilt() -> None:
    """A copy is a chart like any other."""
    other = copy.deepcopy(start(charts.Flat))
    other.send("work")
    assert states(rebuild(charts.Flat, capture(other))) == ["busy"]


def test_the_engine_leaves_no_trace_on_the_chart() -> None:
    """A chart of the durable engine has the attributes that any chart has."""
    assert vars(start(charts.Flat)).keys() == vars(charts.Flat()).keys()


# -- threads -------------------------------------------------------------------------------------


class Counter(StateChart):
    """Counts what it is sent, and notes if two threads are inside at a time."""

    here = State(initial=True)
    add = here.to.itself(on="count")

    def __init__(self, model: Any = None, **kwargs: Any) -> None:
        self.inside = 0
        super().__init__(model, **kwargs)

    def count(self, by: int = 1) -> int:
        self.inside += 1
        self.model.most = max(getattr(self.model, "most", 0), self.inside)
        self.model.total = getattr(self.model, "total", 0) + by
        self.inside -= 1
        return by


def test_events_of_several_threads_all_run_one_at_a_time() -> None:
    """Whichever thread runs the chart, no event is lost and no two run together."""
    chart = start(Counter)
    together = threading.Barrier(4)

    def send() -> None:
        together.wait(10)
        for _ in range(50):
            chart.send("add")

    threads = [threading.Thread(target=send) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chart.send("nothing")
    assert (chart.model.total, chart.model.most) == (200, 1)


def test_a_sender_in_another_thread_gets_its_result() -> None:
    """The thread that made a chart has no right of its own: results reach whoever sends."""
    chart = start(Counter)
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(chart.send("add", by=7)))
    thread.start()
    thread.join()
    assert results == [7]
    assert chart.send("add", by=3) == 3
    assert chart.model.total == 10


def test_a_callback_may_wait_for_a_thread_that_sends_to_its_chart() -> None:
    """That one's event is taken behind the macrostep, by the thread that runs the chart."""
    results: list[Any] = []

    class Waits(StateChart):
        idle = State(initial=True)
        busy = State()
        ready = State(final=True)
        go = idle.to(busy)
        more = busy.to(ready)

        def on_go(self, model: Any) -> None:
            thread = threading.Thread(target=lambda: results.append(self.send("more", by=7)))
            thread.daemon = True
            thread.start()
            thread.join(timeout=10)
            model.waited_in_vain = thread.is_alive()

        def on_more(self, model: Any, by: int) -> None:
            model.by = by

    chart = start(Waits)
    chart.send("go")
    assert not chart.model.waited_in_vain
    assert (chart.model.by, chart.is_terminated, results) == (7, True, [None])


def test_a_sender_in_another_thread_gets_its_error() -> None:
    """An event that is not allowed is refused in the thread that sent it."""
    chart = start(charts.Flat)
    errors: list[Exception] = []

    def send() -> None:
        try:
            chart.send("rest")
        except TransitionNotAllowed as error:
            errors.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    thread.join()
    assert len(errors) == 1
    assert chart.send("work") == "did work"


async def test_an_event_from_a_thread_runs_on_the_loop_of_the_chart() -> None:
    """A chart with coroutines is run by its loop, wherever its events come from."""
    chart = start(charts.AsyncFlat)
    await chart.activate_initial_state()
    await asyncio.to_thread(chart._engine.enqueue, "work")
    await settle()
    assert states(chart) == ["busy"]
    assert await chart.send("rest") == "did rest"


# -- tasks ---------------------------------------------------------------------------------------


async def test_senders_at_the_same_time_each_get_their_result() -> None:
    """Events of several tasks run one after the other, and each task gets its own answer."""
    chart = start(charts.AsyncFlat)
    await chart.activate_initial_state()
    sending = [chart.send("work"), chart.send("rest"), chart.send("rest"), chart.send("work")]
    outcomes = await asyncio.gather(*sending, return_exceptions=True)
    assert outcomes[:2] == ["did work", "did rest"]
    assert isinstance(outcomes[2], TransitionNotAllowed)
    # The library drops what is queued behind an event that is not allowed, where it awaits.
    assert isinstance(outcomes[3], TransitionNotAllowed)
    assert states(chart) == ["idle"]


class Waits(Awaited, StateChart):
    """Awaits something in the middle of a transition."""

    a = State(initial=True)
    b = State()
    go = a.to(b, on="hold")
    back = b.to(a)

    def __init__(self, model: Any = None, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        self.inside, self.go_on = asyncio.Event(), asyncio.Event()

    async def hold(self) -> str:
        self.inside.set()
        await self.go_on.wait()
        return "held"


async def test_a_sender_that_is_cancelled_does_not_cut_the_macrostep() -> None:
    """The event that it sent runs to its end, and answers nobody; the chart goes on."""
    chart = start(Waits)
    await chart.activate_initial_state()
    sending = asyncio.ensure_future(chart.send("go"))
    await chart.inside.wait()
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    chart.go_on.set()
    await settle()
    assert states(chart) == ["b"]
    assert await chart.send("back") == "did back"


async def test_an_event_that_is_sent_while_another_awaits_runs_after_it() -> None:
    """A macrostep is not interrupted by what another task sends."""
    chart = start(Waits)
    await chart.activate_initial_state()
    first = asyncio.ensure_future(chart.send("go"))
    await chart.inside.wait()
    second = asyncio.ensure_future(chart.send("back"))
    await settle()
    assert not (first.done())
    assert not (second.done())
    chart.go_on.set()
    assert await first == ["did go", "held"]
    assert await second == "did back"
    assert log_of(chart)[-3:] == ["-b", "back>a", "+a"]


async def test_a_cancellation_that_a_callback_raises_reaches_its_sender_alone() -> None:
    """As under the library's engine nobody waits in vain, and events behind it are run."""

    class Cancelled(StateChart):
        idle = State(initial=True)
        go = idle.to.itself(on="perhaps", internal=True)

        async def perhaps(self, *, fails: bool = False) -> str:
            await asyncio.sleep(0)
            if fails:
                raise asyncio.CancelledError
            return "gone"

    chart = start(Cancelled)
    await chart.activate_initial_state()
    sent = [chart.send("go"), chart.send("go", fails=True), chart.send("go")]
    results = await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), timeout=10)
    assert (results[0], type(results[1]), results[2]) == ("gone", asyncio.CancelledError, "gone")
    assert await chart.send("go") == "gone"


# -- work that a chart without a run has outside -------------------------------------------------


class Report:
    """Lets a test wait for what a thread does."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.go_on = threading.Event()
        self.cancelled = threading.Event()

    def run(self, ctx: Any) -> str:
        self.reached.set()
        self.go_on.wait(10)
        return f"result of {ctx.invokeid}"

    def on_cancel(self) -> None:
        self.cancelled.set()


def working(handler: Any) -> type[StateChart[Any]]:
    """Return a chart whose first state invokes a handler."""

    class Working(Logged, StateChart):
        here = State(initial=True, invoke=handler)
        there = State()
        broken = State()
        done_invoke_here = here.to(there, on="keep")
        error_execution = here.to(broken, on="keep")
        leave = here.to(there)
        again = there.to(here) | broken.to(here)
        ping = here.to.itself(internal=True)

        def keep(self, data: Any = None, error: Any = None) -> None:
            self.model.kept = data if error is None else repr(error)
            self.model.finished.set()

    return Working


def begin(handler: Any) -> StateChart[Any]:
    """Return such a chart, begun; its model has an event that is set when the work has ended."""
    return start(working(handler), {"finished": threading.Event()})


def test_work_reports_its_result_as_an_event() -> None:
    """What a handler returns comes as the data of `done.invoke.<state>.<n>`."""
    report = Report()
    chart = begin(report)
    report.go_on.set()
    assert chart.model.finished.wait(10)
    chart.send("nothing")
    assert chart.model.kept == "result of here.1"
    assert "done.invoke.here.1>there" in log_of(chart)


def test_work_that_raises_reports_its_error_as_an_event() -> None:
    """What a handler raises comes as the error of `error.execution`."""

    def fail() -> None:
        message = "it broke"
        raise ValueError(message)

    chart = begin(fail)
    assert chart.model.finished.wait(10)
    chart.send("nothing")
    assert states(chart) == ["broken"]
    assert chart.model.kept == "ValueError('it broke')"


def test_work_whose_state_is_left_is_told_and_its_result_is_dropped() -> None:
    """Leaving a state calls `on_cancel`; what the work returns afterwards changes nothing."""
    report = Report()
    chart = begin(report)
    assert report.reached.wait(10)
    chart.send("leave")
    assert report.cancelled.wait(10)
    before = list(log_of(chart))
    report.go_on.set()
    chart.send("nothing")
    assert log_of(chart) == before
    assert not chart.model.finished.is_set()


def test_ids_of_work_are_never_used_again() -> None:
    """A state that is entered anew numbers what it invokes on."""
    report = Report()
    chart = begin(report)
    chart.send("leave")
    chart.send("again")
    report.go_on.set()
    assert chart.model.finished.wait(10)
    chart.send("nothing")
    assert chart.model.kept == "result of here.2"


def test_work_may_send_events_to_its_chart() -> None:
    """`ctx.send` reaches the chart from the work's own thread."""
    go_on = threading.Event()

    def talk(ctx: Any) -> str:
        if ctx.invokeid == "here.1":  # the event enters its state again, which invokes it again
            ctx.send("ping")
        go_on.wait(10)
        return "said"

    chart = begin(talk)
    go_on.set()
    assert chart.model.finished.wait(10)
    chart.send("nothing")
    assert log_of(chart)[:2] == ["+here", "ping>here"]


async def test_coroutine_work_runs_as_a_task_of_the_loop() -> None:
    """A coroutine that a state invokes is awaited on the running loop."""

    class Awaiting(Awaited, StateChart):
        here = State(initial=True)
        there = State(final=True)
        done_invoke_here = here.to(there)

        async def on_invoke_here(self) -> int:
            await asyncio.sleep(0)
            return 5

    chart = start(Awaiting)
    await chart.activate_initial_state()
    await settle()
    assert chart.is_terminated


# -- trees ---------------------------------------------------------------------------------------


class Leaf(Logged, StateChart):
    """Works in two steps and gives something back."""

    first = State(initial=True)
    second = State()
    done = State(final=True)

    step = first.to(second)
    finish = second.to(done)
    echo = first.to.itself(on="shout")

    def on_enter_done(self) -> int:
        return 42

    def shout(self) -> None:
        send_up(self, "heard", what="echo")


class Branch(Logged, StateChart):
    """Invokes a leaf."""

    enable_self_transition_entries = False

    holding = State(initial=True, invoke=child(Leaf, id="leaf"))
    held = State(final=True)
    done_invoke_leaf = holding.to(held, on="keep")
    heard = holding.to.itself(internal=True, on="keep")
    poke = holding.to.itself(internal=True, on="pass_on")

    def keep(self, data: Any = None, what: str = "") -> None:
        self.model.data = data or what

    def pass_on(self) -> None:
        send_down(self, "leaf", "echo")


class Root(Logged, StateChart):
    """Invokes a branch, and talks to it."""

    enable_self_transition_entries = False

    growing = State(initial=True, invoke=child(Branch, forward=True))
    cut = State()
    grown = State(final=True)

    done_invoke_growing = growing.to(grown)
    down = growing.to.itself(internal=True, on="pass_on")
    saw = growing.to(cut)
    plant = cut.to(growing)

    def pass_on(self, what: str) -> None:
        send_down(self, "growing.1", what)


def nodes(chart: StateChart[Any]) -> dict[str, StateChart[Any]]:
    """Return the charts of a tree by their paths."""
    return {node.path: node.chart for node in chart._engine.node.walk()}


def test_children_are_charts_of_the_tree() -> None:
    """Each invoked chart is begun, and found by the ids of the invocations that lead to it."""
    tree = nodes(start(Root))
    assert list(tree) == ["", "growing.1", "growing.1/leaf"]
    assert states(tree["growing.1/leaf"]) == ["first"]


def test_a_child_that_ends_tells_its_parent_with_its_data() -> None:
    """`done.invoke` comes when a child has reached its end, with what its final state gave."""
    chart = start(Root)
    tree = nodes(chart)
    tree["growing.1/leaf"].send("step")
    tree["growing.1/leaf"].send("finish")
    assert tree["growing.1"].model.data == 42
    assert tree["growing.1"].is_terminated
    assert states(chart) == ["grown"]
    assert list(nodes(chart)) == [""]


def test_a_child_does_not_end_when_its_constructor_returns() -> None:
    """Unlike in the library, a child that waits is not done."""

    class Parent(StateChart):
        here = State(initial=True, invoke=Leaf)
        there = State(final=True)
        done_invoke_here = here.to(there)

    chart = start(Parent)
    assert states(chart) == ["here"]
    below = nodes(chart)["here.1"]
    below.send("step")
    below.send("finish")
    assert states(chart) == ["there"]


def test_events_go_down_and_up() -> None:
    """A parent sends to its child by id, a child to the chart that invoked it."""
    chart = start(Root)
    chart.send("down", what="poke")
    branch = nodes(chart)["growing.1"]
    assert "echo>first" in log_of(nodes(chart)["growing.1/leaf"])
    assert branch.model.data == "echo"
    assert log_of(branch)[-2:] == ["poke>holding", "heard>holding"]


def test_events_are_forwarded_to_who_asked_for_it() -> None:
    """What a parent takes reaches a child that is declared with `forward`, and no other."""
    chart = start(Root)
    chart.send("poke")
    assert log_of(nodes(chart)["growing.1"])[-2:] == ["poke>holding", "heard>holding"]
    assert log_of(chart) == ["+growing"]


def test_events_to_nobody_are_refused() -> None:
    """A chart without a parent has nobody above, and a child that is not there takes nothing."""
    chart = start(Root)
    with pytest.raises(EventRefusedError, match="the chart has no parent"):
        send_up(chart, "heard")
    with pytest.raises(EventRefusedError, match=r"no child 'leaf' \(running: 'growing.1'\)"):
        send_down(chart, "leaf", "step")


def test_charts_of_the_librarys_engine_have_nobody_to_send_to() -> None:
    """`send_up` and `send_down` need a tree, which only the durable engine has."""
    with pytest.raises(DefinitionError, match="not run by the durable engine"):
        send_up(charts.Flat(), "heard")


def test_a_state_that_is_left_drops_its_children_without_a_word() -> None:
    """The charts below a state that is left are gone, theirs too, and nobody is told."""
    chart = start(Root)
    tree = nodes(chart)
    chart.send("saw")
    assert list(nodes(chart)) == [""]
    assert states(chart) == ["cut"]
    assert not any("done.invoke" in text for text in log_of(chart))
    assert tree["growing.1"].is_terminated
    chart.send("plant")
    assert list(nodes(chart)) == ["", "growing.2", "growing.2/leaf"]


def test_a_child_that_cannot_be_made_is_an_error_of_its_parent() -> None:
    """What a child's constructor raises comes to the parent as `error.execution`."""

    class Faulty(StateChart):
        here = State(initial=True)
        there = State(final=True)
        go = here.to(there)

        def __init__(self, **kwargs: Any) -> None:
            message = "no such thing"
            raise LookupError(message)

    class Parent(Logged, StateChart):
        here = State(initial=True, invoke=child(Faulty))
        there = State(final=True)
        done_invoke_here = here.to(there)
        error_execution = here.to(there, on="keep")

        def keep(self, error: Exception) -> None:
            note(self, repr(error))

    chart = start(Parent)
    assert states(chart) == ["there"]
    assert "LookupError('no such thing')" in log_of(chart)


STEPS: list[str] = []
MORE = {"parent 1": "parent 2", "child 1": "child 2", "child 2": "child 3"}


class Writes(StateChart):
    """Writes into a list that all charts share when it takes a step, and may take another."""

    here = State(initial=True)
    take = here.to.itself(internal=True, on="write")

    def write(self, who: str) -> None:
        STEPS.append(who)
        if who in MORE:
            self.send("take", who=MORE[who])


class Spreads(Writes):
    """Gives two children something to do, then itself."""

    enable_self_transition_entries = False

    here = State(initial=True, invoke=[child(Writes, id="one"), child(Writes, id="two")])
    take = here.to.itself(internal=True, on="write")
    spread = here.to.itself(internal=True, on="send_all")

    def send_all(self) -> None:
        send_down(self, "two", "take", who="child 1")
        send_down(self, "one", "take", who="other child")
        self.send("take", who="parent 1")


def test_charts_of_a_tree_take_turns() -> None:
    """A chart runs until it has nothing to do, then the next that was given something."""
    STEPS.clear()
    start(Spreads).send("spread")
    assert STEPS == [
        "parent 1", "parent 2", "child 1", "child 2", "child 3", "other child",
    ]  # fmt: skip
