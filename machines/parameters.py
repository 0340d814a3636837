"""What an event's data may hold: the parameters of the callbacks that it calls, or of a model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter as Declared
from inspect import formatannotation, isfunction, signature
from itertools import chain
from typing import TYPE_CHECKING, Any

from statemachine.signature import SignatureAdapter

from machines.engine.turns import RESERVED, enables

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from statemachine import State, StateChart

INJECTED = RESERVED | {"previous_configuration", "new_configuration"}
"""Names that the library gives to callbacks itself, or takes out of an event's data."""
_OPEN_ENDED = (Declared.VAR_POSITIONAL, Declared.VAR_KEYWORD)

Model = Callable[..., Any]
"""What an event's data is given to before the event is taken: a class, mostly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One value that an event takes.

    `required` says that something it is given to has no default for it; `type` is the text of its
    annotation, None without one.
    """

    name: str
    required: bool
    type: str | None = None


def taken_by(model: Model) -> tuple[Parameter, ...]:
    """Return the parameters of a model; TypeError or ValueError if it has no signature."""
    return _merged(signature(model).parameters.values())


def taken_by_callbacks(chart: StateChart[Any], event: str) -> tuple[Parameter, ...]:
    """Return the parameters of the callbacks that an event would call in a chart as it is.

    Guards are not asked: what any transition that could be selected (SCXML 3.13) would call
    counts, in the order of the calls. `*args` and `**kwargs` add nothing; what a `prepare_event`
    supplies cannot be told from what a sender must give.
    """
    return _merged(
        parameter
        for group in _groups(chart, event)
        for callback in _callbacks(chart, group)
        if callback.condition(event=event)
        for adapter in _adapters(callback._callback)  # noqa: SLF001 - pinned
        for parameter in adapter.parameters.values()
        if parameter.name not in INJECTED
    )


def _callbacks(chart: StateChart[Any], group: str) -> list[Any]:
    registry = chart._callbacks  # noqa: SLF001 - pinned
    return list(registry[group]) if group in registry else []


def _merged(declared: Iterable[Declared]) -> tuple[Parameter, ...]:
    """Return each name once: required if it is anywhere, with the first type that is said."""
    found: dict[str, Parameter] = {}
    for parameter in declared:
        if parameter.kind in _OPEN_ENDED:
            continue
        name, required = parameter.name, parameter.default is Declared.empty
        before = found.get(name, Parameter(name=name, required=False))
        found[name] = Parameter(
            name=name,
            required=before.required or required,
            type=before.type or _type(parameter.annotation),
        )
    return tuple(found.values())


def _type(annotation: Any) -> str | None:
    if annotation is Declared.empty:
        return None
    return annotation if isinstance(annotation, str) else formatannotation(annotation)


def _groups(chart: StateChart[Any], event: str) -> Iterator[str]:
    """Yield the keys of the groups of callbacks that an event would call, each once."""
    seen: set[str] = set()
    for transition, exited in _selectable(chart, event):
        before = [transition.validators.key, transition.cond.key, transition.before.key]
        exits = [state.exit.key for state in exited]
        enters = [state.enter.key for state in _entered(chart, transition)]
        for key in (*before, *exits, transition.on.key, *enters, transition.after.key):
            if key not in seen:
                seen.add(key)
                yield key


def _selectable(chart: StateChart[Any], event: str) -> Iterator[tuple[Any, list[State]]]:
    """Yield the transitions that an event may select, each with the states that it leaves.

    As the library selects them: from each active atomic state upwards, to the first transition
    without a guard.
    """
    for atomic in (state for state in chart.configuration if state.is_atomic):
        left: list[State] = []
        for state in chain([atomic], atomic.ancestors()):
            left.append(state)
            found = _candidates(state, event)
            for transition in found:
                exited = left[:-1] if transition.internal else left
                yield transition, list(exited) if transition.targets else []
            if found and not _is_guarded(found[-1]):
                break


def _candidates(state: State, event: str) -> list[Any]:
    """Return a state's own transitions for an event, to the first without a guard."""
    found = []
    for transition in state.transitions:
        if transition.initial or not enables(transition, event):
            continue
        found.append(transition)
        if not _is_guarded(transition):
            break
    return found


def _is_guarded(transition: Any) -> bool:
    return any(True for _ in transition.cond)


def _entered(chart: StateChart[Any], transition: Any) -> list[State]:
    """Return the targets that a transition enters; not all internal ones enter theirs."""
    # An internal transition has its one target in its source, or it would be refused.
    stays = transition.internal and not chart.enable_self_transition_entries
    return [] if stays else list(transition.targets)


def _adapters(callback: Any) -> Iterator[SignatureAdapter]:
    """Yield the signatures that a callback of the library, or a guard made of several, binds to.

    The library keeps them in the closures that it makes for each callback.
    """
    held = [cell.cell_contents for cell in getattr(callback, "__closure__", None) or ()]
    own = [getattr(one, "__self__", None) for one in held]
    adapters = [one for one in own if isinstance(one, SignatureAdapter)]
    yield from adapters
    if not adapters:
        for one in filter(isfunction, held):
            yield from _adapters(one)
