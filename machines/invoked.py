"""What the states of a chart invoke, and what of it cannot be kept alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine import StateChart

from machines.errors import DefinitionError
from machines.names import every_state, names_of
from snapshots.errors import EncodeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from statemachine import State

    from snapshots.codec import Codec


def sources(state: State) -> list[Any]:
    """Return what a state invokes, in order: specs, handlers, chart classes, callables, names."""
    return [getattr(spec.func, "_invoke_handler", spec.func) for spec in state.invoke]


def is_chart(source: object) -> bool:
    """Whether something is a chart class."""
    return isinstance(source, type) and issubclass(source, StateChart)


def check_effects(name: str, chart: type[StateChart[Any]], context: type | None) -> None:
    """Refuse an effect, or a probe, that is named after a method that there is not."""
    for state, effect in _declared(chart, "effect"):
        for method in (getattr(effect, "fn", None), getattr(effect, "probe", None)):
            if isinstance(method, str) and not any(hasattr(o, method) for o in (chart, context)):
                reason = f"state {state.id!r} invokes {method!r}, which is no method of it"
                hint = "name a method of the chart or of its context, or give a function"
                raise DefinitionError(name, reason, hint)


def check_gates(name: str, chart: type[StateChart[Any]], codec: Codec) -> None:
    """Refuse gates of one key that can be open together, and a meta that cannot be stored.

    Gates of different charts may have one key: their addresses tell them apart.
    """
    for one in _charts(chart, set()):
        names = names_of(one)
        placed: dict[str, list[State]] = {}
        for state, gate in _declared(one, "gate"):
            where = f"a gate of state {state.id!r}"
            try:
                codec.encode(gate.meta, root="meta")
            except EncodeError as error:
                reason = f"{where} has a meta that cannot be stored ({error})"
                raise DefinitionError(name, reason, "give plain data") from error
            key = gate.key or names.name(state)
            for other in placed.setdefault(key, []):
                if _active_together(state, other):
                    reason = f"{where} has the key {key!r}, as one of {other.id!r} that is open too"
                    raise DefinitionError(name, reason, "give each a key= of its own")
            placed[key].append(state)


def _declared(chart: type[StateChart[Any]], kind: str) -> Iterator[tuple[State, Any]]:
    for state in every_state(list(chart.states)):
        for source in sources(state):
            if getattr(source, "durable_kind", None) == kind:
                yield state, source


def _charts(
    chart: type[StateChart[Any]], seen: set[type[StateChart[Any]]]
) -> Iterator[type[StateChart[Any]]]:
    """Yield a chart and those that it invokes as classes: `child` has a machine of its own."""
    if chart in seen:
        return
    seen.add(chart)
    yield chart
    for state in every_state(list(chart.states)):
        for source in filter(is_chart, sources(state)):
            yield from _charts(source, seen)


def _active_together(one: State, other: State) -> bool:
    """Whether two states of a chart can be active at the same time."""
    line, others = ([state, *state.ancestors()] for state in (one, other))
    if one in others or other in line:
        return True
    shared = next((state for state in line if state in others), None)
    return shared is not None and shared.parallel
