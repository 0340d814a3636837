"""What enters a run from outside: checked, then queued, or kept as a timer."""

from __future__ import annotations

import threading
from math import isfinite
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from machines.engine.queues import Queued
from machines.engine.triggers import make_trigger
from machines.engine.turns import RESERVED
from machines.errors import EventRefusedError
from machines.gates import gate_for
from machines.limits import DELIVERY_CHARS_MAX
from machines.run.activity import nodes_of
from machines.run.waiters import STALE, TAKEN
from snapshots.errors import InvalidKeyError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from machines.engine.nodes import Node
    from machines.gates import Gate
    from machines.run.run import Run
    from machines.run.waiters import Receipt


INT_BITS_63: Final = 2**63
"""Whole numbers from minus this up to this are stored as they are."""


class Incoming(NamedTuple):
    """An event from outside, for the chart at `path`."""

    event: str
    args: tuple[Any, ...] = ()
    data: Mapping[str, Any] = MappingProxyType({})
    path: str = ""
    send_id: str | None = None
    epoch: str | None = None


def send(
    run: Run, given: Incoming, *, waiter: Any = None, delivery: str | None = None
) -> Receipt | None:
    """Take an event for a chart of a run and see that it runs; return what else became of it.

    One that is declared with a delay is answered once its timer is saved; the run must be quiet
    for it. Raises RunFinishedError, EventRefusedError, EncodeError for data that cannot be
    stored, and for a delayed one what the save raises.
    """
    if delivery is not None and _was_taken(run, delivery):
        return TAKEN
    run.require_live()
    if given.epoch is not None and run.is_stale(given.epoch):
        return STALE
    given = _checked(run, given)
    if delivery is not None:
        run.ledgers.deliver(delivery, run.tree.seq + 1)
    node = run.tree.find(given.path)
    assert node is not None, f"run {run.run_id!r} has no chart at {given.path!r}"
    delay_ms = declared_delay(node, given.event)
    if delay_ms:
        _send_later(run, node, given, delay_ms)
        waiter.set_result(None)
    else:
        take_in(run, node, given, waiter=waiter)
        run.wake()
    return None


def take_in(run: Run, node: Node, given: Incoming, *, waiter: Any = None) -> None:
    """Queue an event from outside for a chart that has not ended.

    It does not run yet: `wake` has it run. Until a save holds it, it is kept where the charts are
    built anew.
    """
    assert not node.finished, f"run {run.run_id!r}: the chart at {given.path!r} has ended"
    trigger = make_trigger(
        node.chart, given.event, args=given.args, kwargs=given.data, send_id=given.send_id
    )
    trigger.future = waiter
    tree = run.tree
    tree.take_in(node, Queued(tree.now(), tree.number(), trigger, epoch=given.epoch))


def answer(
    run: Run, gate: str, given: Incoming, waiter: Any, *, delivery: str | None = None
) -> Receipt | None:
    """Take an answer to an open gate, as `send`.

    Raises GateClosedError if no gate takes it, AmbiguousGateError if several are open under that
    key, and EventRefusedError for data that the gate's model refuses.
    """
    if delivery is not None and _was_taken(run, delivery):
        return TAKEN
    run.require_live()
    if given.epoch is not None and run.is_stale(given.epoch):
        return STALE
    found, source = gate_for(run.run_id, nodes_of(run.tree), gate, given.event)
    if given.event in source.models:
        _check_model(run, gate, source, given)
    return send(run, given._replace(path=found.path), waiter=waiter, delivery=delivery)


def _check_model(run: Run, gate: str, source: Gate, given: Incoming) -> None:
    copied = _checked(run, given)  # what the model does to its data stays with it
    refusal = source.refusal(given.event, copied.args, copied.data)
    if refusal is not None:
        reason = f"its data does not fit gate {gate!r}: {refusal}"
        hint = "give what the gate's parameters say"
        raise EventRefusedError(run.run_id, given.event, reason, hint)


def _was_taken(run: Run, delivery: str) -> bool:
    check_delivery(delivery)
    return delivery in run.ledgers.deliveries


def declared_delay(node: Node, event: str) -> float:
    """Return the delay, in ms, that a chart declares for an event; 0 without one."""
    if event in node.engine.prompt:
        return 0
    known = getattr(type(node.chart), event, None)
    delay: float = getattr(known, "delay", 0) or 0
    if known is not None and not delay:
        node.engine.prompt.add(event)
    return delay


def _send_later(run: Run, node: Node, given: Incoming, delay_ms: float) -> None:
    assert run.tree.running is None, "a timer from outside is set between two macrosteps"
    seq = _set_timer(run, node, given, delay_ms)
    try:
        run.write()
    except BaseException:
        run.tree.timers.drop(seq)
        run.ledgers.undeliver(seq)
        raise
    run.ledgers.delivered(seq)


def _set_timer(run: Run, node: Node, given: Incoming, delay_ms: float) -> int:
    """Keep an event from outside until its time; return its number."""
    trigger = make_trigger(
        node.chart,
        given.event,
        args=given.args,
        kwargs=given.data,
        send_id=given.send_id,
        delay=delay_ms,
    )
    run.tree.accept(node, trigger, inside=False)
    return run.tree.seq


def sender(run: Run, path: str) -> Callable[..., None]:
    """Return what work of a chart sends events to that chart with, from any thread.

    It finds the chart anew each time: since the work began it may have been built anew.
    """

    def send_from_work(
        event: str,
        *args: Any,
        delay: float | None = None,
        send_id: str | None = None,
        **data: Any,
    ) -> None:
        incoming = Incoming(event=event, args=args, data=data, path=path, send_id=send_id)
        given = _checked(run, incoming)
        if run.tree.thread == threading.get_ident():
            _enter(run, given, delay)
        else:
            run.post(lambda: _enter(run, given, delay))

    return send_from_work


def _enter(run: Run, given: Incoming, delay: float | None) -> None:
    node = run.tree.find(given.path)
    if not run.goes_on or node is None or node.finished:
        return  # the chart has ended, and nobody waits for an answer
    delay_ms = declared_delay(node, given.event) if delay is None else delay
    if not delay_ms:
        take_in(run, node, given)
        run.wake()
    elif run.tree.running is None:
        _set_timer(run, node, given, delay_ms)
        run.arrived()
    else:
        run.when_quiet(lambda: _enter(run, given, delay))


def _checked(run: Run, given: Incoming) -> Incoming:
    """Return the event with values of its own: what its sender changes later does not reach it."""
    event, args, data, path, send_id, epoch = given
    refuse_reserved(run.run_id, event, data)
    if not args and are_constants(data):
        return given
    values = [list(args), dict(data)]
    args, data = run.machine.codec.copy(values, root=f"event {event}")
    return Incoming(event, tuple(args), data, path, send_id, epoch)


def are_constants(data: Mapping[str, Any]) -> bool:
    """Whether all values can be stored as they are, and none can be changed by who sent it."""
    for name, value in data.items():
        kind = type(value)
        if kind is int:
            fits = -INT_BITS_63 <= value < INT_BITS_63
        elif kind is str:
            fits = value.isascii()  # half a surrogate pair, say, cannot be stored
        elif kind is float:
            fits = isfinite(value)
        else:
            fits = kind is bool or value is None
        if not fits or not name.isascii():
            return False
    return True


def require_known(run: Run, event: str) -> None:
    """Raise EventRefusedError for an event that no transition of the run's charts is for.

    A chart that allows it would only answer None, which a sender that is not there cannot see.
    """
    for node in nodes_of(run.tree):
        for state in node.names.states.values():
            if any(transition.match(event) for transition in state.transitions):
                return
    reason, hint = "no transition of its charts is for it", "look at how it is written"
    raise EventRefusedError(run.run_id, event, reason, hint)


def check_delivery(delivery: str) -> None:
    """Raise InvalidKeyError for an id of a delivery that no row could keep."""
    if not isinstance(delivery, str) or not 0 < len(delivery) <= DELIVERY_CHARS_MAX:
        reason = f"a delivery's id is a text of 1 to {DELIVERY_CHARS_MAX} characters"
        raise InvalidKeyError(str(delivery)[:DELIVERY_CHARS_MAX], reason)
    if not delivery.isprintable():
        raise InvalidKeyError(delivery, "a delivery's id has printable characters only")


def refuse_reserved(run_id: str, event: str, data: Mapping[str, Any]) -> None:
    """Refuse event data that the library would silently replace by a value of its own."""
    if not data or RESERVED.isdisjoint(data):
        return
    for name in sorted(RESERVED & data.keys()):
        raise EventRefusedError(
            run_id,
            event,
            f"its data uses the name {name!r}, which python-statemachine replaces",
            "give that value another name",
        )
