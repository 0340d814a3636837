"""How a run ends: in a final state, by an exception that nothing handles, or cancelled."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from machines.errors import RunFinishedError
from machines.run.activity import nodes_of

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
    """End a run because somebody asked for it. Raises RunFinishedError, StorageError."""
    run.require_live()
    end(run, "cancelled", reason or "cancelled")


def end(run: Run, status: Status, reason: str | None) -> None:
    """Write a run for the last time, then end what it does outside."""
    with ExitStack() as undo:
        undo.callback(run.ledgers.effects.close())
        run.put(status, reason)
        undo.pop_all()
    for node in nodes_of(run.tree):
        for invoke in node.engine.invokes.active.values():
            if invoke.live and invoke.kind in ("call", "effect"):
                run.stop(node.path, invoke.id)
    if status in ("error", "cancelled"):
        run.release(RunFinishedError(run.run_id, status))
    run.worker.ended(run)
