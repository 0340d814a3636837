"""How a run ends: in a final state, by an exception that nothing handles, or cancelled."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from machines.errors import RunFinishedError
from machines.run.activity import nodes_of
from snapshots.identifiers import readable
from snapshots.limits import ERROR_TEXT_BYTES_MAX

if TYPE_CHECKING:
    from machines.engine.nodes import Node
    from machines.run.run import Run
    from snapshots.records import Status


def verdict(run: Run, root: Node) -> Status:
    """Return the status of a run whose root chart has reached a final state."""
    failed = any(state.id in run.machine.failed for state in root.chart.configuration)
    return "failed" if failed else "done"


def die(run: Run, error: BaseException) -> None:
    """End a run with an exception that its chart does not handle."""
    run.error, run.cause = run.describe(error), error
    try:
        end(run, "error", f"{run.error['type']}: {run.error['message']}")
    except BaseException:
        run.error = run.cause = None
        raise


def cancel(run: Run, reason: str | None = None) -> None:
    """End a run because somebody asked for it; of the reason so much is kept as of an error.

    Raises RunFinishedError, StorageError.
    """
    run.require_live()
    end(run, "cancelled", readable((reason or "cancelled")[:ERROR_TEXT_BYTES_MAX]))


def end(run: Run, status: Status, reason: str | None) -> None:
    """Write a run for the last time, then end what it does outside."""
    effects = run.ledgers.effects
    calling = [row for row in effects if row.status == "calling"] if effects.outstanding else ()
    with ExitStack() as undo:
        undo.callback(effects.close())
        for row in calling:  # what became of them will never be known
            undo.callback(run.told.outcome(run, row))
        _forget_unrun(run, undo)
        run.put(status, reason)
        undo.pop_all()
    for node in nodes_of(run.tree):
        for invoke in node.engine.invokes.active.values():
            if invoke.live and invoke.kind in ("call", "effect"):
                run.stop(node.path, invoke.id)
    if status in ("error", "cancelled"):
        run.release(RunFinishedError(run.run_id, status))
    run.worker.ended(run)


def _forget_unrun(run: Run, undo: ExitStack) -> None:
    """Forget deliveries whose senders are told that they did not happen; `undo` keeps them."""
    tree = run.tree
    ran = [] if tree.running is not None else [node.engine.current for node in nodes_of(tree)]
    waited_for = {item.trigger.future for item in ran if item is not None}
    for delivery, waiter in run.delivering.items():
        if waiter not in waited_for and _is_refused(run, waiter):
            run.ledgers.deliveries.drop(delivery)
            undo.callback(run.ledgers.deliveries.take, delivery)


def _is_refused(run: Run, waiter: Any) -> bool:
    """Whether who waits is told so; a lenient chart may have dropped the event without a word."""
    if not waiter.done() or run.letters.are_waited_for_by(waiter):
        return True
    return not waiter.cancelled() and waiter.exception() is not None
