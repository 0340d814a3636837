"""The host: keeps the runs of one file alive on asyncio. It holds no rule of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Self

from machines.alarm import Alarm
from machines.booting import boot
from machines.calls import call_again, settle
from machines.definition import Chart, Machine
from machines.engine.nodes import Call
from machines.errors import (
    EffectNotFoundError,
    HostStoppedError,
    MachinesError,
    RunFinishedError,
    UnknownMachineError,
    UnsettledEffectError,
)
from machines.limits import (
    GRACE_S,
    LOCK_PATIENCE_S,
    LOCK_RETRY_S,
    SAVE_RETRY_MS,
    SAVE_RETRY_MS_MAX,
    SWEEP_INTERVAL_S,
    SWEEP_PAUSE_S,
)
from machines.lock import FileLock, holder_name
from machines.recovery import Report, decide, read
from machines.reviving import revival
from machines.run import OpenGate, Run
from machines.views import RunView, view_of_row, view_of_run
from machines.working import Workshop
from snapshots import open_store
from snapshots.clock import Clock, SystemClock
from snapshots.errors import (
    FencedError,
    RunExistsError,
    RunNotFoundError,
    SnapshotsError,
)
from snapshots.identifiers import check_run_id, new_run_id
from snapshots.limits import RETENTION_MS
from snapshots.records import RunHeader, Status
from snapshots.store import SnapshotStore


class Taken(Enum):
    """What `send` returns for a delivery that its run has taken already."""

    TAKEN = "taken"


TAKEN = Taken.TAKEN


class Host:
    """Opens a file, restores its live runs, and runs them until it is left.

        async with Host("state.db", machines=[Checkout]) as host:
            run = await host.start(Checkout, {"amount": 12})
            await host.send(run, "pay", card="4242")

    Run ids may be given as a unique prefix. `take_over` raises the owner's term although another
    host holds the file: that one is refused from then on. `verify` compares every save with a
    full capture. `grace_s` is how long stopping waits for effects in flight, in seconds.

    Opening raises HostLockedError, and what `snapshots.open_store` raises.
    """

    has_loop = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        machines: Iterable[Chart] = (),
        *,
        clock: Clock | None = None,
        verify: bool = False,
        take_over: bool = False,
        grace_s: float = GRACE_S,
    ) -> None:
        self.path = os.fspath(path)
        self.machines: dict[str, Machine] = {}
        for given in machines:
            machine = Machine.of(given)
            self.machines[machine.name] = machine
        self.clock = clock or SystemClock()
        self.verify = verify
        self.report = Report()
        self.waiting: dict[str, RunHeader] = {}
        """Live runs that only wait: built on their first event."""
        self._take_over = take_over
        self._grace_s = grace_s
        self._resident: dict[str, Run] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._retries: dict[str, int] = {}
        self._stopped: str | None = None
        self._broken: BaseException | None = None
        self._lock = FileLock(self.path)
        self.store: SnapshotStore
        self._shop: Workshop
        self._alarm: Alarm

    def __repr__(self) -> str:
        state = self._stopped or f"{len(self._resident)} resident, {len(self.waiting)} waiting"
        return f"Host({self.path!r}, {state})"

    # -- opening and stopping -------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self._take_lock()
        try:
            self.store = open_store(self.path, clock=self.clock)
        except BaseException:
            self._lock.release()
            raise
        try:
            self.store.take_over(holder_name())
            self._shop = Workshop(self._break)
            self._alarm = Alarm(self.clock, self._ring)
            await self.sweep()
            await boot(self)
        except BaseException:
            await self._close()
            raise
        self._tasks = [self._task(self._alarm.run()), self._task(self._sweeping())]
        if not self._lock.held:
            self._tasks.append(self._task(self._locking()))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def _take_lock(self) -> None:
        patience = LOCK_PATIENCE_S
        while not self._lock.try_take() and not self._take_over:
            if patience <= 0:
                self._lock.take()
            await asyncio.sleep(LOCK_RETRY_S)
            patience -= LOCK_RETRY_S

    async def stop(self) -> None:
        """Take no new work, wait for effects in flight, and close. Twice is harmless.

        Raises what broke the host's own machinery, if anything did.
        """
        if self._stopped is None:
            self._stopped = "stopped"
        await self._close()
        broken, self._broken = self._broken, None
        if broken is not None:
            raise broken

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if hasattr(self, "_shop"):
            fenced = self._stopped is not None and self._stopped.startswith("fenced")
            await self._shop.close(0 if fenced else self._grace_s)
        self._resident.clear()
        self.store.close()
        self._lock.release()

    def _task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(self._look)
        return task

    def _look(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        self._broken = self._broken or error
        self._stopped = self._stopped or f"broken by {type(error).__name__}: {error}"

    async def _locking(self) -> None:
        while not self._lock.try_take():
            await asyncio.sleep(LOCK_RETRY_S)

    async def _sweeping(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_INTERVAL_S)
            await self.sweep()

    async def sweep(self) -> int:
        """Delete the runs that ended more than a week ago, in slices; return how many."""
        swept = 0
        before = self.clock.now_ms() - RETENTION_MS
        while (slice_ := self.store.sweep(before)) > 0:
            swept += slice_
            await asyncio.sleep(SWEEP_PAUSE_S)
        return swept

    # -- runs -----------------------------------------------------------------------------------

    async def start(
        self,
        machine: Chart | str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the blob's word for it
        *,
        run_id: str | None = None,
    ) -> str:
        """Start a run and return its id once its first save is on disk.

        Raises UnknownMachineError, RunExistsError for an id that was used, EncodeError for an
        input or a context that cannot be stored, and what the first macrostep raises: then
        nothing is stored.
        """
        self._require_open()
        kept = self._machine(machine)
        given = dict(input or {})
        chosen = check_run_id(run_id) if run_id is not None else new_run_id(self.clock)
        self._refuse_used(chosen, kept, given)
        run = Run(self.store, kept, chosen, given, self, self.clock, verify=self.verify)
        run.stored = asyncio.get_running_loop().create_future()
        self._resident[chosen] = run
        try:
            run.begin()
            run.wake()
            await asyncio.shield(run.stored)
        except BaseException:
            if run.header is None:
                del self._resident[chosen]
                self._shop.abandon(chosen)
            raise
        return chosen

    def _machine(self, machine: Chart | str) -> Machine:
        if isinstance(machine, str):
            found = self.machines.get(machine)
        else:
            wanted = machine.chart if isinstance(machine, Machine) else machine
            found = next((m for m in self.machines.values() if m.chart is wanted), None)
        if found is None:
            name = machine if isinstance(machine, str) else Machine.of(machine).name
            raise UnknownMachineError(name, tuple(self.machines))
        return found

    def _refuse_used(self, run_id: str, machine: Machine, given: dict[str, Any]) -> None:
        run = self._resident.get(run_id)
        if run is not None:
            raise RunExistsError(run_id, run.machine.name == machine.name, run.given == given)
        try:
            stored = self.store.load(run_id)
        except RunNotFoundError:
            return
        same = stored.header.machine == machine.name
        same_input = None
        with suppress(SnapshotsError):
            same_input = read(stored, machine).get("input", {}) == given if same else None
        raise RunExistsError(run_id, same, same_input)

    async def send(
        self, run: str, event: str, *args: Any, delivery: str | None = None, **data: Any
    ) -> Any:
        """Send an event and return its result once its macrostep's save is on disk.

        `delivery` is the sender's own id for it: a repeat returns TAKEN and is not run. Raises
        what the macrostep raises (the run is then at its last saved snapshot), RunNotFoundError,
        AmbiguousRunError, RunFinishedError, EventRefusedError, EncodeError.
        """
        run_id = self._resolve(run)
        if delivery is not None and self._was_taken(run_id, delivery):
            return TAKEN
        live = self._live(run_id)
        future = asyncio.get_running_loop().create_future()
        self._unpause(live)
        if not live.send(event, args, data, waiter=future, delivery=delivery):
            return TAKEN
        return await asyncio.shield(future)

    def _was_taken(self, run_id: str, delivery: str) -> bool:
        if run_id in self._resident or run_id in self.waiting:
            return False
        stored = self.store.load(run_id)
        machine = self.machines.get(stored.header.machine)
        if machine is None or stored.header.status == "live":
            return False
        return delivery in read(stored, machine).get("deliveries", ())

    async def answer(self, run: str, gate: str, event: str, *args: Any, **data: Any) -> Any:
        """Answer an open gate of a run; else as `send`. Raises GateClosedError."""
        live = self._live(self._resolve(run))
        future = asyncio.get_running_loop().create_future()
        self._unpause(live)
        live.answer(gate, event, args, data, future)
        return await asyncio.shield(future)

    async def cancel(self, run: str, reason: str | None = None) -> None:
        """End a live run: what it does outside is stopped. Raises RunFinishedError."""
        self._live(self._resolve(run)).cancel(reason)

    async def unload(self, run: str) -> bool:
        """Put a live run out of memory; False if it is doing something, and stays.

        It is built again from its row when an event, a timer or a question comes.
        """
        run_id = self._resolve(run)
        live = self._resident.get(run_id)
        if live is None:
            return run_id in self.waiting
        if live.header is None or not live.at_rest or self._shop.busy(run_id):
            return False
        del self._resident[run_id]
        self.waiting[run_id] = live.header
        return True

    async def resolve(
        self,
        run: str,
        effect: str,
        *,
        done: Any = ...,
        failed: str | BaseException | None = None,
        again: bool = False,
    ) -> None:
        """Settle an effect in doubt: it was done (with its result), it failed, or call it again.

        `effect` is the effect's id, or the part of it behind the run's. Raises
        EffectNotFoundError, UnsettledEffectError if it is not in doubt or not exactly one outcome
        is given, RunFinishedError.
        """
        live = self._live(self._resolve(run))
        live.require_live()
        effects = live.ledgers.effects
        row = effects.get(effect) or effects.get(f"{live.run_id}/{effect}")
        if row is None:
            raise EffectNotFoundError(live.run_id, effect, tuple(r.id for r in effects))
        if row.status != "unknown":
            hint = "only an effect in doubt can be settled by hand"
            raise UnsettledEffectError(live.run_id, row.id, row.status, hint)
        if (done is not ...) + (failed is not None) + again != 1:
            hint = "give exactly one of done=, failed= and again=True"
            raise UnsettledEffectError(live.run_id, row.id, row.status, hint)
        self._unpause(live)
        if again:
            call_again(live, row)
        elif failed is not None:
            error = failed if isinstance(failed, BaseException) else RuntimeError(failed)
            settle(live, row, "failed", error, "error.execution", {"error": error})
        else:
            settle(live, row, "done", done, f"done.invoke.{row.invoke}", {"data": done})

    async def revive(self, run: str) -> None:
        """Make a lost, drifted or broken run live again.

        Raises DriftError if its machine still has another shape, RunFinishedError for a run that
        ended by itself or is live, UnknownMachineError, DecodeError.
        """
        self._require_open()
        stored = self.store.load(self._resolve(run))
        decision = revival(stored, self.machines, self.store.shape)
        assert decision.machine is not None
        header = self.store.mark(stored.header, "live", None)
        self._adopt(header, decision.machine, decision.value)

    async def read(self, run: str) -> RunView:
        """Return how a run is, from memory or from its row, whatever its status."""
        run_id = self._resolve(run)
        live = self._resident.get(run_id)
        if live is not None and live.header is not None:
            return view_of_run(live)
        return view_of_row(self.store.load(run_id))

    async def runs(self, status: Status | None = None, *, limit: int = 100) -> list[RunHeader]:
        """Return the newest runs, or those of one status, without reading what they hold."""
        self._require_open()
        return self.store.headers(status, limit=limit)

    async def gates(self, run: str) -> list[OpenGate]:
        """Return the open gates of a live run: key, accepted events, meta."""
        return self._live(self._resolve(run)).gates()

    # -- what the boot and the runs need --------------------------------------------------------

    def _resolve(self, run: str) -> str:
        self._require_open()
        if run in self._resident or run in self.waiting:
            return run
        return self.store.resolve(run)

    def _require_open(self) -> None:
        if self._stopped is not None:
            raise HostStoppedError(self.path, self._stopped)

    def _live(self, run_id: str) -> Run:
        """Return a live run, built from its row if it only waited."""
        live = self._resident.get(run_id)
        if live is not None:
            return live
        stored = self.store.load(run_id)
        self.waiting.pop(run_id, None)
        if stored.header.status != "live":
            raise RunFinishedError(run_id, stored.header.status)
        decision = decide(stored, self.machines, self.store.shape(stored.header.digest))
        if decision.error is not None:
            raise decision.error
        assert decision.machine is not None
        return self._adopt(stored.header, decision.machine, decision.value)

    def _adopt(self, header: RunHeader, machine: Machine, value: dict[str, Any]) -> Run:
        given = value.get("input", {})
        run = Run(self.store, machine, header.run_id, given, self, self.clock, verify=self.verify)
        run.restore(header, value)
        self._resident[header.run_id] = run
        self.saved(run)
        run.resume()
        run.wake()
        return run

    def adopt(self, header: RunHeader, machine: Machine, value: dict[str, Any]) -> None:
        """Take a restored run into memory and let it go on."""
        self._adopt(header, machine, value)

    def leave_waiting(self, header: RunHeader) -> None:
        """Keep a run that only waits as its header."""
        self.waiting[header.run_id] = header
        self._alarm.set(header.run_id, header.due_ms)

    def _ring(self, run_id: str) -> None:
        try:
            self._unpause(self._live(run_id)).wake()
        except (SnapshotsError, MachinesError) as error:
            self.report.unresumed[run_id] = str(error)

    def _unpause(self, run: Run) -> Run:
        run.paused = False
        return run

    # -- what a run needs of who runs it ----------------------------------------------------------

    def start_call(self, run: Run, call: Call) -> None:
        """Begin outside work."""
        if self._stopped is None:
            self._shop.start(run, call)

    def stop_call(self, run: Run, path: str, invoke: str) -> None:
        """End outside work whose state was left."""
        self._shop.stop(run, path, invoke)

    def wake(self, run: Run) -> None:
        """See that the run's tree runs."""
        self._shop.wake(run)

    def post(self, function: Callable[[], object]) -> None:
        """Have the loop call the function soon."""
        self._shop.post(function)

    def saved(self, run: Run) -> None:
        """Arm the run's timers."""
        if run.header is not None:
            self._retries.pop(run.run_id, None)
            self._alarm.set(run.run_id, run.header.due_ms)

    def stalled(self, run: Run, error: SnapshotsError) -> None:
        """Stop for good if another host owns the file; else save again after a while."""
        if isinstance(error, FencedError):
            self._stopped = self._stopped or f"fenced: {error}"
            self._shop.hands.ending = True
            return
        wait = min(self._retries.get(run.run_id, SAVE_RETRY_MS) * 2, SAVE_RETRY_MS_MAX)
        self._retries[run.run_id] = wait
        loop = asyncio.get_running_loop()
        loop.call_later(wait / 1000, self._retry, run)

    def _retry(self, run: Run) -> None:
        if self._stopped is None and self._resident.get(run.run_id) is run:
            self._unpause(run)
            run.arrived()

    def ended(self, run: Run) -> None:
        """Let go of a run that is not live any more."""
        self._resident.pop(run.run_id, None)
        self._alarm.drop(run.run_id)
        self._shop.abandon(run.run_id)
