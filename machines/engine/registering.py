"""A chart's callbacks resolved as python-statemachine does it, without what is the same each time.

The library asks `dir()` for the attributes of chart, model and listeners, and looks each callback
of each state and transition up in them; of a class with forty states nearly all of what it looks
for is not there. Which names a class looks for is known of the class: here they alone are looked
up, as `dir()` would find them, and the specs that were found under the same names are kept. What is
found is then resolved by the library itself, for each chart anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from statemachine import StateChart
from statemachine.dispatcher import Listener, Listeners
from statemachine.exceptions import InvalidDefinition
from statemachine.graph import iterate_states_and_transitions

from machines.limits import KNOWN_NAMES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine.callbacks import CallbackSpec, CallbackSpecList, CallbacksRegistry

KEPT: Final = "__machines_resolving__"
"""Where a chart class keeps this: what lies in no other place ends with the class."""
_NAME: Final = re.compile(r"\w+")


@dataclass(slots=True)
class Resolving:
    """What resolving the callbacks of a chart class comes to each time."""

    lists: tuple[CallbackSpecList, ...]
    """The callbacks of the class, its states and its transitions, in the library's order."""
    named: tuple[tuple[object, CallbackSpecList], ...]
    """States and transitions with callbacks that must be there, and those."""
    size: int
    """How many specs there were: charts may be given callbacks after their class was made."""
    conventional: frozenset[str]
    """The names that callbacks have by convention."""
    sought: frozenset[str]
    """These, and those that the chart's author has written."""
    found: dict[frozenset[str], tuple[tuple[str, CallbackSpec], ...]] = field(default_factory=dict)
    """Conventional names that are there → the specs to be resolved, each with its group's key."""

    @classmethod
    def of(cls, chart: type[StateChart[Any]]) -> Resolving:
        """Return what is known of a chart class."""
        known: Resolving | None = vars(chart).get(KEPT)
        if known is None or known.size != sum(len(specs.items) for specs in known.lists):
            known = cls._made(chart)
            setattr(chart, KEPT, known)
        return known

    @classmethod
    def _made(cls, chart: type[StateChart[Any]]) -> Resolving:
        visited = list(iterate_states_and_transitions(chart.states))
        lists = (chart._specs, *(one._specs for one in visited))
        specs = [spec for those in lists for spec in those]
        conventional = frozenset().union(*(those.conventional_specs for those in lists))
        written = [spec for spec in specs if not spec.is_convention]
        sought = {spec.lookup_name for spec in written} | {spec.attr_name for spec in written}
        for spec in written:
            if spec.may_contain_boolean_expression:
                sought.update(_NAME.findall(spec.func))
        named = tuple(
            (one, one._specs)
            for one in visited
            if any(not spec.is_convention for spec in one._specs)
        )
        return cls(lists, named, len(specs), conventional, conventional | sought)

    def specs(self, there: set[str]) -> tuple[tuple[str, CallbackSpec], ...]:
        """Return the specs to be resolved where these names are there, in the library's order."""
        names = self.conventional & there
        known = self.found.get(names)
        if known is None:
            if len(self.found) >= KNOWN_NAMES_MAX:
                self.found.clear()
            known = self.found[names] = tuple(
                (those.grouper(spec.group).key, spec)
                for those in self.lists
                for spec in those
                if not spec.is_convention or spec.func in names
            )
        return known


def registrar(chart: StateChart[Any]) -> Callable[[list[object]], None] | None:
    """Return what resolves the callbacks of a chart that is being made, None for its own way."""
    kind = type(chart)
    if (kind._register_callbacks, kind._add_listener) != _LIBRARYS:
        return None
    return partial(_register, chart)


_LIBRARYS: Final = (StateChart._register_callbacks, StateChart._add_listener)


def _register(chart: StateChart[Any], listeners: list[object]) -> None:
    """Do what `StateChart._register_callbacks` does."""
    resolving = Resolving.of(type(chart))
    chart._listeners.update({id(listener): listener for listener in listeners})
    sought = resolving.sought
    offered = Listeners.from_listeners(
        (
            _looked_up(chart, sought, chart._protected_attrs),
            _looked_up(chart.model, sought, {chart.state_field}),
            *(_looked_up(listener, sought, set()) for listener in listeners),
        )
    )
    registry: CallbacksRegistry = chart._callbacks
    for key, spec in resolving.specs(offered.all_attrs):
        executor = registry[key]
        for name, builder in offered.build(spec):
            executor.add(name, spec, builder)
    _check(registry, resolving)
    registry.async_or_sync()


def _check(registry: CallbacksRegistry, resolving: Resolving) -> None:
    for visited, specs in resolving.named:
        try:
            registry.check(specs)
        except Exception as error:
            message = f"Error on {visited!s} when resolving callbacks: {error}"
            raise InvalidDefinition(message) from error


def _looked_up(given: Any, sought: frozenset[str], hidden: set[str]) -> Listener:
    """Return an object with those of its attributes that are sought, as `dir()` finds them."""
    places = [vars(base).keys() for base in type(given).__mro__[:-1]]
    tells_by_itself = any("__dir__" in names for names in places)
    if tells_by_itself or isinstance(given, Listener | type):
        return Listener.from_obj(given, skip_attrs=hidden)
    there: set[str] = set()
    for names in (getattr(given, "__dict__", {}).keys(), *places, vars(object).keys()):
        there |= sought & names
    return Listener(given, there - hidden, str(id(given)))
