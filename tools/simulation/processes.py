"""One process of a world: a host on a loop of its own, until it stops, is killed, or is frozen."""

from __future__ import annotations

import asyncio
import gc
import traceback
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from machines import Host
from machines.errors import HostStoppedError
from snapshots.errors import FencedError, SnapshotsError, StorageError
from tools.simulation.charts import MACHINES
from tools.simulation.disk import IN_MEMORY, Fate
from tools.simulation.loop import Crash, StuckError, VirtualLoop
from tools.simulation.promises import TRAITS

if TYPE_CHECKING:
    from random import Random

    from snapshots.store import SqliteSnapshotStore
    from tools.simulation.world import World

KINDS = ("stop", "callback", "before", "after", "freeze", "with")
CLIENTS = 3
HORIZON_S = 6.0
STATEMENTS = 60
CALLBACKS = 900
CALLBACKS_OF_ZOMBIE = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """How a process ends, and what it has to bear before; see `Fate` for the disk."""

    dies_at: int | None = None
    """The callback of its loop before which it is killed."""
    stops_at: int | None = None
    """The callback before which it is frozen, to wake when another owns the file."""
    fate: Fate
    is_last: bool = False
    forgets: frozenset[str] = frozenset()
    """Machines that this deploy has forgotten."""
    damages: bool = False
    """Whether a row is overwritten before it begins, and put right after it."""
    steps_ms: int = 0
    """By how much the wall clock is set, before it begins."""
    grace_s: float = 1.0
    resident_max: int = 2_000

    @classmethod
    def good(cls) -> End:
        """Return the last life, in which nothing fails."""
        return cls(fate=Fate(), is_last=True, grace_s=10.0)

    @classmethod
    def drawn(cls, rng: Random) -> End:
        """Return a life with an end of the seed's."""
        kind = rng.choices(KINDS, (2, 4, 2, 3, 2, 3))[0]
        statement = min(int(rng.expovariate(1 / 18)), STATEMENTS)
        callback = int(rng.random() ** 2 * CALLBACKS) + 1
        fate = Fate(
            dies_before=statement if kind == "before" else None,
            dies_after=statement if kind == "after" else None,
            dies_with=rng.choice(TRAITS) if kind == "with" else None,
            dies_with_nth=rng.randint(1, 3),
        )
        trouble = rng.choices(("none", "some", "often", "full", "reads"), (6, 3, 2, 2, 1))[0]
        if trouble == "some":
            fate.fails_at = frozenset(rng.randrange(STATEMENTS) for _ in range(rng.randint(1, 4)))
        elif trouble == "often":
            fate.fails_often = 0.1
        elif trouble == "full":
            fate.full = (rng.random() * HORIZON_S, rng.random() * 3.0)
        elif trouble == "reads":
            fate.reads_fail_often = 0.03
        names = [machine.name for machine in MACHINES]
        return cls(
            dies_at=callback if kind == "callback" else None,
            stops_at=callback if kind == "freeze" else None,
            fate=fate,
            forgets=frozenset(rng.sample(names, 3)) if rng.random() < 0.06 else frozenset(),
            damages=rng.random() < 0.06,
            steps_ms=rng.choice((-4000, 2500, 60_000)) if rng.random() < 0.1 else 0,
            grace_s=rng.choice((0.0, 0.5, 10.0)),
            resident_max=rng.choice((1, 2_000)),
        )


class Process:
    """One host, from its opening to its end."""

    def __init__(self, world: World, end: End, rng: Random) -> None:
        self.world = world
        self.end = end
        self.rng = rng
        self.loop = VirtualLoop(rng, world.time)
        self.loop.dies_at, self.loop.stops_at = end.dies_at, end.stops_at
        self.loop.after_each = self._look
        self.connection: Any = None
        self.host: Host | None = None
        self.is_frozen = False
        self.is_fenced = False
        self.crashed = False
        self._main: asyncio.Task[None] | None = None
        self._due_looks: set[str] = set()

    def open_store(self, path: str, *, clock: Any) -> SqliteSnapshotStore:
        """Open the world's file in place of what a host would open."""
        del path
        world = self.world
        fate = self.end.fate
        start, span = fate.full
        fate.full = (world.time.now_s + start, world.time.now_s + start + span)
        store = world.disk.open(clock, fate, lambda: world.time.now_s)
        self.connection = store.database.connection
        self.connection.dying = self._die
        return store

    def _die(self, where: str) -> None:
        self.world.note(f"killed {where}")
        self.loop.is_dead = True

    def _look(self) -> None:
        if self.world.rules.broken:
            self.loop.is_dead = True

    # -- life -------------------------------------------------------------------------------------

    def live(self, zombie: Process | None) -> None:
        """Live to the end; a frozen process may wake in between."""
        self._prepare()
        self._main = self.loop.create_task(self._run(take_over=zombie is not None))
        self._main.add_done_callback(lambda _: self.loop.stop())
        if zombie is not None:
            self._go_on(self.rng.randint(1, CALLBACKS // 3))
            if not self._main.done() and not self.loop.is_dead:
                zombie.wake(self)
        self._go_on(self.end.stops_at)
        if self.loop.stops_at is not None and not self._main.done() and not self.loop.is_dead:
            self.world.note("frozen")
            self.is_frozen = True
        self._conclude()

    def _prepare(self) -> None:
        world, rng = self.world, self.rng
        if self.end.steps_ms:
            world.time.step(self.end.steps_ms)
            world.note(f"the wall clock goes {self.end.steps_ms:+} ms")
        live = sorted(world.live_runs())
        if self.end.damages and live:
            world.damage(rng.choice(live))

    def _go_on(self, stops_at: int | None) -> None:
        """Run the loop until it is stopped, or dies."""
        loop = self.loop
        if loop.is_dead or (self._main is not None and self._main.done()):
            return
        loop.stops_at = stops_at
        try:
            loop.run_forever()
        except Crash:
            loop.is_dead = True
            self.world.note(f"dead after {loop.callbacks} callbacks")
        except StuckError:
            loop.is_dead = True
            self.world.rules.broke("stuck", f"the loop, after {loop.callbacks} callbacks")

    def wake(self, successor: Process) -> None:
        """Go on for a while after another process has taken the file over."""
        world = self.world
        world.note("a former owner wakes")
        store = getattr(self.host, "store", None)
        self.is_fenced = store is not None and world.term > (store.term or 0)
        world.process = self
        self._go_on(self.loop.callbacks + CALLBACKS_OF_ZOMBIE)
        world.process = successor
        world.note("it sleeps again")

    async def _run(self, *, take_over: bool) -> None:
        end, world = self.end, self.world
        machines = [machine for machine in MACHINES if machine.name not in end.forgets]
        self.host = host = Host(
            world.disk.path,
            machines,
            clock=world.time,
            verify=world.verifies,
            take_over=take_over,
            grace_s=end.grace_s,
            resident_max=end.resident_max,
        )
        live = world.live_runs()
        try:
            await host.__aenter__()
        except StorageError as error:
            world.note(f"not opened: {type(error).__name__}: {error.hint}")
            return
        world.note(f"opened: {host.report}".replace("\n", ";"))
        missing = {run_id for run_id in live if world.clients.runs[run_id] in end.forgets}
        missing |= world.rules.damaged.keys() - host.waiting
        world.rules.booted(host, live, missing)
        try:
            await self._deal(host)
        finally:
            await host.stop()
        world.note("stopped")

    async def _deal(self, host: Host) -> None:
        world, rng = self.world, self.rng
        if self.end.is_last:
            await world.clients.lead_all_to_end(host)
            return
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._client(host)) for _ in range(CLIENTS)]
            tasks.append(group.create_task(self._person(host)))
            tasks.append(group.create_task(self._inspector(host)))
            await asyncio.sleep(0.3 + rng.random() * HORIZON_S)
            for task in tasks:
                task.cancel()

    async def _client(self, host: Host) -> None:
        while True:
            await asyncio.sleep(self.rng.random() * 0.9)
            with suppress(HostStoppedError, FencedError):
                await self.world.clients.act(host)

    async def _person(self, host: Host) -> None:
        while True:
            await asyncio.sleep(0.5 + self.rng.random() * 3)
            for run_id in self.world.clients.runs:
                await self.world.clients.settle(host, run_id)

    async def _inspector(self, host: Host) -> None:
        """Compare what is in memory with the file, and let what nobody holds go."""
        world = self.world
        while True:
            await asyncio.sleep(self.rng.random() * 1.5)
            for run_id in world.clients.runs:
                with suppress(SnapshotsError, HostStoppedError):
                    world.rules.restores(host, run_id)
            if self.end.resident_max == 1 and self.rng.random() < 0.3:
                gc.collect()

    # -- the end ----------------------------------------------------------------------------------

    def _conclude(self) -> None:
        world, main, host = self.world, self._main, self.host
        assert main is not None
        if self.loop.is_dead:
            self.crashed = True
        elif main.done() and (error := main.exception()) is not None:
            world.rules.broke("host", "".join(traceback.format_exception(error))[-3000:])
        broken = getattr(host, "_broken", None)
        if broken is not None and not isinstance(broken, Crash):
            world.rules.broke("host", f"broken by {type(broken).__name__}: {broken}")
        for told in self.loop.errors:
            error = told.get("exception")
            if not isinstance(error, Crash | HostStoppedError) and not self.loop.is_dead:
                world.rules.broke("untended", f"{told['message']}: {error!r}")

    def bury(self) -> None:
        """Do what the system does when a process has ended; nothing of it runs any more."""
        loop, host = self.loop, self.host
        loop.end()
        if self.connection is not None:
            self.connection.bury()
        loop.bury()
        if host is not None:
            host._lock.release()  # noqa: SLF001 - as the system does
            self._close_file(host)

    def _close_file(self, host: Host) -> None:
        store = getattr(host, "store", None)
        if store is None:
            return
        database = store.database
        if self.world.disk.path != IN_MEMORY and not database._is_closed:  # noqa: SLF001 - as above
            database.checkpoints._connection.close()  # noqa: SLF001 - as above
            database.connection.close()
            database._registration.leave()  # noqa: SLF001 - as above
        database._is_closed = True  # noqa: SLF001 - nobody is to be warned
