"""What a chart has to do, as a snapshot holds it: its events, timers and invocations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.binding.documents import stored

if TYPE_CHECKING:
    from machines.engine.invocations import Invoke, Marked
    from machines.engine.nodes import Arrival
    from machines.engine.queues import Queued
    from snapshots.ledgers.timers import Timer

Value = dict[str, Any]


def read_queued(item: Queued) -> Value:
    """Return what a snapshot holds of a queued event."""
    trigger = item.trigger
    assert trigger.event is not None
    kwargs = {key: value for key, value in trigger.kwargs.items() if key != "_invoke_session"}
    return without_empty(
        {
            "event": str(trigger.event),
            "name": trigger.event.name,
            "internal": trigger.event.internal or None,
            "send_id": trigger.send_id,
            "args": list(trigger.args),
            "kwargs": stored(kwargs),
            "at": item.at,
            "seq": item.seq,
            "invoke": item.invoke,
            "epoch": item.epoch,
        }
    )


def read_timer(timer: Timer) -> Value:
    """Return what a snapshot holds of a timer, in the chart that it belongs to."""
    return without_empty(
        {
            "id": timer.id,
            "due": timer.due,
            "seq": timer.seq,
            "event": timer.event,
            "name": timer.name,
            "send_id": timer.send_id,
            "args": list(timer.args),
            "kwargs": timer.kwargs,
            "policy": timer.policy,
            "span": timer.span,
            "invoke": timer.invoke,
        }
    )


def read_marked(mark: Marked) -> Value:
    """Return what a snapshot holds of an invoke that is not spawned yet."""
    return without_empty(
        {
            "id": mark.id,
            "state": mark.state,
            "index": mark.index,
            "order": mark.order,
            "kwargs": mark.kwargs,
            "attempt": mark.attempt if mark.attempt > 1 else None,
        }
    )


def read_invoke(invoke: Invoke) -> Value:
    """Return what a snapshot holds of an invocation."""
    return without_empty(
        {
            "id": invoke.id,
            "state": invoke.state,
            "index": invoke.index,
            "kind": invoke.kind,
            "kwargs": invoke.kwargs,
            "attempt": invoke.attempt,
            "sent": invoke.sent or None,
            "terminated": invoke.terminated or None,
            "cancelled": invoke.cancelled or None,
            **invoke.extra,
        }
    )


def read_arrival(arrival: Arrival) -> Value:
    """Return what a snapshot holds of something that came during a macrostep."""
    value = read_queued(arrival.item)
    return without_empty({"node": arrival.path, "invoke": arrival.invoke, "item": value})


def without_empty(value: Value) -> Value:
    """Return the parts of a value that say anything."""
    return {key: part for key, part in value.items() if part is not None and part not in ([], {})}
