"""Runs that only wait leave memory when too many are built, and come back as if they had not."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Host, HostOptionError, Machine
from machines.host.passing import Passing
from machines.limits import RESIDENT_RUNS_MAX
from snapshots.errors import DecodeError, StorageError
from snapshots.storage import Scope
from snapshots.storage.approvals import Approvals
from snapshots.storage.state import StateStore
from tests.host.charts import Door, Review, checkout, waiter
from tests.host.letterbox import Letterbox
from tests.host.test_approvals import KEY, TICKET, asked
from tests.host.world import Disk, World, resident, ring, settled, until


def built(host: Host) -> int:
    """Return how many runs a host keeps built."""
    return len(host._resident)


async def left(host: Host, run_id: str) -> None:
    """Wait until a run has left memory, and nothing holds what it was built of."""
    await until(lambda: run_id not in host._resident, f"the leaving of {run_id!r}")
    gc.collect()
    assert run_id in host.waiting
    assert run_id not in host._passing._out, "something holds the run that was passed out"


async def crowd(host: Host, *charts: Any) -> list[str]:
    """Start a run of each chart, one after the other."""
    return [await host.start(chart) for chart in charts]


@contextmanager
def unreadable(host: Host) -> Iterator[None]:
    """Have SQLite itself refuse every read of a host's file."""
    connection: Any = host.store.database  # type: ignore[attr-defined]  # the store on SQLite
    connection.connection.set_progress_handler(lambda: True, 1)
    try:
        yield
    finally:
        connection.connection.set_progress_handler(None)


async def test_the_run_that_was_used_longest_ago_leaves(world: World) -> None:
    """Three runs and room for two: the one that was sent to since it began stays."""
    async with world.host(Door, resident_max=2) as host:
        first, second = await crowd(host, Door, Door)
        await host.send(first, "push")
        third = await host.start(Door)
        await left(host, second)
        assert list(host._resident) == [first, third]
        await host.send(second, "push", by="ann")
        await left(host, first)
        assert (await host.read(second)).context == {"by": "ann", "pushes": 1}
        assert (await host.read(first)).context["pushes"] == 1


async def test_a_hundred_runs_live_in_the_room_of_five(world: World) -> None:
    """Every event finds its run; what is built stays bounded all the while."""
    async with world.host(Door, resident_max=5) as host:
        runs = await crowd(host, *[Door] * 100)
        for _ in range(2):
            for run in runs:
                await host.send(run, "push")
                await host.send(run, "pull")
        await until(lambda: built(host) <= 5)
        gc.collect()
        assert len(list(host._passing.every())) <= 5
        pushes = [(await host.read(run)).context["pushes"] for run in runs]
    assert pushes == [2] * 100
    async with world.host(Door) as host:
        assert sorted(host.report.resumed) == sorted(runs)


async def test_a_run_that_does_something_stays(world: World) -> None:
    """An effect that is under way, or in doubt, keeps its run; once that is over it leaves."""
    release = world.outside.hold("charge")
    paying = checkout(world.outside.service("charge"))
    async with world.host(Door, paying, resident_max=1) as host:
        (run,) = await crowd(host, paying)
        await host.send(run, "pay")
        others = await crowd(host, Door, Door)
        await until(lambda: built(host) == 1)
        assert list(host._resident) == [run]
        release.set()
        await until(lambda: world.status(run) == "done")
        assert set(others) == host.waiting
    assert world.outside.count("charge") == 1


async def test_a_send_right_at_passing_out_is_run_once(world: World) -> None:
    """Sent in the very turn of the loop in which its run leaves: before, behind, and at once."""
    async with world.host(Door, resident_max=1) as host:
        first, second = await crowd(host, Door, Door)
        for number in range(30):
            one, other = (first, second) if number % 2 else (second, first)
            event = "push" if number % 4 < 2 else "pull"
            sent = [asyncio.ensure_future(host.send(run, event)) for run in (one, other)]
            for _ in range(number % 5):
                await asyncio.sleep(0)
            await asyncio.gather(*sent)
        await until(lambda: built(host) == 1)
        gc.collect()
        pushes = [(await host.read(run)).context["pushes"] for run in (first, second)]
    assert pushes == [8, 8]
    assert [world.saves(run) for run in (first, second)] == [31, 31]


async def test_what_enters_through_a_chart_that_somebody_has_kept_is_not_lost(world: World) -> None:
    """A callback kept its chart, and sends long after its run was passed out."""
    kept: list[Any] = []

    class Keeping(Door):
        def on_push(self, by: str = "nobody") -> str:
            kept.append(self)
            return super().on_push(by)

    async with world.host(Keeping, Door, resident_max=1) as host:
        run = await host.start(Keeping)
        await host.send(run, "push")
        await host.start(Door)
        await until(lambda: run in host.waiting)
        gc.collect()
        kept[0].send("pull")
        assert run in host._resident
        assert run not in host.waiting
        assert world.configuration(run) == ["shut"]
        await host.send(run, "push")
        assert kept[0] is kept[1]
    assert world.saves(run) == 4


async def test_ledgers_that_somebody_has_kept_still_write(world: World) -> None:
    """A caller holds the books of a run that left memory: its note is on disk, and the run back."""
    async with world.host(Door, resident_max=1) as host:
        run = await host.start(Door)
        books = await host.ledgers(run)
        await host.start(Door)
        await until(lambda: run in host.waiting)
        gc.collect()
        books.epochs.bump("talk")
        assert run in host._resident
        await host.send(run, "push")
    assert world.blob(run)["epochs"] == {"talk": 1}
    assert world.configuration(run) == ["ajar"]


async def test_a_timer_of_a_run_that_left_fires_once_in_its_time(world: World) -> None:
    """It stays armed with no chart there; the clock brings the run back."""
    chart = waiter(60)
    async with world.host(chart, Door, resident_max=1) as host:
        run = await host.start(chart)
        await host.start(Door)
        await left(host, run)
        world.clock.advance(59_999)
        ring(host)
        await settled()
        assert run not in host._resident
        world.clock.advance(1)
        ring(host)
        await settled()
        saves = world.saves(run)
        assert saves == 2
        world.clock.advance(600_000)
        ring(host)
        await settled()
        assert world.saves(run) == saves


async def test_a_timer_that_fires_while_its_row_cannot_be_read_fires_later(world: World) -> None:
    """The read is refused by SQLite: reported, and tried again; nothing is lost by then."""
    chart = waiter(60)
    async with world.host(chart, Door, resident_max=1) as host:
        run = await host.start(chart)
        await host.start(Door)
        await left(host, run)
        world.clock.advance(60_000)
        with unreadable(host):
            ring(host)
        assert run in host.report.unresumed
        assert world.saves(run) == 1
        world.clock.advance(60_000)
        ring(host)
        await settled()
        assert world.saves(run) == 2
        assert run not in host.report.unresumed


async def test_a_sender_is_told_that_its_run_cannot_be_read(world: World) -> None:
    """A typed error, and the run in the report; the same event is run once the file can be read."""
    async with world.host(Door, resident_max=1) as host:
        run, _ = await crowd(host, Door, Door)
        await left(host, run)
        with unreadable(host), pytest.raises(StorageError):
            await host.send(run, "push")
        assert run in host.report.unresumed
        assert run in host.waiting
        assert await host.send(run, "push") == "pushed by nobody"
        assert run not in host.report.unresumed
    assert world.saves(run) == 2


async def test_a_row_that_was_damaged_meanwhile_is_reported_and_kept(world: World) -> None:
    """Its sender gets the decoding's error; mended, the run goes on where it was."""
    async with world.host(Door, resident_max=1) as host:
        run, _ = await crowd(host, Door, Door)
        await left(host, run)
        blob = world.stored(run).blob
        world.overwrite(run, blob[:40])
        with pytest.raises(DecodeError):
            await host.send(run, "push")
        assert run in host.report.unresumed
        world.overwrite(run, blob)
        assert await host.send(run, "push", by="ann") == "pushed by ann"
        assert run not in host.report.unresumed
    assert world.saves(run) == 2


async def test_a_sender_that_never_lets_the_loop_go_on_is_bounded_too(world: World) -> None:
    """A synchronous chart answers at once: each run that is built makes room for itself."""
    async with world.host(Door) as host:
        runs = await crowd(host, *[Door] * 30)
    async with world.host(Door, resident_max=3) as host:
        for run in runs:
            await host.send(run, "push")
            assert built(host) <= 3
    assert {world.configuration(run)[0] for run in runs} == {"ajar"}


async def test_a_timer_that_a_restart_moves_keeps_its_run(world: World) -> None:
    """Its row alone does not say when it is due; a run with a deadline leaves beside it."""
    moved, kept = waiter(60, resume="remaining"), waiter(60)
    async with world.host(Machine(moved, name="moved"), kept, resident_max=1) as host:
        run, other = await crowd(host, "moved", "Waiter")
        await until(lambda: built(host) == 1)
        assert list(host._resident) == [run]
        assert host.waiting == {other}


async def test_a_macrostep_that_awaits_keeps_its_run(world: World) -> None:
    """A callback is under way: its run is none that waits, and its sender is answered once."""
    begun, release = asyncio.Event(), asyncio.Event()

    class Slow(StateChart[Any]):
        idle = State(initial=True)
        work = idle.to.itself()

        async def on_work(self) -> str:
            begun.set()
            await release.wait()
            return "worked"

    async with world.host(Slow, Door, resident_max=1) as host:
        run = await host.start(Slow)
        sent = asyncio.ensure_future(host.send(run, "work"))
        await begun.wait()
        others = await crowd(host, Door, Door)
        await until(lambda: built(host) == 1)
        assert list(host._resident) == [run]
        release.set()
        assert await sent == "worked"
        await host.send(others[0], "push")
        await until(lambda: list(host._resident) == [others[0]])
    assert world.saves(run) == 2


async def test_a_run_whose_save_failed_stays_until_it_is_saved(world: World) -> None:
    """What is not on disk cannot leave memory."""
    charge = world.outside.service("charge")
    world.outside.hold("charge")
    paying = checkout(charge)
    async with world.host(Door, paying, resident_max=1) as host:
        run = await host.start(paying)
        await host.send(run, "pay")
        disk = Disk(host)
        disk.fail_always()
        world.outside.hold("charge").set()
        await until(lambda: resident(host, run).trouble is not None)
        disk.heal()
        await host.start(Door)
        await until(lambda: world.status(run) == "done")
    assert world.outside.count("charge") == 1


async def test_gates_decisions_and_cancels_find_a_run_that_left(world: World) -> None:
    """Whatever is asked of it builds it again: its gates, an answer, its end."""
    async with world.host(Review, resident_max=1) as host:
        runs = await crowd(host, Review, Review, Review)
        for run in runs:
            await host.send(run, "submit")
        await left(host, runs[0])
        (gate,) = await host.gates(runs[0])
        assert gate.key == "review"
        await left(host, runs[1])
        assert await host.answer(runs[1], "review", "approve", note="fine") == "approved: fine"
        await host.cancel(runs[2], "enough")
        assert await host.unload(runs[0])
        assert await host.answer(runs[0], "review", "reject") is None
    assert [world.status(run) for run in runs] == ["done", "done", "cancelled"]


async def test_mail_finds_a_run_that_left_and_is_settled_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Handed in for runs that are not built, more than there is room for: each once, in order."""
    monkeypatch.setattr("machines.host.mail.MAIL_POLL_MS", 1)
    async with world.host(Door, resident_max=1) as host:
        runs = await crowd(host, *[Door] * 6)
        await until(lambda: built(host) == 1)
        with Letterbox(world) as box:
            entries = [box.send(run, event) for event in ("push", "pull", "push") for run in runs]
            await until(lambda: all(box.outcome(entry) == "taken" for entry in entries))
        await until(lambda: built(host) == 1)
    assert {world.configuration(run)[0] for run in runs} == {"ajar"}
    assert [world.saves(run) for run in runs] == [4] * 6


async def test_a_decision_by_key_finds_a_run_that_left(world: World) -> None:
    """Its approval was announced and stays open while no chart of it is built."""
    scope = Scope(workflow="tickets")
    async with world.host(TICKET, Door, approvals=scope, resident_max=1) as host:
        run = await asked(host)
        await host.start(Door)
        await left(host, run)
        approvals = host.approvals
        assert isinstance(approvals, Approvals)
        assert isinstance(approvals.state, StateStore)
        await until(lambda: approvals.find(KEY) is not None)
        approvals.decide(KEY, "approve", by="ann")
        await until(lambda: world.status(run) == "done")
        assert (await host.read(run)).context["decisions"] == ["ann"]


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "10", None, True])
def test_a_bound_that_cannot_be_is_refused(world: World, wrong: Any) -> None:
    """The error names the option, its value and what is expected; nothing was opened."""
    with pytest.raises(HostOptionError) as caught:
        world.host(Door, resident_max=wrong)
    assert caught.value.fields["option"] == "resident_max"
    assert caught.value.fields["value"] == wrong
    assert repr(wrong) in str(caught.value)
    assert not world.path.exists()


def test_there_is_a_bound_without_being_asked(world: World) -> None:
    """A host that is told nothing still keeps no more than so many runs built."""
    assert world.host(Door)._passing.runs_max == RESIDENT_RUNS_MAX


class Later:
    """A loop that calls what is due when it is told to."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], object]]] = []

    def __call__(self, seconds: float, function: Callable[[], object]) -> None:
        self.due.append((seconds, function))


def test_a_host_whose_runs_are_all_busy_looks_again_after_a_while(world: World) -> None:
    """A look is bounded, and does not spin: it is due once, and later if nothing could leave."""
    later, waiting = Later(), set[str]()
    passing = Passing(waiting, lambda _: False, later)
    passing.runs_max = 1
    for run in (_run(world, name) for name in ("a", "b", "c")):
        passing.keep(run)
    for _ in range(3):
        assert [seconds > 0 for seconds, _ in later.due] == [True]
        later.due.pop()[1]()
    assert set(passing.resident) == {"a", "b", "c"}
    assert waiting == set()


def _run(world: World, run_id: str) -> Any:
    host: Any = world.host(Door)
    host.store = None
    return host._made(host.machines["Door"], run_id, {})
