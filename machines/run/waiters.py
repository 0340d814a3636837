"""Who waits for the events of a run: kept while its charts are built anew, told when it is over."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from machines.engine.queues import reject
from machines.run.activity import nodes_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from machines.engine.nodes import Arrival
    from machines.engine.queues import Queued
    from machines.engine.tree import Tree


class Receipt(Enum):
    """What the sender of an event is told that is not run."""

    TAKEN = "taken"
    STALE = "stale"


TAKEN = Receipt.TAKEN
"""Its run has taken that delivery before."""
STALE = Receipt.STALE
"""It answers a conversation that has moved on: its epoch is an older one."""


def hear(waiter: Any) -> None:
    """Take note of how a future ended, so that an error which nobody waits for is no warning."""
    if not waiter.cancelled():
        waiter.exception()


def waiters_of(tree: Tree) -> dict[int, Any]:
    """Return who waits for an event on a queue, by the event's number."""
    return {
        item.seq: item.trigger.future for item in _queued(tree) if item.trigger.future is not None
    }


def give_back(tree: Tree, waiters: dict[int, Any]) -> None:
    """Let the events of a tree that was built anew be waited for as before."""
    for item in _queued(tree):
        item.trigger.future = waiters.get(item.seq)


def drop_arrivals(tree: Tree, seqs: set[int]) -> None:
    """Forget events that came from outside since the last save."""
    tree.admitted = [a for a in tree.admitted if a.item.seq not in seqs]
    tree.arrivals = [a for a in tree.arrivals if a.item.seq not in seqs]


def drop_event(tree: Tree, seq: int) -> bool:
    """Forget an event, wherever it waits for its turn; return whether a queue held it."""
    drop_arrivals(tree, {seq})
    found = False
    for node in nodes_of(tree):
        if node.engine.external_queue.remove(seq):
            node.mark_moved()
            found = True
    return found


def unsaved_waiting(tree: Tree) -> list[Arrival]:
    """Return what came since the last save, did not begin to run, and is waited for."""
    running = tree.running.engine.current if tree.running is not None else None
    return [
        arrival
        for arrival in (*tree.admitted, *tree.arrivals)
        if arrival.item.trigger.future is not None
        and (running is None or arrival.item.seq != running.seq)
    ]


def tell_all(tree: Tree, error: BaseException) -> None:
    """Give an error to everybody who waits for anything of a tree that runs no more."""
    for arrival in (*tree.admitted, *tree.arrivals):
        reject(arrival.item.trigger, error)
    for item in _queued(tree):
        reject(item.trigger, error)
    for node in nodes_of(tree):
        current = node.engine.current
        reject(current.trigger if current is not None else None, error)
    resting, tree.resting = tree.resting, []
    for rested in resting:
        rested()


def _queued(tree: Tree) -> Iterator[Queued]:
    for node in nodes_of(tree):
        yield from node.engine.external_queue.items
