"""The shape of a chart: what must not change under a stored run, its digest, and drift in words.

States, their values, nesting and kinds, what they invoke, and the transitions count. Guards,
actions, labels, durations and the names of methods and classes do not: a run may be restored
under new ones.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from statemachine import State, StateChart
from statemachine.contrib.timeout import _Timeout
from statemachine.invoke import InvokeGroup, _InvokeCallableWrapper
from statemachine.io.invoke import Invoker
from statemachine.state import HistoryState

from machines.names import Names, every_state, names_of
from snapshots.codec import Codec, Plain, dump
from snapshots.errors import EncodeError

if TYPE_CHECKING:
    from statemachine.callbacks import CallbackSpec

DIGEST_HEX = 12
Shape = dict[str, Any]

_CACHE: WeakKeyDictionary[type[StateChart[Any]], tuple[Shape, str]] = WeakKeyDictionary()
# A cache of a pure function of an immutable class; it holds nothing that outlives the class.


def shape_of(chart: type[StateChart[Any]]) -> Shape:
    """Return the shape of a chart class: plain JSON values, states in document order."""
    return _shape_and_digest(chart)[0]


def digest_of(chart: type[StateChart[Any]]) -> str:
    """Return the shape's digest: 12 hex digits, the same in every process."""
    return _shape_and_digest(chart)[1]


def shape_bytes(chart: type[StateChart[Any]]) -> bytes:
    """Return the shape as it is stored, once per digest."""
    return dump(shape_of(chart))


def _shape_and_digest(chart: type[StateChart[Any]]) -> tuple[Shape, str]:
    known = _CACHE.get(chart)
    if known is None:
        shape = _shape(chart, frozenset())
        known = _CACHE[chart] = (shape, _digest(shape))
    return known


def _digest(shape: Shape) -> str:
    """Digest what counts: the order in which states are written does not, nor the class's name."""
    counted = {
        "states": sorted(shape["states"], key=lambda state: str(state["name"])),
        "transitions": shape["transitions"],
    }
    return hashlib.sha256(dump(counted)).hexdigest()[:DIGEST_HEX]


def _shape(chart: type[StateChart[Any]], above: frozenset[type[StateChart[Any]]]) -> Shape:
    names = names_of(chart)
    children: dict[str, Shape] = {}
    states = [
        _state(state, names, children, chart, above) for state in every_state(list(chart.states))
    ]
    transitions = sorted(
        (_transition(t, names) for state in names.states.values() for t in state.transitions),
        key=dump,
    )
    return {
        "name": chart.__name__,
        "states": states,
        "transitions": transitions,
        "children": children,
    }


def _state(
    state: State,
    names: Names,
    children: dict[str, Shape],
    chart: type[StateChart[Any]],
    above: frozenset[type[StateChart[Any]]],
) -> dict[str, Any]:
    name = names.name(state)
    return {
        "name": name,
        # A document's state has its id as its value, and that may be a generated one.
        "value": _value(name if state.value == state.id else state.value),
        "parent": names.name(state.parent) if state.parent is not None else None,
        "kind": _kind(state),
        "initial": bool(state.initial),
        "invokes": [
            _invoke(spec, f"{name}.{place}", children, above | {chart})
            for place, spec in enumerate(state.invoke)
            if not spec.is_convention or callable(getattr(chart, spec.attr_name, None))
        ],
    }


def _value(value: Any) -> Plain:
    """Return a state's value with its type, but without the name of a class."""
    if isinstance(value, Enum):
        return {"enum": value.name}
    try:
        plain = Codec().to_plain(value)
    except EncodeError:
        return {"object": None}
    return {"typed": dump(plain).decode()} if isinstance(plain, dict) else plain


def _kind(state: State) -> str:
    if isinstance(state, HistoryState):
        return f"history-{state.type.value}"
    if state.final:
        return "final"
    if state.parallel:
        return "parallel"
    return "compound" if state.states else "atomic"


def _invoke(
    spec: CallbackSpec,
    place: str,
    children: dict[str, Shape],
    above: frozenset[type[StateChart[Any]]],
) -> str:
    source = spec.func
    if isinstance(source, _InvokeCallableWrapper):
        source = source._invoke_handler  # noqa: SLF001 - pinned
    chart = getattr(source, "chart", source)
    if isinstance(chart, type) and issubclass(chart, StateChart):
        word = "children" if getattr(source, "durable_kind", "") == "nursery" else "child"
        if chart in above:
            return f"{word}:recursive"
        children[place] = inner = _shape(chart, above)
        return f"{word}:{_digest(inner)}"
    if isinstance(source, InvokeGroup):
        return f"group:{len(source._callables)}"  # noqa: SLF001 - pinned
    if isinstance(source, _Timeout):
        return f"timeout:{source.on or ''}"
    if isinstance(source, Invoker):
        definition = source._definition  # noqa: SLF001 - pinned
        inline = definition.content if isinstance(definition.content, str) else ""
        text = f"{definition.type}|{definition.src}|{definition.srcexpr}|{inline}"
        return f"document:{hashlib.sha256(text.encode()).hexdigest()[:DIGEST_HEX]}"
    declared = getattr(source, "shape", None)
    return str(declared()) if callable(declared) else "call"


def _transition(transition: Any, names: Names) -> list[Any]:
    return [
        names.name(transition.source),
        " ".join(sorted(str(event) for event in transition.events)),
        [names.name(target) for target in transition.targets],
        bool(transition.internal),
        bool(transition.initial),
    ]


def drift(stored: Shape | None, today: Shape) -> tuple[str, ...]:
    """Say in words what changed between the shape that wrote a run and today's."""
    if stored is None:
        return ("the shape that wrote it is not stored",)
    before = {state["name"]: state for state in stored["states"]}
    now = {state["name"]: state for state in today["states"]}
    words = [f"state {name!r} is gone" for name in before if name not in now]
    words += [f"state {name!r} is new" for name in now if name not in before]
    for name in before.keys() & now.keys():
        words += _state_drift(name, before[name], now[name])
    words += _transition_drift(stored["transitions"], today["transitions"])
    for place in stored["children"].keys() & today["children"].keys():
        inner = drift(stored["children"][place], today["children"][place])
        words += [f"in the child chart of {place!r}: {word}" for word in inner]
    return tuple(sorted(words))


def _state_drift(name: str, before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    words = []
    for key, said in (("kind", "is"), ("parent", "lies in"), ("value", "has the value")):
        if before[key] != now[key]:
            was, is_now = _shown(before[key]), _shown(now[key])
            words.append(f"state {name!r} now {said} {is_now}, it was {was}")
    if before["initial"] != now["initial"]:
        words.append(f"state {name!r} is {'now' if now['initial'] else 'no longer'} initial")
    if before["invokes"] != now["invokes"]:
        was, is_now = ", ".join(before["invokes"]) or "nothing", ", ".join(now["invokes"])
        words.append(f"state {name!r} now invokes {is_now or 'nothing'}, it invoked {was}")
    return words


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(str(part) for part in value.values())
    return "the root" if value is None else repr(value)


def _transition_drift(before: list[Any], now: list[Any]) -> list[str]:
    gone = Counter(map(_edge, before)) - Counter(map(_edge, now))
    new = Counter(map(_edge, now)) - Counter(map(_edge, before))
    words = []
    for edge in gone:
        source, name, targets = edge
        moved = next((e for e in new if e[:2] == (source, name) and e[2] != targets), None)
        if moved is not None:
            del new[moved]
            words.append(f"{name} in {source!r} now leads to {moved[2]}, not {targets}")
        else:
            words.append(f"{name} from {source!r} to {targets} is gone")
    words += [f"{name} from {source!r} to {targets} is new" for source, name, targets in new]
    return words


def _edge(transition: list[Any]) -> tuple[str, str, str]:
    source, event, targets, internal, initial = transition
    name = repr(event) if event else "the eventless transition"
    if initial:
        name = "the initial transition"
    said = f"{name}, internal," if internal else name
    return source, said, " and ".join(map(repr, targets)) or "nowhere"
