"""Callbacks are resolved as the library resolves them, for whatever chart, model and listener."""

from __future__ import annotations

import gc
import re
import weakref
from typing import Any

import pytest
from statemachine import Event, State, StateChart, StateMachine
from statemachine.exceptions import InvalidDefinition
from statemachine.model import Model

from machines.binding import start
from machines.engine.registering import KEPT, Resolving, registrar


class Plain(StateChart):
    """Conventions of every kind, on the chart."""

    a = State(initial=True)
    b = State(enter="greet")
    c = State(final=True)
    go = a.to(b, cond="ready", validators="checked", before="first", on=["second", "greet"])
    stay = b.to.itself(internal=True, unless="busy")
    end = b.to(c, cond="ready and not busy or late")

    ready = True
    busy = False

    def prepare_event(self) -> dict[str, Any]:
        return {"extra": 1}

    def on_enter_state(self) -> None: ...

    def on_exit_a(self) -> None: ...

    def before_go(self) -> None: ...

    def after_transition(self) -> None: ...

    def greet(self) -> None: ...

    def first(self) -> None: ...

    def second(self) -> None: ...

    def checked(self) -> None: ...

    @property
    def late(self) -> bool:
        return False


class Decorated(StateMachine):
    """Callbacks by decorators, by objects and by events, and a nested state."""

    class outer(State.Compound):  # noqa: N801 - a state is named as its id
        inner = State(initial=True)
        other = State()
        swap = inner.to(other) | other.to(inner)

        @swap.before
        def note(self) -> None: ...

    done = State(final=True)
    close = outer.to(done, on=lambda: 7)
    also = Event(outer.to.itself(on="swap"), name="Also")

    @close.cond
    def may(self) -> bool:
        return True


class Waiting(StateChart):
    """A coroutine among its callbacks."""

    a = State(initial=True)
    go = a.to.itself()

    async def on_go(self) -> None: ...


class Telling(StateChart):
    """Says by itself what attributes it has."""

    a = State(initial=True)
    go = a.to.itself()

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), "on_go"]

    def __getattr__(self, name: str) -> Any:
        if name == "on_go":
            return lambda: "made up"
        raise AttributeError(name)


class Empty:
    """A model without callbacks."""


class Slotted:
    """A model without a dict, and with a callback."""

    __slots__ = ("late", "state")

    def __init__(self) -> None:
        self.state: Any = None
        self.late = True

    def on_enter_b(self) -> None: ...


class Rich(Empty):
    """A model with callbacks of its class and of its own, and values that are none."""

    def __init__(self) -> None:
        self.on_go = lambda: "own"
        self.busy = True
        self.state: Any = None

    def on_enter_state(self) -> None: ...

    def on_exit_state(self) -> None: ...

    @property
    def ready(self) -> bool:
        return True


class Listening:
    """A listener with callbacks."""

    def after_go(self) -> None: ...

    def on_enter_state(self) -> None: ...


CHARTS = [Plain, Decorated, Waiting, Telling]
MODELS = [Model, Empty, Slotted, Rich]


def resolved(chart: StateChart[Any], listeners: list[object]) -> Any:
    """Return what the callbacks of a chart were resolved to, by groups, in order."""
    whose = {str(id(chart)): "chart", str(id(chart.model)): "model"}
    whose |= {str(id(one)): f"listener {n}" for n, one in enumerate(listeners)}
    registry = chart._callbacks

    def told(key: str) -> str:
        return re.sub(r"(?<=@)\d+", lambda found: whose[found[0]], key)

    groups = {
        key: [
            (told(found.unique_key), found.meta, found.condition, found._iscoro, str(found))
            for found in executor
        ]
        for key, executor in registry._registry.items()
    }
    return groups, list(groups), registry.has_async_callbacks


def made_by_library(kind: type[StateChart[Any]], model: Any, listeners: list[object]) -> Any:
    """Return what the library resolves for a new chart."""
    return resolved(kind(model, listeners=listeners), listeners)


def made_here(kind: type[StateChart[Any]], model: Any, listeners: list[object]) -> Any:
    """Return what is resolved here for a new chart."""
    chart = kind.__new__(kind)
    vars(chart)["_register_callbacks"] = registrar(chart)
    chart.__init__(model, listeners=listeners)  # type: ignore[misc]  # as an engine is put in
    return resolved(chart, listeners)


@pytest.mark.parametrize("kind", CHARTS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("count", [0, 2])
def test_the_same_callbacks_are_found_in_the_same_order(
    kind: type[StateChart[Any]], model: type[Any], count: int
) -> None:
    """Group by group: specs, owners, conditions, order, empty groups, and which are coroutines."""
    listeners: list[object] = [Listening() for _ in range(count)]
    expected = made_by_library(kind, model(), listeners)
    assert made_here(kind, model(), listeners) == expected
    assert made_here(kind, model(), listeners) == expected, "resolved from what is kept"


def test_a_callback_that_only_one_model_has_is_that_models_alone() -> None:
    """What is kept of a class depends on the names that are there, not on who came first."""
    bare, calling = Model(), Model()
    calling.on_go = lambda: "own"  # type: ignore[attr-defined]  # a plain model takes any
    for model in (bare, calling, bare, calling):
        assert made_here(Plain, model, []) == made_by_library(Plain, model, [])


def test_a_class_that_is_given_a_callback_later_has_it() -> None:
    """By name, by monkey-patching, and by a decorator behind the class's making."""

    class Late(StateChart):
        a = State(initial=True)
        go = a.to.itself()

    before = made_here(Late, None, [])
    Late.on_go = lambda _: 1  # type: ignore[attr-defined]  # what a patch does
    assert made_here(Late, None, []) == made_by_library(Late, None, []) != before
    Late.a.transitions[0].after.add(lambda: 2)
    assert made_here(Late, None, []) == made_by_library(Late, None, [])


def test_a_subclass_is_resolved_for_itself() -> None:
    """What is kept of its base is not taken for its own."""

    class Below(Plain):
        def on_go(self) -> None: ...

    assert made_here(Plain, None, []) == made_by_library(Plain, None, [])
    assert made_here(Below, None, []) == made_by_library(Below, None, [])
    assert vars(Below)[KEPT] is not vars(Plain)[KEPT]


@pytest.mark.parametrize("named", ["nowhere", "ready and nowhere", "1 +"])
def test_a_callback_that_is_not_there_is_refused_alike(named: str) -> None:
    """The same error with the same words, the first time and from what is kept."""

    class Missing(StateChart):
        a = State(initial=True)
        go = a.to.itself(cond=named)
        ready = True

    with pytest.raises(InvalidDefinition) as theirs:
        Missing()
    for _ in range(2):
        with pytest.raises(InvalidDefinition) as ours:
            made_here(Missing, None, [])
        assert str(ours.value) == str(theirs.value)


def test_a_chart_that_resolves_callbacks_itself_keeps_its_way() -> None:
    """An overridden method of the library's is called."""
    called = []

    class Own(StateChart):
        a = State(initial=True)
        go = a.to.itself()

        def _add_listener(self, *args: Any, **kwargs: Any) -> Any:
            called.append(args)
            return super()._add_listener(*args, **kwargs)

    assert registrar(Own.__new__(Own)) is None
    start(Own)
    assert len(called) == 1


def test_what_is_kept_ends_with_its_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class that was made at run time, as documents are, is freed with what is known of it."""
    names: dict[str, Any] = {}  # the library keeps each class under its name
    monkeypatch.setattr("statemachine.registry._REGISTRY", names)

    def used() -> weakref.ref[type[StateChart[Any]]]:
        class Passing(StateChart):
            a = State(initial=True)
            go = a.to.itself()

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)

            def on_go(self) -> None: ...

        made_here(Passing, None, [])
        assert Resolving.of(Passing) is Resolving.of(Passing)
        return weakref.ref(Passing)

    gone = used()
    names.clear()
    gc.collect()
    assert gone() is None


def test_a_rebuilt_chart_has_no_trace_of_how_it_was_made() -> None:
    """Neither attribute hides a method of the library's afterwards."""
    chart = start(Plain)
    assert "_register_callbacks" not in vars(chart)
    assert "_get_engine" not in vars(chart)
