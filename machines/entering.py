"""What enters a run from outside: checked, then queued, or kept as a timer."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from machines.engine.triggers import make_trigger
from machines.engine.turns import RESERVED
from machines.errors import EventRefusedError, GateClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from machines.run import Run

NOTHING: Mapping[str, Any] = {}


def send(
    run: Run,
    event: str,
    args: tuple[Any, ...] = (),
    data: Mapping[str, Any] = NOTHING,
    *,
    waiter: Any = None,
    delivery: str | None = None,
    path: str = "",
) -> bool:
    """Take an event for a chart of a run and see that it runs; False for one that was taken.

    One that is declared with a delay is answered once its timer is saved; the run must be quiet
    for it. Raises RunFinishedError, EventRefusedError, EncodeError for data that cannot be
    stored, and for a delayed one what the save raises.
    """
    if delivery is not None and delivery in run.ledgers.deliveries:
        return False
    run.require_live()
    refuse_reserved(run.run_id, event, data)
    run.machine.codec.encode([list(args), dict(data)], root=f"event {event}")
    if delivery is not None:
        run.ledgers.deliver(delivery, run.tree.seq + 1)
    delay_ms = declared_delay(run, event, path)
    if delay_ms:
        _send_later(run, path, event, args, data, delay_ms)
        waiter.set_result(None)
        return True
    seq = run.take_in(path, event, args, data, waiter=waiter)
    assert seq is not None, f"run {run.run_id!r} has no chart at {path!r}"
    run.wake()
    return True


def answer(
    run: Run,
    gate: str,
    event: str,
    args: tuple[Any, ...],
    data: Mapping[str, Any],
    waiter: Any,
) -> None:
    """Take an answer to an open gate, as `send`; raises GateClosedError if none takes it."""
    run.require_live()
    gates = run.gates()
    found = next((g for g in gates if g.key == gate and event in g.events), None)
    if found is None:
        known = tuple(f"{g.key} ({', '.join(g.events)})" for g in gates)
        raise GateClosedError(run.run_id, gate, event, known)
    send(run, event, args, data, waiter=waiter, path=found.path)


def declared_delay(run: Run, event: str, path: str = "") -> float:
    """Return the delay, in ms, that a chart declares for an event; 0 without one."""
    node = run.tree.find(path)
    known = getattr(type(node.chart), event, None) if node is not None else None
    delay: float = getattr(known, "delay", 0) or 0
    return delay


def _send_later(
    run: Run,
    path: str,
    event: str,
    args: tuple[Any, ...],
    data: Mapping[str, Any],
    delay_ms: float,
) -> None:
    assert run.tree.running is None, "a timer from outside is set between two macrosteps"
    seq = set_timer(run, path, event, args, data, delay_ms=delay_ms)
    try:
        run.write()
    except BaseException:
        run.tree.timers.drop(seq)
        run.ledgers.undeliver(seq)
        raise
    run.ledgers.delivered(seq)


def set_timer(
    run: Run,
    path: str,
    event: str,
    args: tuple[Any, ...],
    data: Mapping[str, Any],
    *,
    delay_ms: float,
    send_id: str | None = None,
) -> int:
    """Keep an event from outside until its time; return its number."""
    node = run.tree.find(path)
    assert node is not None, f"run {run.run_id!r} has no chart at {path!r}"
    trigger = make_trigger(node.chart, event, args=args, kwargs=data, send_id=send_id)
    assert trigger.event is not None
    trigger.event.delay = delay_ms
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
        refuse_reserved(run.run_id, event, data)
        run.machine.codec.encode([list(args), data], root=f"event {event}")

        def enter() -> None:
            _enter(run, path, event, args, data, delay, send_id)

        if run.tree.thread == threading.get_ident():
            enter()
        else:
            run.post(enter)

    return send_from_work


def _enter(
    run: Run,
    path: str,
    event: str,
    args: tuple[Any, ...],
    data: Mapping[str, Any],
    delay: float | None,
    send_id: str | None,
) -> None:
    node = run.tree.find(path)
    if not run.goes_on or node is None or node.finished:
        return  # the chart has ended, and nobody waits for an answer
    delay_ms = declared_delay(run, event, path) if delay is None else delay
    if not delay_ms:
        run.take_in(path, event, args, data, send_id=send_id)
        run.wake()
    elif run.tree.running is None:
        set_timer(run, path, event, args, data, delay_ms=delay_ms, send_id=send_id)
        run.arrived()
    else:
        run.when_quiet(lambda: _enter(run, path, event, args, data, delay, send_id))


def refuse_reserved(run_id: str, event: str, data: Mapping[str, Any]) -> None:
    """Refuse event data that the library would silently replace by a value of its own."""
    for name in sorted(RESERVED & data.keys()):
        raise EventRefusedError(
            run_id,
            event,
            f"its data uses the name {name!r}, which python-statemachine replaces",
            "give that value another name",
        )
