"""The live runs of a host, in memory or waiting in their rows, and what they need of it."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any

from machines.engine.queues import answer_waiter
from machines.errors import (
    EventRefusedError,
    HostStoppedError,
    HostThreadError,
    MachinesError,
    RunFinishedError,
)
from machines.host.passing import Passing, only_waits
from machines.host.retrying import Retries
from machines.limits import ANSWER_REST_S, SAVE_RETRY_MS_MAX
from machines.migrations import route
from machines.recovery.decision import Report, ask, decide, read
from machines.recovery.migrating import migrate
from machines.run.activity import has_run
from machines.run.inbox import declared_delay, sender
from machines.run.run import Run
from snapshots.errors import (
    FencedError,
    RevisionConflictError,
    RunNotFoundError,
    SnapshotsError,
    StorageError,
)
from snapshots.limits import NO_TIMER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from machines.definition import Machine
    from machines.engine.nodes import Call
    from machines.host.alarm import Alarm
    from machines.host.workshop import Workshop
    from machines.recovery.decision import Decision
    from machines.telemetry import Dispatcher
    from snapshots.clock import Clock
    from snapshots.records import RunHeader, StoredRun
    from snapshots.store import SnapshotStore


class Residents:
    """Keeps runs going; a `Host` is one, and gives it a file, a workshop and an alarm."""

    has_loop = True
    store: SnapshotStore
    _shop: Workshop
    _alarm: Alarm
    told: Dispatcher

    def __init__(
        self, path: str, machines: dict[str, Machine], clock: Clock, *, verify: bool
    ) -> None:
        self.path = path
        self.machines = machines
        self.clock = clock
        self.verify = verify
        self.report = Report()
        self.waiting: set[str] = set()
        """Live runs that only wait: built on their next event."""
        self._passing = Passing(self.waiting, self._is_idle, self._later)
        self._resident = self._passing.resident
        self._retries = Retries(self._later, lambda run: self._unpause(run).arrived())
        self._met: set[str] | None = set()
        """Runs that were taken up or begun while the boot reads rows."""
        self._stopped: str | None = None
        self._thread: int | None = None  # whose loop opened it, and which alone may call it

    # -- how a run is reached -------------------------------------------------------------------

    def _resolve(self, run: str) -> str:
        self._require_open()
        resident = self._resident.get(run)
        if run in self.waiting or (resident is not None and resident.header is not None):
            return run
        return self.store.resolve(run)

    def _require_open(self) -> None:
        if self._stopped is not None:
            raise HostStoppedError(self.path, self._stopped)
        if self._thread is None:
            raise HostStoppedError(self.path, "it was not opened; use `async with`")
        if self._thread != (thread := get_ident()):
            raise HostThreadError(self.path, self._thread, thread)

    def _was_taken(self, run_id: str, delivery: str) -> bool:
        if run_id in self._resident or run_id in self.waiting:
            return False
        stored = self.store.load(run_id)
        machine = self.machines.get(stored.header.machine)
        if machine is None or stored.header.status == "live":
            return False
        return delivery in read(stored, machine).get("deliveries", ())

    async def _ready(self, run_id: str, event: str, *, quiet: bool = False) -> Run:
        """Return a live run that takes the event now; one with a delay needs it to be quiet.

        A run that does not come to rest, as it sends to itself for ever, is quiet enough after a
        while: between two macrosteps, once all that it had accepted before was run.
        """
        loop, before = asyncio.get_running_loop(), None
        until_s = loop.time() + ANSWER_REST_S
        while True:
            live, takes = self._look_at(run_id, event, quiet=quiet)
            before = live.tree.seq if before is None else before
            if takes or (loop.time() >= until_s and has_run(live.tree, before)):
                return live
            rested = loop.create_future()
            live.tree.resting.append(partial(answer_waiter, rested, None))
            live.wake()
            if live.paused and live.trouble is not None:
                raise live.trouble
            await rested
            self._require_open()

    def _look_at(self, run: str, event: str, *, quiet: bool = False) -> tuple[Run, bool]:
        """Return a live run, and whether it takes the event now; see `_ready`."""
        live = self._reach(run)
        live.paused = False
        tree = live.tree
        if not (tree.turn or tree.pumping or tree.arrivals):
            return live, True  # nor can the task that asks be one of its macrostep
        if self._shop.is_waited_for_by(live):
            reason = "a callback of the run would wait for its own macrostep"
            raise EventRefusedError(live.run_id, event, reason, "send it from the chart instead")
        root = tree.root
        return live, not (quiet or (root is not None and declared_delay(root, event)))

    def _reach(self, run: str) -> Run:
        """Return a live run by its id or a prefix of it; raises as `live` does."""
        if self._stopped is None and self._thread == get_ident():
            resident = self._passing.use(run)
            if resident is not None and resident.row.header is not None:
                return resident
        return self.live(self._resolve(run))

    # -- runs in memory -------------------------------------------------------------------------

    def live(self, run_id: str) -> Run:
        """Return a live run, built from its row if it only waited.

        Raises what keeps it from being taken up: RunNotFoundError, RunFinishedError,
        UnknownMachineError, UnresumedError, DriftError, MigrationRefusedError, DecodeError.
        """
        resident = self._passing.use(run_id)
        if resident is not None:
            return resident
        known = run_id in self.waiting
        try:
            stored = self.store.load(run_id)
        except StorageError as error:
            if known:
                self.report.leave(run_id, str(error))
            raise
        if stored.header.status != "live":
            raise RunFinishedError(run_id, stored.header.status)
        try:
            run = self._take_up(stored, known=known)
        except (SnapshotsError, MachinesError) as error:
            self.report.leave(run_id, str(error))
            raise
        self.report.take_back(run_id)
        return run

    def _take_up(self, stored: StoredRun, *, known: bool) -> Run:
        header = stored.header
        shape = self.store.shape(header.digest)
        decision = decide(stored, self.machines, shape, reconcile=not known)
        if decision.fate == "lost":
            self._set_aside_as_lost(header, decision)
        if decision.error is not None:
            raise decision.error
        assert decision.machine is not None
        if decision.fate != "migrate":
            return self.adopt(header, decision.machine, decision.value, restarted=not known)
        run = self.bring_over(header, decision, reconcile=not known)
        if run is None:
            raise RunFinishedError(header.run_id, "lost")
        self.begin(run, restarted=True)
        self.report.unresumed.pop(header.run_id, None)
        self.report.resumed.append(header.run_id)
        return run

    def bring_over(
        self,
        header: RunHeader,
        decision: Decision,
        *,
        reconcile: bool,
        settle: Callable[[], object] | None = None,
    ) -> Run | None:
        """Return a run in today's shape, its row written; nothing of it has begun.

        None if `reconcile` finds that its outside world is gone: it is lost in its former shape.
        `settle` is called in the transaction of the write. Raises MigrationRefusedError,
        UnresumedError, and what the write does.
        """
        machine, run_id = decision.machine, header.run_id
        assert machine is not None
        run = migrate(header, decision.value, machine, decision.steps, self._made)
        value = run.as_value()
        gone = ask(machine, run_id, value) if reconcile else None
        if gone is not None:
            if gone.fate != "lost" and gone.error is not None:
                raise gone.error
            self._set_aside_as_lost(header, gone)
            return None
        with self._watching_for_the_fence(), self.store.transaction():
            run.write()
            if settle is not None:
                settle()
        self.report.migrated[run_id] = route(decision.steps, machine.digest)
        return run

    def _set_aside_as_lost(self, header: RunHeader, decision: Decision) -> None:
        with self._watching_for_the_fence():
            self.store.mark(header, "lost", decision.reason)
        self.report.unresumed.pop(header.run_id, None)
        self.report.lost[header.run_id] = decision.reason

    def adopt(
        self, header: RunHeader, machine: Machine, value: dict[str, Any], *, restarted: bool = True
    ) -> Run:
        """Take a restored run into memory and let it go on.

        `restarted` says that the process which had it in memory has ended.
        """
        run = self.build(header, machine, value, restarted=restarted)
        self.begin(run, restarted=restarted)
        return run

    def build(
        self, header: RunHeader, machine: Machine, value: dict[str, Any], *, restarted: bool
    ) -> Run:
        """Return a run built from its row; it is not in memory for anybody else yet."""
        run = self._made(machine, header.run_id, value.get("input", {}))
        run.restore(header, value, restarted=restarted)
        return run

    def _made(self, machine: Machine, run_id: str, given: Mapping[str, Any]) -> Run:
        """Return a run without charts, to be begun or built."""
        return Run(self.store, machine, run_id, given, self, clock=self.clock, verify=self.verify)

    def begin(self, run: Run, *, restarted: bool) -> None:
        """Have a run that was built go on from here."""
        self.keep(run)
        try:
            run.resume(restarted=restarted)
        except BaseException as error:
            self.forget(run, error)
            raise
        self.waiting.discard(run.run_id)
        self.saved(run)
        run.wake()

    def keep(self, run: Run) -> None:
        """Keep a run in memory."""
        self._passing.keep(run)
        if self._met is not None:
            self._met.add(run.run_id)

    def _is_idle(self, run: Run) -> bool:
        """Whether a run may leave memory."""
        is_busy = run.run_id in self._retries or self._shop.busy(run)
        return only_waits(run) and not is_busy

    def _later(self, seconds: float, function: Callable[[], object]) -> asyncio.TimerHandle:
        return self._shop.later(seconds, function)

    def forget(self, run: Run, error: BaseException) -> None:
        """Let a run that is not to go on here out of memory; who waits for it is told."""
        if self._passing.drop(run):
            self._alarm.drop(run.run_id)
            self._retries.drop(run.run_id)
        run.release(error)
        self._shop.abandon(run)

    def knows(self, run_id: str) -> bool:
        """Whether a run was met since the file was opened: a row read before is old then."""
        return self._met is not None and run_id in self._met

    def leave_waiting(
        self, machine: Machine, run_ids: Collection[str], due_ms: Mapping[str, int]
    ) -> None:
        """Keep runs that only wait as their ids, and armed the timers of those that have one."""
        del machine  # whose approvals they may have open is for who looks after approvals
        self.waiting.update(run_ids)
        if due_ms:
            for run_id in run_ids:
                self._alarm.set(run_id, due_ms.get(run_id, NO_TIMER_MS))

    def _ring(self, run_id: str) -> None:
        try:
            run = self._unpause(self.live(run_id))
        except StorageError:
            self._alarm.set(run_id, self.clock.now_ms() + SAVE_RETRY_MS_MAX)
        except (SnapshotsError, MachinesError):
            return  # it is in the report, or the run has ended
        else:
            run.wake()
            if run.due_ms > self.clock.now_ms():
                self._alarm.set(run_id, run.due_ms)

    def _unpause(self, run: Run) -> Run:
        run.paused = False
        return run

    # -- what a run needs of who runs it ----------------------------------------------------------

    def start_call(self, run: Run, call: Call) -> None:
        """Begin outside work."""
        call.context.send = sender(run, call.path)
        if self._stopped is None:
            self._shop.start(run, call)

    def stop_call(self, run: Run, path: str, invoke: str) -> None:
        """End outside work whose state was left."""
        self._shop.stop(run, path, invoke)

    def wake(self, run: Run) -> None:
        """See that the run's tree runs."""
        if self._resident.get(run.run_id) is not run:
            self._passing.hold(run)
        self._shop.wake(run)

    def post(self, function: Callable[[], object]) -> None:
        """Have the loop call the function soon."""
        self._shop.post(function)

    def saved(self, run: Run) -> None:
        """Arm the run's timers."""
        if self._resident.get(run.run_id) is not run:
            self._passing.hold(run)
        if self._retries.waits_ms:
            self._retries.waits_ms.pop(run.run_id, None)
        self._alarm.set(run.run_id, run.due_ms)
        if self.told.hears:
            self.told.saved(run)

    def stalled(self, run: Run, error: SnapshotsError) -> None:
        """Stop for good if another host owns the file; else save again after a while.

        A run whose row somebody else has written is let go: what is in memory is not the run any
        more.
        """
        self._passing.hold(run)
        if isinstance(error, FencedError):
            self._fence(error)
            return
        if isinstance(error, RevisionConflictError | RunNotFoundError):
            self.lost(run, error)
            return
        self._retries.add(run)

    def lost(self, run: Run, error: Exception) -> None:
        """Let go of a live run that cannot go on from its last save."""
        self.report.unresumed[run.run_id] = f"{type(error).__name__}: {error}"
        self.forget(run, error)

    def ended(self, run: Run) -> None:
        """Let go of a run that is not live any more."""
        self._passing.drop(run)
        self._retries.drop(run.run_id)
        self._alarm.drop(run.run_id)
        self._shop.abandon(run)

    # -- the end --------------------------------------------------------------------------------

    @contextmanager
    def _watching_for_the_fence(self) -> Iterator[None]:
        """Stop for good if a write in the block is refused because another host owns the file."""
        try:
            yield
        except FencedError as error:
            self._fence(error)
            raise

    def _fence(self, error: FencedError) -> None:
        """Stop for good: another host owns the file, and not one that a chart uses itself."""
        if self._stopped is None and error.path == self.store.path:
            self._stopped = f"fenced: {error}"
            self._shop.hands.end()
            self._release_all()

    def _release_all(self) -> None:
        assert self._stopped is not None
        refusal = HostStoppedError(self.path, self._stopped)
        for run in self._passing.every():
            self.forget(run, refusal)
