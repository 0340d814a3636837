"""Gates by themselves: what is refused when one is written, and what its events take."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import msgspec
import pydantic
import pytest
from statemachine import Event, State, StateChart, StateMachine

from machines import Machine, Parameter, gate
from machines.errors import AmbiguousGateError, DefinitionError
from machines.gates import Gate, OpenGate
from machines.limits import REFUSAL_CHARS_MAX
from machines.parameters import taken_by, taken_by_callbacks
from machines.shape import digest_of


def needed(name: str, type: str | None = None) -> Parameter:  # noqa: A002 - the field's name
    """Return a parameter that an answer must give."""
    return Parameter(name=name, required=True, type=type)


def free(name: str, type: str | None = None) -> Parameter:  # noqa: A002 - the field's name
    """Return a parameter that an answer may leave out."""
    return Parameter(name=name, required=False, type=type)


@dataclass
class Approval:
    """What an approval says."""

    who: str
    level: int = 1

    def __post_init__(self) -> None:
        if self.level < 1:
            message = "a level is 1 or more"
            raise ValueError(message)


class Checked(pydantic.BaseModel):
    """The same, checked by its types."""

    who: str
    level: int = 1


class Packed(msgspec.Struct):
    """The same, packed."""

    who: str
    level: int = 1


class Plain:
    """The same, by hand."""

    def __init__(self, who: str, level: int = 1, **rest: Any) -> None:
        self.who, self.level, self.rest = who, level, rest


# -- what the callbacks of an event take ---------------------------------------------------------


class Calls(StateChart):
    """Calls something at every place where the library can call something for `go`."""

    class outer(State.Compound):  # noqa: N801 - a state is named as its id
        inner = State(initial=True)

    target = State()
    go = outer.to(target, on="act", cond="fits and not odd", validators="check", before="ready")
    back = target.to(outer)

    def check(self, checked: int) -> None: ...

    def fits(self, size: float) -> bool:
        return True

    def odd(self, odd_one: int = 0) -> bool:
        return False

    def ready(self, early: str = "") -> None: ...

    def act(self, act: bytes, /, *args: Any, only: list[int], **kwargs: Any) -> None: ...

    def on_go(self, event: str, source: State, target: State, state: State) -> None: ...

    def after_go(self, late: Any, model: Any, machine: Any, event_data: Any) -> None: ...

    def on_exit_inner(self, left: int | None = None) -> None: ...

    def on_exit_outer(self, left: int, previous_configuration: Any = None) -> None: ...

    def on_enter_target(self, entered: int = 0) -> None: ...

    def on_enter_outer(self, never: int) -> None: ...

    def on_back(self, never: int) -> None: ...


def test_an_event_takes_what_all_the_callbacks_of_its_transition_take() -> None:
    """Validators, guards, and what is called before, on leaving, on, on entering and after."""
    assert taken_by_callbacks(Calls(), "go") == (
        needed("checked", "int"),
        needed("size", "float"),
        free("odd_one", "int"),
        free("early", "str"),
        needed("left", "int | None"),
        needed("act", "bytes"),
        needed("only", "list[int]"),
        free("entered", "int"),
        needed("late", "Any"),
    )


def test_what_the_library_gives_itself_is_not_asked_for() -> None:
    """The names that it injects, `*args` and `**kwargs` are no parameters."""
    names = {parameter.name for parameter in taken_by_callbacks(Calls(), "go")}
    assert not names & {"event", "source", "target", "state", "model", "machine", "event_data"}
    assert not names & {"args", "kwargs", "previous_configuration", "never"}


def test_an_event_that_no_active_state_takes_has_no_parameters() -> None:
    """Only what would be called from where the chart is counts."""
    assert taken_by_callbacks(Calls(), "back") == ()
    assert taken_by_callbacks(Calls(), "unheard") == ()


def test_a_name_is_listed_once_and_required_if_it_is_anywhere() -> None:
    """One callback's default does not help another that has none."""

    class Twice(StateChart):
        only = State(initial=True)
        go = only.to.itself(on=["first", "second", "third"])

        def first(self, amount=1) -> None: ...  # noqa: ANN001 - it has no type to tell
        def second(self, amount: int) -> None: ...
        def third(self, amount: float = 0) -> None: ...

    assert taken_by_callbacks(Twice(), "go") == (needed("amount", "int"),)


def test_each_event_of_a_transition_has_its_own_callbacks() -> None:
    """A transition of two events calls `on_<event>` for the one that came."""

    class Both(StateChart):
        only = State(initial=True)
        yes = Event(only.to.itself(event="no"))

        def on_yes(self, why: str) -> None: ...
        def on_no(self, reason: str) -> None: ...

    assert taken_by_callbacks(Both(), "yes") == (needed("why", "str"),)
    assert taken_by_callbacks(Both(), "no") == (needed("reason", "str"),)


def test_guarded_transitions_all_count_up_to_the_first_without_a_guard() -> None:
    """Which guard holds is not asked; what stands behind an unguarded transition never runs."""

    class Chooses(StateChart):
        class outer(State.Compound):  # noqa: N801 - a state is named as its id
            inner = State(initial=True)
            a, b = State(), State()
            go = inner.to(a, cond="lucky", on="first") | inner.to(b, on="second")
            go_again = inner.to(a, event="up", cond="lucky", on="first")

        c = State()
        never = outer.to(c, event="go up", on="third")
        back = c.to(outer)

        def lucky(self) -> bool:
            return False

        def first(self, one: int) -> None: ...
        def second(self, two: int) -> None: ...
        def third(self, three: int) -> None: ...

    assert taken_by_callbacks(Chooses(), "go") == (needed("one", "int"), needed("two", "int"))
    assert taken_by_callbacks(Chooses(), "up") == (needed("one", "int"), needed("three", "int"))


def test_all_regions_that_take_an_event_count() -> None:
    """An event runs in each region, so what each of them calls has to be given."""

    class Regions(StateChart):
        class both(State.Parallel):  # noqa: N801 - a state is named as its id
            class left(State.Compound):  # noqa: N801 - a state is named as its id
                a = State(initial=True)
                a2 = State(final=True)
                go = a.to(a2, on="first")

            class right(State.Compound):  # noqa: N801 - a state is named as its id
                b = State(initial=True)
                b2 = State(final=True)
                go_too = b.to(b2, event="go", on="second")

        def first(self, one: int) -> None: ...
        def second(self, two: int) -> None: ...

    names = [parameter.name for parameter in taken_by_callbacks(Regions(), "go")]
    assert names == ["one", "two"]


def test_an_internal_transition_leaves_and_enters_nothing() -> None:
    """Its state's own callbacks are not called, so they ask for nothing."""

    class Stays(StateMachine):
        only = State(initial=True)
        inside = only.to.itself(internal=True, on="note")
        around = only.to.itself(on="note")

        def note(self, text: str) -> None: ...
        def on_exit_only(self, left: int = 0) -> None: ...
        def on_enter_only(self, entered: int = 0) -> None: ...

    assert taken_by_callbacks(Stays(), "inside") == (needed("text", "str"),)
    assert [p.name for p in taken_by_callbacks(Stays(), "around")] == ["left", "text", "entered"]


def test_an_internal_transition_of_a_statechart_enters_its_target_again() -> None:
    """The library leaves nothing for it, and enters its target all the same."""

    class Enters(StateChart):
        only = State(initial=True)
        inside = only.to.itself(internal=True)

        def on_exit_only(self, left: int = 0) -> None: ...
        def on_enter_only(self, entered: int = 0) -> None: ...

    assert taken_by_callbacks(Enters(), "inside") == (free("entered", "int"),)


def test_an_internal_transition_leaves_what_is_below_its_state() -> None:
    """The compound state itself is not left."""

    class Inside(StateChart):
        class outer(State.Compound):  # noqa: N801 - a state is named as its id
            a = State(initial=True)
            b = State()
            turn = a.to(b)

        reset = outer.to(outer.a, internal=True)

        def on_exit_a(self, inner: int = 0) -> None: ...
        def on_exit_outer(self, around: int = 0) -> None: ...

    assert taken_by_callbacks(Inside(), "reset") == (free("inner", "int"),)


def test_what_is_called_need_not_be_a_method_of_the_chart() -> None:
    """The model's methods, functions and lambdas are asked like the chart's own."""

    class Order:
        state: Any = None

        def on_go(self, price: float) -> None: ...

    def book(when: str = "now") -> None: ...

    class Elsewhere(StateChart):
        only = State(initial=True)
        go = only.to.itself(on=[book, lambda seat: seat])
        ready = only.to.itself(cond="flag")
        flag = True

    taken = taken_by_callbacks(Elsewhere(Order()), "go")
    assert set(taken) == {needed("price", "float"), free("when", "str"), needed("seat")}
    assert taken_by_callbacks(Elsewhere(Order()), "ready") == ()


# -- models --------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", [Approval, Checked, Packed, Plain])
def test_a_model_is_anything_with_a_signature(model: Any) -> None:
    """A dataclass, a pydantic or msgspec class, a plain one: its parameters are the gate's."""
    assert [(p.name, p.required) for p in taken_by(model)] == [("who", True), ("level", False)]
    assert gate("approve", model=model).models == {"approve": model}


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (Approval, {}),
        (Approval, {"who": "ann", "level": 0}),
        (Approval, {"who": "ann", "mood": "good"}),
        (Checked, {"who": 7}),
        (Packed, {"level": 1}),
        (Plain, {"level": 2}),
    ],
)
def test_what_a_model_raises_is_its_refusal(model: Any, data: dict[str, Any]) -> None:
    """Its name and what it says are told; what it takes is not refused."""
    made = gate("approve", model=model)
    refusal = made.refusal("approve", (), data)
    assert refusal is not None
    assert refusal.startswith(f"it is no {model.__name__} (")
    assert made.refusal("approve", (), {"who": "ann", "level": 2}) is None


def test_a_refusal_is_cut_to_a_bound() -> None:
    """A model that repeats all that it was given does not fill the message with it."""

    def talkative(text: str) -> None:
        raise ValueError(text)

    refusal = gate("approve", model=talkative).refusal("approve", (), {"text": "x" * 10_000})
    assert refusal is not None
    assert len(refusal) == REFUSAL_CHARS_MAX


def test_each_event_may_have_a_model_of_its_own() -> None:
    """One that has none takes what its callbacks take, and refuses nothing."""
    made = gate("approve", "reject", model={"approve": Approval})
    assert made.refusal("reject", (), {}) is None
    assert made.refusal("approve", (), {}) is not None


def test_neither_model_nor_meta_changes_the_shape() -> None:
    """A run that waits is not drifted by what only describes its gate."""

    def chart(made: Gate) -> type[StateChart[Any]]:
        class Waits(StateChart):
            waiting = State(initial=True, invoke=made)
            over = State(final=True)
            approve = waiting.to(over)

        return Waits

    plain = digest_of(chart(gate("approve")))
    assert digest_of(chart(gate("approve", model=Approval))) == plain
    assert digest_of(chart(gate("approve", meta={"role": "editor"}))) == plain
    assert digest_of(chart(gate("approve", "reject"))) != plain


# -- what is refused when it is written ----------------------------------------------------------


class Takes:
    """A model of which the library would take a value away."""

    def __init__(self, state: str) -> None:
        self.state = state


@pytest.mark.parametrize(
    ("events", "options", "says"),
    [
        ((), {}, "accepts no event"),
        (("approve",), {"key": ""}, "key"),
        (("approve",), {"key": 7}, "key"),
        (("approve",), {"model": 7}, "no signature"),
        (("approve",), {"model": {"reject": Approval}}, "'reject', which it does not accept"),
        (("approve",), {"model": Takes}, "'state'"),
    ],
)
def test_a_gate_that_could_not_be_answered_is_refused(
    events: tuple[str, ...], options: dict[str, Any], says: str
) -> None:
    """No event, no key, and a model that nothing can be given to."""
    with pytest.raises(DefinitionError, match=says):
        gate(*events, **options)


def parallel(left: Gate, right: Gate) -> type[StateChart[Any]]:
    """Return a chart with two gates open at once."""

    class Both(StateChart):
        class waiting(State.Parallel):  # noqa: N801 - a state is named as its id
            class one(State.Compound):  # noqa: N801 - a state is named as its id
                left_open = State(initial=True, invoke=left)
                left_shut = State(final=True)
                yes = left_open.to(left_shut)

            class other(State.Compound):  # noqa: N801 - a state is named as its id
                right_open = State(initial=True, invoke=right)
                right_shut = State(final=True)
                no = right_open.to(right_shut)

        over = State(final=True)
        done_state_waiting = waiting.to(over)

    return Both


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (gate("yes", key="same"), gate("no", key="same")),
        (gate("yes", key="right_open"), gate("no")),
    ],
)
def test_two_gates_of_one_key_that_are_open_together_are_refused(left: Gate, right: Gate) -> None:
    """An address names one gate: in one chart that is known when its machine is defined."""
    with pytest.raises(DefinitionError, match="key"):
        Machine(parallel(left, right))
    Machine(parallel(gate("yes"), gate("no")))


def test_two_gates_of_one_state_need_two_keys() -> None:
    """By default both have the state's name."""

    def chart(*gates: Gate) -> type[StateChart[Any]]:
        class Two(StateChart):
            waiting = State(initial=True, invoke=list(gates))
            over = State(final=True)
            yes = waiting.to(over)
            no = waiting.to(over)

        return Two

    with pytest.raises(DefinitionError, match="'waiting'"):
        Machine(chart(gate("yes"), gate("no")))
    Machine(chart(gate("yes"), gate("no", key="other")))


def test_a_gate_around_another_needs_another_key() -> None:
    """A compound state and the state in it are active together."""

    class Around(StateChart):
        class outer(State.Compound, invoke=gate("yes", key="same")):  # noqa: N801 - a state is named as its id
            inner = State(initial=True, invoke=gate("no", key="same"))
            other = State()
            no = inner.to(other)

        over = State(final=True)
        yes = outer.to(over)

    with pytest.raises(DefinitionError, match="'same'"):
        Machine(Around)


def test_one_key_may_be_used_by_gates_that_are_never_open_together() -> None:
    """A review that comes again later in the chart has its old address."""

    class Again(StateChart):
        first = State(initial=True, invoke=gate("yes", key="review"))
        second = State(invoke=gate("yes", key="review"))
        over = State(final=True)
        yes = first.to(second) | second.to(over)

    Machine(Again)


def test_the_gates_of_an_invoked_chart_are_looked_at_too() -> None:
    """What a chart invokes as a class has no machine of its own that would refuse it."""

    class Outer(StateChart):
        holding = State(
            initial=True, invoke=parallel(gate("yes", key="same"), gate("no", key="same"))
        )
        over = State(final=True)
        done_invoke_holding = holding.to(over)

    with pytest.raises(DefinitionError, match="'same'"):
        Machine(Outer)


def test_a_meta_that_cannot_be_stored_is_refused() -> None:
    """It would keep the run from being saved when the gate opens, and is known before."""

    class Waits(StateChart):
        waiting = State(initial=True, invoke=gate("yes", meta={"how": print}))
        over = State(final=True)
        yes = waiting.to(over)

    with pytest.raises(DefinitionError, match=r"meta\.how"):
        Machine(Waits)


# -- addresses -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "path", "address"),
    [
        ("reviewing", "", "reviewing"),
        ("review", "", "review"),
        ("work.1/reviewing", "work.1", "work.1/reviewing"),
        ("review", "work.1", "work.1/review"),
    ],
)
def test_an_address_is_the_key_after_the_path(key: str, path: str, address: str) -> None:
    """A default key has the path already."""
    assert OpenGate(key, path, "reviewing", ("yes",), None).address == address


def test_an_ambiguous_gate_travels_between_processes() -> None:
    """The error keeps its fields."""
    error = pickle.loads(pickle.dumps(AmbiguousGateError("r1", "review", "yes", ("a/x", "b/x"))))  # noqa: S301 - its own bytes
    assert (error.run_id, error.gate, error.event) == ("r1", "review", "yes")
    assert error.addresses == ("a/x", "b/x")
    assert "'a/x', 'b/x'" in str(error)


# -- under the library's own engine --------------------------------------------------------------


@pytest.mark.parametrize("base", [StateChart, StateMachine])
def test_a_gate_is_usable_without_this_package(base: Any) -> None:
    """The library's own engine waits at it until its state is left, whatever model it has."""

    class Waits(base):
        waiting = State(initial=True, invoke=gate("approve", model=Approval, meta={"a": 1}))
        over = State(final=True)
        approve = waiting.to(over)

        def on_approve(self, who: str) -> str:
            return who

    chart = Waits()
    assert chart.send("approve", who="ann") == "ann"
    assert chart.over.is_active
