"""What is out of the ordinary is left to the library; what only looks so takes plans."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from statemachine import Event, HistoryState, State, StateChart, StateMachine
from statemachine.contrib.weighted import weighted_transitions
from statemachine.exceptions import TransitionNotAllowed

from machines import child, children, gate, spawn, timeout
from machines.binding import start
from machines.engine import fast
from machines.engine.routes import IGNORED, KEPT
from machines.limits import PLANS_MAX, ROUTES_MAX
from snapshots.testing import ManualClock
from tests.unit.machines import charts
from tests.unit.machines.both_ways import Step, play, tell, the_same
from tests.unit.machines.charts import Logged, note


def taken_of(chart: StateChart[Any]) -> int:
    """Return how many events a chart ran by plans."""
    engine: Any = chart._engine
    taken: int = engine.planned
    return taken


# -- left to the library ---------------------------------------------------------------------------


class Ring(Logged, StateChart):
    """Two states in a ring, to be made unlike others by what is added."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)


class Guarded(Logged, StateChart):
    """A guard, which is asked each time."""

    a = State(initial=True)
    b = State()
    go = a.to(b, cond="may") | a.to.itself() | b.to(a, unless="may")
    may = True


class Second(Logged, StateChart):
    """A transition without a guard behind one with a guard."""

    a = State(initial=True)
    b = State()
    go = a.to(b, cond="may") | a.to.itself() | b.to(a)
    may = False


class Validated(Logged, StateChart):
    """A validator."""

    a = State(initial=True)
    b = State()
    go = a.to(b, validators="check") | b.to(a, validators="check")

    def check(self) -> None:
        note(self, "checked")


class Prepared(Ring):
    """Prepares what callbacks get."""

    def prepare_event(self) -> dict[str, int]:
        note(self, "prepared")
        return {"prepared": 1}


class Eventless(Logged, StateChart):
    """An eventless transition whose guard is asked before each event, and noted."""

    a = State(initial=True)
    b = State()
    go = a.to.itself() | b.to(a)
    a.to(b, cond="ready")

    def ready(self) -> bool:
        note(self, "asked")
        return False

    away = a.to(b)


class Ends(Logged, StateChart):
    """A final state, and one of a compound state."""

    class part(State.Compound):  # noqa: N801 - a state is named as its id
        a = State(initial=True)
        b = State(final=True)
        go = a.to(b)

    end = State(final=True)
    done_state_part = part.to(end)


class IntoParts(Logged, StateChart):
    """Compound and parallel targets, out of them again, and histories."""

    out = State(initial=True)

    class part(State.Compound):  # noqa: N801 - a state is named as its id
        a = State(initial=True)
        b = State()
        back = HistoryState()
        a.to(b, event="never")

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True)

    go = out.to(part) | part.to(both) | both.to(part.back)


class Inside(Logged, StateChart):
    """Internal transitions."""

    a = State(initial=True)
    b = State()
    go = a.to.itself(internal=True)
    away = a.to(b)
    back = b.to(a)

    def say(self) -> str:
        return "said"


class Several(Logged, StateChart):
    """One event that two regions take."""

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State()
            go = l1.to(l2) | l2.to(l1)

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True)
            r2 = State()
            go = r1.to(r2) | r2.to(r1)


class Weighted(Logged, StateChart):
    """A generator that the class shares between its charts."""

    a = State(initial=True)
    b = State()
    go = weighted_transitions(a, (a, 1), (b, 1), seed=3) | b.to(a)


class Strict(Logged, StateMachine):
    """Refuses what no transition takes."""

    a = State(initial=True)
    b = State()
    away = a.to(b)
    back = b.to(a)


class Own(StateChart):
    """Has its configuration in its own way."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)

    @property
    def configuration(self) -> Any:
        """The library's, but it might be any."""
        return self._config.states

    @configuration.setter
    def configuration(self, states: Any) -> None:
        self._config.states = states


class Faulty(Logged, StateChart):
    """Hears of errors, its own and others'."""

    a = State(initial=True)
    b = State()
    error_execution = a.to(b)
    back = b.to(a)
    done_invoke_x = a.to(b)


class Choosy(Logged, StateChart):
    """A callback that is asked whether it is to be called."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)

    def choosy(self) -> None:
        note(self, "chosen")


for _transition in (*Choosy.a.transitions, *Choosy.b.transitions):
    _transition.on.add("choosy", cond=lambda *_args, n=0, **_data: n > 0)


SLOW: dict[str, tuple[type[StateChart[Any]], list[Step]]] = {
    "guards": (Guarded, ["go", "go", "go"]),
    "a guard before the transition": (Second, ["go"]),
    "validators": (Validated, ["go", "go"]),
    "prepare_event": (Prepared, ["go", "go"]),
    "an eventless transition": (Eventless, ["go", "nothing"]),
    "final states": (Ends, ["go"]),
    "compound, parallel and history targets": (IntoParts, ["go", "go", "go", "go"]),
    "internal transitions": (Inside, ["go", "go"]),
    "two transitions": (Several, ["go", "go"]),
    "what a class shares": (Weighted, ["go", "go", "go", "go"]),
    "positional arguments": (Ring, [("go", 1), ("go", 2)]),
    "conditions of callbacks": (Choosy, ["go", ("go", {"n": 1})]),
    "an event that is refused": (Strict, ["back", "back"]),
    "an own configuration": (Own, ["go", "go"]),
    "errors from outside": (Faulty, [("error.execution", {"error": ValueError("x")})]),
    "the end of what was invoked": (Faulty, ["done.invoke.x"]),
}


@pytest.mark.parametrize("why", SLOW)
def test_what_is_out_of_the_ordinary_is_left_to_the_library(why: str) -> None:
    """No plan is taken, and all is as it is without plans."""
    cls, script = SLOW[why]
    assert the_same(cls, script, plain=cls is not Own and cls is not Weighted) == 0


def test_an_ordinary_chart_takes_plans() -> None:
    """What the cases above are made from is ordinary without what was added."""
    assert the_same(Ring, ["go", "nothing", "go", ("go", {"n": 1})]) == 4


class AsyncRing(charts.Awaited, StateChart):
    """Coroutines make the library choose its other engine."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)


async def test_a_chart_with_coroutines_takes_no_plans() -> None:
    """The asynchronous engine has none; it says of no turn that it ran it."""
    chart = start(AsyncRing)
    await chart.activate_initial_state()
    await chart.send("go")
    assert [state.id for state in chart.configuration] == ["b"]
    engine: Any = chart._engine
    assert not engine.turn_by_plans()
    assert not engine.rests_by_itself()


def test_a_chart_that_logs_is_left_to_the_library(caplog: pytest.LogCaptureFixture) -> None:
    """With debug logging on, the library's own messages are wanted, and come."""
    with caplog.at_level(logging.DEBUG, logger="statemachine.engines.base"):
        assert the_same(Ring, ["go"]) == 0
    assert any("Exiting state" in record.getMessage() for record in caplog.records)


# -- models ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class Slotted:
    """A model whose state lies in a slot."""

    state: str | None = None
    log: Any = None


class Watching:
    """A model that notes what is set on it."""

    def __init__(self) -> None:
        self.log: list[str] = []

    def __setattr__(self, name: str, value: object) -> None:
        if name == "state":
            self.log.append(f"state = {value!r}")
        super().__setattr__(name, value)


class Described:
    """A model whose state is a property."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._state: str | None = None

    @property
    def state(self) -> str | None:
        """The state, noted."""
        return self._state

    @state.setter
    def state(self, value: str | None) -> None:
        self.log.append(f"state = {value!r}")
        self._state = value


class Defaulted:
    """A model whose class has a state, but no more than that."""

    state: str | None = None

    def __init__(self) -> None:
        self.log: list[str] = []


class WithListeners(StateChart):
    """Takes a model and listeners as the library does."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)

    made: Callable[[], Any] = Defaulted

    def __init__(self, model: Any = None, **given: Any) -> None:
        del model
        super().__init__(type(self).made(), **given)


def with_model(kind: type) -> type[StateChart[Any]]:
    """Return a class of charts that make their model themselves."""
    return type(WithListeners)("Modelled", (WithListeners,), {"made": kind})


@pytest.mark.parametrize(
    ("kind", "taken"), [(Slotted, 3), (Defaulted, 3), (Watching, 0), (Described, 0)]
)
def test_a_model_with_ways_of_its_own_is_left_to_the_library(kind: type, taken: int) -> None:
    """What is written to a plain model or a slot is what is read; else the library writes it."""
    assert the_same(with_model(kind), ["go", "go", "go"], stored=False) == taken


def test_a_model_that_is_replaced_is_what_callbacks_get() -> None:
    """The state stays with the first model, as in the library."""

    class Shows(WithListeners):
        def on_go(self, model: Any) -> str:
            return type(model).__name__

    def replace(chart: StateChart[Any]) -> None:
        chart.model = Watching()

    script: list[Step] = ["go", replace, "go", "go"]
    assert the_same(Shows, script, stored=False) == 3


# -- where plans are taken that look unlikely ------------------------------------------------------


class Regions(Logged, StateChart):
    """Two regions that move apart from each other, and states in states."""

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State()
            flip = l1.to(l2) | l2.to(l1)

        class right(State.Compound):  # noqa: N801 - as above
            class deep(State.Compound):  # noqa: N801 - as above
                r1 = State(initial=True)
                r2 = State()
                turn = r1.to(r2) | r2.to(r1) | r2.to.itself()

    def on_transition(
        self, event: str, previous_configuration: Any = (), new_configuration: Any = ()
    ) -> None:
        tell(self, event, {"from": previous_configuration, "to": new_configuration})


def test_one_region_moves_and_the_order_of_states_is_the_librarys() -> None:
    """What is entered stands last in the configuration, as the library puts it there."""
    script: list[Step] = ["flip", "turn", "turn", "flip", "nothing", "flip", "turn"]
    assert the_same(Regions, script) == len(script)


class Values(Logged, StateChart):
    """States whose values are numbers, a tuple and a text of another's name."""

    a = State(initial=True, value=1)
    b = State(value=("b", "c"))
    c = State(value="b")
    go = a.to(b) | b.to(c) | c.to(a)


def test_states_with_values_of_their_own_take_plans() -> None:
    """A state is known by its value, whatever that is."""
    assert the_same(Values, ["go", "go", "go", "go"]) == 4


class Below(Logged, StateChart):
    """A child that waits."""

    here = State(initial=True)
    there = State(final=True)
    end = here.to(there)


class Spawning(Logged, StateChart):
    """Spawns into a state that it has left and entered again."""

    a = State(initial=True, invoke=children(Below))
    b = State()
    go = a.to(b) | b.to(a)
    more = a.to.itself(internal=True, on="spawn_one")

    def spawn_one(self, name: str) -> None:
        spawn(self, name)


def test_a_state_that_is_entered_again_takes_children_again() -> None:
    """What a state invoked ends when a plan leaves it, and begins when a plan enters it."""
    script: list[Step] = [("more", {"name": "one"}), "go", "go", ("more", {"name": "two"}), "go"]
    assert the_same(Spawning, script, plain=False) == 3


class Invoking(Logged, StateChart):
    """Invokes a gate, a timeout and a child in its states."""

    a = State(initial=True, invoke=gate("go", key="first"))
    b = State(invoke=timeout(10, on="go"))
    c = State(invoke=[child(Below, forward=True), gate("go")])
    go = a.to(b) | b.to(c) | c.to(a)


def test_what_states_invoke_begins_and_ends_as_without_plans() -> None:
    """Gates, timers and children are the same in each snapshot; children take no plan away."""
    script: list[Step] = ["go", "nothing", "go", "nothing", ("go", {"n": 1}), "go"]
    assert the_same(Invoking, script, plain=False) == len(script)


class Later(Logged, StateChart):
    """Events with delays."""

    a = State(initial=True)
    b = State()
    go = a.to(b)
    back = Event(b.to(a), delay=100)


def test_a_delayed_event_takes_its_plan_when_it_is_due() -> None:
    """The timer is set as without plans, and what fires is an ordinary event."""
    clock = ManualClock()
    chart = start(Later, clock=clock)
    chart.send("go")
    chart.send("back")
    clock.advance(100)
    chart.send("nothing")
    assert [state.id for state in chart.configuration] == ["a"]
    assert taken_of(chart) == 3


# -- what the engine does besides ------------------------------------------------------------------


def _begun_late(chart: Any) -> None:
    """Mark a state as one whose invokes are to begin, as a former process may have left it."""
    chart._engine.invokes.mark_for_invoke(type(chart).a)


def _ended_early(chart: Any) -> None:
    """Take what a state invoked for ended."""
    for invoke in chart._engine.invokes.active.values():
        invoke.terminated = invoke.cancelled = True


class Shown(Invoking):
    """Notes what is active of what its states invoke."""

    def before_transition(self) -> None:
        engine: Any = self._engine
        note(self, f"active: {list(engine.invokes.active)}")


@pytest.mark.parametrize(("act", "taken"), [(_begun_late, 1), (_ended_early, 2)])
def test_what_is_left_to_begin_or_to_end_comes_first(
    act: Callable[[StateChart[Any]], None], taken: int
) -> None:
    """Before the next event what is marked begins, and what has ended is forgotten."""
    assert the_same(Shown, ["nothing", act, "go"], plain=False) == taken


class Counting(StateChart):
    """Notes the engine's own counts."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)

    def on_go(self) -> tuple[int, int, int]:
        engine: Any = self._engine
        return engine._steps, engine._microstep_count, engine._macrostep_count


def test_microsteps_and_macrosteps_are_counted() -> None:
    """A callback finds the counts that it finds without plans."""
    assert the_same(Counting, ["go", "nothing", "go"], plain=False) == 3


class Whole(StateChart):
    """Asks for all that there is, and for how much the engine remembers of it."""

    a = State(initial=True)
    b = State()
    go = a.to(b) | b.to(a)

    def on_go(self, n: int, **more: Any) -> tuple[int, int]:
        engine: Any = self._engine
        return more["event_data"].trigger_data.kwargs["n"], len(engine._cache)


def test_what_is_made_for_one_event_is_forgotten_with_the_next() -> None:
    """The library's cache of what callbacks get is as empty as it is without plans."""
    plans, without = (play(Whole, [("go", {"n": n}) for n in range(9)], plans=on)
                      for on in (True, False))  # fmt: skip
    assert [step[0] for step in plans.seen[1:]] == [(n, 1) for n in range(9)]
    assert [step[0][0] for step in without.seen[1:]] == list(range(9))  # type: ignore[index]  # pairs


class Refuses(Logged, StateMachine):
    """Raises in a callback what stands for an event that is not allowed."""

    a = State(initial=True)
    b = State()
    go = a.to(b, on="send_two")
    back = b.to(a)
    refuse = b.to(a, on="not_allowed")

    def send_two(self) -> None:
        self.send("refuse")
        self.send("back")

    def not_allowed(self) -> None:
        raise TransitionNotAllowed(None, self.configuration)


def test_an_error_drops_the_events_behind_it_whatever_it_is() -> None:
    """A callback's own error clears the queue, even the one that an event may raise without it."""
    the_same(Refuses, ["go", "back", "go"], stored=False)


# -- bounds and the switch -------------------------------------------------------------------------


def test_events_without_end_do_not_fill_the_memory() -> None:
    """Unknown events are remembered up to a bound, for each chart and for each class."""

    class Flooded(Ring):
        pass

    chart = start(Flooded)
    engine: Any = chart._engine
    for number in range(ROUTES_MAX + PLANS_MAX + 1):
        assert engine.plans.find(f"event {number}", "a") is IGNORED
    assert len(engine.plans._of) <= PLANS_MAX
    assert len(vars(Flooded)[KEPT]) <= ROUTES_MAX
    chart.send("go")
    assert [state.id for state in chart.configuration] == ["b"]


def test_the_switch_is_put_back() -> None:
    """Without plans is for a while, also where that ends with an error."""

    class Raises(StateMachine):
        a = State(initial=True)
        b = State()
        go = a.to(b) | b.to(a)

        def on_go(self, fail: str = "") -> None:
            if fail:
                raise ValueError(fail)

    chart = start(Raises)
    with pytest.raises(ValueError, match="an error"), fast.enabled(False):
        chart.send("go", fail="an error")
    assert taken_of(chart) == 0
    chart.send("go")  # the library's: it follows an error
    chart.send("go")
    assert taken_of(chart) == 1
