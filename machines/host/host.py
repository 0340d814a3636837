"""The host, which keeps the runs of one file alive on asyncio and holds no rule of its own."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

from machines.definition import Machine
from machines.errors import (
    DefinitionError,
    EffectNotFoundError,
    HostStoppedError,
    UnknownMachineError,
)
from machines.host.alarm import Alarm
from machines.host.boot import boot
from machines.host.live_runs import Residents
from machines.host.workshop import Workshop
from machines.limits import (
    GRACE_S,
    LOCK_PATIENCE_S,
    LOCK_RETRY_S,
    SWEEP_INTERVAL_S,
    SWEEP_PAUSE_S,
)
from machines.lock import FileLock, holder_name
from machines.recovery.revival import revival
from machines.run import inbox as entering
from machines.run.calls import decide_by_hand
from machines.run.run import Run
from machines.run.views import view_of_row, view_of_run
from snapshots import open_store
from snapshots.clock import SystemClock
from snapshots.errors import (
    FencedError,
    StorageError,
)
from snapshots.identifiers import check_run_id, new_run_id
from snapshots.limits import RETENTION_MS

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from machines.definition import Chart
    from machines.gates import OpenGate
    from machines.run.views import RunView
    from snapshots.clock import Clock
    from snapshots.records import RunHeader, Status


class Taken(Enum):
    """What `send` returns for a delivery that its run has taken already."""

    TAKEN = "taken"


TAKEN = Taken.TAKEN


class Host(Residents):
    """Opens a file, restores its live runs, and runs them until it is left.

        async with Host("state.db", machines=[Checkout]) as host:
            run = await host.start(Checkout, {"amount": 12})
            await host.send(run, "pay", card="4242")

    Run ids may be given as a unique prefix. `take_over` raises the owner's term although another
    host holds the file: that one is refused from then on. `verify` compares every save with a
    full capture. `grace_s` is how long stopping waits for effects in flight, in seconds.

    Opening raises HostLockedError, and what `snapshots.open_store` raises.
    """

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
        known, time = by_name(machines), clock or SystemClock()
        super().__init__(os.fspath(path), known, time, verify=verify)
        self._take_over = take_over
        self._grace_s = grace_s
        self._tasks: list[asyncio.Task[None]] = []
        self._broken: BaseException | None = None
        self._lock = FileLock(self.path)

    def __repr__(self) -> str:
        state = self._stopped or f"{len(self._resident)} resident, {len(self.waiting)} waiting"
        return f"Host({self.path!r}, {state})"

    async def __aenter__(self) -> Self:
        if self._stopped is not None:
            raise HostStoppedError(self.path, self._stopped)
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
            await boot(self)
            self._met = None
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
        if hasattr(self, "store"):
            await self._close()
        if (broken := self._broken) is not None:
            self._broken = None
            raise broken

    async def _close(self) -> None:
        """Give everything back, also when that is interrupted."""
        tasks, self._tasks = self._tasks, []
        self._stopped = self._stopped or "it could not be opened"
        with ExitStack() as leaving:
            leaving.callback(self._lock.release)
            leaving.callback(self.store.close)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if hasattr(self, "_alarm"):
                leaving.callback(self._release_all)
                fenced = self._stopped.startswith("fenced")
                await self._shop.close(0 if fenced else self._grace_s)

    def _task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        task.add_done_callback(self._look)
        return task

    def _look(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._break(error)

    def _break(self, error: BaseException) -> None:
        self._broken = self._broken or error
        if self._stopped is None:
            self._stopped = f"broken by {type(error).__name__}: {error}"
            self._release_all()

    async def _locking(self) -> None:
        while not self._lock.try_take():  # noqa: ASYNC110 - no event tells of another process's lock
            await asyncio.sleep(LOCK_RETRY_S)

    async def _sweeping(self) -> None:
        while True:
            await self._sweep_if_possible()
            await asyncio.sleep(SWEEP_INTERVAL_S)

    async def _sweep_if_possible(self) -> None:
        """Sweep; what keeps the file from being swept is no reason not to run what is live."""
        self.report.unswept = ""
        try:
            await self.sweep()
        except (StorageError, HostStoppedError, FencedError) as error:
            self.report.unswept = str(error)

    async def sweep(self) -> int:
        """Delete the runs that ended more than a week ago, in slices; return how many."""
        swept = 0
        before = self.clock.now_ms() - RETENTION_MS
        while (slice_ := self._sweep_slice(before)) > 0:
            swept += slice_
            await asyncio.sleep(SWEEP_PAUSE_S)
        return swept

    def _sweep_slice(self, before_ms: int) -> int:
        self._require_open()
        with self._watching_for_the_fence():
            return self.store.sweep(before_ms)

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
        run = Run(self.store, kept, chosen, given, self, clock=self.clock, verify=self.verify)
        run.stored = asyncio.get_running_loop().create_future()
        self.keep(run)
        try:
            with self._watching_for_the_fence():
                run.begin()
                run.wake()
                await asyncio.shield(run.stored)
        except BaseException as error:
            if run.header is None:
                self.forget(run, error)
            raise
        return chosen

    def _machine(self, machine: Chart | str) -> Machine:
        """Return the machine of that name, the very machine given, or the one of that chart."""
        known = self.machines.values()
        if isinstance(machine, str):
            found = [m for m in known if m.name == machine]
        elif isinstance(machine, Machine):
            found = [m for m in known if m is machine]
        else:
            found = [m for m in known if m.chart is machine]
        if len(found) != 1:
            name = machine if isinstance(machine, str) else Machine.of(machine).name
            raise UnknownMachineError(name, tuple(self.machines))
        return found[0]

    async def send(
        self, run: str, event: str, /, *args: Any, delivery: str | None = None, **data: Any
    ) -> Any:
        """Send an event and return its result once its macrostep's save is on disk.

        `delivery` is the sender's own id for it: a repeat returns TAKEN and is not run. Raises
        what the macrostep raises (the run is then at its last saved snapshot), RunNotFoundError,
        AmbiguousRunError, RunFinishedError, EventRefusedError, EncodeError, InvalidKeyError.
        """
        while delivery is not None:
            entering.check_delivery(delivery)
            run_id = self._resolve(run)
            if self._was_taken(run_id, delivery):
                return TAKEN
            first = self.live(run_id).delivering.get(delivery)
            if first is None:
                break
            await asyncio.wait([first])
            if first.exception() is None:
                return TAKEN
        live = await self._ready(self._resolve(run), event)
        future = asyncio.get_running_loop().create_future()
        given = entering.Incoming(event=event, args=args, data=data)
        if not entering.send(live, given, waiter=future, delivery=delivery):
            return TAKEN
        if delivery is not None:
            live.note_delivering(delivery, future)
        return await asyncio.shield(future)

    async def answer(self, run: str, gate: str, event: str, /, *args: Any, **data: Any) -> Any:
        """Answer an open gate of a run; else as `send`. Raises GateClosedError.

        What was sent to the run before is run first: it may close the gate.
        """
        live = await self._ready(self._resolve(run), event, quiet=True)
        future = asyncio.get_running_loop().create_future()
        entering.answer(live, gate, entering.Incoming(event=event, args=args, data=data), future)
        return await asyncio.shield(future)

    async def cancel(self, run: str, reason: str | None = None) -> None:
        """End a live run: what it does outside is stopped. Raises RunFinishedError."""
        live = self.live(self._resolve(run))
        with self._watching_for_the_fence():
            live.cancel(reason)

    async def unload(self, run: str) -> bool:
        """Put a live run out of memory; False if it is doing something, and stays.

        It is built again from its row when an event, a timer or a question comes.
        """
        run_id = self._resolve(run)
        live = self._resident.get(run_id)
        if live is None:
            return run_id in self.waiting
        if live.header is None or not live.at_rest or self._shop.busy(live):
            return False
        del self._resident[run_id]
        self._drop_retry(live)
        live.over = True
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
        is given, EncodeError, RunFinishedError; StorageError if that could not be saved yet: it is
        kept, and saved again.
        """
        live = self._unpause(self.live(self._resolve(run)))
        effects = live.ledgers.effects
        row = effects.get(effect) or effects.get(f"{live.run_id}/{effect}")
        if row is None:
            raise EffectNotFoundError(live.run_id, effect, tuple(r.id for r in effects))
        decide_by_hand(live, row, done=done, failed=failed, again=again)
        if live.trouble is not None:
            raise live.trouble

    async def revive(self, run: str) -> None:
        """Make a lost, drifted or broken run live again.

        Raises DriftError if its machine still has another shape, RunFinishedError for a run that
        ended by itself or is live, UnknownMachineError, DecodeError.
        """
        self._require_open()
        stored = self.store.load(self._resolve(run))
        decision = revival(stored, self.machines, self.store.shape)
        assert decision.machine is not None
        made = self.build(stored.header, decision.machine, decision.value, restarted=True)
        with self._watching_for_the_fence():
            made.row.header = self.store.mark(stored.header, "live", None)
        self.begin(made, restarted=True)

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

    async def settled(self, run: str) -> RunView:
        """Wait until a run does nothing by itself, and return how it is.

        It then waits for others (a gate, a timer, an event, a decision about an effect in doubt),
        or it is over.
        """
        run_id = self._resolve(run)
        while (live := self._resident.get(run_id)) is not None:
            if busy := self._shop.tasks_of(run_id):
                await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
            elif live.tree.turn and not live.paused:
                await asyncio.sleep(0)  # a long turn goes on in slices
            else:
                break
        return await self.read(run_id)

    async def gates(self, run: str) -> list[OpenGate]:
        """Return the open gates of a live run: key, accepted events, meta."""
        return self.live(self._resolve(run)).gates()


def by_name(machines: Iterable[Chart]) -> dict[str, Machine]:
    """Return the machines by their names; DefinitionError if two have one."""
    known: dict[str, Machine] = {}
    for machine in map(Machine.of, machines):
        if machine.name in known:
            reason, hint = "another machine has that name", "give one of them a name= of its own"
            raise DefinitionError(machine.name, reason, hint)
        known[machine.name] = machine
    return known
