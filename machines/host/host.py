"""The host, which keeps the runs of one file alive on asyncio and holds no rule of its own."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from threading import get_ident
from typing import TYPE_CHECKING, Any, Self

from machines.definition import Machine
from machines.errors import (
    DefinitionError,
    HostStoppedError,
    HostThreadError,
)
from machines.host.alarm import Alarm
from machines.host.boot import boot
from machines.host.options import (
    require_approvals,
    require_grace,
    require_machines,
    require_storage,
)
from machines.host.passing import checked
from machines.host.sweeping import in_slices
from machines.host.telling import Talking
from machines.host.workshop import Workshop
from machines.limits import (
    GRACE_S,
    LOCK_PATIENCE_S,
    LOCK_RETRY_S,
    RESIDENT_RUNS_MAX,
    SWEEP_INTERVAL_S,
)
from machines.lock import FileLock, holder_name
from machines.offload import Offload
from snapshots.clock import SystemClock
from snapshots.errors import (
    FencedError,
    RunNotFoundError,
    StorageError,
)
from snapshots.mailbox import Mailbox
from snapshots.opening import open_own_store, open_storage
from snapshots.storage.approvals import Approvals
from snapshots.storage.state import StateStore

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from machines.definition import Chart
    from snapshots.clock import Clock
    from snapshots.storage import Backend, Scope


class Host(Talking):
    """Opens a file, restores its live runs, and runs them until it is left.

        async with Host("state.db", machines=[Checkout]) as host:
            run = await host.start(Checkout, {"amount": 12})
            await host.send(run, "pay", card="4242")

    Run ids may be given as a unique prefix. `take_over` raises the owner's term although another
    host holds the file: that one is refused from then on. `verify` compares every save with a
    full capture. `grace_s` is how long stopping waits for effects in flight, in seconds; what
    then still blocks in a thread is named in the log, and cut off when the process ends.

    `resident_max` bounds the runs that are kept built (2,000): beyond it those that only wait
    leave memory, the one that was used longest ago first, and are built again from their rows
    when an event, a timer or a question comes. A run that does something stays.

    `storage` is what the work of its runs has beside them (`machines.state`): one of the
    caller's, who closes it, else the runs' own file. `approvals` is the scope in it whose
    decisions are taken to the gates of its runs: machines that wait for approvals need one.

    `meter` and `tracer`, of OpenTelemetry or alike, get what docs/telemetry.md names. Without
    them there are log lines alone, and what `subscribe` gives: nothing leaves the machine.

    Making one raises DefinitionError and HostOptionError; opening raises HostLockedError, and what
    `snapshots.open_store` raises.
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
        resident_max: int = RESIDENT_RUNS_MAX,
        storage: Backend | None = None,
        approvals: Scope | None = None,
        meter: Any = None,
        tracer: Any = None,
    ) -> None:
        require_machines(machines)
        require_grace(grace_s)
        known, time = by_name(machines), clock or SystemClock()
        require_storage(storage)
        require_approvals(approvals, known.values())
        super().__init__(os.fspath(path), known, time, verify=verify, meter=meter, tracer=tracer)
        self._passing.runs_max = checked(resident_max)
        self._take_over = take_over
        self._grace_s = grace_s
        self._given_storage = storage
        self._approved = approvals
        self._tasks: list[asyncio.Task[None]] = []
        self._broken: BaseException | None = None
        self._lock = FileLock(self.path)

    def __repr__(self) -> str:
        state = self._stopped or f"{len(self._resident)} resident, {len(self.waiting)} waiting"
        return f"Host({self.path!r}, {state})"

    async def __aenter__(self) -> Self:
        if self._stopped is not None:
            raise HostStoppedError(self.path, self._stopped)
        try:
            await self._open()
        except BaseException:
            self.told.subscriptions.end()
            raise
        return self

    async def _open(self) -> None:
        await self._take_lock()
        try:
            self.store = store = open_own_store(self.path, clock=self.clock)
        except BaseException:
            self._lock.release()
            raise
        self._thread = get_ident()
        try:
            self._mailbox = Mailbox(store, clock=self.clock)
            self._furnish(self._given_storage or open_storage(store, clock=self.clock))
            begun_s = asyncio.get_running_loop().time()
            self.store.take_over(holder_name())
            if not self._lock.held:
                self.told.tell("host.taken-over", term=self.store.term)
            self._shop = self._workshop()
            self._alarm = Alarm(self.clock, self._ring)
            await boot(self)
            self._met = None
            self._tell_started((asyncio.get_running_loop().time() - begun_s) * 1000)
        except BaseException:
            await self._close()
            raise
        work = (self._alarm.run(), self._sweeping(), self._deliver())
        self._tasks = [self._task(coroutine) for coroutine in work]
        if self.approvals is not None:
            self._tasks.append(self._task(self._approve()))
        if not self._lock.held:
            self._tasks.append(self._task(self._locking()))

    def _workshop(self) -> Workshop:
        return Workshop(self._break)

    def _furnish(self, storage: Backend) -> None:
        self.storage = storage
        self._offload = Offload(storage)
        if self._approved is not None:
            state = StateStore(storage.keyed, storage.leases, self._approved)
            file = "" if storage.path == self.store.path else self.store.identity
            self.approvals = Approvals(state, file=file, clock=self.clock)

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

        Raises HostThreadError in another thread than that of its loop, where it does nothing, and
        what broke the host's own machinery, if anything did.
        """
        if self._thread is not None and self._thread != (thread := get_ident()):
            raise HostThreadError(self.path, self._thread, thread)
        if self._stopped is None:
            self._stopped = "stopped"
        if hasattr(self, "store"):
            await self._close()
        self._tell_stopped()
        if (broken := self._broken) is not None:
            self._broken = None
            raise broken

    async def _close(self) -> None:
        """Give everything back, also when that is interrupted."""
        tasks, self._tasks = self._tasks, []
        self._stopped = self._stopped or "it could not be opened"
        with ExitStack() as leaving:
            leaving.callback(self._tell_stopped)
            leaving.callback(self._lock.release)
            leaving.callback(self.store.close)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if hasattr(self, "_offload"):
                await self._offload.close()
            if hasattr(self, "_alarm"):
                leaving.callback(self._release_all)
                fenced = self._stopped.startswith("fenced")
                self._tell_left(await self._shop.close(0 if fenced else self._grace_s))

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
            self.told.tell("host.broken", reason=f"{type(error).__name__}: {error}")
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

    def is_live(self, run_id: str) -> bool:
        """Return whether the run of this whole id is live, or about to begin."""
        self._require_open()
        if run_id in self._resident or run_id in self.waiting:
            return True
        try:
            return self.store.load(run_id).header.status == "live"
        except RunNotFoundError:
            return False

    async def sweep(self) -> int:
        """Delete the runs that ended more than a week ago, in slices; return how many.

        What was settled in the mailbox more than a day ago is deleted with them, and what has
        expired in the storage.
        """
        begun_s = asyncio.get_running_loop().time()
        swept = await in_slices(self._sweep_runs)
        await in_slices(self._sweep_mailbox)
        await in_slices(self._sweep_storage)
        ms = (asyncio.get_running_loop().time() - begun_s) * 1000
        self.told.tell("sweep", runs=swept, ms=ms)
        return swept

    async def _sweep_storage(self) -> int:
        self._require_open()
        with self._watching_for_the_fence():
            return await self.with_storage(self.storage.sweep)

    async def _sweep_runs(self) -> int:
        self._require_open()
        with self._watching_for_the_fence():
            return self.store.sweep()


def by_name(machines: Iterable[Chart]) -> dict[str, Machine]:
    """Return the machines by their names; DefinitionError if two have one."""
    known: dict[str, Machine] = {}
    for machine in map(Machine.of, machines):
        if machine.name in known:
            reason, hint = "another machine has that name", "give one of them a name= of its own"
            raise DefinitionError(machine.name, reason, hint)
        known[machine.name] = machine
    return known
