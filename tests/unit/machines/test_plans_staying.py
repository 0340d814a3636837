"""Transitions without a target run by plans: they leave nothing, and do what the library does."""

from __future__ import annotations

from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine
from statemachine.exceptions import InvalidDefinition

from machines import gate
from tests.unit.machines.both_ways import FLAGS, Step, failing_at, say, tell, the_same
from tests.unit.machines.charts import note

Flags = dict[str, bool]
GROUPS = ("before", "on", "after")


def flagged(base: type[StateChart[Any]], flags: Flags) -> type[StateChart[Any]]:
    """Return a chart with other rules."""
    return type(base)("Flagged", (base,), dict(flags))


class Notes(StateChart):
    """Takes notes in a state, whose callbacks name all that there is to be named."""

    a = State(initial=True, invoke=gate("write"))
    b = State()

    write = a.to(None, before="first", on="then", after="last")  # type: ignore[arg-type]  # the library takes it
    go = a.to(b) | b.to(a)

    def on_exit_state(self) -> None:
        note(self, "left")

    def on_enter_state(self) -> None:
        note(self, "entered")

    def first(self, state: State, source: State, target: Any, event: str, n: int = 0) -> str:
        given = {"state": state, "source": source, "target": target, "event": event, "n": n}
        tell(self, "before", given)
        return "first"

    def then(self, previous_configuration: Any, new_configuration: Any, target: Any) -> str:
        given = {"was": previous_configuration, "now": new_configuration, "target": target}
        tell(self, "on", given)
        return "then"

    def on_write(self, n: int = 0, **more: Any) -> int:
        tell(self, "on_write", {"n": n, **more})
        return n

    def last(self, state: State, source: State, target: Any, transition: Any) -> None:
        given = {"state": state, "source": source, "target": target, "transition": transition}
        tell(self, "after", given)

    def after_write(self, previous_configuration: Any = None, **more: Any) -> None:
        tell(self, "after_write", {"was": previous_configuration, **more})


@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_callbacks_get_what_they_name(flags: Flags) -> None:
    """The state is the source, there is no target, and both configurations are the same."""
    script: list[Step] = ["write", ("write", {"n": 2, "more": "x"}), "go", "go", "write"]
    assert the_same(flagged(Notes, flags), script) == len(script)


class Regions(StateChart):
    """A compound state and a region of a parallel one that take an event without moving."""

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State()
            go = l1.to(l2) | l2.to(l1)

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True)
            r2 = State()
            hear = r1.to(None, on="heard")  # type: ignore[arg-type]  # as above
            turn = r1.to(r2) | r2.to(r1)

    say = both.to(None, on="said")  # type: ignore[arg-type]  # as above

    def said(self, previous_configuration: Any, new_configuration: Any) -> str:
        note(self, [state.id for state in previous_configuration])
        return str([state.id for state in new_configuration])

    def heard(self, source: State) -> str:
        return source.id


def test_the_states_around_stay_as_they_are() -> None:
    """Of a compound state, and of one region while the other one is where it is."""
    script: list[Step] = ["say", "hear", "go", "say", "turn", "hear", "say", "turn", "hear"]
    assert the_same(Regions, script) == len(script)


PLACES = [f"{group}_{which}" for group in GROUPS for which in ("one", "two")]


class Fails(StateChart):
    """Fails where it is told to."""

    a = State(initial=True)
    b = State()
    stay = a.to(
        None,  # type: ignore[arg-type]  # as above
        before=["before_one", "before_two"],
        on=["on_one", "on_two"],
        after=["after_one", "after_two"],
    )
    go = a.to(b) | b.to(a)
    error_execution = a.to(None, on="hear") | b.to(None, on="hear")  # type: ignore[arg-type]  # as above

    def hear(self, error: Exception) -> None:
        note(self, f"heard {error!r}")


@pytest.mark.parametrize("kind", [ValueError, InvalidDefinition])
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("flags", FLAGS, ids=str)
def test_an_error_goes_where_the_library_sends_it(
    flags: Flags, place: str, kind: type[Exception]
) -> None:
    """Of each group: what is still called, told as an event, and raised."""
    cls = flagged(Fails, {**flags, **{name: failing_at(name) for name in PLACES}})
    script: list[Step] = [("stay", {"fail": place, "kind": kind}), "go", "go", "stay", "stay"]
    assert the_same(cls, script, stored=False) >= 2


class Busy(StateChart):
    """Sends and raises events in each of its callbacks."""

    a = State(initial=True)
    b = State()

    stay = a.to(None) | b.to(None)  # type: ignore[arg-type]  # as above
    ping = a.to(None, on="hear") | b.to(None, on="hear")  # type: ignore[arg-type]  # as above
    go = a.to(b) | b.to(a)

    def hear(self, who: str) -> str:
        note(self, f"ping of {who}")
        return "heard"

    def before_stay(self, do: dict[str, str]) -> str:
        return say(self, "before", do)

    def on_stay(self, do: dict[str, str]) -> str:
        return say(self, "on", do)

    def after_stay(self, do: dict[str, str]) -> str:
        return say(self, "after", do)


@pytest.mark.parametrize("what", ["raise ping", "send ping", "raise go", "send go"])
@pytest.mark.parametrize("group", GROUPS)
def test_events_of_callbacks_run_when_the_library_runs_them(group: str, what: str) -> None:
    """What is raised runs in the same macrostep, what is sent in one of its own."""
    script: list[Step] = [("stay", {"do": {group: what}}), ("stay", {"do": {}}), "go"]
    assert the_same(Busy, script) >= 2


class ByHand(StateChart):
    """Sets its state by hand where it is told to."""

    a = State(initial=True)
    b = State()

    stay = a.to(None) | b.to(None)  # type: ignore[arg-type]  # as above
    go = a.to(b) | b.to(a)

    def _set(self, group: str, where: str) -> str:
        note(self, f"{group} at {self.current_state_value}")
        if where == group:
            self.current_state_value = "b"
        return group

    def before_stay(self, where: str = "") -> str:
        return self._set("before", where)

    def on_stay(self, where: str = "") -> str:
        return self._set("on", where)

    def after_stay(self, where: str = "") -> str:
        return self._set("after", where)


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("group", GROUPS)
def test_a_state_set_by_hand_counts_as_in_the_library(flags: Flags, group: str) -> None:
    """A callback that sets the chart's state is overruled where the library does it, only there."""
    script: list[Step] = [("stay", {"where": group}), "stay", "go", "stay"]
    assert the_same(flagged(ByHand, flags), script) >= 1


class Silent(StateMachine):
    """Calls nothing on an event that changes nothing."""

    a = State(initial=True)
    b = State()
    stay = a.to(None)  # type: ignore[arg-type]  # as above
    go = a.to(b) | b.to(a)


def test_an_event_without_any_effect_takes_a_plan_too() -> None:
    """It is answered with nothing, and the chart stays as it was."""
    assert the_same(Silent, ["stay", "go", "go", "stay"]) == 4
