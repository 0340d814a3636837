"""Ordinary transitions run by plans do what the library does, and what is saved is the same."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine
from statemachine.exceptions import InvalidDefinition

from tests.unit.machines import behaviours
from tests.unit.machines.both_ways import FLAGS, Step, failing_at, say, tell, the_same
from tests.unit.machines.charts import log_of, note
from tests.unit.machines.test_engine import SCRIPTS


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_chart_does_the_same_with_plans_and_without(name: str) -> None:
    """Callbacks, results, errors, configurations and snapshots are the same on both ways."""
    cls, script = SCRIPTS[name]
    the_same(cls, script)


ORDINARY = {"results": 9, "internal before external events": 2, "data of events": 1}


@pytest.mark.parametrize("name", ORDINARY)
def test_those_charts_take_plans(name: str) -> None:
    """The comparison is not one of the library with itself: ordinary events take plans."""
    cls, script = SCRIPTS[name]
    assert the_same(cls, script) == ORDINARY[name]


# -- what callbacks are given --------------------------------------------------------------------


class Told(StateChart):
    """Callbacks of every group, by name and in line, that name all that there is to be named."""

    a = State(initial=True, exit="a_is_left")
    b = State(enter="b_is_entered")

    go = a.to(b, before="first", on="then", after="last")
    back = b.to(a) | a.to.itself()

    def first(self, machine: Any, model: Any, event: Any, transition: Any, state: Any) -> str:
        given = {"machine": machine, "model": model, "event": event, "transition": transition}
        tell(self, "before", {**given, "state": state})
        return "first"

    def before_go(self, source: State, target: State, n: int = 7) -> None:
        tell(self, "before_go", {"source": source, "target": target, "n": n})

    def before_transition(self) -> str:
        tell(self, "before_transition", {})
        return "general"

    def a_is_left(self, state: State, source: State, target: State, event: str) -> None:
        tell(self, "exit", {"state": state, "source": source, "target": target, "event": event})

    def then(self, previous_configuration: Any, new_configuration: Any, source: State) -> str:
        given = {"previous": previous_configuration, "new": new_configuration, "source": source}
        tell(self, "on", given)
        return "then"

    def on_go(self, n: int, *, more: str = "none") -> int:
        tell(self, "on_go", {"n": n, "more": more})
        return n

    def b_is_entered(self, state: State, source: State, target: State, machine: Any) -> None:
        tell(self, "enter", {"state": state, "source": source, "target": target, "of": machine})

    def last(self, state: State, source: State, target: State, transition: Any) -> str:
        given = {"state": state, "source": source, "target": target, "transition": transition}
        tell(self, "after", given)
        return "unheard"


class ToldMachine(Told, StateMachine):
    """The same, with both states changed at once and errors that reach the caller."""

    allow_event_without_transition = False
    enable_self_transition_entries = False
    atomic_configuration_update = True
    catch_errors_as_events = False


TELLING: list[Step] = [
    ("go", {"n": 1}), "back", ("go", {"n": 2, "more": "x", "unknown": 5}), "back", "back", "go",
    ("back", {"n": 1}), ("go", {"n": 3, "previous_configuration": "mine"}),
]  # fmt: skip


@pytest.mark.parametrize(("cls", "slow"), [(Told, 0), (ToldMachine, 1)])
def test_callbacks_get_what_they_name(cls: type[StateChart[Any]], slow: int) -> None:
    """Exit gets the chart's own state, enter the class's; `on` both configurations.

    The event after one that raised is the library's: something may be left to be saved.
    """
    assert the_same(cls, TELLING) == len(TELLING) - slow


class Greedy(StateChart):
    """Callbacks that take whatever there is, in each way that there is to say so."""

    a = State(initial=True)
    b = State()

    go = a.to(b)
    back = b.to(a)

    def before_transition(self, event_data: Any, **_: Any) -> None:
        tell(self, "before", {"event_data": event_data})

    def on_exit_state(self, state: State, **more: Any) -> None:
        tell(self, "exit", {"state": state, **more})

    def on_transition(self, *args: Any, source: State, **more: Any) -> None:
        tell(self, "on", {"args": args, "source": source, **more})

    def on_enter_state(self, state: State, /, n: int = 0) -> None:
        tell(self, "enter", {"state": state, "n": n})

    def on_enter_b(self, **more: Any) -> None:
        tell(self, "enter b", more)

    def after_transition(self, event_data: Any) -> None:
        tell(self, "after", {"event_data": event_data})

    def after_go(self, **more: Any) -> None:
        tell(self, "after go", more)


def test_callbacks_that_take_all_get_all() -> None:
    """`**kw`, `*args` and `event_data` get the library's own objects; so does what cannot work."""
    script: list[Step] = [("go", {"n": 1, "x": [1, 2]}), "back", "go", ("back", {"n": 2})]
    assert the_same(Greedy, script) == len(script)


def _loud(model: Any, amount: int = 0, mark: str = "") -> str:
    return f"{amount}{mark} {type(model).__name__}"


class Shared(StateChart):
    """Two events of one transition, each with callbacks named after it."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)
    leave = go

    def before_go(self) -> str:
        return "before go"

    def on_go(self) -> str:
        return "go"

    def on_leave(self) -> str:
        return "leave"

    def after_leave(self) -> None:
        note(self, "left")


def test_callbacks_named_after_an_event_are_called_for_that_one() -> None:
    """Others of the same transition are not, whichever came first."""
    script: list[Step] = ["go", "leave", "leave", "go", "go"]
    assert the_same(Shared, script) == len(script)


class Shapes(StateMachine):
    """Parameters with and without defaults, in orders that decide how they are given."""

    a = State(initial=True)
    go = a.to.itself(on="needs")
    maybe = a.to.itself(on="may_have")
    gap = a.to.itself(on="has_a_gap")
    named = a.to.itself(on="by_name")
    attribute = a.to.itself(on="label")
    bound = a.to.itself(on=partial(_loud, mark="!"))

    label = "a label"

    def needs(self, amount: int, to: str) -> str:
        return f"{amount} to {to}"

    def may_have(self, amount: int = 1, model: Any = None) -> str:
        return f"{amount} {type(model).__name__}"

    def has_a_gap(self, first: int = 1, state: Any = None, last: int = 3) -> str:
        return f"{first} {state.id} {last}"

    def by_name(self, *, amount: int, state: State, other: int = 0) -> str:
        return f"{amount} {state.id} {other}"


def test_parameters_are_bound_as_the_library_binds_them() -> None:
    """What is missing has its default, or is missed in the library's words."""
    script: list[Step] = [
        "go", ("go", {"amount": 1}), ("go", {"to": "x"}), ("go", {"to": "x", "amount": 2}),
        "maybe", ("maybe", {"amount": 5}), ("maybe", {"other": 5}),
        "gap", ("gap", {"last": 9}), ("gap", {"first": 8}), ("gap", {"first": 8, "last": 9}),
        "named", ("named", {"amount": 1}), ("named", {"amount": 1, "other": 2}),
        "attribute", "bound",
    ]  # fmt: skip
    assert the_same(Shapes, script) == 12  # the event after one that raised is the library's


def test_data_with_names_that_the_library_stumbles_over_fails_as_there() -> None:
    """`key` and `on_error` are parameters of the library's own calls."""
    data = {"amount": 1, "to": "x"}
    script: list[Step] = []
    for word in ("key", "on_error", "state"):
        script += [("maybe", {word: 1}), "maybe", ("go", {word: 1, **data}), "maybe"]
    assert the_same(Shapes, script) == 4  # `state` is dropped before the event is queued


# -- results and errors --------------------------------------------------------------------------


class Fails(StateChart):
    """Fails where it is told to, in what it is told to."""

    a = State(initial=True, exit=["exit_one", "exit_two"])
    b = State(enter=["enter_one", "enter_two"])

    go = a.to(
        b,
        before=["before_one", "before_two"],
        on=["on_one", "on_two"],
        after=["after_one", "after_two"],
    )
    back = b.to(a)
    error_execution = a.to.itself(on="hear", internal=True) | b.to.itself(on="hear", internal=True)

    def hear(self, error: Exception) -> None:
        note(self, f"heard {error!r}")


PLACES = [f"{group}_{which}" for group in ("before", "exit", "on", "enter", "after")
          for which in ("one", "two")]  # fmt: skip


def failing(base: type[StateChart[Any]], **flags: bool) -> type[StateChart[Any]]:
    """Return a class that can fail in each of its callbacks."""
    body = {place: failing_at(place) for place in PLACES}
    return type(base)("Failing", (base,), {**body, **flags})


@pytest.mark.parametrize("kind", [ValueError, InvalidDefinition])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_an_error_goes_where_the_library_sends_it(
    flags: dict[str, bool], place: str, kind: type[Exception]
) -> None:
    """Of each group: what is still called, put back, told as an event, and raised."""
    cls = failing(Fails, **flags)
    script: list[Step] = [("go", {"fail": place, "kind": kind}), "go", "back", "back", "go"]
    assert the_same(cls, script, stored=False) >= 2


class Interrupts(StateMachine):
    """Is ended by something that is no error."""

    a = State(initial=True)
    b = State()
    go = a.to(b, on="stop")
    back = b.to(a)

    def stop(self) -> None:
        raise KeyboardInterrupt


def test_what_is_no_exception_leaves_at_once() -> None:
    """An interrupt is not caught, and nothing is put back."""

    def interrupted(chart: StateChart[Any]) -> str:
        with pytest.raises(KeyboardInterrupt):
            chart.send("go")
        return "interrupted"

    the_same(Interrupts, [interrupted], stored=False)


@pytest.mark.parametrize(
    ("cls", "script"),
    [
        (behaviours.Results, ["one", "none", "many", "many", "listed", "listed", "falsy"]),
        (behaviours.Order, ["go", "back"]),
    ],
)
def test_results_are_nothing_one_or_a_list(cls: type[StateChart[Any]], script: list[Step]) -> None:
    """What `before` and `on` return is the result, of exit, enter and `after` nothing is."""
    the_same(cls, script)


# -- what callbacks do ---------------------------------------------------------------------------


class Busy(StateChart):
    """Sends and raises events in the callbacks of each group."""

    a = State(initial=True)
    b = State()
    c = State()

    go = a.to(b)
    back = b.to(a) | c.to(a)
    aside = b.to(c) | a.to(c)
    ping = a.to.itself(internal=True, on="hear") | b.to.itself(internal=True, on="hear")

    def hear(self, who: str) -> str:
        note(self, f"ping of {who}")
        return "heard"

    def before_go(self, do: dict[str, str]) -> str:
        return say(self, "before", do)

    def on_exit_a(self, do: Any = ()) -> str:
        return say(self, "exit", dict(do))

    def on_go(self, do: dict[str, str]) -> str:
        return say(self, "on", do)

    def on_enter_b(self, do: dict[str, str]) -> str:
        return say(self, "enter", do)

    def after_go(self, do: dict[str, str]) -> str:
        return say(self, "after", do)


GROUPS = ("before", "exit", "on", "enter", "after")


@pytest.mark.parametrize("what", ["raise ping", "send ping", "raise aside", "send aside"])
@pytest.mark.parametrize("group", GROUPS)
def test_events_of_callbacks_run_when_the_library_runs_them(group: str, what: str) -> None:
    """What is raised runs in the same macrostep, what is sent in one of its own."""
    script: list[Step] = [("go", {"do": {group: what}}), "back", ("go", {"do": {}})]
    taken = the_same(Busy, script)
    assert taken >= 3


class ByHand(StateChart):
    """Sets its state by hand where it is told to."""

    a = State(initial=True)
    b = State()
    c = State()

    go = a.to(b) | c.to(b)
    back = b.to(a) | c.to(a)
    aside = a.to(c)

    def _set(self, group: str, where: str) -> str:
        note(self, f"{group} at {self.current_state_value}")
        if where == group:
            self.current_state_value = "c"
        return group

    def before_go(self, where: str = "") -> str:
        return self._set("before", where)

    def on_exit_a(self, where: str = "") -> str:
        return self._set("exit", where)

    def on_go(self, where: str = "") -> str:
        return self._set("on", where)

    def on_enter_b(self, where: str = "") -> str:
        return self._set("enter", where)

    def after_go(self, where: str = "") -> str:
        return self._set("after", where)


class ByHandAtOnce(ByHand, StateMachine):
    """The same, with both states changed at once."""

    allow_event_without_transition = True
    atomic_configuration_update = True


@pytest.mark.parametrize("cls", [ByHand, ByHandAtOnce])
@pytest.mark.parametrize("group", GROUPS)
def test_a_state_set_by_hand_counts_as_in_the_library(
    cls: type[StateChart[Any]], group: str
) -> None:
    """A callback that sets the chart's state is not overruled where the library does not."""
    script: list[Step] = [("go", {"where": group}), "back", "go", lambda chart: log_of(chart)[-1]]
    assert the_same(cls, script) >= 1
