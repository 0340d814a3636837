"""Whatever joins a chart, or is put into its place, is known to its plans."""

from __future__ import annotations

from inspect import iscoroutine
from types import SimpleNamespace
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines.binding import start
from tests.unit.machines import charts
from tests.unit.machines.both_ways import Step, tell, the_same
from tests.unit.machines.charts import note
from tests.unit.machines.test_plans_left import Ring, taken_of


class Listening:
    """A listener that notes what it hears, and prepares if it is told to."""

    def __init__(self, chart: StateChart[Any]) -> None:
        self.chart = chart

    def on_go(self, event: str) -> str:
        note(self.chart, f"heard {event}")
        return "heard"

    def on_exit_state(self, state: State) -> None:
        tell(self.chart, "left", {"state": state})

    def after_transition(self, target: State) -> None:
        tell(self.chart, "after", {"target": target})


class Preparing(Listening):
    """A listener that prepares events."""

    def prepare_event(self) -> dict[str, int]:
        note(self.chart, "prepared")
        return {}


def listen(chart: StateChart[Any], kind: type = Listening) -> None:
    """Add a listener."""
    chart.add_listener(kind(chart))


@pytest.mark.parametrize("before", [[], ["go"], ["go", "go", "nothing"]])
def test_a_listener_that_joins_is_heard(before: list[Step]) -> None:
    """Plans that were made before it joined are made anew."""
    script: list[Step] = [*before, listen, "go", "go", listen, "go"]
    assert the_same(Ring, script, stored=False) == len(before) + 3


def test_a_listener_that_prepares_events_ends_the_plans() -> None:
    """From there on all events are the library's."""

    def prepare(chart: StateChart[Any]) -> None:
        listen(chart, Preparing)

    assert the_same(Ring, ["go", prepare, "go", "go"], stored=False) == 1


def test_a_listener_that_learns_more_and_joins_again_is_heard() -> None:
    """The number of listeners is the same, what they listen to is not."""

    def learn(chart: StateChart[Any]) -> None:
        (listener,) = chart.active_listeners
        listener.on_enter_b = lambda: note(chart, "entered b")
        chart.add_listener(listener)

    def again(chart: StateChart[Any]) -> None:
        (listener,) = chart.active_listeners
        listener.before_transition = lambda: note(chart, "before")
        listener.before_go = lambda: note(chart, "before go")
        chart.add_listener(listener)

    script: list[Step] = [listen, "go", "go", learn, "go", "go", again, "go", "go"]
    assert the_same(Ring, script, stored=False) == 6


NAMES = {
    "before": "before_go",
    "exit": "on_exit_state",
    "on": "on_go",
    "enter": "on_enter_state",
    "after": "after_go",
}


def hearing(chart: StateChart[Any], group: str) -> object:
    """Return a listener that hears one group of callbacks."""

    def heard(event: str) -> str:
        note(chart, f"{group} of {event}")
        return group

    listener = SimpleNamespace()
    setattr(listener, NAMES[group], heard)
    return listener


class Joins(StateChart):
    """Adds a listener in the callbacks of each group."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)

    def _join(self, group: str, where: str, hears: str) -> str:
        if group == where:
            self.add_listener(hearing(self, hears))
        return group

    def before_go(self, where: str = "", hears: str = "") -> str:
        return self._join("before", where, hears)

    def on_exit_a(self, where: str = "", hears: str = "") -> str:
        return self._join("exit", where, hears)

    def on_transition(self, where: str = "", hears: str = "") -> str:
        return self._join("on", where, hears)

    def on_enter_b(self, where: str = "", hears: str = "") -> str:
        return self._join("enter", where, hears)

    def after_transition(self, where: str = "", hears: str = "") -> str:
        return self._join("after", where, hears)


class JoinsMachine(Joins, StateMachine):
    """The same, with errors that reach the caller."""


@pytest.mark.parametrize("hears", NAMES)
@pytest.mark.parametrize("where", NAMES)
@pytest.mark.parametrize("cls", [Joins, JoinsMachine])
def test_a_listener_that_joins_in_a_callback_is_heard_in_what_follows(
    cls: type[StateChart[Any]], where: str, hears: str
) -> None:
    """The groups that come later in the same microstep call it, as in the library.

    The group that it joins while that is being called fails as there.
    """
    script: list[Step] = [("go", {"where": where, "hears": hears}), "go", "go"]
    assert the_same(cls, script, stored=False) >= 2


class JoinsAwaiting(StateChart):
    """Adds a listener with a coroutine, which this engine does not await."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)

    def before_go(self) -> None:
        if not self.active_listeners:
            self.add_listener(SimpleNamespace(on_go=self._later))

    async def _later(self) -> str:
        note(self, "never")
        return "never"

    def on_go(self) -> str:
        return "on"


def test_a_coroutine_that_joins_a_chart_without_any_is_left_to_the_library() -> None:
    """It is called and not awaited, as there: its result is a coroutine."""

    def sent(chart: StateChart[Any]) -> list[str]:
        results = chart.send("go")
        for result in results:
            if iscoroutine(result):
                result.close()
        return [type(result).__name__ for result in results]

    assert the_same(JoinsAwaiting, [sent, sent], stored=False) == 1


class Patched(Ring):
    """Has a callback of its own on the instance, made before its callbacks are looked for."""

    def __init__(self, model: Any = None, **given: Any) -> None:
        self.on_go = lambda event: f"own {event}"
        super().__init__(model, **given)


def test_a_callback_of_the_instance_is_the_one_that_is_called() -> None:
    """Set before the callbacks are resolved it counts, set afterwards it does not."""

    def patch(chart: Any) -> None:
        chart.on_go = lambda: "later"
        chart.on_enter_b = lambda: note(chart, "never")

    assert the_same(Patched, ["go", patch, "go", "go"], stored=False) == 3


def test_two_charts_of_a_class_call_their_own() -> None:
    """Routes are shared by the class, callbacks are not."""
    with_one, without = start(Ring), start(Ring)
    listen(with_one)
    for chart in (with_one, without, with_one, without):
        chart.send("go")
    assert sum("heard" in text for text in charts.log_of(with_one)) == 2
    assert not any("heard" in text for text in charts.log_of(without))
    assert taken_of(with_one) == taken_of(without) == 2


def test_flags_are_read_when_they_matter() -> None:
    """What is set on an instance between two events counts for the next one."""

    def set_flags(chart: StateChart[Any]) -> None:
        chart.atomic_configuration_update = True
        chart.allow_event_without_transition = False

    class Flagged(Ring):
        def on_go(self) -> Any:
            return self.current_state_value

    script: list[Step] = ["go", "nothing", set_flags, "go", "nothing", "go"]
    assert the_same(Flagged, script, stored=False) == 3
