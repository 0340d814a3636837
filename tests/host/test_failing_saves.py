"""A save that fails: nothing after it happens, who must know is told, and later saves work."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import apsw
import pytest
from statemachine import State, StateChart, StateMachine

from machines import child, timeout
from snapshots.errors import (
    RevisionConflictError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
)
from tests.host.charts import Door, Leaf, Review, Strict, checkout, mailer
from tests.host.world import (
    Disk,
    Outside,
    World,
    at_rest,
    ended,
    resident,
    ring,
    settled,
    until,
)


@contextmanager
def write_lock(world: World) -> Iterator[None]:
    """Hold the file's write lock, as another process would."""
    connection = apsw.Connection(str(world.path))
    try:
        connection.execute("begin immediate")
        yield
        connection.execute("rollback")
    finally:
        connection.close()


async def test_a_failed_start_stores_nothing_and_can_be_repeated(world: World) -> None:
    """The caller gets the disk's error; the same id can be started again."""
    async with world.host(Door) as host:
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.start(Door, run_id="a")
        assert world.ids() == []
        assert await host.start(Door, run_id="a") == "a"


async def test_a_sender_gets_the_error_and_the_run_is_at_its_last_row(world: World) -> None:
    """Configuration and model are as saved, on disk and in memory."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        before = world.stored(run)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.send(run, "push", by="me")
        assert world.stored(run) == before
        assert resident(host, run).as_stored().blob == before.blob
        assert await host.send(run, "push", by="you") == "pushed by you"
        assert (await host.read(run)).context == {"by": "you", "pushes": 1}


async def test_a_failed_save_in_a_chart_that_catches_errors_is_no_event(world: World) -> None:
    """`error.execution` is for the chart's errors; the disk's go to the sender."""

    class Catching(StateChart):
        calm = State(initial=True)
        moved = State()
        sad = State(final=True)
        move = calm.to(moved)
        error_execution = calm.to(sad) | moved.to(sad)
        back = moved.to(calm)

    async with world.host(Catching) as host:
        run = await host.start(Catching)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.send(run, "move")
        assert (await host.read(run)).configuration == ("calm",)


async def test_no_effect_begins_after_a_failed_save(world: World, outside: Outside) -> None:
    """A state that no row says was entered calls nobody; its ledger row is not there either."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.send(run, "pay")
        await settled()
        assert outside.count("charge") == 0
        assert (await host.read(run)).effects == ()
        await host.send(run, "pay")
        await ended(host, run)
    assert outside.keys("charge") == [f"{run}/paying.1"]


async def test_no_child_begins_after_a_failed_save(world: World) -> None:
    """A child of a state that no row says was entered is not made."""
    made: list[str] = []

    class Small(StateChart):
        only = State(initial=True, final=True)

        def on_enter_only(self) -> None:
            made.append("small")

    class Large(StateChart):
        idle = State(initial=True)
        holding = State(invoke=child(Small))
        over = State(final=True)
        go = idle.to(holding)
        done_invoke_holding = holding.to(over)

    async with world.host(Large) as host:
        run = await host.start(Large)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.send(run, "go")
        await settled()
        assert made == []


async def test_no_timer_is_armed_by_a_failed_save(world: World) -> None:
    """A timeout of a state that was not entered never fires."""

    class Timed(StateChart):
        idle = State(initial=True)
        waiting = State(invoke=timeout(5, on="expired"))
        late = State(final=True)
        go = idle.to(waiting)
        expired = waiting.to(late)

    async with world.host(Timed) as host:
        run = await host.start(Timed)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.send(run, "go")
        world.clock.advance(10_000)
        ring(host)
        await settled()
        assert world.configuration(run) == ["idle"]


async def test_work_is_not_stopped_by_a_failed_save(world: World) -> None:
    """A plain call goes on while no row says that its state was left."""
    stopped: list[str] = []
    release = asyncio.Event()

    class Worker:
        async def run(self, ctx: Any) -> str:
            await release.wait()
            return "worked"

        def on_cancel(self) -> None:
            stopped.append("stopped")

    class Working(StateChart):
        working = State(initial=True, invoke=Worker())
        worked = State()
        over = State(final=True)
        stop = working.to(over)
        done_invoke_working = working.to(worked)
        finish = worked.to(over)

    async with world.host(Working) as host:
        run = await host.start(Working)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.send(run, "stop")
        release.set()
        await until(lambda: world.configuration(run) == ["worked"])
    assert stopped == []


async def test_a_locked_file_is_a_typed_error_and_passes(world: World) -> None:
    """Another process holds the write lock for too long: busy, retryable, and then it works."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        with write_lock(world), pytest.raises(StorageBusyError) as caught:
            await host.send(run, "push")
        assert caught.value.retryable
        assert world.configuration(run) == ["shut"]
        await host.send(run, "push")
        assert world.configuration(run) == ["ajar"]


async def test_a_full_file_is_a_typed_error_and_room_heals_it(world: World) -> None:
    """The page limit is reached: the sender is told, and with room the same connection saves."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        connection = host.store.database.connection
        pages = connection.pragma("page_count")
        connection.pragma("max_page_count", pages)
        with pytest.raises(StorageFullError):
            await host.send(run, "note", text="x" * 100_000)
        assert (await host.read(run)).context == {}
        connection.pragma("max_page_count", 1_000_000)
        await host.send(run, "note", text="x" * 100_000)
        assert len((await host.read(run)).context["notes"][0]) == 100_000


async def test_a_failed_save_of_an_outcome_is_tried_again_until_it_works(
    world: World, outside: Outside
) -> None:
    """The outcome arrives on a disk that is broken for a while: several attempts, one event."""
    outside.hold("mail")
    chart = mailer(outside.service("mail"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "again")
        await until(lambda: outside.count("mail") == 1)
        disk = Disk(host)
        disk.fail_always()
        outside.hold("mail").set()
        await until(lambda: disk.writes >= 2, "a second attempt")
        assert world.effects(run) == ["calling"]
        disk.heal()
        await until(lambda: world.configuration(run) == ["idle"])
    assert world.effects(run) == ["done"]


async def test_a_timer_whose_save_fails_fires_once_the_disk_is_well(world: World) -> None:
    """Nobody waits for a timer: it is kept, and fired again, once, by itself."""

    class Timed(StateChart):
        waiting = State(initial=True, invoke=timeout(5, on="expired"))
        late = State()
        over = State(final=True)
        expired = waiting.to(late, on="count")
        finish = late.to(over)

        def count(self) -> None:
            self.model.count = getattr(self.model, "count", 0) + 1

    async with world.host(Timed) as host:
        run = await host.start(Timed)
        disk = Disk(host)
        disk.fail_always()
        world.clock.advance(5_000)
        ring(host)
        await settled()
        assert world.configuration(run) == ["waiting"]
        assert world.status(run) == "live"
        disk.heal()
        await until(lambda: world.configuration(run) == ["late"])
        assert (await host.read(run)).context == {"count": 1}


async def test_a_stalled_run_does_not_hold_the_loop_or_the_others(world: World) -> None:
    """While one run cannot be saved, the host answers, and other runs work."""

    class Timed(StateChart):
        waiting = State(initial=True, invoke=timeout(5, on="expired"))
        late = State()
        over = State(final=True)
        expired = waiting.to(late)
        finish = late.to(over)

        async def on_expired(self) -> None:
            tries.append(1)

    tries: list[int] = []
    async with world.host(Timed, Door) as host:
        run = await host.start(Timed)
        other = await host.start(Door)
        disk = Disk(host)
        disk.fails = lambda _: b"late" in bytes(last[0])
        last: list[Any] = [b""]
        save = host.store.save

        def remember(header: Any, blob: Any, **options: Any) -> Any:
            last[0] = blob
            return save(header, blob, **options)

        host.store.save = remember
        world.clock.advance(5_000)
        ring(host)
        await until(lambda: tries != [])
        for _ in range(5):
            await host.send(other, "push")
            await host.send(other, "pull")
        assert len(tries) < 5
        assert world.configuration(run) == ["waiting"]
        disk.heal()
        await until(lambda: world.configuration(run) == ["late"])


async def test_senders_behind_a_failed_save_are_told_too(world: World) -> None:
    """What no save holds is refused to its sender, and does not happen later unseen."""
    release = asyncio.Event()

    class Slow(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        note = calm.to.itself(internal=True)
        finish = calm.to(over)

        async def on_note(self, text: str) -> str:
            self.model.notes = [*getattr(self.model, "notes", []), text]
            await release.wait()
            return text

    async with world.host(Slow) as host:
        run = await host.start(Slow)
        disk = Disk(host)
        disk.fail_always()
        sent = [asyncio.create_task(host.send(run, "note", text=text)) for text in "ab"]
        await settled()
        late = asyncio.create_task(host.send(run, "note", text="c"))
        await settled()
        release.set()
        answers = await asyncio.wait_for(asyncio.gather(*sent, late, return_exceptions=True), 5)
        assert all(isinstance(answer, StorageError) for answer in answers)
        disk.heal()
        assert await host.send(run, "note", text="d") == "d"
        assert (await host.read(run)).context == {"notes": ["d"]}


async def test_a_cancel_whose_save_fails_leaves_the_run_as_it_was(
    world: World, outside: Outside
) -> None:
    """The caller is told; the call in flight is not in doubt for that, and its outcome counts."""
    outside.hold("charge")
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await until(lambda: outside.count("charge") == 1)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.cancel(run)
        assert (await host.read(run)).effects[0]["status"] == "calling"
        outside.hold("charge").set()
        await ended(host, run)
    assert world.status(run) == "done"


async def test_a_failed_terminal_save_is_undone_whole(world: World, outside: Outside) -> None:
    """The last macrostep is put back: trail, effects and configuration as they were."""
    chart = mailer(outside.service("mail"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "again")
        await at_rest(host, run)
        await host.send(run, "unknown")
        before = world.stored(run).blob
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.send(run, "stop")
        assert resident(host, run).as_stored().blob == before
        await host.send(run, "stop")
    assert [entry[2] for entry in world.blob(run)["trail"]].count("stop") == 1


async def test_a_resolve_whose_save_fails_says_so_and_is_kept(
    world: World, outside: Outside
) -> None:
    """The person is told that it is not on disk yet; it is saved as soon as that is possible."""
    outside.answers("charge", ConnectionResetError("gone"))
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await until(lambda: world.effects(run) == ["unknown"])
        disk = Disk(host)
        disk.fail_always()
        with pytest.raises(StorageReadOnlyError):
            await host.resolve(run, "paying.1", done="it did")
        assert world.effects(run) == ["unknown"]
        disk.heal()
        await ended(host, run)
    assert world.status(run) == "done"
    assert world.blob(run)["root"]["context"]["receipt"] == "it did"


async def test_an_unloaded_run_has_nothing_unsaved(world: World, outside: Outside) -> None:
    """A run with an outcome that is not on disk yet stays in memory."""
    outside.hold("mail")
    chart = mailer(outside.service("mail"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "again")
        await until(lambda: outside.count("mail") == 1)
        disk = Disk(host)
        disk.fail_always()
        outside.hold("mail").set()
        await until(lambda: resident(host, run).trouble is not None)
        assert not await host.unload(run)
        disk.heal()
        await until(lambda: world.configuration(run) == ["idle"])
        await at_rest(host, run)
        assert await host.unload(run)


async def test_a_run_that_somebody_else_wrote_is_let_go(world: World) -> None:
    """A write past the lock: the sender gets the conflict, and the next event the new row."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        stored = world.stored(run)
        with world.opened(read_only=False) as store:
            store.save(stored.header, stored.blob, parked=True)
        with pytest.raises(RevisionConflictError):
            await host.send(run, "withdraw")
        assert await host.answer(run, "review", "approve", note="b") == "approved: b"
    assert world.status(run) == "done"


async def test_a_conflict_is_not_tried_again_for_ever(world: World, outside: Outside) -> None:
    """An outcome for a row that somebody else wrote is dropped with the run in memory."""
    outside.hold("mail")
    chart = mailer(outside.service("mail"))
    async with world.host(chart, Leaf) as host:
        run = await host.start(chart)
        await host.send(run, "again")
        await until(lambda: outside.count("mail") == 1)
        stored = world.stored(run)
        with world.opened(read_only=False) as store:
            store.save(stored.header, stored.blob)
        disk = Disk(host)
        outside.hold("mail").set()
        await until(lambda: run not in host._resident)
        await settled()
        assert disk.writes == 1
        assert "RevisionConflictError" in host.report.unresumed[run]


async def test_the_sweep_of_a_full_disk_stops_nobody(world: World) -> None:
    """Runs are more than their history: a sweep that fails is in the report."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        Disk(host).fail_always()
        await host._sweep_if_possible()
        assert "readonly" in host.report.unswept
        assert host._stopped is None
        assert (await host.read(run)).status == "live"


async def test_an_effect_that_raises_one_of_our_errors_is_judged_like_any_other(
    world: World,
) -> None:
    """A StorageError out of the call is the call's, not the run's."""
    elsewhere = StorageBusyError("look up", "other.db", "wait")

    def charge() -> None:
        raise elsewhere

    chart = checkout(charge, failed_on=StorageError)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await ended(host, run)
    assert world.effects(run) == ["failed"]
