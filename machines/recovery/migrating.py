"""A stored run of an older shape to a run of today's, checked before anything is written.

What can be said of the blob alone is done there: states dropped and renamed, then the user's own
function. What today's chart invokes only real charts know, so the rest is done on a run that is
built and does not begin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.binding.rebuilding import grow
from machines.errors import IllegalConfigurationError, MachinesError, MigrationRefusedError
from machines.migrations import Draft, Migration, route
from machines.recovery.blobs import UnfitError, Value, charts_of, is_waited_for
from machines.recovery.dropping import drop_states
from machines.recovery.fitting import begin_what_is_new, drop_misfits
from machines.recovery.form import check_form
from machines.recovery.legality import check_legal
from machines.recovery.renaming import rename_states
from machines.run.activity import waits_for
from snapshots.errors import DecodeError, SnapshotsError
from snapshots.ledgers.effects import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from machines.definition import Machine
    from machines.engine.tree import Tree
    from machines.run.run import Run
    from snapshots.records import RunHeader

    MakeRun = Callable[[Machine, str, Mapping[str, Any]], Run]
    """Makes a run of a machine, by its id and its input, that is to be filled."""

Call = tuple[str, int, int]
"""The key of an effect, its attempt and when it was intended: no migration changes them."""


def migrate(
    header: RunHeader,
    value: Value,
    machine: Machine,
    steps: Sequence[Migration],
    make: MakeRun,
) -> Run:
    """Return the run of a row in today's shape: built, checked, not begun and not written.

    `value` is the decoded blob, which is changed. What a chart invokes anew is pending, or open
    already, in what the run writes first. Raises MigrationRefusedError.
    """
    way = route(steps, machine.digest)
    try:
        return _migrate(header, value, machine, steps, make)
    except _StepError as error:
        refusal = MigrationRefusedError(header.run_id, machine.name, error.way, str(error))
        raise refusal from error.__cause__
    except Exception as error:
        refusal = MigrationRefusedError(header.run_id, machine.name, way, _reason(error))
        raise refusal from error


class _StepError(Exception):
    """One of the migrations on the way cannot be applied."""

    def __init__(self, way: str, reason: str) -> None:
        super().__init__(reason)
        self.way = way


def _reason(error: Exception) -> str:
    if isinstance(error, IllegalConfigurationError):
        path = error.fields["path"]
        where = f"the chart at {path!r}" if path else "the root chart"
        return f"{where}: {error.fields['reason']}"
    if isinstance(error, DecodeError):
        return error.reason
    if isinstance(error, MachinesError | SnapshotsError):
        return str(error)
    return f"{type(error).__name__}: {error}"


def _migrate(
    header: RunHeader,
    value: Value,
    machine: Machine,
    steps: Sequence[Migration],
    make: MakeRun,
) -> Run:
    was = list(value["root"].get("configuration", ()))
    under_way = _prepared(value)
    for step in steps:
        _take(value, machine, step)
    arrived = [arrival["item"]["seq"] for arrival in value.get("arrivals", ())]
    value["clock"]["seq"] = max(value["clock"]["seq"], *arrived, 0)  # numbers are given from there
    for node in charts_of(value).values():
        del node["engine"]  # which engine it has, today's chart says

    def made() -> Run:
        return make(machine, header.run_id, value.get("input", {}))

    def grown(part: Value) -> Tree:
        tree = made().tree
        grow(tree, machine, part)
        return tree

    drop_misfits(value, grown)
    run = made()
    run.restore(header, value, restarted=True, complete=begin_what_is_new)
    _check_calls(run, under_way)
    check_legal(run.tree)
    _note(run, was)
    # What is to be written is read and built from once more, so that no boot is the first to.
    written = run.as_value()
    check_form(header.run_id, written)
    made().restore(header._replace(status="live"), written, restarted=False)
    return run


def _prepared(value: Value) -> dict[Call, str]:
    """Complete the rows of effects, and forget invocations whose states were left.

    Returns the calls that are under way and waited for, with the ids of the effects.
    """
    value["effects"] = [whole(row) for row in value.get("effects", ())]
    charts = charts_of(value)
    for node in charts.values():
        if "invokes" in node:
            node["invokes"] = [work for work in node["invokes"] if not _is_over(work)]
    return {
        (row["key"], row["attempt"], row["at"]): row["id"]
        for row in value["effects"]
        if row["status"] == "calling" and is_waited_for(charts, row["node"], row["invoke"])
    }


def _is_over(work: Value) -> bool:
    return bool(work.get("terminated") and work.get("cancelled"))


def _take(value: Value, machine: Machine, step: Migration) -> None:
    """Apply one migration to a blob."""
    try:
        renames = {
            path: step.children.get(node["class"], {}) if path else step.states
            for path, node in charts_of(value).items()
        }
        for path, names in renames.items():
            dropped = {old for old, new in names.items() if new is None}
            if dropped and path in charts_of(value):
                drop_states(value, path, dropped)
        rename_states(value, renames)
        _call(step, value)
        _give_turns(value)
        check_form(value["run"], value)
    except Exception as error:
        way = route([step], machine.digest)
        raise _StepError(way, _reason(error)) from error


def _call(step: Migration, value: Value) -> None:
    if step.function is None:
        return
    try:
        returned: object = step.function(Draft(value))
    except Exception as error:
        message = f"its function raised {type(error).__name__}: {error}"
        raise UnfitError(message) from error
    if returned is not None:
        message = f"its function returned {type(returned).__name__}; it is to change the draft"
        raise UnfitError(message)


def _give_turns(value: Value) -> None:
    """Give a turn to each chart that has something to run."""
    turn = value.setdefault("turn", [])
    for path, node in charts_of(value).items():
        is_busy = node.get("queue") or node.get("pending")
        if is_busy and node["status"] != "finished" and path not in turn:
            turn.append(path)


def _check_calls(run: Run, under_way: Mapping[Call, str]) -> None:
    """Refuse to lose a call that may be happening: its outcome must find who waits for it."""
    found = {
        (row.key, row.attempt, row.at_ms)
        for row in run.ledgers.effects
        if row.status != "calling" or waits_for(run.tree, row.path, row.invoke)
    }
    for call, effect in under_way.items():
        if call not in found:
            hint = "keep its state, or let the shape that wrote it settle it first"
            message = f"effect {effect!r} is calling and would be dropped; {hint}"
            raise UnfitError(message)


def _note(run: Run, was: list[str]) -> None:
    """Note in the trail that it was a migration that led to other states."""
    root = run.tree.root
    assert root is not None
    now = [root.names.name(state) for state in root.chart.configuration]
    if now != was:
        event = f"migrated to {run.machine.digest}"
        run.ledgers.trail.add(run.clock.now_ms(), "", event, was, now)
