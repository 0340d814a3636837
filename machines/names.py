"""Names of states that are the same in every process, for everything that is stored.

A state's id is its name, except where the id was generated while a document was loaded, or is
not unique in its chart: such a state is `<parent>#<n>`, n being its place among its siblings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableSet
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from statemachine.orderedset import OrderedSet

from machines.limits import CONFIGURATIONS_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine import State, StateChart

GENERATED_ID = "__auto_"
"""How the library's document readers begin the id of a state that has none."""


@dataclass(frozen=True, slots=True)
class Names:
    """The stable names of one chart class, both ways."""

    of: dict[int, str]
    """`id(state)` of each state of the class → its name."""
    states: dict[str, State]
    """Name → state of the class, history states included."""

    shown: dict[Any, list[str]] = field(default_factory=dict, compare=False, repr=False)
    """The names of active states by their values, of some configurations."""

    def active(self, chart: StateChart[Any]) -> list[str]:
        """Return the names of a chart's active states; the list is not to be changed."""
        # As `chart.current_state_value` reads it: for each save, so without its two calls.
        held = getattr(chart.model, chart.state_field, None)
        key = held if type(held) is str else key_of(held)
        known = self.shown.get(key)
        if known is None:
            if len(self.shown) >= CONFIGURATIONS_MAX:
                self.shown.clear()
            known = self.shown[key] = [self.name(state) for state in chart.configuration]
        return known

    def name(self, state: State) -> str:
        """Return the name of a state of the class, or of its proxy in an instance."""
        return self.of[id(getattr(state, "_state", state))]


def key_of(held: Any) -> Any:
    """Return a key for what a model holds of the active states: a value, or a set of values.

    A value may itself be a tuple, and equal others of another type.
    """
    kind = type(held)
    if kind is str:
        return held
    if kind is OrderedSet or isinstance(held, MutableSet):
        return (kind, *held)
    return kind, held


def every_state(states: list[State]) -> Iterator[State]:
    """Yield the states in document order, each before its children, then its history states."""
    for state in states:
        yield state
        yield from every_state(state.states)
        yield from state.history


_CACHE: WeakKeyDictionary[type[StateChart[Any]], Names] = WeakKeyDictionary()
# A cache of a pure function of an immutable class; it holds nothing that outlives the class.


def names_of(chart: type[StateChart[Any]]) -> Names:
    """Return the stable names of a chart class."""
    known = _CACHE.get(chart)
    if known is None:
        known = _CACHE[chart] = _name_all(chart)
    return known


def _name_all(chart: type[StateChart[Any]]) -> Names:
    found = list(every_state(list(chart.states)))
    times = Counter(state.id for state in found)
    of: dict[int, str] = {}
    states: dict[str, State] = {}
    siblings: Counter[str] = Counter()
    for state in found:
        parent = of[id(state.parent)] if state.parent is not None else ""
        siblings[parent] += 1
        plain = times[state.id] == 1 and not state.id.startswith(GENERATED_ID)
        name = state.id if plain else f"{parent}#{siblings[parent]}"
        of[id(state)] = name
        states[name] = state
    return Names(of, states)


def path_below(path: str, invoke: str) -> str:
    """Return the path of the chart that an invocation is, in the chart at `path`."""
    return f"{path}/{invoke}" if path else invoke
