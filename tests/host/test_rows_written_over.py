"""Saves that write only what changed: after each of them the row holds all of the run.

Runs grow, shrink, nest and fail at random; whatever has happened, the blob that a save was given is
the blob that another connection reads.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from typing import Any

import apsw
import pytest
from statemachine import State, StateChart

from machines import (
    Draft,
    Host,
    Machine,
    Migration,
    children,
    effect,
    gate,
    ledgers_of,
    open_run,
    send_down,
    spawn,
    spawned,
    stop_child,
)
from machines.errors import MachinesError
from snapshots import SqliteSnapshotStore, limits, open_store
from snapshots.codec import dump, load
from snapshots.errors import EncodeError, RevisionConflictError, StorageError
from snapshots.mailbox import Mailbox
from tests.host.world import Outside, World, at_rest, resident, ring, settled
from tools.lengths import as_long_rows

STEPS = 150
SMALL = (0, 1, 30, 300, 3_000)
LARGE = (0, 300, 20_000, 150_000)
Act = tuple[str, dict[str, Any]]
"""What is sent to a run, and with it."""
SEVERAL = ("one", "two", "three", "four")


def town(  # noqa: C901 - one chart below the other, each a few short functions
    outside: Outside, *, is_wide: bool = False
) -> type[StateChart[Any]]:
    """Return a chart with charts below charts, and something of each kind that a run can hold."""

    class Room(StateChart[Any]):
        dark = State(initial=True)
        calling = State(invoke=effect(outside.service("ring"), idempotent=True))
        lit = State()
        shut = State(final=True)
        change = (
            dark.to(lit, on="keep")
            | lit.to(dark, on="keep")
            | calling.to.itself(internal=True, on="keep")
        )
        call = dark.to(calling) | lit.to(calling)
        done_invoke_calling = calling.to(lit)
        close = dark.to(shut) | lit.to(shut)

        def keep(self, what: str, value: Any) -> None:
            """Hold a value, or let go of it."""
            setattr(self.model, what, value)

    class House(StateChart[Any]):
        standing = State(initial=True, invoke=children(Room))
        gone = State(final=True)
        build = standing.to.itself(internal=True, on="building")
        raze = standing.to.itself(internal=True, on="razing")
        pass_on = standing.to.itself(internal=True, on="passing")
        change = standing.to.itself(internal=True, on="keep")
        close = standing.to(gone)
        done_invoke_standing = standing.to.itself(internal=True)

        def keep(self, what: str, value: Any) -> None:
            """Hold a value, or let go of it."""
            setattr(self.model, what, value)

        def building(self, child: str, given: dict[str, Any]) -> None:
            """Begin a chart below this, if there is none of that name."""
            if child not in spawned(self):
                spawn(self, child, given)

        def razing(self, child: str) -> None:
            """End a chart below this."""
            stop_child(self, child)

        def passing(self, child: str, what: str, given: dict[str, Any]) -> None:
            """Have a chart below this do something."""
            if child in spawned(self):
                send_down(self, child, what, **given)

    class Town(StateChart[Any]):
        catch_errors_as_events = False
        standing = State(initial=True, invoke=children(House))
        asking = State(invoke=gate("approve"))
        gone = State(final=True)
        build = standing.to.itself(internal=True, on="building")
        raze = standing.to.itself(internal=True, on="razing")
        pass_on = standing.to.itself(internal=True, on="passing")
        change = standing.to.itself(internal=True, on="keep") | asking.to.itself(
            internal=True, on="keep"
        )
        note = standing.to.itself(internal=True, on="noting")
        remind = standing.to.itself(internal=True, on="reminding")
        fail = standing.to.itself(internal=True, on="failing")
        ask = standing.to(asking)
        approve = asking.to(standing)
        done_invoke_standing = standing.to.itself(internal=True)
        leave = standing.to(gone)
        if is_wide:
            widen = standing.to.itself(internal=True)

        keep, building, razing, passing = (
            House.keep,
            House.building,
            House.razing,
            House.passing,
        )

        def noting(self, words: int, number: int) -> None:
            """Change the ledgers, by much or by little."""
            books = ledgers_of(self)
            books.epochs.bump(f"talk {number % 5}")
            books.notices.add(f"note {number}", {"words": "w" * words})
            if number % 3 == 0:
                books.notices.take()

        def reminding(self, ms: int, value: Any) -> None:
            """Set a timer of its own."""
            self.send("change", delay=ms, what="reminded", value=value)

        def failing(self, value: Any) -> None:
            """Change much, and fail."""
            self.model.half = value
            message = "this one fails"
            raise RuntimeError(message)

    return Town


class Watch:
    """Compares each row with the blob it was saved with, and counts how it came there."""

    def __init__(self) -> None:
        self.saves: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()

    def over(self, host: Host) -> None:
        """Look at every save of a host from here on."""
        store: Any = host.store
        for verb in ("save", "create", "migrate"):
            setattr(store, verb, self._looking(store, verb, getattr(store, verb)))

    def _looking(self, store: Any, verb: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def looked(*args: Any, **named: Any) -> Any:
            try:
                header = write(*args, **named)
            except BaseException as error:
                self.refused[type(error).__name__] += 1
                raise
            blob = named["blob"] if "blob" in named else args[1]
            stored = store.load(header.run_id)
            assert stored.blob == blob, f"{verb} {self.saves}: the row is not what was saved"
            assert stored.header == header
            self.saves["in parts" if named.get("changed") is not None else verb] += 1
            return header

        return looked


def connection_of(host: Host) -> apsw.Connection:
    """Return the connection that a host writes by."""
    store: Any = host.store
    found: apsw.Connection = store.database.connection
    return found


@contextmanager
def busy(host: Host) -> Iterator[None]:
    """Hold the file's write lock, as another process does."""
    connection = connection_of(host)
    connection.set_busy_timeout(1)
    other = apsw.Connection(host.store.path)
    other.execute("begin immediate")
    try:
        yield
    finally:
        other.close()


@contextmanager
def full(host: Host) -> Iterator[None]:
    """Have the file not grow any more."""
    connection = connection_of(host)
    connection.pragma("max_page_count", 1)
    try:
        yield
    finally:
        connection.pragma("max_page_count", 2**30)


@contextmanager
def read_only(host: Host) -> Iterator[None]:
    """Have the disk take nothing."""
    connection = connection_of(host)
    connection.pragma("query_only", True)
    try:
        yield
    finally:
        connection.pragma("query_only", False)


@contextmanager
def unsettled(host: Host) -> Iterator[None]:
    """Have nothing of the mailbox be settled, so that the save in that transaction is undone."""
    connection = connection_of(host)

    def decide(action: int, table: str | None, *_: str | None) -> int:
        is_refused = action == apsw.SQLITE_UPDATE and table == "mailbox"
        return apsw.SQLITE_DENY if is_refused else apsw.SQLITE_OK

    connection.authorizer = decide
    try:
        yield
    finally:
        connection.authorizer = None


class Life:
    """One run through several hosts."""

    def __init__(self, world: World, seed: int, lengths: tuple[int, ...]) -> None:
        self.world = world
        self.chance = random.Random(seed)
        self.lengths = lengths
        self.watch = Watch()
        self.number = self.migrated = 0

    def value(self) -> Any:
        """Return a value of some length."""
        length = self.chance.choice(self.lengths)
        return self.chance.choice("abc") * length if length else None

    def event(self) -> Act:
        """Return something for the run to do."""
        chance, name = self.chance, self.chance.choice(SEVERAL)
        self.number += 1
        change = {"what": f"field{chance.randrange(4)}", "value": self.value()}
        inner: list[Act] = [
            ("build", {"child": chance.choice(SEVERAL), "given": {"first": self.value()}}),
            ("raze", {"child": chance.choice(SEVERAL)}),
            ("change", change),
            ("close", {}),
            *[
                ("pass_on", {"child": chance.choice(SEVERAL), "what": what, "given": given})
                for what, given in (("change", change), ("call", {}), ("close", {}))
            ],
        ]
        what, given = chance.choice(inner)
        acts: list[Act] = [
            ("build", {"child": name, "given": {"first": self.value()}}),
            ("build", {"child": name, "given": {"first": self.value()}}),
            ("raze", {"child": name}),
            ("change", change),
            ("note", {"words": chance.choice((1, 50, 900)), "number": self.number}),
            ("remind", {"ms": chance.choice((10, 5_000)), "value": self.value()}),
            ("fail", {"value": self.value()}),
            ("change", {"what": "field0", "value": object()}),
            ("approve", {}),
            ("ask", {}) if chance.random() < 0.3 else ("approve", {}),
            *[("pass_on", {"child": name, "what": what, "given": given})] * 12,
        ]
        return chance.choice(acts)

    async def act(self, host: Host, run: str) -> None:
        """Do one thing, with a fault or without."""
        fault = self.chance.choice([nullcontext] * 15 + [busy, full, read_only, unsettled])
        if fault is unsettled or self.chance.random() < 0.15:
            self.hand_in(run)
        event, data = self.event()
        with fault(host):
            sent = asyncio.ensure_future(host.send(run, event, **data))
            await settled()
        with suppress(StorageError, EncodeError, MachinesError, RuntimeError):
            await sent

    async def settle_in(self, host: Host, run: str) -> None:
        """Have charts at all depths."""
        for house in SEVERAL:
            await host.send(run, "build", child=house, given={"first": self.value()})
            for room in SEVERAL:
                given = {"child": room, "given": {"first": self.value()}}
                await host.send(run, "pass_on", child=house, what="build", given=given)

    def hand_in(self, run: str) -> None:
        """Have another process hand something in, which a save then settles."""
        event, data = self.event()
        if any(type(value) is object for value in data.values()):
            return
        with open_store(self.world.path, clock=self.world.clock) as store:
            mailbox = Mailbox(store, clock=self.world.clock)
            mailbox.put(run, "send", dump({"event": event, "data": data}))

    def compare(self, host: Host, run: str) -> None:
        """See that the row, the run in memory and what can be read are one."""
        if run not in host._resident:
            return
        live, stored = resident(host, run), self.world.stored(run)
        assert live.header == stored.header
        canvas = live.row._canvas
        if canvas is not None:
            assert canvas.blob == stored.blob
        assert live.machine.codec.decode_blob(stored.blob)["run"] == run

    async def live(self, machine: Any, run: str | None, steps: int) -> str:
        """Open a host, do so many things, and close it."""
        async with self.world.host(machine) as host:
            self.watch.over(host)
            if run is None:
                run = await host.start(machine, {}, run_id="town")
                await self.settle_in(host, run)
            assert not host.report.unresumed, host.report
            self.migrated += len(host.report.migrated)
            self.compare(host, run)
            for _ in range(steps):
                await self.act(host, run)
                if self.chance.random() < 0.2:
                    self.world.clock.advance(self.chance.choice((20, 6_000)))
                    ring(host)
                await at_rest(host, run)
                self.compare(host, run)
                if self.chance.random() < 0.05:
                    await host.unload(run)
                if (await host.read(run)).status == "error":
                    await host.revive(run)
        return run


def machines(outside: Outside) -> tuple[Machine, Machine]:
    """Return a machine, and one of another shape to which its runs are brought over."""
    before, after = town(outside), town(outside, is_wide=True)

    def change(draft: Draft) -> None:
        """All states are there still."""

    old = Machine(before, name="town")
    return old, Machine(after, name="town", migrations=[Migration(old.digest, change)])


@pytest.mark.parametrize("seed", range(4))
async def test_a_row_holds_the_run_after_every_save(
    world: World, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Short rows saved as long ones are, so that many things happen to each."""
    monkeypatch.setattr("machines.host.mail.MAIL_POLL_MS", 0)  # each turn of the loop is a look
    life, (old, new) = Life(world, seed, SMALL), machines(world.outside)
    with as_long_rows():
        run = await life.live(old, None, STEPS // 3)
        for _ in range(2):
            run = await life.live(new, run, STEPS // 3)
    saves, refused = life.watch.saves, life.watch.refused
    assert life.migrated == 1
    assert saves["in parts"] > STEPS // 3, saves
    assert saves["save"] > STEPS // 10, saves
    assert sum(refused.values()) > 1, refused


async def test_a_long_row_holds_the_run_after_every_save(world: World) -> None:
    """At the lengths from which on a save is one of parts."""
    life, (old, new) = Life(world, 0, LARGE), machines(world.outside)
    run = await life.live(old, None, STEPS // 4)
    await life.live(new, run, STEPS // 4)
    saves = life.watch.saves
    assert len(world.stored("town").blob) > limits.OVERWRITTEN_BYTES_MIN
    assert saves["in parts"] > STEPS // 8, saves


def test_a_save_that_was_undone_is_not_built_upon(world: World) -> None:
    """Not even where another process has saved the run since, and given it the same revision."""

    class Notes(StateChart[Any]):
        writing = State(initial=True)
        note = writing.to.itself(internal=True, on="noting")

        def noting(self, what: str, value: str) -> None:
            """Keep a value."""
            setattr(self.model, what, value)

    def undone(chart: StateChart[Any], store: SqliteSnapshotStore) -> None:
        with store.transaction():
            chart.send("note", what="first", value="b" * 90)
            message = "undone"
            raise RuntimeError(message)

    with (
        as_long_rows(),
        open_store(world.path) as mine,
        open_store(world.path) as theirs,
        open_run(mine, Notes, "a") as chart,
    ):
        chart.send("note", what="first", value="a" * 100)
        chart.send("note", what="second", value="a" * 5_000)
        with pytest.raises(RuntimeError, match="undone"):
            undone(chart, mine)
        with open_run(theirs, Notes, "a") as other:
            other.send("note", what="third", value="c" * 90)
        with suppress(RevisionConflictError):
            chart.send("note", what="first", value="d" * 80)
        stored = load(mine.load("a").blob)
    assert stored["root"]["context"]["second"] == "a" * 5_000
    assert {"first", "third"} & stored["root"]["context"].keys()
