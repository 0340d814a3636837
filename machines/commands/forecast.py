"""What a boot with given machines would do with a stored run: built for real, begun in nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from machines.errors import MachinesError, UnknownMachineError
from machines.recovery.decision import decide
from machines.recovery.migrating import migrate
from machines.run.run import Run
from snapshots.clock import SystemClock
from snapshots.errors import RunNotFoundError, SnapshotsError
from snapshots.inspection.queries.listing import RunFilter, list_runs
from snapshots.records import StoredRun

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from machines.definition import Machine
    from machines.recovery.decision import Decision
    from snapshots.inspection import FoundRun, RunFile
    from snapshots.records import RunHeader, Status

Outlook = Literal["resume", "migrate", "drift", "unresumed", "unknown"]
ROWS_MAX: Final = 2**62
"""More than any file has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What a boot would do with one live run.

    `drift`: it would be set aside. `unresumed`: it would stay live and not go on. `unknown`: so it
    would, since none of the machines has its name. `reason` says why, or the way of a migration.
    """

    header: RunHeader
    outlook: Outlook
    reason: str = ""

    @property
    def goes_on(self) -> bool:
        """Whether the run would go on."""
        return self.outlook in ("resume", "migrate")


def forecasts(
    stored: RunFile, machines: Mapping[str, Machine], status: Status = "live"
) -> Iterator[Forecast]:
    """Yield what a boot would do with each live run of a file, oldest first.

    For runs that were set aside, of another status, it is what a revival would do.

    Charts are built as a boot builds them, also those that it would leave waiting; none begins,
    nobody is asked whether the outside world is there, and nothing is written.
    """
    listed = list_runs(stored, RunFilter(statuses=(status,)), rows_max=ROWS_MAX)
    for header in reversed(listed.headers):
        if header.machine not in machines:  # nothing in its row could say more
            error = UnknownMachineError(header.machine, tuple(machines), header.run_id)
            yield Forecast(header=header, outlook="unknown", reason=str(error))
            continue
        try:
            found = stored.find(header.run_id)
        except RunNotFoundError as error:  # an id that is no text cannot be asked for
            yield Forecast(header=header, outlook="unresumed", reason=str(error))
            continue
        if found.header.status == status:
            yield _forecast(found, machines)


def _forecast(found: FoundRun, machines: Mapping[str, Machine]) -> Forecast:
    header = found.header
    try:
        stored = StoredRun(header=header, blob=found.blob)
        decision = decide(stored, machines, found.shape, reconcile=False)
        if decision.fate == "drifted":
            return Forecast(header=header, outlook="drift", reason=decision.reason)
        if decision.error is not None:
            return Forecast(header=header, outlook="unresumed", reason=decision.reason)
        return _built(header, decision)
    except Exception as error:  # noqa: BLE001 - whatever a bad row breaks, it is that run alone
        is_ours = isinstance(error, MachinesError | SnapshotsError)
        told = str(error) if is_ours else f"{type(error).__name__}: {error}"
        return Forecast(header=header, outlook="unresumed", reason=told)


def _built(header: RunHeader, decision: Decision) -> Forecast:
    machine, value = decision.machine, decision.value
    assert machine is not None
    if decision.fate == "migrate":
        migrate(header, value, machine, decision.steps, _made)
        return Forecast(header=header, outlook="migrate", reason=decision.reason)
    run = _made(machine, header.run_id, value.get("input", {}))
    run.restore(header, value, restarted=True)
    return Forecast(header=header, outlook="resume")


def _made(machine: Machine, run_id: str, given: Mapping[str, Any]) -> Run:
    nobody = cast("Any", None)  # who is only built asks for no store, and has nothing to do
    return Run(nobody, machine, run_id, given, nobody, clock=SystemClock())
