"""A run from its row: the tree, the ledgers and what arrived, before anything of it begins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.binding import rebuilding
from machines.binding.capturing import beside_charts, encode_moved
from machines.errors import DefinitionError, MachinesError
from machines.run.activity import state_without_work, take_as_begun, waits_for
from machines.run.ledgers import Ledgers
from snapshots.errors import DecodeError, SnapshotsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines.run.run import Run
    from snapshots.records import RunHeader


def restore(
    run: Run,
    header: RunHeader,
    value: dict[str, Any],
    *,
    restarted: bool,
    complete: Callable[[Run], None] | None,
) -> None:
    """Build the tree that a row holds; nothing is written, nothing runs yet.

    `restarted` says that the process which had it in memory has ended: timers follow their
    policies. `complete` adds what the row does not have and the chart needs. Raises DecodeError
    and what the definition of the machine is refused with.
    """
    run.row.header = header
    try:
        _fill(run, header, value, restarted=restarted, complete=complete)
    except DefinitionError as error:
        reason = f"run {run.run_id!r} cannot be built, as {error.fields['reason']}"
        raise DefinitionError(run.machine.name, reason, error.fields["hint"]) from error.__cause__
    except (SnapshotsError, MachinesError):
        raise
    except Exception as error:
        reason = f"its blob does not fit the chart ({type(error).__name__}: {error})"
        raise DecodeError(run.run_id, reason) from error


def _fill(
    run: Run,
    header: RunHeader,
    value: dict[str, Any],
    *,
    restarted: bool,
    complete: Callable[[Run], None] | None,
) -> None:
    tree = run.tree
    run.step = value["step"]
    run.error = value.get("error")
    run.ledgers = Ledgers.of(value)
    rebuilding.grow(tree, run.machine, value)
    if restarted:
        # Setting a run aside moves the time of its row, not what its timers had waited.
        live = header.status == "live"
        saved_ms = header.updated_ms if live else value["clock"]["stamp"]
        tree.timers.resume(saved_ms, run.clock.now_ms())
    if complete is not None:
        complete(run)
    idle = state_without_work(tree) if header.status == "live" else None
    if idle is not None:
        raise DecodeError(run.run_id, f"what state {idle!r} invokes is not in its blob")
    assert tree.root is not None
    encode_moved(tree, run.machine)
    run.row.hold(tree.root, beside_charts(tree, run.machine))
    for stored in value.get("arrivals", ()):
        arrival = rebuilding.grow_arrival(tree, stored)
        if arrival is not None:
            tree.arrivals.append(arrival)
            tree.seq = max(tree.seq, arrival.item.seq)
    take_as_begun(tree, {(a.path, a.invoke) for a in tree.arrivals})


def resume(run: Run, *, restarted: bool) -> None:
    """Start what a restored run does outside; then it can be woken."""
    if run.status != "live":
        return
    if run.tree.arrivals:
        # Work whose outcome is among them has ended, and must not begin again.
        run.tree.admit()
    rebuilding.resume(run.tree, restored=restarted)
    if restarted:
        _doubt_what_was_left(run)


def _doubt_what_was_left(run: Run) -> None:
    """Note calls that were under way for states that were left: nobody will hear of them."""
    for row in run.ledgers.effects:
        if row.status == "calling" and not waits_for(run.tree, row.path, row.invoke):
            row.status = "unknown"
