"""What is done to a chart between two macrosteps is saved by itself: its timers."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from statemachine import Event, State, StateChart

from machines import Context, open_run
from machines.errors import HostStoppedError
from snapshots import SnapshotStore, open_storage, open_store
from snapshots.errors import EncodeError, StorageError
from snapshots.storage import OpenTransactionError, Scope
from tests.host.charts import Reminder
from tests.host.world import World, until

MINUTE_MS = 60_000


class Kettle(StateChart):
    """Has an event that is declared with a delay."""

    cold = State(initial=True)
    hot = State(final=True)
    boil = Event(cold.to(hot), delay=MINUTE_MS)


@pytest.fixture
def store(world: World) -> Any:
    """Return an open store on the world's file."""
    with open_store(world.path, clock=world.clock) as opened:
        yield opened


def test_a_delayed_event_is_on_disk_when_send_returns(world: World, store: SnapshotStore) -> None:
    """No macrostep runs for it now; a process that ends here has lost nothing."""
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        chart.send("ring", delay=MINUTE_MS)
        assert world.blob("a")["timers"][0]["due"] == world.clock.now_ms() + MINUTE_MS
        assert world.saves("a") == 2
    world.clock.advance(MINUTE_MS)
    with open_run(store, Reminder, "a", clock=world.clock):
        assert world.status("a") == "done"


def test_so_is_one_that_is_declared_with_a_delay(world: World, store: SnapshotStore) -> None:
    """However it is sent: by name, or as a method of the chart."""
    with open_run(store, Kettle, "a", clock=world.clock) as chart:
        chart.boil()
    world.clock.advance(MINUTE_MS)
    with open_run(store, Kettle, "a", clock=world.clock):
        assert world.status("a") == "done"


def test_a_part_of_a_millisecond_is_waited_for(world: World, store: SnapshotStore) -> None:
    """Times are whole milliseconds: what has any delay comes behind what has none."""
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        for delay in (0.2, 59.1):
            chart.send("note", delay=delay)
        dues = [timer["due"] - world.clock.now_ms() for timer in world.blob("a")["timers"]]
        assert dues == [1, 60]


def test_an_event_that_was_cancelled_between_macrosteps_stays_cancelled(
    world: World, store: SnapshotStore
) -> None:
    """`cancel_event` from outside is on disk when it returns; one of nothing writes nothing."""
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        chart.send("arm", seconds=60)
        chart.cancel_event("alarm")
        assert "timers" not in world.blob("a")
        saves = world.saves("a")
        chart.cancel_event("alarm")
        assert world.saves("a") == saves
    world.clock.advance(MINUTE_MS)
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        assert chart.armed.is_active


def test_a_delayed_event_that_cannot_be_stored_is_refused_and_not_kept(
    world: World, store: SnapshotStore
) -> None:
    """Its sender gets the error with the path; the run goes on without it."""
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        with pytest.raises(EncodeError, match="thing"):
            chart.send("ring", delay=MINUTE_MS, thing=object())
        chart.send("note")
        assert "timers" not in world.blob("a")
        assert world.status("a") == "live"


def test_a_change_of_timers_that_cannot_be_saved_is_taken_back(
    world: World, store: SnapshotStore
) -> None:
    """What was set is gone, and what was cancelled is there, as the row has it."""
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        chart.send("arm", seconds=60)
        stored = world.blob("a")["timers"]
        store.database.connection.pragma("query_only", True)
        with pytest.raises(StorageError):
            chart.cancel_event("alarm")
        with pytest.raises(StorageError):
            chart.send("ring", delay=1)
        store.database.connection.pragma("query_only", False)
        chart.send("note")
        assert world.blob("a")["timers"] == stored


def test_behind_its_block_a_chart_sets_no_timer(world: World, store: SnapshotStore) -> None:
    """It is refused as every event is, and nothing is written."""
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        pass
    with pytest.raises(HostStoppedError):
        chart.send("ring", delay=MINUTE_MS)
    assert world.saves("a") == 1


async def test_work_that_cancels_an_event_of_its_chart_has_that_saved(world: World) -> None:
    """In a host too: a process that ends before the next macrostep does not bring it back."""
    goes_on = asyncio.Event()

    async def work(ctx: Context, machine: Any) -> None:
        await goes_on.wait()
        machine.cancel_event("alarm")
        await machine.send("ring", delay=2 * MINUTE_MS)
        await asyncio.Event().wait()

    class Working(StateChart):
        working = State(initial=True, invoke=work)
        over = State(final=True)
        ring = working.to(over)

        def on_enter_working(self) -> None:
            self.send("ring", delay=MINUTE_MS, send_id="alarm")

    async with world.host(Working) as host:
        run = await host.start(Working)
        due_ms = world.stored(run).header.due_ms
        goes_on.set()
        await until(lambda: world.stored(run).header.due_ms == due_ms + MINUTE_MS)
        assert len(world.blob(run)["timers"]) == 1


async def test_work_in_a_thread_that_cancels_an_event_leaves_its_chart_to_the_loop(
    world: World,
) -> None:
    """The loop drops the event and saves the run, again where the file did not take it at once."""
    goes_on = threading.Event()

    def work(ctx: Context, machine: Any) -> None:
        goes_on.wait()
        machine.cancel_event("alarm")
        ctx.cancelled.wait()

    class Working(StateChart):
        working = State(initial=True, invoke=work)
        over = State(final=True)
        ring = working.to(over)

        def on_enter_working(self) -> None:
            self.send("ring", delay=MINUTE_MS, send_id="alarm")

    saving: set[int] = set()
    stalled: list[Any] = []
    host = world.host(Working)
    host.subscribe(stalled.append, kinds="run.stalled")
    async with host:
        host.store.database.trace_statements(lambda *_: saving.add(threading.get_ident()))
        run = await host.start(Working)
        host.store.database.connection.pragma("query_only", True)
        goes_on.set()
        await until(lambda: stalled)
        assert "timers" in world.blob(run)
        host.store.database.connection.pragma("query_only", False)
        await until(lambda: "timers" not in world.blob(run))
        assert saving == {threading.get_ident()}
        assert host.is_live(run)


def test_inside_a_storages_transaction_a_chart_sets_no_timer(
    world: World, store: SnapshotStore
) -> None:
    """It would go back with the block, or be kept by whoever ends that; and nothing has failed."""
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        storage, scope = open_storage(store, clock=world.clock), Scope(workflow="beside")
        with storage.transaction(scope):
            storage.keyed.put(scope, "key", b"1")
            with pytest.raises(OpenTransactionError, match="'a'"):
                chart.send("ring", delay=MINUTE_MS)
        assert storage.keyed.exists(scope, "key")
        assert "timers" not in world.blob("a")
        chart.send("ring", delay=MINUTE_MS)
        assert len(world.blob("a")["timers"]) == 1
