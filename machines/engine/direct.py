"""Callbacks of a chart, called with the parameters that they name and nothing else made for them.

The library builds all that a callback could ask for and then picks what it does ask for. Where a
callback names all that it takes, only that is looked up here. One that takes whatever there is,
or is no plain function, is called as the library calls it, with the library's own objects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from statemachine import Event
from statemachine.callbacks import allways_true
from statemachine.event_data import TriggerData

if TYPE_CHECKING:
    from statemachine import State
    from statemachine.callbacks import CallbackWrapper

Extra: TypeAlias = Callable[[], Mapping[str, Any]] | None
"""Makes what the `on` callbacks of a transition get besides, None for all others."""
Call: TypeAlias = Callable[[TriggerData, Extra], Any]
"""Calls one callback for one event, and returns what it returns."""
Get: TypeAlias = Callable[[TriggerData], Any]
Slot: TypeAlias = tuple[str, Get | None, bool]
"""A parameter: its name, how its value is found (None: in the event's data), if only by name."""

ADAPTER: Final = "callable_method.<locals>.signature_adapter"
"""The library's function that binds what there is to what a callback takes."""
OF_THE_EVENT: Final[dict[str, Get]] = {
    "model": attrgetter("model"),
    "event": attrgetter("event"),
    "machine": attrgetter("machine"),
}
WHOLE: Final = frozenset({"event_data", "previous_configuration", "new_configuration"})
"""Parameters that are objects of the library, made only for who asks for them."""


@dataclass(frozen=True, slots=True)
class Phase:
    """Where in a microstep callbacks are called: what they are told of it."""

    engine: Any
    transition: Any
    state: State
    source: State
    target: State | None
    given: Mapping[str, Any]
    """The same as the library's engine takes it when it builds what there is."""

    def constant(self, name: str) -> Get | None:
        """Return how a value is found that is the same for each event; None for another name."""
        if name not in ("transition", "state", "source", "target"):
            return None
        value = getattr(self, name)
        return lambda _: value


def is_for(wrapper: CallbackWrapper, event: str) -> bool | None:
    """Whether a callback is called for an event; None if it has a condition of its own."""
    condition: Any = wrapper.condition
    if condition is allways_true:
        return True
    if getattr(condition, "__func__", None) is Event.is_same_event:
        return bool(condition.__self__ == event)
    return None


def by_name(wrapper: CallbackWrapper, phase: Phase) -> Call | None:
    """Return what calls a callback in a phase, with the arguments that the library would give.

    None for one that takes more than it names, or is no plain function.
    """
    found = _function(wrapper)
    slots = _slots(found[1], phase) if found is not None else None
    return _by_slots(found[0], slots) if found is not None and slots is not None else None


def _function(wrapper: CallbackWrapper) -> tuple[Callable[..., Any], Any] | None:
    """Return the function behind a callback and the signature that its arguments are bound to.

    The signature is the one that the library uses: it may be another function's of that name.
    """
    adapter: Any = wrapper._callback
    code = getattr(adapter, "__code__", None)
    if getattr(code, "co_qualname", None) != ADAPTER or wrapper.expected_value is not None:
        return None
    assert code is not None
    held = dict(zip(code.co_freevars, adapter.__closure__, strict=True))
    function: Callable[..., Any] = held["a_callable"].cell_contents
    return function, held["sig_bind_expected"].cell_contents.__self__


def _slots(signature: Any, phase: Phase) -> tuple[Slot, ...] | None:
    """Return the parameters of a callback; None if it takes more than it names."""
    slots: list[Slot] = []
    for parameter in signature.parameters.values():
        name = parameter.name
        if name in WHOLE:
            return None
        if parameter.kind not in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY):
            return None
        get = OF_THE_EVENT.get(name) or phase.constant(name)
        slots.append((name, get, parameter.kind is Parameter.KEYWORD_ONLY))
    return tuple(slots)


def as_the_library(wrapper: CallbackWrapper, phase: Phase) -> Call:
    """Return what calls a callback in a phase with all that there is, made by the library."""
    engine, transition, given = phase.engine, phase.transition, phase.given

    def call(trigger: TriggerData, extra: Extra) -> Any:
        args, kwargs = engine._get_args_kwargs(transition, trigger, **given)
        return wrapper.call(*args, **(kwargs if extra is None else {**kwargs, **extra()}))

    return call


def _by_slots(function: Callable[..., Any], slots: tuple[Slot, ...]) -> Call:
    if not slots:
        return lambda _trigger, _extra: function()
    gets = [get for _, get, by_name in slots if get is not None and not by_name]
    if len(gets) == len(slots):
        return _of_what_is_there(function, gets)

    def call(trigger: TriggerData, _extra: Extra) -> Any:
        data = trigger.kwargs
        args: list[Any] = []
        named: dict[str, Any] | None = None
        for name, get, by_name in slots:
            if get is not None:
                value = get(trigger)
            elif name in data:
                value = data[name]
            else:  # its default holds, and what follows is given by name
                named = named or {}
                continue
            if named is None and not by_name:
                args.append(value)
            else:
                named = named or {}
                named[name] = value
        return function(*args, **named) if named else function(*args)

    return call


def _of_what_is_there(function: Callable[..., Any], gets: list[Get]) -> Call:
    if len(gets) == 1:
        (get,) = gets
        return lambda trigger, _extra: function(get(trigger))
    return lambda trigger, _extra: function(*[get(trigger) for get in gets])
