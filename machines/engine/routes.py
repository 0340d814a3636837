"""What an event does to a chart in one configuration, worked out once for each class.

A route is one ordinary transition, out of one active atomic state into another one, or one without
a target, which leaves nothing. It is compiled with the library's own functions, so that it leaves
and enters what they say. Whether it has guards is for each chart to say: it is asked for what it
has registered.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from statemachine import StateChart
from statemachine.orderedset import OrderedSet

from machines.engine.turns import DOUBT_PREFIX, ERROR, enables
from machines.limits import ROUTES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from statemachine import State
    from statemachine.transition import Transition

    from machines.engine.turns import DurableEngine

DONE_INVOKE: Final = "done.invoke."


class Verdict(Enum):
    """What is known beforehand of an event that takes no route."""

    SLOW = "slow"
    """The library works it out."""
    IGNORED = "ignored"
    """No transition takes it; without an event: none is taken by itself."""


SLOW, IGNORED = Verdict.SLOW, Verdict.IGNORED
Key: TypeAlias = tuple[Any, ...]
"""An event, None for what needs none, and the raw values of the active states in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One ordinary transition, with the raw values of the states before, amid and after it."""

    transition: Transition
    before: tuple[Any, ...]
    amid: tuple[Any, ...]
    after: tuple[Any, ...]
    left: Any
    """The value of the state that is left; None without a target."""
    entered: State | None
    """The class's state that is entered, as the library gives it to callbacks; None likewise."""
    may_follow: bool
    """Whether a transition that needs no event may follow."""


KEPT: Final = "__machines_routes__"
"""Where a chart class keeps its routes: what lies in no other place ends with the class."""


def route_of(engine: DurableEngine, key: Key) -> Route | Verdict:
    """Return what the event of a key does to the chart of an engine, which is as the key says."""
    chart = type(engine.sm)
    known: dict[Key, Route | Verdict] | None = vars(chart).get(KEPT)
    if known is None:
        known = {}
        setattr(chart, KEPT, known)
    found = known.get(key)
    if found is None:
        if len(known) >= ROUTES_MAX:
            known.clear()
        found = known[key] = _compile(engine, key[0])
    return found


def _compile(engine: DurableEngine, event: str | None) -> Route | Verdict:
    if _is_special(event) or not _is_plain(type(engine.sm)):
        return SLOW
    leaves = [state for state in engine.sm.configuration if state.is_atomic]
    if not leaves or any(map(_goes_on_by_itself, leaves)):
        return SLOW  # the guards of such a transition are asked before each event
    taken = OrderedSet(found for leaf in leaves if (found := _first(leaf, event)) is not None)
    if not taken:
        return IGNORED
    (transition, *more) = taken
    return SLOW if more else _route(engine, transition)


def _is_plain(chart: type[StateChart[Any]]) -> bool:
    """Whether a class has its active states as the library has them."""
    return chart.configuration is StateChart.configuration


def _is_special(event: str | None) -> bool:
    """Whether more is done about an event than to take a transition."""
    return event is not None and (event == ERROR or event.startswith((DOUBT_PREFIX, DONE_INVOKE)))


def _upwards(state: State) -> Iterator[State]:
    return chain([state], state.ancestors())


def _goes_on_by_itself(leaf: State) -> bool:
    return any(
        transition.is_eventless and not transition.initial
        for state in _upwards(leaf)
        for transition in state.transitions
    )


def _first(leaf: State, event: str | None) -> Transition | None:
    """Return the transition that is asked first whether it takes an event."""
    return next(
        (
            transition
            for state in _upwards(leaf)
            for transition in state.transitions
            if not transition.initial and enables(transition, event)
        ),
        None,
    )


def _route(engine: DurableEngine, transition: Transition) -> Route | Verdict:
    """Return the route of a transition from its source to its one target, or to none."""
    before: OrderedSet[State] = engine.sm.configuration
    if not transition.targets:
        return _stay(transition, before)
    if len(transition.targets) != 1 or transition.targets[0].final:
        return SLOW
    exits = list(engine._compute_exit_set([transition]))
    if len(exits) != 1 or exits[0].state.value != transition.source.value:
        return SLOW
    left = exits[0].state
    entry = engine._prepare_entry_states([transition], OrderedSet([left]), before)
    entries, by_default, by_history, after = entry
    (target,) = transition.targets
    if len(entries) != 1 or entries[0].state is not target or by_default or by_history:
        return SLOW
    return Route(
        transition=transition,
        before=_values(before),
        amid=_values(state for state in before if state != left),
        after=_values(after),
        left=left.value,
        entered=target,
        may_follow=any(_goes_on_by_itself(state) for state in after if state.is_atomic),
    )


def _stay(transition: Transition, before: Iterable[State]) -> Route:
    """Return the route of a transition without a target: its content alone is executed."""
    there = _values(before)
    return Route(
        transition=transition,
        before=there,
        amid=there,
        after=there,
        left=None,
        entered=None,
        may_follow=False,  # no active state goes on by itself, or there were no route
    )


def _values(states: Iterable[State]) -> tuple[Any, ...]:
    return tuple(state.value for state in states)
