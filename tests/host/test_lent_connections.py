"""Runs beside a storage's transaction on their file: none of them goes back with it unawares."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Context, Machine, ledgers_of, open_run
from machines.errors import RunFinishedError
from machines.state import state_of
from snapshots import SqliteSnapshotStore, open_storage, open_store
from snapshots.storage import Backend, OpenTransactionError, Scope
from snapshots.testing.suite.acting import refused
from tests.host.charts import Door
from tests.host.world import World, at_rest, ended, until

SCOPE = Scope(workflow="beside")


class StrayError(Exception):
    """What a block raises after what it has done."""


class Noting(StateChart):
    """Changes a ledger inside a transaction of the storage, when it is told to."""

    catch_errors_as_events = False

    waiting = State(initial=True)
    noted = State()
    over = State(final=True)
    note = waiting.to(noted, on="note_inside")
    go_on = waiting.to(noted) | noted.to.itself()
    finish = noted.to(over) | waiting.to(over)

    def note_inside(self) -> None:
        with state_of(self).transaction():
            state_of(self).put("key", 1)
            ledgers_of(self).epochs.bump("chat")
            raise StrayError


async def test_a_ledger_is_not_changed_inside_a_storages_transaction(world: World) -> None:
    """The sender is told so, nothing of the block is left, and the run goes on."""
    async with world.host(Machine(Noting, name="Noting")) as host:
        run = await host.start("Noting")
        before = world.stored(run)
        with pytest.raises(OpenTransactionError) as caught:
            await host.send(run, "note")
        assert caught.value.run_id == run
        assert world.stored(run) == before
        assert not host.report.unresumed
        await host.send(run, "go_on")
        await host.send(run, "finish")
        assert world.status(run) == "done"
    assert "epochs" not in world.blob(run)


async def test_where_nobody_waits_such_a_mistake_ends_the_run(world: World) -> None:
    """It is the chart's own, and would be made again: it is no failed save."""

    class Late(StateChart):
        catch_errors_as_events = False

        waiting = State(initial=True, invoke=lambda: None)
        noted = State(final=True)
        done_invoke_waiting = waiting.to(noted, on="note_inside")

        def note_inside(self) -> None:
            with state_of(self).transaction():
                ledgers_of(self).epochs.bump("chat")

    async with world.host(Machine(Late, name="Late")) as host:
        run = await host.start("Late")
        await until(lambda: world.status(run) != "live")
        assert world.status(run) == "error"
        with pytest.raises(RunFinishedError):
            await host.send(run, "anything")


async def test_work_changes_its_ledger_behind_the_block(world: World) -> None:
    """Inside it is refused before anything is written; behind it the change is on disk."""
    seen: list[Any] = []

    async def work(ctx: Context) -> None:
        state = state_of(ctx.machine)
        try:
            with state.transaction():
                state.put("key", 1)
                ctx.epochs.bump("chat")
        except OpenTransactionError as error:
            seen.append(type(error))
        seen.append(state.get("key"))
        ctx.epochs.bump("chat")
        seen.append(world.blob(ctx.run_id or "")["epochs"])

    class Works(StateChart):
        doing = State(initial=True, invoke=work)
        did = State(final=True)
        done_invoke_doing = doing.to(did)

    async with world.host(Machine(Works, name="Works")) as host:
        run = await host.start("Works")
        await ended(host, run)
    assert seen == [OpenTransactionError, None, {"chat": 1}]


async def test_runs_of_others_wait_until_the_block_is_over(world: World) -> None:
    """Whoever awaits inside a block delays them; they lose nothing when it is taken back."""
    async with world.host(Machine(Noting, name="Noting")) as host:
        run = await host.start("Noting")
        storage = open_storage(host.store, clock=world.clock)
        with taken_back(storage):
            with pytest.raises(OpenTransactionError):
                await host.send(run, "go_on")
            with pytest.raises(OpenTransactionError):
                await host.start("Noting")
        assert world.configuration(run) == ["waiting"]
        await asyncio.sleep(0)
        await host.send(run, "go_on")
        await at_rest(host, run)
        assert world.configuration(run) == ["noted"]
        assert not host.report.unresumed


@contextmanager
def taken_back(storage: Backend) -> Iterator[None]:
    """Have a block in a transaction of the storage that comes to nothing in the end."""
    with refused("StrayError"), storage.transaction(SCOPE):
        yield
        raise StrayError


def opened(world: World) -> SqliteSnapshotStore:
    """Return an open store on the world's file."""
    return open_store(world.path, clock=world.clock)


def test_an_open_run_is_not_sent_to_inside_a_block(world: World) -> None:
    """It is at its last save, and goes on behind the block, whether that was kept or not."""
    with opened(world) as store, open_run(store, Door, "a", clock=world.clock) as door:
        storage = open_storage(store, clock=world.clock)
        with taken_back(storage):
            with pytest.raises(OpenTransactionError):
                door.send("push", by="me")
            assert door.current_state_value == "shut"
        with refused("OpenTransactionError"), storage.transaction(SCOPE):
            storage.keyed.put(SCOPE, "key", b"1")
            door.send("push", by="me")
        assert not storage.keyed.exists(SCOPE, "key")
        assert door.send("push", by="me") == "pushed by me"
        assert world.configuration("a") == ["ajar"]


def test_a_keyed_write_and_the_first_save_of_an_open_run_are_one_transaction(world: World) -> None:
    """In a block of the storage's, too: both are there, or neither."""
    with opened(world) as store:
        storage = open_storage(store, clock=world.clock)
        with taken_back(storage):
            storage.keyed.put(SCOPE, "key", b"1")
            with open_run(store, Door, "a", clock=world.clock) as door:
                assert door.current_state_value == "shut"
        assert not storage.keyed.exists(SCOPE, "key")
        with storage.transaction(SCOPE):
            storage.keyed.put(SCOPE, "key", b"1")
            with open_run(store, Door, "a", clock=world.clock) as door:
                assert door.current_state_value == "shut"
        assert storage.keyed.exists(SCOPE, "key")
    assert world.configuration("a") == ["shut"]


def test_no_run_is_opened_inside_a_transaction_of_its_store(world: World) -> None:
    """Its calls would leave before the row that says so is on disk; behind the block it opens."""
    with open_store(world.path, clock=world.clock) as store:
        with (
            store.transaction(),
            pytest.raises(OpenTransactionError) as caught,
            open_run(store, Door, "door", clock=world.clock),
        ):
            raise AssertionError
        assert caught.value.run_id == "door"
        assert not store.headers()
        with open_run(store, Door, "door", clock=world.clock):
            assert store.load("door").header.status == "live"
