"""A seeded workload: a host that lives on a file, is closed, opened again, and does all it can."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from machines import Host, Machine
from machines.errors import GateClosedError, UnsettledEffectError
from machines.host import mail
from snapshots import open_store
from snapshots.codec import dump
from snapshots.limits import RETENTION_MS
from snapshots.mailbox import Mailbox
from snapshots.storage import Scope
from snapshots.storage.carry import CarryState
from snapshots.storage.contracts import Contract
from snapshots.storage.state import StateStore
from snapshots.storage.workspaces import Workspaces
from snapshots.store import SqliteSnapshotStore
from tools.disk.charts import CELL_VALUES, WAIT_S, Outside, charts

if TYPE_CHECKING:
    import random
    from collections.abc import Awaitable, Callable, Iterator
    from pathlib import Path

    from snapshots.testing import ManualClock

DAY_MS: Final = 86_400_000
DESKS: Final = 5
VALUES: Final = 16
"""Values of a desk's model: with its ledgers about 1 KB."""
POLL_MS: Final = 2
STEPS: Final = 60
"""What a host does before it is closed."""


@contextmanager
def looking_often() -> Iterator[None]:
    """Have hosts look into the mailbox often: what they find is the point, not when."""
    bounds = vars(mail)
    before = bounds["MAIL_POLL_MS"]
    bounds["MAIL_POLL_MS"] = POLL_MS
    try:
        yield
    finally:
        bounds["MAIL_POLL_MS"] = before


def mailbox_of(host: Host, clock: ManualClock) -> Mailbox:
    """Return the mailbox of a host's file, through the host's own connection."""
    assert isinstance(host.store, SqliteSnapshotStore), "it has a file"
    return Mailbox(host.store, clock=clock)


@dataclass(slots=True)
class Life:
    """What happens to one file, from the seed."""

    path: Path
    clock: ManualClock
    rng: random.Random
    large: bool
    """Whether there is a run of 100 KB among the others."""
    outside: Outside = field(default_factory=Outside)
    texts: int = 0

    def machines(self) -> tuple[Machine, Machine]:
        """Return the machines, which are the same in each life of the file."""
        desk, floor = charts(self.outside)
        return Machine(desk, name="desk"), Machine(floor, name="floor")

    def text(self) -> str:
        """Return a text that was not there before, of varying length."""
        self.texts += 1
        return f"{self.texts} {self.rng.randbytes(self.rng.randint(4, 24)).hex()}"

    async def host(self, steps: int = STEPS) -> None:
        """Open the file, do many things, and close it."""
        desk, floor = self.machines()
        async with Host(self.path, [desk, floor], clock=self.clock, verify=True) as host:
            report = host.report
            strays = [*report.unresumed, *report.lost, *report.drifted]
            assert not strays, f"not resumed: {report}"
            await _Shift(self, host, desk, floor).work(steps)


class _Shift:
    """One host's part of a life."""

    def __init__(self, life: Life, host: Host, desk: Machine, floor: Machine) -> None:
        self.life, self.host, self.desk, self.floor = life, host, desk, floor
        self.rng = life.rng
        self.state = StateStore(host.storage.keyed, host.storage.leases, Scope(workflow="tool"))
        scope = Scope(workflow="tool")
        self.carried = CarryState(host.storage.carry, scope, contract=Contract("cursor", 1))
        self.workspace = Workspaces(host.storage.workspaces).open()
        self.acts: list[Callable[[], Awaitable[None]]] = [
            *(self.note,) * 8,
            *(self.poke,) * (10 if life.large else 0),
            *(self.charge, self.ship) * 2,
            *(self.follow, self.ask, self.remind, self.keep, self.turn_the_clock) * 2,
            *(self.mail, self.put, self.claim, self.several, self.carry, self.share) * 2,
            *(self.hand_in, self.finish, self.cancel, self.unload, self.grow_old),
        ]

    async def work(self, steps: int) -> None:
        """Do so many things, whatever they are."""
        await self.settle()
        for _ in range(steps):
            await self.rng.choice(self.acts)()
        await self.settle()

    async def live(self, machine: Machine) -> list[str]:
        found = await self.host.runs("live")
        return sorted(header.run_id for header in found if header.machine == machine.name)

    async def settle(self) -> None:
        """Decide what the last end of the host left in doubt, and wait for the rest."""
        for run in await self.live(self.desk):
            view = await self.host.settled(run)
            for effect in view.effects:
                if effect["status"] == "unknown":
                    await self._decide(run, effect["id"])
            await self.host.settled(run)

    async def _decide(self, run: str, effect: str) -> None:
        """Have an effect in doubt called again, unless a timer has led out of its state."""
        try:
            await self.host.resolve(run, effect, again=True)
        except UnsettledEffectError:
            await self.host.resolve(run, effect, done="whoever asked has looked")

    async def one(self) -> str:
        """Return a desk that is idle, a new one if there are few."""
        runs = await self.live(self.desk)
        if len(runs) >= DESKS:
            run = self.rng.choice(runs)
        else:
            given = {f"value{n:02}": self.life.text() for n in range(VALUES)}
            run = await self.host.start(self.desk.chart, given)
        view = await self.host.settled(run)
        if "waiting" in view.configuration:
            with suppress(GateClosedError):  # a timer that was overdue has led out of it
                await self.host.answer(run, "review", self.rng.choice(("approve", "reject")))
        return run

    async def note(self) -> None:
        run = await self.one()
        for _ in range(self.rng.randint(1, 4)):
            key = f"value{self.rng.randrange(VALUES + 4):02}"
            await self.host.send(run, "note", what=key, value=self.life.text())

    async def poke(self) -> None:
        runs = await self.live(self.floor)
        if not runs:
            run = await self.host.start(self.floor.chart)
            values = {f"value{n:03}": self.life.text() for n in range(CELL_VALUES)}
            await self.host.send(run, "add", values=values)
            runs = [run]
        key = f"value{self.rng.randrange(CELL_VALUES):03}"
        cell = self.rng.randrange(20)
        await self.host.send(runs[0], "poke", cell=cell, what=key, value=self.life.text())
        await self.host.settled(runs[0])

    async def _through(self, event: str, **data: Any) -> None:
        run = await self.one()
        await self.host.send(run, event, **data)
        await self.host.settled(run)

    async def charge(self) -> None:
        await self._through("charge_it")

    async def ship(self) -> None:
        await self._through("ship_it")

    async def follow(self) -> None:
        await self._through("follow_it")

    async def ask(self) -> None:
        run = await self.one()
        await self.host.send(run, "ask", delivery=self.life.text())

    async def remind(self) -> None:
        await self._through("remind", ms=self.rng.randint(1_000, 900_000))

    async def keep(self) -> None:
        await self._through("keep", what=f"key{self.rng.randrange(6)}", value=self.life.text())

    async def turn_the_clock(self) -> None:
        """Have timers fire."""
        self.life.clock.advance(self.rng.randint(1, int(WAIT_S * 1_500)))
        self.host._alarm.ring_due()  # noqa: SLF001 - it would look by itself, in real time
        await self.settle()

    async def mail(self) -> None:
        """Hand an event in through the host's own connection."""
        run = await self.one()
        box = mailbox_of(self.host, self.life.clock)
        self._put(box, run)
        await self.delivered()

    async def hand_in(self) -> None:
        """Hand an event in through a connection of its own, as another process does."""
        run = await self.one()
        with open_store(self.life.path, clock=self.life.clock) as store:
            self._put(Mailbox(store, clock=self.life.clock), run)
        await self.delivered()

    async def delivered(self) -> None:
        """Wait until the host has taken what was handed in."""
        box = mailbox_of(self.host, self.life.clock)
        while box.pending():  # noqa: ASYNC110 - no event tells of a row that another task writes
            await asyncio.sleep(POLL_MS / 1_000)

    def _put(self, box: Mailbox, run: str) -> None:
        data = {"event": "note", "data": {"what": "mailed", "value": self.life.text()}}
        box.put(run, "send", dump(data), delivery=self.life.text())

    async def put(self) -> None:
        key = f"key{self.rng.randrange(8)}"
        if self.rng.random() < 0.3:
            self.state.delete(key)
        else:
            self.state.put(key, {"text": self.life.text()}, ttl_ms=self.rng.choice((None, DAY_MS)))

    async def claim(self) -> None:
        with self.state.overlap_lock("nightly", ttl_ms=60_000) as lock:
            if lock is not None:
                self.state.put_if_absent(f"key{self.rng.randrange(8)}", self.life.text())

    async def several(self) -> None:
        """Commit several writes together, synced or not."""
        with self.host.store.transaction(sync=self.rng.random() < 0.5):
            for number in range(3):
                self.state.put(f"together{number}", self.life.text())

    async def carry(self) -> None:
        """Save carry state over what is there, as one run after the other does."""
        carried = self.carried.load("crawl")
        expected = 0 if carried is None else carried.revision
        self.carried.save("crawl", {"at": self.life.text()}, expected_revision=expected)

    async def share(self) -> None:
        """Write a thread, an artifact and their lines of the log in one transaction."""
        with self.workspace.transaction() as changes:
            thread = changes.open_thread(title=self.life.text())
            changes.create("note", {"text": self.life.text()}, thread=thread.thread)

    async def finish(self) -> None:
        await self._through("finish")

    async def cancel(self) -> None:
        await self.host.cancel(await self.one(), "nobody wants it")

    async def unload(self) -> None:
        await self.host.unload(await self.one())

    async def grow_old(self) -> None:
        """Sweep what has ended more than a week ago."""
        self.life.clock.advance(RETENTION_MS + DAY_MS)
        self.host._alarm.ring_due()  # noqa: SLF001 - as above
        await self.settle()
        await self.host.sweep()
