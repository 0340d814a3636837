"""Runs that are put out of memory, ended, revived, read and listed."""

from __future__ import annotations

from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import Machine, Migration
from machines.errors import (
    DriftError,
    MachinesError,
    RunFinishedError,
    UnknownMachineError,
)
from machines.run.ending import die
from snapshots.errors import (
    AmbiguousRunError,
    DecodeError,
    LimitError,
    RunNotFoundError,
    StorageError,
)
from snapshots.limits import HEADERS_ROWS_MAX
from tests.host.charts import Door, Review, Strict, Trunk, checkout, waiter
from tests.host.world import (
    Disk,
    Outside,
    World,
    at_rest,
    ended,
    resident,
    ring,
    settled,
    statuses,
    until,
)

# -- unload and reload --------------------------------------------------------------------------


async def test_an_unloaded_run_is_built_again_by_an_event(world: World) -> None:
    """Out of memory and back, it goes on where it was, and its row did not change."""
    async with world.host(Door) as host:
        run = await host.start(Door, {"colour": "red"})
        before = world.stored(run)
        assert await host.unload(run)
        assert run not in host._resident
        assert world.stored(run) == before
        assert (await host.read(run)).context == {"colour": "red"}
        assert run not in host._resident
        assert await host.send(run, "push") == "pushed by nobody"
        assert run in host._resident


async def test_unloading_twice_is_harmless(world: World) -> None:
    """A run that is out of memory already stays there; one that ended is not there at all."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert await host.unload(run)
        assert await host.unload(run)
        await host.send(run, "remove")
        assert not await host.unload(run)


async def test_a_run_that_does_something_is_not_unloaded(world: World, outside: Outside) -> None:
    """A call in flight, and an effect in doubt, keep a run in memory."""
    outside.hold("charge")
    outside.answers("charge", ConnectionResetError("gone"))
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        assert not await host.unload(run)
        await until(lambda: outside.count("charge") == 1)
        assert not await host.unload(run)
        outside.hold("charge").set()
        await until(lambda: statuses(host, run) == ["unknown"])
        await at_rest_but_in_doubt(host, run)
        assert not await host.unload(run)


async def at_rest_but_in_doubt(host: Any, run: str) -> None:
    """Wait until nothing of a run is under way."""
    await until(lambda: not host._shop.busy(resident(host, run)))


async def test_a_tree_is_unloaded_and_built_again(world: World) -> None:
    """Three levels, byte for byte the same in memory as before."""
    async with world.host(Trunk) as host:
        run = await host.start(Trunk)
        await at_rest(host, run)
        before = resident(host, run).as_stored().blob
        assert await host.unload(run)
        await host.gates(run)
        assert resident(host, run).as_stored().blob == before
        await host.answer(run, "alive.1/growing.1/budding", "bloom")
        await at_rest(host, run)
        assert (await host.read(run)).context["told"] == 1


async def test_a_timer_builds_an_unloaded_run(world: World) -> None:
    """Its due time is known without it."""
    chart = waiter(60)
    async with world.host(chart) as host:
        run = await host.start(chart)
        assert await host.unload(run)
        world.clock.advance(60_000)
        ring(host)
        await ended(host, run)
    assert world.status(run) == "done"


async def test_a_stale_object_of_an_unloaded_run_saves_nothing(world: World) -> None:
    """Whoever still holds the run that was in memory cannot write over its successor."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        old = resident(host, run)
        assert await host.unload(run)
        await host.send(run, "push")
        before = world.stored(run)
        old.arrived()
        old.wake()
        await settled()
        assert world.stored(run) == before


# -- cancel -------------------------------------------------------------------------------------


async def test_a_cancelled_run_ends_with_the_reason(world: World) -> None:
    """Its row says who wanted it so; it takes nothing more."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        await host.cancel(run, "no longer wanted")
        header = world.stored(run).header
        assert (header.status, header.reason) == ("cancelled", "no longer wanted")
        assert header.ended_ms == world.clock.now_ms()
        assert world.configuration(run) == ["reviewing"]
        for act in (
            lambda: host.send(run, "withdraw"),
            lambda: host.cancel(run),
            lambda: host.answer(run, "review", "approve"),
        ):
            with pytest.raises(RunFinishedError):
                await act()
    async with world.host(Review) as host:
        assert host.report.resumed == []


async def test_a_run_is_cancelled_for_any_reason(world: World) -> None:
    """The name of a file that is no UTF-8, say, is half characters: they are kept as escapes."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.cancel(run, "no file '\udcff'")
    assert world.stored(run).header.reason == "no file '\\udcff'"


async def test_a_run_out_of_memory_is_cancelled(world: World) -> None:
    """A run that only waits in its row ends as well."""
    async with world.host(Review) as host:
        run = await host.start(Review)
    async with world.host(Review) as host:
        await host.cancel(run)
    assert world.status(run) == "cancelled"


async def test_cancelling_stops_plain_work(world: World) -> None:
    """What the run does outside is told to end."""
    stopped: list[str] = []

    class Worker:
        def run(self, ctx: Any) -> None:
            ctx.cancelled.wait(5)

        def on_cancel(self) -> None:
            stopped.append("stopped")

    class Working(StateChart):
        working = State(initial=True, invoke=Worker())
        over = State(final=True)
        stop = working.to(over)

    async with world.host(Working) as host:
        run = await host.start(Working)
        await settled()
        await host.cancel(run)
        assert stopped == ["stopped"]


async def test_an_on_cancel_that_raises_disturbs_nobody(world: World) -> None:
    """As in the library: the state is left whatever a handler makes of it."""

    class Worker:
        def run(self, ctx: Any) -> None:
            ctx.cancelled.wait(5)

        def on_cancel(self) -> None:
            message = "cannot stop"
            raise RuntimeError(message)

    class Working(StateMachine):
        working = State(initial=True, invoke=Worker())
        left = State()
        over = State(final=True)
        leave = working.to(left)
        stop = left.to(over)

    async with world.host(Working) as host:
        run = await host.start(Working)
        await settled()
        await host.send(run, "leave")
        await host.send(run, "stop")
    assert world.status(run) == "done"


async def test_a_callback_may_end_its_own_run(world: World) -> None:
    """The macrostep that does it is not saved, its sender is told, and nothing goes on."""
    hosts: list[Any] = []

    class Suicide(StateChart):
        calm = State(initial=True)
        moved = State()
        over = State(final=True)
        go = calm.to(moved)
        finish = moved.to(over)

        async def on_go(self, run: str) -> None:
            await hosts[0].cancel(run, "by itself")

    async with world.host(Suicide) as host:
        hosts.append(host)
        run = await host.start(Suicide)
        with pytest.raises(RunFinishedError):
            await host.send(run, "go", run=run)
        await settled()
    assert world.stored(run).header.reason == "by itself"
    assert world.configuration(run) == ["calm"]


# -- revive -------------------------------------------------------------------------------------


async def set_aside(world: World, host: Any, chart: Any, status: Any) -> str:
    """Return a run that a host has set aside."""
    run: str = await host.start(chart)
    assert await host.unload(run)
    host.store.mark(world.stored(run).header, status, "for the test")
    host.waiting.discard(run)
    return run


@pytest.mark.parametrize("status", ["lost", "drifted"])
async def test_a_run_that_was_set_aside_can_live_again(world: World, status: str) -> None:
    """It goes on where it was, in this host and over a restart."""
    async with world.host(Door) as host:
        run = await set_aside(world, host, Door, status)
        with pytest.raises(RunFinishedError):
            await host.send(run, "push")
        await host.revive(run)
        header = world.stored(run).header
        assert (header.status, header.reason, header.ended_ms) == ("live", None, None)
        await host.send(run, "push")
    async with world.host(Door) as host:
        assert host.report.resumed == [run]


async def test_a_broken_run_can_live_again(world: World) -> None:
    """An error is no verdict for ever: with the cause mended it goes on from its last save."""
    broken = [True]

    class Mendable(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        ring = calm.to(over)
        arm = calm.to.itself(on="set_it")

        def set_it(self) -> None:
            self.send("ring", delay=5_000)

        def on_ring(self) -> None:
            if broken[0]:
                message = "broken"
                raise ValueError(message)

    async with world.host(Mendable) as host:
        run = await host.start(Mendable)
        await host.send(run, "arm")
        world.clock.advance(5_000)
        ring(host)
        await ended(host, run)
        assert world.status(run) == "error"
        broken[0] = False
        await host.revive(run)
        await ended(host, run)
    assert world.status(run) == "done"
    assert "error" not in world.blob(run)


async def test_a_revived_run_that_is_restored_before_its_next_save_died_of_nothing(
    world: World,
) -> None:
    """What it had died of is in its row until then, and in none that it writes."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        die(resident(host, run), ValueError("broken"))
        assert world.blob(run)["error"]["message"] == "broken"
        await host.revive(run)
    async with world.host(Door) as host:
        assert host.report.resumed == [run]
        await host.send(run, "remove")
    assert world.status(run) == "done"
    assert "error" not in world.blob(run)


@pytest.mark.parametrize("end", ["remove", "cancel", "live"])
async def test_a_run_that_ended_by_itself_or_lives_is_not_revived(world: World, end: str) -> None:
    """Done, cancelled and live runs are refused, and nothing changes."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        if end == "remove":
            await host.send(run, "remove")
        elif end == "cancel":
            await host.cancel(run)
        before = world.stored(run)
        with pytest.raises(RunFinishedError):
            await host.revive(run)
        assert world.stored(run) == before


async def test_a_run_whose_machine_still_has_another_shape_is_not_revived(world: World) -> None:
    """The difference is told, the row is kept, and the old shape can take it up."""

    def chart(*, more: bool) -> Any:
        class Gate(StateChart):
            shut = State(initial=True)
            ajar = State(final=True)
            push = shut.to(ajar)
            if more:
                locked = State()
                lock = shut.to(locked)
                unlock = locked.to(shut)

        return Gate

    async with world.host(chart(more=True)) as host:
        run = await host.start("Gate")
        await host.send(run, "lock")
    async with world.host(chart(more=False)) as host:
        with pytest.raises(DriftError, match="locked"):
            await host.revive(run)
    async with world.host(Door) as host:
        with pytest.raises(UnknownMachineError):
            await host.revive(run)
    assert world.status(run) == "drifted"
    async with world.host(chart(more=True)) as host:
        await host.revive(run)
        await host.send(run, "unlock")
        await host.send(run, "push")
    assert world.status(run) == "done"


async def test_a_run_that_cannot_be_built_is_not_revived(world: World) -> None:
    """A bad blob is found out before the row is touched."""
    async with world.host(Door) as host:
        run = await set_aside(world, host, Door, "lost")
        blob = world.stored(run).blob.replace(b'"shut"', b'"nowhere"')
        world.overwrite(run, blob)
        before = world.stored(run)
        with pytest.raises((DecodeError, MachinesError)):
            await host.revive(run)
        assert world.stored(run) == before
        assert run not in host._resident


async def test_a_revive_whose_save_fails_changes_nothing(world: World) -> None:
    """The run stays set aside, and can be revived once the disk is well."""
    async with world.host(Door) as host:
        run = await set_aside(world, host, Door, "lost")
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(Exception, match="readonly"):
            await host.revive(run)
        assert run not in host._resident
        assert world.status(run) == "lost"
        await host.revive(run)
        await host.send(run, "push")


async def test_a_revive_that_migrates_and_cannot_be_saved_changes_nothing(world: World) -> None:
    """The run stays drifted, in its former shape, and nothing of it is in memory."""

    def chart(state: str) -> Any:
        at, over = State(initial=True), State(final=True)
        return type(StateChart)("Lamp", (StateChart,), {state: at, "over": over, "go": at.to(over)})

    old, new = chart("dark"), chart("off")
    migration = Migration(Machine(old).digest, states={"dark": "off"})
    async with world.host(old) as host:
        run = await set_aside(world, host, old, "drifted")
    before = world.stored(run)
    async with world.host(Machine(new, migrations=[migration])) as host:
        connection: Any = host.store.database.connection  # type: ignore[attr-defined]  # it is SQLite's
        connection.pragma("query_only", True)
        with pytest.raises(StorageError, match="readonly"):
            await host.revive(run)
        connection.pragma("query_only", False)

        def settle() -> None:
            message = "what is to be settled with it"
            raise LookupError(message)

        with pytest.raises(LookupError):
            host._revive(run, settle)
        assert run not in host._resident
        assert world.stored(run) == before
        await host.revive(run)
        await host.send(run, "go")
    assert world.status(run) == "done"


async def test_a_run_whose_world_came_back_is_revived_without_asking(world: World) -> None:
    """Who revives a lost run knows better than `reconcile` did."""
    machine = Machine(Door, reconcile=lambda _: False)
    async with world.host(machine) as host:
        run = await set_aside(world, host, machine, "lost")
        await host.revive(run)
        await host.send(run, "push")


# -- reading and listing ------------------------------------------------------------------------


async def test_a_run_reads_the_same_from_memory_and_from_its_row(world: World) -> None:
    """Whoever asks need not know where the run is."""
    async with world.host(Review) as host:
        run = await host.start(Review, {"title": "a", "pages": (1, 2)})
        await host.send(run, "submit")
        in_memory = await host.read(run)
        assert await host.unload(run)
        assert await host.read(run) == in_memory
    assert in_memory.status == "live"
    assert in_memory.machine == "Review"
    assert in_memory.context == {"title": "a", "pages": (1, 2)}


async def test_a_finished_run_is_read_with_its_output(world: World) -> None:
    """Status, reason, context, effects and output of a run that has ended."""
    async with world.host(Strict, Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        await host.answer(run, "review", "approve", note="fine")
        view = await host.read(run)
    assert (view.status, view.configuration) == ("done", ("approved",))
    assert view.context == {"note": "fine"}
    assert view.revision == world.stored(run).header.revision


@pytest.mark.parametrize("blob", [b"", b"{", b"[]", b'{"root": 7}', b'{"root": {"context": 7}}'])
async def test_a_run_whose_blob_is_bad_is_a_typed_error(world: World, blob: bytes) -> None:
    """Reading it says which run it is; listing it does not need the blob."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        await host.send(run, "remove")
        world.overwrite(run, blob)
        with pytest.raises(DecodeError, match=run):
            await host.read(run)
        assert [header.run_id for header in await host.runs()] == [run]


async def test_runs_are_listed_newest_first_and_by_status(world: World) -> None:
    """All, or those of one status, as many as asked for."""
    async with world.host(Door) as host:
        runs = [await host.start(Door) for _ in range(4)]
        await host.send(runs[1], "remove")
        assert [header.run_id for header in await host.runs()] == runs[::-1]
        assert [header.run_id for header in await host.runs("done")] == [runs[1]]
        assert [header.run_id for header in await host.runs(limit=2)] == runs[:1:-1]
        with pytest.raises(LimitError):
            await host.runs(limit=HEADERS_ROWS_MAX + 1)


async def test_a_run_may_be_named_by_a_unique_prefix(world: World) -> None:
    """One run that starts so is meant; several are refused with their ids; none is not found."""
    async with world.host(Door) as host:
        await host.start(Door, run_id="north-1")
        await host.start(Door, run_id="north-2")
        await host.start(Door, run_id="south-1")
        await host.send("south", "push")
        assert world.configuration("south-1") == ["ajar"]
        with pytest.raises(AmbiguousRunError) as caught:
            await host.send("north", "push")
        assert caught.value.candidates == ("north-1", "north-2")
        with pytest.raises(RunNotFoundError):
            await host.send("west", "push")


async def test_a_whole_id_wins_over_a_prefix(world: World) -> None:
    """An id that other ids start with still names its own run."""
    async with world.host(Door) as host:
        await host.start(Door, run_id="a")
        await host.start(Door, run_id="ab")
        await host.send("a", "push")
        assert world.configuration("a") == ["ajar"]
        assert world.configuration("ab") == ["shut"]
