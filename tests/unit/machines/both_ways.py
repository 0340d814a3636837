"""Plays a script on a chart by plans, by the durable engine without them, and by the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from statemachine import State, StateChart
from statemachine.orderedset import OrderedSet

from machines import capture
from machines.binding import start
from machines.engine import fast
from snapshots.testing import ManualClock
from tests.unit.machines.charts import log_of, note

Step = str | tuple[Any, ...] | Callable[[StateChart[Any]], object]
"""An event, or one with arguments and a dict of data, or something to be done to the chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """What a script showed: after each step, and how many events were run by plans."""

    seen: list[tuple[object, ...]]
    blobs: list[bytes]
    taken: int


def play(
    cls: type[StateChart[Any]], script: Sequence[Step], *, plans: bool, stored: bool = True
) -> Played:
    """Play a script on a new chart of the durable engine."""
    with fast.enabled(plans):
        chart = start(cls, clock=ManualClock())
        seen, blobs = [look(chart, None)], [capture(chart).blob if stored else b""]
        for step in script:
            seen.append(look(chart, do(chart, step)))
            blobs.append(capture(chart).blob if stored else b"")
    engine: Any = chart._engine
    return Played(seen=seen, blobs=blobs, taken=engine.planned)


def play_in_the_library(
    cls: type[StateChart[Any]], script: Sequence[Step]
) -> list[tuple[object, ...]]:
    """Play a script on a new chart of the library's own engine."""
    chart = cls()
    return [look(chart, None), *(look(chart, do(chart, step)) for step in script)]


def the_same(
    cls: type[StateChart[Any]], script: Sequence[Step], *, stored: bool = True, plain: bool = True
) -> int:
    """Assert that a script shows the same in all three ways; return how many events took plans.

    `stored` compares the bytes of the snapshot after each step, too; `plain` the library's run.
    """
    by_plans = play(cls, script, plans=True, stored=stored)
    without = play(cls, script, plans=False, stored=stored)
    assert by_plans.seen == without.seen
    assert by_plans.blobs == without.blobs
    assert without.taken == 0
    if plain:
        assert by_plans.seen == play_in_the_library(cls, script)
    return by_plans.taken


def do(chart: StateChart[Any], step: Step) -> object:
    """Send an event, or do something else; return what came of it, an exception in words."""
    try:
        if callable(step) and not isinstance(step, str):
            return step(chart)
        event, *rest = (step,) if isinstance(step, str) else step
        data = rest.pop() if rest and isinstance(rest[-1], dict) else {}
        return chart.send(event, *rest, **data)
    except Exception as error:  # noqa: BLE001 - what a chart raises is what is compared
        return type(error), str(error)


def look(chart: StateChart[Any], outcome: object) -> tuple[object, ...]:
    """Return what is to be seen of a chart after a step."""
    states = [state.id for state in chart.configuration]
    raw = repr(chart.current_state_value)
    shown = None if isinstance(outcome, StateChart) else outcome
    return shown, states, raw, list(log_of(chart)), chart.is_terminated


def tell(chart: StateChart[Any], where: str, given: dict[str, object]) -> None:
    """Note what a callback was given, with the kind of each state and where the chart is now."""
    parts = [f"{name}={show(given[name])}" for name in sorted(given)]
    active = ",".join(state.id for state in chart.configuration)
    log_of(chart).append(f"{where}[{active}] {' '.join(parts)}")


def show(value: object) -> str:
    """Return a value in words that are the same for every chart of a class."""
    if isinstance(value, State):
        return f"{type(value).__name__}:{value.id}"
    if isinstance(value, StateChart) or hasattr(value, "log"):
        return type(value).__name__
    if isinstance(value, OrderedSet):
        return "{" + ",".join(map(show, value)) + "}"
    if type(value).__name__ in ("EventData", "Transition"):
        found: Any = value
        return f"{type(value).__name__}({show(found.source)}>{show(found.target)})"
    return f"{type(value).__name__}:{value}"


FLAGS = [
    {"catch_errors_as_events": caught, "atomic_configuration_update": at_once}
    for caught in (True, False)
    for at_once in (True, False)
]


def failing_at(name: str) -> Any:
    """Return a callback that fails if it is told to by its name."""

    def callback(self: Any, fail: str = "", kind: type[Exception] = ValueError) -> str:
        note(self, name)
        if fail == name:
            raise kind(name)
        return name

    callback.__name__ = callback.__qualname__ = name
    return callback


def say(self: Any, who: str, do: dict[str, str]) -> str:
    """Note where a callback is called, and do there what it is told to; return its name."""
    note(self, f"{who} in {[state.id for state in self.configuration]}")
    if (what := do.get(who)) is not None:
        how, _, event = what.partition(" ")
        sent = self.raise_(event, who=who) if how == "raise" else self.send(event, who=who)
        note(self, f"{who} got {sent}")
    return who
