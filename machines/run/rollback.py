"""What becomes of a run when a macrostep raises or a save fails: it goes back to its last save."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from machines.binding.rebuilding import grow, resume
from machines.engine.queues import reject, reject_waiter
from machines.errors import RunFinishedError
from machines.run.activity import calls_begun, nodes_of, take_as_begun
from machines.run.ending import die
from machines.run.waiters import drop_arrivals, drop_event, give_back, unsaved_waiting, waiters_of
from machines.run.worker import UNSAVED, Halt

if TYPE_CHECKING:
    from machines.engine.queues import Queued
    from machines.run.run import Run
    from snapshots.errors import SnapshotsError


def failed(run: Run, item: Queued | None, error: Exception) -> bool:
    """Put a run back to its last saved snapshot, and tell who must know.

    Who waits for the event `item` gets the exception and the run stays live. Where nobody waits
    it becomes `error`, in the same write. A save that failed changes nothing but memory. Returns
    True if the tree goes on, else raises Halt.
    """
    waiter = item.trigger.future if item is not None else None
    if run.header is None or not run.goes_on:
        reject_waiter(waiter, error)
        run.release(error if run.header is None else RunFinishedError(run.run_id, run.status))
        raise Halt
    put_back(run, item)
    if isinstance(error, UNSAVED) and error is run.row.refusal:
        stall(run, error, item)
        raise Halt
    try:
        if item is None or waiter is None:
            die(run, error)
            raise Halt
        _take_out(run, item)
        run.told.raised(run, str(item.trigger.event), error)
    except UNSAVED as broken:
        stall(run, broken, item)
        raise Halt from broken
    reject_waiter(waiter, error)
    return True


def interrupted(run: Run, cause: BaseException) -> None:
    """Mend the tree after something that is no Exception left a macrostep, as `failed`."""
    if run.tree.turn:
        error = RuntimeError(f"a callback raised {type(cause).__name__}: {cause}")
        error.__cause__ = cause
        with suppress(Halt):
            failed(run, run.tree.turn[0].engine.current, error)


def put_back(run: Run, item: Queued | None = None) -> None:
    """Throw the objects of a run's tree away and build them from the last saved snapshot.

    Outside work that is under way is not touched: it belongs to the run. What came from outside
    since is kept, but for the event `item` if its sender waits, since that one is told.
    """
    tree = run.tree
    waiters, begun = waiters_of(tree), calls_begun(tree)
    numbered, stamp = tree.seq, tree.stamp
    tree.clear()
    if item is not None and item.trigger.future is not None:
        waiters[item.seq] = item.trigger.future
        if item.seq not in run.arrivals_saved:
            drop_arrivals(tree, {item.seq})
    try:
        grow(tree, run.machine, run.row.saved_tree())
        tree.seq, tree.stamp = max(tree.seq, numbered), max(tree.stamp, stamp)
        give_back(tree, waiters)
        take_as_begun(tree, begun)
        resume(tree, restored=False)
    except Exception as error:
        for waiter in waiters.values():
            reject_waiter(waiter, error)
        tree.root = None
        run.worker.lost(run, error)
        raise Halt from error


def stall(run: Run, error: SnapshotsError, item: Queued | None) -> None:
    """Stop a run until it can be saved; who waits for what no save holds is told.

    What the row holds stays queued and is run then, since it would be after a restart: its sender
    goes on waiting.
    """
    run.paused, run.trouble = True, error
    arrived = [arrival.item for arrival in unsaved_waiting(run.tree)]
    told = [event for event in arrived if event.seq not in run.arrivals_saved]
    if item is not None and item.trigger.future is not None and not _is_held(run, item):
        told.append(item)
    for event in told:
        _forget(run, event)
        reject(event.trigger, error)
    run.worker.stalled(run, error)


def choke(run: Run, error: SnapshotsError) -> None:
    """End a run where something arrived that no save can hold, and nobody waits for it.

    What the row holds already fits into it, and is kept.
    """
    arrived = (arrival.item for arrival in (*run.tree.admitted, *run.tree.arrivals))
    for event in [item for item in arrived if item.seq not in run.arrivals_saved]:
        _forget(run, event)
        reject(event.trigger, error)
    try:
        if run.tree.running is None:
            put_back(run)
        die(run, error)
    except UNSAVED as broken:
        stall(run, broken, None)
    except Halt:
        return


def _is_held(run: Run, item: Queued) -> bool:
    """Whether the row holds an event, on a queue or as an arrival: its charts were just built."""
    queues = (node.engine.external_queue.items for node in nodes_of(run.tree))
    is_queued = any(queued.seq == item.seq for queue in queues for queued in queue)
    return is_queued or item.seq in run.arrivals_saved


def _take_out(run: Run, item: Queued) -> None:
    """Take back an event that raised, from the row too; it stays if that cannot be saved."""
    tree = run.tree
    delivery = run.ledgers.undeliver(item.seq)
    arrivals = tree.arrivals
    if not drop_event(tree, item.seq) and item.seq not in run.arrivals_saved:
        return
    try:
        run.write()
    except UNSAVED:
        # A restart would run it, and so it is run here, once the file takes what it comes to.
        tree.arrivals = arrivals
        put_back(run, item)
        if delivery is not None:
            run.ledgers.deliver(delivery, item.seq)
        raise


def _forget(run: Run, item: Queued) -> None:
    """Take an event back that no row holds and whose sender is told that it did not happen."""
    run.ledgers.undeliver(item.seq)
    drop_event(run.tree, item.seq)
