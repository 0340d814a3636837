"""The boot: every live row, independently, to a run that goes on, or to a reason why not."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

from machines.errors import MachinesError, UnknownMachineError
from machines.limits import BOOT_SLICE_ROWS
from machines.migrations import chain
from machines.recovery.decision import Report, decide
from snapshots.errors import FencedError, SnapshotsError

if TYPE_CHECKING:
    from machines.definition import Machine
    from machines.recovery.decision import Decision
    from snapshots.records import RunHeader, StoredRun
    from snapshots.store import SnapshotStore


class Booted(Protocol):
    """Who takes the runs in."""

    machines: dict[str, Machine]
    store: SnapshotStore
    report: Report

    def knows(self, run_id: str) -> bool:
        """Whether a run was met since the file was opened: the row that was read is old then."""

    def adopt(
        self, header: RunHeader, machine: Machine, value: dict[str, Any], *, restarted: bool = True
    ) -> Any:
        """Take a restored run into memory and let it go on."""

    def bring_over(self, header: RunHeader, decision: Decision, *, reconcile: bool) -> Any:
        """Return a run in today's shape, its row written; None if it is lost."""

    def begin(self, run: Any, *, restarted: bool) -> None:
        """Have a run that was built go on from here."""

    def leave_waiting(self, header: RunHeader) -> None:
        """Keep a run that only waits as its header."""


async def boot(host: Booted) -> None:
    """Restore every live row; a bad one is reported and never stops the others."""
    for number, stored in enumerate(host.store.live(), start=1):
        run_id = stored.header.run_id
        try:
            # A run that goes on may start or wake others before their rows are read.
            if not host.knows(run_id):
                _restore(host, stored)
        except FencedError:
            raise
        except (SnapshotsError, MachinesError) as error:
            host.report.unresumed[run_id] = str(error)
        except Exception as error:  # noqa: BLE001 - whatever a bad row breaks, it is that run alone
            host.report.unresumed[run_id] = f"{type(error).__name__}: {error}"
        if number % BOOT_SLICE_ROWS == 0:
            await asyncio.sleep(0)


def _restore(host: Booted, stored: StoredRun) -> None:
    header = stored.header
    if header.parked:
        machine = host.machines.get(header.machine)
        if machine is None:
            raise UnknownMachineError(header.machine, tuple(host.machines), header.run_id)
        if machine.digest == header.digest:
            _leave_waiting(host, header)
            return
        if chain(machine.migrations, header.digest, machine.digest):
            stored = host.store.load(header.run_id)  # with what it holds
    _take_up(host, stored)


def _leave_waiting(host: Booted, header: RunHeader) -> None:
    host.leave_waiting(header)
    host.report.resumed.append(header.run_id)


def _take_up(host: Booted, stored: StoredRun) -> None:
    header, report = stored.header, host.report
    shape = host.store.shape(header.digest)
    decision = decide(stored, host.machines, shape, reconcile=not header.parked)
    if decision.fate == "unresumed":
        report.unresumed[header.run_id] = decision.reason
    elif decision.fate == "drifted":
        _set_aside(host, stored, decision.reason)
    elif decision.fate == "lost":
        host.store.mark(header, "lost", decision.reason)
        report.lost[header.run_id] = decision.reason
    elif decision.fate == "migrate":
        _migrate(host, header, decision)
    else:
        assert decision.machine is not None
        host.adopt(header, decision.machine, decision.value)
        report.resumed.append(header.run_id)


def _migrate(host: Booted, header: RunHeader, decision: Decision) -> None:
    """Bring a run to today's shape; one that only waits is left to, as ever."""
    run = host.bring_over(header, decision, reconcile=not header.parked)
    if run is None:
        return
    if run.header.parked:
        _leave_waiting(host, run.header)
    else:
        host.begin(run, restarted=True)
        host.report.resumed.append(header.run_id)


def _set_aside(host: Booted, stored: StoredRun, reason: str) -> None:
    host.store.mark(stored.header, "drifted", reason)
    host.report.drifted[stored.header.run_id] = reason
