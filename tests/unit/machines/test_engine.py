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

from machines import capture, child, rebuild
from machines.binding import start
from machines.errors import MicrostepLimitError
from machines.limits import MICROSTEPS_MAX
from snapshots.testing import ManualClock
from tests.unit.machines import behaviours, charts
from tests.unit.machines.charts import Awaited, Logged, log_of, note

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
        behaviours.InternalMachine, ["inside", "step", "inside", "down", "outside", "over"],
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


# -- the same as under the library's engine --------------------------------------------------------


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
