"""A host tells what happens in it and in its runs, and lets others listen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.errors import HostStoppedError, MachinesError
from machines.host.approving import ApprovalRoom
from machines.limits import SUBSCRIPTION_HELD_MAX
from machines.telemetry import Dispatcher
from snapshots.errors import FencedError, SnapshotsError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from machines.definition import Machine
    from machines.recovery.decision import Decision
    from machines.run.run import Run
    from machines.telemetry import Occurrence, Subscription
    from snapshots.clock import Clock
    from snapshots.records import RunHeader, StoredRun


class Talking(ApprovalRoom):
    """What a host does about its runs, and says so once it is on disk."""

    def __init__(
        self,
        path: str,
        machines: dict[str, Machine],
        clock: Clock,
        *,
        verify: bool,
        meter: Any = None,
        tracer: Any = None,
    ) -> None:
        super().__init__(path, machines, clock, verify=verify)
        self.told = Dispatcher(clock, meter=meter, tracer=tracer)
        self._is_silent = False

    def subscribe(
        self,
        callback: Callable[[Occurrence], object] | None = None,
        *,
        run: str | Collection[str] | None = None,
        kinds: str | Collection[str] | None = None,
        held_max: int = SUBSCRIPTION_HELD_MAX,
    ) -> Subscription:
        """Return what happens in this host and its runs from here on, as an asynchronous iterator.

        With a `callback`, a plain function, that is called instead, on the loop, soon after: what
        it raises is told as `listener.raised`, and hurts no run. `run` is the whole id of the run
        that is meant, or several; what is of no run is told all the same. `kinds` are those of
        docs/telemetry.md, or the first part of their names (`"run"`, `"effect"`).

        Nothing is told before the save that made it true is on disk, and nothing of a save that
        failed. Whoever is more than `held_max` occurrences behind loses the oldest; one
        `listener.gap` stands in their place and says how many. It may be called before the host
        is opened, and ends when the host has closed.

        Raises HostOptionError, HostStoppedError.
        """
        if self._stopped is not None:
            raise HostStoppedError(self.path, self._stopped)
        return self.told.subscriptions.add(callback, run=run, kinds=kinds, held_max=held_max)

    def keep(self, run: Run) -> None:
        """Keep a run in memory; a new one is told of once it is saved."""
        super().keep(run)
        if run.header is None:
            self.told.starting(run)

    def ended(self, run: Run) -> None:
        """Let go of a run that is not live any more, and say so."""
        super().ended(run)
        self.told.ended(run)

    def forget(self, run: Run, error: BaseException) -> None:
        """Let a run out of memory, and what was to be told once it is saved."""
        super().forget(run, error)
        self.told.drop(run.run_id)

    def lost(self, run: Run, error: Exception) -> None:
        """Let go of a live run that cannot go on from its last save, and say so."""
        super().lost(run, error)
        self.told.of_run("run.unresumed", run, reason=self.report.unresumed[run.run_id])

    def stalled(self, run: Run, error: SnapshotsError) -> None:
        """Have a run stand still until it can be saved, and say so."""
        super().stalled(run, error)
        if run.run_id in self._retries:
            self.told.of_run("run.stalled", run, reason=f"{type(error).__name__}: {error}")

    def bring_over(
        self,
        header: RunHeader,
        decision: Decision,
        *,
        reconcile: bool,
        settle: Callable[[], object] | None = None,
    ) -> Run | None:
        """Return a run in today's shape, and say so once its row is committed."""
        with self.told.holding():
            run = super().bring_over(header, decision, reconcile=reconcile, settle=settle)
            if run is not None:
                self.told.of_run("run.migrated", run, route=self.report.migrated[run.run_id])
        return run

    def _set_aside_as_lost(self, header: RunHeader, decision: Decision) -> None:
        super()._set_aside_as_lost(header, decision)
        self.told.aside(header, "lost", decision.reason)

    def _take_up(self, stored: StoredRun, *, known: bool) -> Run:
        try:
            return super()._take_up(stored, known=known)
        except (SnapshotsError, MachinesError) as error:
            run_id, report = stored.header.run_id, self.report
            if run_id not in report.unresumed and run_id not in report.lost:
                self.told.aside(stored.header, "unresumed", str(error))
            raise

    def _revive(self, run_id: str, settle: Callable[[], object] | None = None) -> None:
        super()._revive(run_id, settle)
        run = self._resident.get(run_id)
        if run is not None:
            self.told.of_run("run.revived", run)

    def _fence(self, error: FencedError) -> None:
        was = self._stopped
        super()._fence(error)
        if was is None and self._stopped is not None:
            self.told.tell("host.fenced", reason=str(error))

    def _tell_started(self, ms: float) -> None:
        """Say what the boot came to."""
        report = self.report
        for run_id, reason in report.unresumed.items():
            self.told.tell("run.unresumed", run_id, reason=reason)
        said: dict[str, Any] = {
            "resumed": len(report.resumed),
            "unresumed": len(report.unresumed),
            "lost": len(report.lost),
            "drifted": len(report.drifted),
        }
        self.told.tell("host.started", term=self.store.term, **said, ms=ms)

    def _tell_left(self, calls: list[str]) -> None:
        """Name the calls that are still in their threads, which nobody can end."""
        if calls:
            self.told.tell("host.left", calls=", ".join(calls))

    def _tell_stopped(self) -> None:
        """Say that the host has closed, and let nobody listen any more; twice is harmless."""
        if not self._is_silent:
            self._is_silent = True
            self.told.tell("host.stopped", reason=self._stopped)
            self.told.subscriptions.end()
