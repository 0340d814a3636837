"""Whether a run does anything by itself, or only waits for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from machines.engine.invocations import Invoke
from machines.engine.invokes import kind_of

if TYPE_CHECKING:
    from machines.engine.nodes import Node
    from machines.engine.tree import Tree
    from snapshots.ledgers.effects import Effects


def nodes_of(tree: Tree) -> list[Node]:
    """Return the charts of a tree, from the root down, but for one that could not be made."""
    charts = tree.root.walk() if tree.root is not None else []
    return [node for node in charts if hasattr(node, "engine")]


def calls_begun(tree: Tree) -> set[tuple[str, str | None]]:
    """Return the calls and effects that charts have begun, by path and invocation."""
    return {
        (node.path, invoke.id)
        for node in nodes_of(tree)
        for invoke in node.engine.invokes.active.values()
        if invoke.kind in ("call", "effect")
    }


def take_as_begun(tree: Tree, begun: set[tuple[str, str | None]]) -> None:
    """Take calls that a snapshot has as yet to begin for begun, without beginning them.

    The snapshot is older than their beginning: their outcome may have come, or may come at any
    moment, and must find somebody who waits for it.
    """
    for node in nodes_of(tree):
        invokes = node.engine.invokes
        for mark in list(invokes.marked):
            if mark.id is None or (node.path, mark.id) not in begun:
                continue
            kind = kind_of(invokes.callbacks(mark.state)[mark.index])
            invokes.marked.remove(mark)
            invokes.active[mark.id] = Invoke(
                mark.id, mark.state, mark.index, kind, mark.kwargs, mark.attempt
            )
            node.mark_moved()


def in_flight(tree: Tree, effects: Effects) -> bool:
    """Whether outside work is under way, or its outcome is in doubt."""
    return effects.outstanding or any(
        invoke.live and invoke.kind in ("call", "effect")
        for node in nodes_of(tree)
        for invoke in node.engine.invokes.active.values()
    )


def parked(tree: Tree, effects: Effects) -> bool:
    """Whether a run only waits: no queue, nothing pending, nothing in flight or in doubt.

    Its charts are encoded. It may be kept as its row then: its timers are due when that says,
    whatever restarts.
    """
    if tree.arrivals or tree.busy or (effects and effects.outstanding):
        return False
    timers = tree.timers.items
    return not timers or all(timer.policy == "deadline" for timer in timers)


def has_run(tree: Tree, seq: int) -> bool:
    """Whether all that a tree has accepted up to a number was run, and no macrostep is."""
    if tree.pumping or tree.arrivals:
        return False
    queues = (node.engine.external_queue.items for node in nodes_of(tree))
    return all(item.seq > seq for items in queues for item in items)


def waits_for(tree: Tree, path: str, invoke: str) -> bool:
    """Whether a chart still waits for the outcome of what it invoked, or is about to."""
    node = tree.find(path)
    if node is None or node.finished:
        return False
    found = node.engine.invokes.active.get(invoke)
    if found is not None:
        return found.live
    return any(mark.id == invoke for mark in node.engine.invokes.marked)


def state_without_work(tree: Tree) -> str | None:
    """Return an active state that misses something that it invokes, None if all is there.

    What a state invoked is kept until the state is left, also when it has ended.
    """
    for node in nodes_of(tree):
        if node.finished:
            continue
        invokes = node.engine.invokes
        kept = {(invoke.state, invoke.index) for invoke in invokes.active.values()}
        kept |= {(mark.state, mark.index) for mark in invokes.marked}
        for state in node.chart.configuration:
            name = node.names.name(state)
            for index in range(len(invokes.callbacks(name))):
                if (name, index) not in kept:
                    return f"{node.path}/{name}" if node.path else name
    return None
