"""The boot: every live row, independently, to a run that goes on, or to a reason why not."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from machines.errors import MachinesError, UnknownMachineError
from machines.limits import BOOT_SLICE_MS
from machines.recovery.decision import Report, decide
from snapshots.errors import FencedError, SnapshotsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from machines.definition import Machine
    from machines.recovery.decision import Decision
    from machines.telemetry import Dispatcher
    from snapshots.records import RunHeader, StoredRun, WaitingRuns
    from snapshots.store import SnapshotStore


class Booted(Protocol):
    """Who takes the runs in."""

    machines: dict[str, Machine]
    store: SnapshotStore
    report: Report
    told: Dispatcher

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

    def leave_waiting(
        self, machine: Machine, run_ids: Collection[str], due_ms: Mapping[str, int]
    ) -> None:
        """Keep runs that only wait as their ids, and their timers armed."""


class Slices:
    """Lets others run whenever the boot has held the loop for a while, by the loop's clock."""

    def __init__(self) -> None:
        self._now_s = asyncio.get_running_loop().time
        self._begun_s = self._now_s()

    async def pause(self) -> None:
        """Let others run, if a slice is over."""
        if (self._now_s() - self._begun_s) * 1000 >= BOOT_SLICE_MS:
            await asyncio.sleep(0)
            self._begun_s = self._now_s()


async def boot(host: Booted) -> None:
    """Restore every live row; a bad one is reported and never stops the others.

    Those that only wait come first, and without their blobs: what the others do as they go on
    may be to send to them.
    """
    slices = Slices()
    active: dict[int, str] = {}
    for found in host.store.survey():
        active |= found.active
        for waiting in found.waiting:
            await _leave(host, waiting, slices)
        await slices.pause()
    for row, run_id in active.items():
        # A run that goes on may start or wake others before their rows are read.
        if not host.knows(run_id):
            _restore(host, run_id, partial(_build, host, row))
        await slices.pause()


async def _leave(host: Booted, waiting: WaitingRuns, slices: Slices) -> None:
    """Leave runs as they are that only wait, or bring them to today's shape one by one."""
    new = [run_id for run_id in waiting.run_ids if not host.knows(run_id)]
    machine = host.machines.get(waiting.machine)
    if machine is not None and machine.digest == waiting.digest:
        host.leave_waiting(machine, new, waiting.due_ms)
        host.report.resumed += new
        return
    for run_id in new:
        if not host.knows(run_id):
            _restore(host, run_id, partial(_bring, host, waiting.machine, run_id))
        await slices.pause()


def _build(host: Booted, row: int) -> None:
    stored = host.store.live_at(row)
    if stored is not None:
        _take_up(host, stored)


def _bring(host: Booted, machine: str, run_id: str) -> None:
    if machine not in host.machines:
        raise UnknownMachineError(machine, tuple(host.machines), run_id)
    _take_up(host, host.store.load(run_id))


def _restore(host: Booted, run_id: str, restore: Callable[[], None]) -> None:
    try:
        restore()
    except FencedError:
        raise
    except (SnapshotsError, MachinesError) as error:
        host.report.unresumed[run_id] = str(error)
    except Exception as error:  # noqa: BLE001 - whatever a bad row breaks, it is that run alone
        host.report.unresumed[run_id] = f"{type(error).__name__}: {error}"


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
        host.told.aside(header, "lost", decision.reason)
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
        due_ms = {header.run_id: run.header.due_ms}
        host.leave_waiting(run.machine, (header.run_id,), due_ms)
    else:
        host.begin(run, restarted=True)
    host.report.resumed.append(header.run_id)


def _set_aside(host: Booted, stored: StoredRun, reason: str) -> None:
    host.store.mark(stored.header, "drifted", reason)
    host.told.aside(stored.header, "drifted", reason)
    host.report.drifted[stored.header.run_id] = reason
