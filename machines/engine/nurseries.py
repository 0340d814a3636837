"""The children that a chart spawns by itself, into a nursery that an active state invokes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.engine.invocations import SPAWNED, Invoke, Marked, given_id
from machines.engine.invokes import kind_of

if TYPE_CHECKING:
    from statemachine import State

    from machines.engine.invokes import Invokes
    from machines.engine.nodes import Node


def nurseries(invokes: Invokes) -> list[tuple[State, int]]:
    """Return the active states that invoke a nursery, with its place among their invokes."""
    node = invokes.node
    named = [(state, node.names.name(state)) for state in node.chart.configuration]
    return [
        (state, index)
        for state, name in named
        if name not in invokes.left
        for index, callback in enumerate(invokes.callbacks(name))
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
    invokes.node.mark_moved()
    invokes.marked.append(Marked(name, kwargs, state.document_order, invoke, index))
    return invoke


def stop_child(invokes: Invokes, name: str) -> bool:
    """End a child that was spawned, or is about to be, by its invoke id or its given one."""
    works: list[Marked | Invoke] = [*invokes.marked, *invokes.active.values()]
    there = [work for work in works if work.given_id is not None and not _is_cancelled(work)]
    named = [work for work in there if work.id == name]
    found = next(iter(named or [work for work in there if work.given_id == name]), None)
    if found is None:
        return False
    if isinstance(found, Marked):
        invokes.node.mark_moved()
        invokes.marked = [mark for mark in invokes.marked if mark is not found]
    else:
        invokes.cancel(found)
    return True


def told_of(node: Node) -> dict[str, Any]:
    """Return what its parent is told of a child that it spawned: which one, and how it ended."""
    if not node.is_spawned:
        return {}
    ended = [node.names.name(state) for state in node.chart.configuration if state.final]
    return {"child": given_id(node.id), "ended": ended}


def _is_cancelled(work: Marked | Invoke) -> bool:
    return isinstance(work, Invoke) and work.cancelled


def children_of(invokes: Invokes) -> list[str]:
    """Return the given ids of the children that are about to begin, or have not ended."""
    begun = [invoke.given_id for invoke in invokes.active.values() if invoke.live]
    marked = [mark.given_id for mark in invokes.marked]
    return [given for given in (*begun, *marked) if given is not None]
