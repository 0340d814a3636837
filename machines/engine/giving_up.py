"""How a chart is left behind an exception that nobody mends: as the library's engines leave it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from statemachine.exceptions import TransitionNotAllowed

from machines.engine.queues import reject

if TYPE_CHECKING:
    from machines.engine.nodes import Node


def give_up(node: Node, error: Exception) -> bool:
    """Leave a chart, whose turn is over; return whether somebody was told.

    What is queued behind the event is dropped, but for an event that no transition takes in a
    synchronous chart.
    """
    engine, tree = node.engine, node.tree
    engine.between = None
    engine.internal_queue.clear()
    current, engine.current = engine.current, None
    told = reject(current.trigger if current is not None else None, error)
    tree.rest(node)
    if isinstance(error, TransitionNotAllowed) and not engine.is_async:
        if not engine.external_queue.is_empty():
            tree.ready(node)
        return told
    engine.external_queue.reject_futures(error)
    engine.external_queue.clear()
    return told
