"""The children that a chart spawns by itself, into a nursery that an active state invokes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.engine.invocations import SPAWNED, Marked
from machines.engine.invokes import kind_of

if TYPE_CHECKING:
    from statemachine import State

    from machines.engine.invokes import Invokes


def nurseries(invokes: Invokes) -> list[tuple[State, int]]:
    """Return the active states that invoke a nursery, with its place among their invokes."""
    node = invokes.node
    return [
        (state, index)
        for state in node.chart.configuration
        for index, callback in enumerate(invokes.callbacks(node.names.name(state)))
        if kind_of(callback) == "nursery"
    ]


def mark_child(
    invokes: Invokes, nursery: tuple[State, int], given: str, kwargs: dict[str, Any]
) -> str | None:
    """Note a child that begins after the save; return its invoke id, None if that is taken."""
    state, index = nursery
    name = invokes.node.names.name(state)
    invoke = f"{name}{SPAWNED}{given}"
    known = invokes.active.get(invoke)
    if known is not None and known.cancelled:
        del invokes.active[invoke]
    if invoke in invokes.active or any(mark.id == invoke for mark in invokes.marked):
        return None
    invokes.node.fragment = None
    invokes.marked.append(Marked(name, kwargs, state.document_order, invoke, index))
    return invoke


def stop_child(invokes: Invokes, given: str) -> bool:
    """End a child that was spawned, or is about to be; return whether there is one."""
    for mark in invokes.marked:
        if mark.given_id == given:
            invokes.node.fragment = None
            invokes.marked.remove(mark)
            return True
    for invoke in invokes.active.values():
        if invoke.given_id == given and not invoke.cancelled:
            invokes.cancel(invoke)
            return True
    return False


def children_of(invokes: Invokes) -> list[str]:
    """Return the given ids of the children that are about to begin, or have not ended."""
    begun = [invoke.given_id for invoke in invokes.active.values() if invoke.live]
    marked = [mark.given_id for mark in invokes.marked]
    return [given for given in (*begun, *marked) if given is not None]
