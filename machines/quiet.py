"""Whether a run does anything by itself, or only waits for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.engine.nodes import Node
    from machines.engine.tree import Tree
    from snapshots.ledgers.effects import Effects


def nodes_of(tree: Tree) -> Iterator[Node]:
    """Yield the charts of a tree, from the root down."""
    return tree.root.walk() if tree.root is not None else iter(())


def in_flight(tree: Tree, effects: Effects) -> bool:
    """Whether outside work is under way, or its outcome is in doubt."""
    return effects.outstanding or any(
        invoke.live and invoke.kind in ("call", "effect")
        for node in nodes_of(tree)
        for invoke in node.engine.invokes.active.values()
    )


def parked(tree: Tree, effects: Effects) -> bool:
    """Whether a run only waits: no queue, nothing pending, nothing in flight or in doubt.

    It may be kept as its row then: its timers are due when that says, whatever restarts.
    """
    if tree.arrivals or in_flight(tree, effects):
        return False
    if any(timer.policy != "deadline" for timer in tree.timers):
        return False
    return not any(
        node.engine.external_queue.items or node.engine.invokes.marked for node in nodes_of(tree)
    )


def waits_for(tree: Tree, path: str, invoke: str) -> bool:
    """Whether a chart still waits for the outcome of what it invoked."""
    node = tree.find(path)
    found = node.engine.invokes.active.get(invoke) if node is not None else None
    return found is not None and found.live
