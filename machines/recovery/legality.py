"""Whether the charts of a tree are in a configuration that SCXML allows (its section 3.11)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.recovery.blobs import UnfitError
from machines.run.activity import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from machines.engine.nodes import Node
    from machines.engine.tree import Tree


def check_legal(tree: Tree) -> None:
    """Raise UnfitError for a chart that could not have come where it is by any transition.

    Stricter than what a save refuses: a run that goes on by itself is taken as the library left
    it, one that is put somewhere by hand has to be right.
    """
    for node in nodes_of(tree):
        where = f"the chart at {node.path!r}" if node.path else "the root chart"
        for reason in (*_configuration(node), *_history(node), *_shared(node)):
            message = f"{where} ({node.cls.__name__}): {reason}"
            raise UnfitError(message)


def _configuration(node: Node) -> Iterator[str]:
    active = {node.names.name(state): _inner(state) for state in node.chart.configuration}
    if not active:
        return  # what `grow` lets through has not begun
    top = sorted(name for name, state in active.items() if state.parent is None)
    for name, state in active.items():
        yield from _state(node, name, state, active)
    if len(top) != 1:
        yield f"{_listed(top)} of the outermost states are active, expected one"
    is_over = any(active[name].final for name in top)
    if is_over and not node.finished:
        yield f"{top[0]!r} is a final state, and the chart has not finished: nothing ends it there"
    if node.finished and not (is_over or any(active[name].parallel for name in top)):
        yield "it has finished, and no final state is active"


def _state(node: Node, name: str, state: Any, active: dict[str, Any]) -> Iterator[str]:
    if state.is_history:
        yield f"{name!r} is a history state, which is never active"
    if state.parent is not None and node.names.name(state.parent) not in active:
        yield f"{name!r} is active and its parent {node.names.name(state.parent)!r} is not"
    below = [node.names.name(child) for child in state.states]
    here = [child for child in below if child in active]
    if state.parallel and len(here) < len(below):
        idle = [child for child in below if child not in active]
        yield f"{name!r} is parallel and active, and {_listed(idle)} below it not"
    if below and not state.parallel and len(here) != 1:
        yield f"{name!r} is active and {_listed(here)} of its children are, expected one"


def _history(node: Node) -> Iterator[str]:
    for key, state in node.names.states.items():
        if state.id not in node.chart.history_values:
            continue
        if not state.is_history:
            yield f"{key!r} holds a history and is no history state"
            continue
        for member in node.chart.history_values[state.id]:
            above = {node.names.name(one) for one in _inner(member).ancestors()}
            if state.parent is not None and node.names.name(state.parent) not in above:
                yield f"the history {key!r} holds {node.names.name(member)!r}, which is elsewhere"


def _shared(node: Node) -> Iterator[str]:
    """Say what of a class's own values a snapshot does not fit: `Shared.lend` could not lend it."""
    shared = node.shared
    if shared is None:
        return
    if len(shared.flags) != len(shared.cells.flags):
        yield "its document has other data models than the one that was saved"


def _inner(state: Any) -> Any:
    return getattr(state, "_state", state)


def _listed(names: Iterable[str]) -> str:
    return " and ".join(map(repr, names)) or "none"
