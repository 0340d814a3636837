"""The plans of one chart: what is known of an event before it comes, with the chart's callbacks.

A plan is a route of the chart's class and the callbacks that this chart has registered for it. It
holds while the chart gets no other callbacks; then it is made anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from types import MemberDescriptorType, MethodType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from statemachine.orderedset import OrderedSet

from machines.engine.direct import Call, Phase, as_the_library, by_name, is_for
from machines.engine.routes import SLOW, Route, Verdict, route_of
from machines.limits import PLANS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from statemachine import State

    from machines.engine.routes import Key
    from machines.engine.turns import DurableEngine


MUTATED: Final = "deque mutated during iteration"
"""What the library fails with when callbacks join a group while that is being called."""


@dataclass(slots=True)
class Group:
    """Callbacks that are called together."""

    calls: tuple[Call, ...]
    registered: Sized
    """The chart's own list of them, and of those for other events."""
    count: int
    """Its length when the plan was made."""
    is_odd: bool
    """Whether one is a coroutine function, or is asked whether it is to be called."""
    asks: bool
    """Whether one takes more than it names: the library's own objects are made for it."""


@dataclass(slots=True, kw_only=True)
class Plan:
    """One ordinary transition of one chart, and what the chart calls on the way."""

    event: str
    route: Route
    left: State | None
    """The chart's own state that is left, as the library gives it to callbacks; None if none is."""
    before: Group
    exit: Group
    on: Group
    enter: Group
    after: Group
    invokes: bool
    """Whether either state invokes anything."""
    marks: bool
    """Whether the state that is entered does."""
    greets: bool
    """Whether more is done as that state is entered than to put it into the configuration."""
    listed: tuple[Group, ...]
    """The groups that have callbacks, for this event or another one."""
    is_bare: bool
    """Whether nothing is called, and nothing begins or ends with it."""


Found: TypeAlias = Plan | Verdict


class Plans:
    """What is known beforehand of the events of one chart."""

    def __init__(self, engine: DurableEngine) -> None:
        self.engine = engine
        chart: Any = engine.sm
        self.model: Any = chart._config._model
        self.field: str = chart._config._state_field
        self.read: Callable[[], Any] = partial(getattr, self.model, self.field, None)
        """Returns what the model holds of the active states."""
        self._registry: dict[str, Any] = chart._callbacks._registry
        self._of: dict[Key, Found] = {}
        self._begin_anew()

    def find(self, event: str | None, raw: Any) -> Found:
        """Return what an event does to the chart while its model holds `raw`.

        No event stands for what happens by itself.
        """
        if not self._is_open:
            return SLOW
        key = (event, *raw) if type(raw) is OrderedSet else (event, raw)
        try:
            found = self._of.get(key)
        except TypeError:  # no value of any state
            return SLOW
        if found is None or (type(found) is Plan and not self.holds(found)):
            return self._make(event, raw)
        return found

    def holds(self, plan: Plan) -> bool:
        """Whether the chart has the callbacks that a plan was made with, and no others."""
        if len(self._registry) != self._lists:
            return False
        for group in plan.listed:  # noqa: SIM110 - a generator costs more than the loop
            if len(group.registered) != group.count:
                return False
        return True

    def write(self, values: tuple[Any, ...]) -> None:
        """Have the model hold the active states, given by their values in order."""
        held = values[0] if len(values) == 1 else OrderedSet(values) if values else None
        setattr(self.model, self.field, held)

    def renewed(self, plan: Plan) -> Plan:
        """Return a plan in place of one that does not hold, for the rest of its microstep."""
        self._begin_anew()
        made = self._bind(plan.event, plan.route, at_any_price=True)
        assert made is not None
        return made

    def _begin_anew(self) -> None:
        self._of.clear()
        self._lists = len(self._registry)
        self._is_open = _is_ordinary(self.engine) and _is_plain(self.model, self.field)

    def _make(self, event: str | None, raw: Any) -> Found:
        if len(self._registry) != self._lists or len(self._of) >= PLANS_MAX:
            self._begin_anew()
            if not self._is_open:
                return SLOW
        name = None if event is None else str(event)
        key = (name, *raw) if type(raw) is OrderedSet else (name, raw)
        try:
            found = route_of(self.engine, key)
        except KeyError:  # no value of any state: the library says so in its own way
            return SLOW
        made: Found | None = found if isinstance(found, Verdict) else self._bind(str(name), found)
        self._of[key] = made = SLOW if made is None else made
        return made

    def _bind(self, event: str, route: Route, *, at_any_price: bool = False) -> Plan | None:
        """Return the plan of a route; None if the chart's callbacks are not ordinary."""
        engine, transition, entered = self.engine, route.transition, route.entered
        guards = transition.cond.key, transition.validators.key
        if not self._registry.keys().isdisjoint(guards) and not at_any_price:
            return None
        source = transition.source
        taking = Phase(engine, transition, source, source, entered, {})
        left, exits, enters, entering = None, NOBODY, NOBODY, taking
        marks = invokes = False
        if entered is not None:
            left = engine.sm._config._instance_states[route.left]
            leaving = Phase(engine, transition, left, left, entered, {"source": left})
            entering = Phase(engine, transition, entered, source, entered, {"target": entered})
            exits = self._group(event, left.exit.key, leaving)
            enters = self._group(event, entered.enter.key, entering)
            marks = entered.invoke.key in self._registry
            invokes = marks or left.invoke.key in self._registry
        made = [
            self._group(event, transition.before.key, taking),
            exits,
            self._group(event, transition.on.key, taking),
            enters,
            self._group(event, transition.after.key, entering),
        ]
        if any(group.is_odd for group in made) and not at_any_price:
            return None
        return Plan(
            event=event,
            route=route,
            left=left,
            before=made[0],
            exit=made[1],
            on=made[2],
            enter=made[3],
            after=made[4],
            invokes=invokes,
            marks=marks,
            greets=bool(invokes or made[3].calls),
            listed=tuple(group for group in made if group.count),
            is_bare=not (invokes or any(group.calls for group in made)),
        )

    def _group(self, event: str, key: str, phase: Phase) -> Group:
        if key not in self._registry:
            return NOBODY
        registered = self._registry[key].items
        asked = [(wrapper, is_for(wrapper, event)) for wrapper in registered]
        named = [(wrapper, by_name(wrapper, phase)) for wrapper, wanted in asked if wanted]
        calls = tuple(call or as_the_library(wrapper, phase) for wrapper, call in named)
        is_odd = any(wanted is None or wrapper._iscoro for wrapper, wanted in asked)
        asks = any(call is None for _, call in named)
        return Group(calls, registered, len(registered), is_odd, asks)


NOBODY: Final = Group((), (), 0, is_odd=False, asks=False)


def _is_ordinary(engine: DurableEngine) -> bool:
    """Whether an engine does nothing besides: it awaits, lends, logs and prepares nothing."""
    if engine.is_async or engine.node.shared is not None:
        return False
    logs = isinstance(engine._debug, MethodType)
    return not logs and engine.sm.prepare.key not in engine.sm._callbacks


def _is_plain(model: object, field: str) -> bool:
    """Whether a model only keeps what is set on it: what is written is what is read."""
    kind = type(model)
    ways = kind.__setattr__, kind.__getattribute__
    if ways != (object.__setattr__, object.__getattribute__):
        return False
    declared = next((vars(base)[field] for base in kind.__mro__ if field in vars(base)), None)
    if isinstance(declared, MemberDescriptorType):
        return True
    described = hasattr(type(declared), "__get__") or hasattr(type(declared), "__set__")
    return not described and hasattr(model, "__dict__")
