"""Carry state in runs: loads, saves and clears are effects, and what came of them stays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest
from statemachine import State, StateChart

from machines import Context, Machine, gate, open_run
from machines.carry import Carry, storage_effect
from machines.errors import DefinitionError
from machines.state import run_of, scope_of, state_of, storage_of
from snapshots import (
    RevisionConflictError,
    StateContractMismatchError,
    StorageBusyError,
    StorageFullError,
    open_store,
)
from snapshots.opening import open_storage
from snapshots.storage import Backend, Scope
from snapshots.storage.carry import Carried, CarryState
from snapshots.storage.contracts import Contract
from tests.host.lives import ROOT
from tests.host.world import World, at_rest, ended, until

KEY = "crawl"


@dataclass
class Cursor:
    """What is carried."""

    at: int
    region: str = "eu"


CURSOR = Carry(
    Contract("cursor", 2, validate=Cursor, migrations={1: lambda value: {**value, "region": "us"}})
)
SCOPE = Scope(workflow="Crawl")


def next_cursor(model: Any) -> Cursor:
    """Return what the next run finds."""
    return Cursor(at=model.found.value.at + 1 if model.found else 1)


def revision(model: Any) -> int:
    """Return what was found, 0 for nothing."""
    return model.found.revision if model.found else 0


class Crawl(StateChart):
    """Loads, waits, saves."""

    loading = State(initial=True, invoke=CURSOR.load(KEY))
    working = State(invoke=gate("go"))
    saving = State(invoke=CURSOR.save(KEY, next_cursor, expected_revision=revision))
    saved = State(final=True)
    broken = State(final=True)

    done_invoke_loading = loading.to(working, on="keep")
    go = working.to(saving)
    done_invoke_saving = saving.to(saved, on="note")
    error_execution = loading.to(broken, on="keep_error") | saving.to(broken, on="keep_error")

    def keep(self, data: Carried | None) -> None:
        self.model.found = data

    def note(self, data: int) -> None:
        self.model.revision = data

    def keep_error(self, error: Exception) -> None:
        self.model.error = error


CRAWL = Machine(Crawl, types=[StateContractMismatchError, RevisionConflictError])


def carry(backend: Backend, version: int = 2) -> CarryState:
    """Return what the chart carries, from outside, under its contract or an older one."""
    contract = CURSOR.contract if version == 2 else Contract("cursor", version)
    return CarryState(backend.carry, SCOPE, contract=contract)


def in_file(world: World, act: Callable[[Backend], Any]) -> Any:
    """Do something with the storage in a world's file, through a connection of its own."""
    with open_storage(world.path, clock=world.clock) as backend:
        return act(backend)


async def test_what_was_loaded_reaches_the_chart(world: World) -> None:
    """As data of `done.invoke`: its value, its revision, and which way it was migrated."""
    in_file(world, lambda b: carry(b, 1).save(KEY, {"at": 7}, expected_revision=0))
    async with world.host(CRAWL) as host:
        run = await host.start(Crawl)
        await at_rest(host, run)
        assert host._resident[run].tree.root.chart.model.found == Carried(  # type: ignore[union-attr]  # it has one
            value=Cursor(7, "us"), revision=1, migrated=(1, 2)
        )
        await host.answer(run, "working", "go")
        await ended(host, run)
        assert (await host.read(run)).context["revision"] == 2
        assert carry(host.storage).load(KEY) == Carried(value=Cursor(8), revision=2)


async def test_nothing_that_was_never_saved_is_loaded_as_none(world: World) -> None:
    """The first run finds nothing, and creates; its effects are named by the contract."""
    async with world.host(CRAWL) as host:
        run = await host.start(Crawl)
        await at_rest(host, run)
        await host.answer(run, "working", "go")
        await ended(host, run)
        view = await host.read(run)
        assert (view.context["found"], view.context["revision"]) == (None, 1)
        assert [row["kind"] for row in view.effects] == ["cursor.load", "cursor.save"]


def trace(statements: list[str], connection: apsw.Connection) -> None:
    """Note each statement that a connection which was just opened runs."""

    def note(_cursor: object, sql: str, _bindings: object) -> bool:
        statements.append(sql)
        return True

    connection.exec_trace = note


async def test_a_restart_never_reads_the_store_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run has what it loaded, in its chart and, before its chart took it, in its queue."""
    in_file(world, lambda b: carry(b).save(KEY, Cursor(7), expected_revision=0))
    copies: list[World] = []
    async with world.host(CRAWL) as host:
        saved = host.saved

        def keep(run: Any) -> None:
            saved(run)
            if run.ledgers.effects.outstanding or "tail" in str(world.blob(run.run_id)["effects"]):
                copies.append(world.after_kill())

        run = await host.start(Crawl)
        host.saved = keep  # type: ignore[method-assign]  # each moment from here on is kept
        await at_rest(host, run)
        copies.append(world.after_kill())
    loads = 0
    for copy in copies:
        in_file(copy, lambda b: carry(b).clear(KEY))
        was_done = copy.effects(run) == ["done"]
        statements: list[str] = []
        # From the opening on: the load may begin while the boot still reads rows.
        traced = partial(trace, statements)
        monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, traced])
        async with copy.host(CRAWL) as host:
            await at_rest(host, run)
            found = host.live(run).tree.root.chart.model.found  # type: ignore[union-attr]  # it has one
            reads = [sql for sql in statements if "from carry" in sql]
            assert bool(reads) is not was_done
            assert found == (Carried(value=Cursor(7), revision=1) if was_done else None)
            loads += was_done
    assert 1 < loads < len(copies), "the load was seen before it came, in the queue, and taken"


KILLED_BETWEEN = """
import asyncio, os, signal, sys
from machines import Host
from tests.host.test_carry import CRAWL, Crawl

async def main():
    async with Host(sys.argv[1], [CRAWL], verify=True) as host:
        run = await host.start(Crawl, run_id="a")
        await host.settled(run)
        save = host.storage.carry.save
        def saved_and_killed(*args, **options):
            save(*args, **options)
            os.kill(os.getpid(), signal.SIGKILL)
        host.storage.carry.save = saved_and_killed
        await host.answer(run, "working", "go")
        await host.settled(run)

asyncio.run(main())
"""


def be_killed(world: World) -> None:
    """Live in a process of its own until that is killed."""
    command = [sys.executable, "-c", KILLED_BETWEEN, str(world.path)]
    assert subprocess.run(command, cwd=ROOT, check=False, timeout=20).returncode < 0


async def test_a_save_whose_outcome_a_kill_hid_is_adopted(world: World) -> None:
    """Written, killed, done again: the run goes on with the revision of its own write."""
    in_file(world, lambda b: carry(b).save(KEY, Cursor(7), expected_revision=0))
    be_killed(world)
    assert in_file(world, lambda b: carry(b).load(KEY)) == Carried(value=Cursor(8), revision=2)
    assert world.effects("a") == ["done", "calling"]
    async with world.host(CRAWL) as host:
        await ended(host, "a")
        view = await host.read("a")
        assert (view.status, view.context["revision"]) == ("done", 2)
        assert carry(host.storage).load(KEY) == Carried(value=Cursor(8), revision=2)


async def test_another_writer_is_told_of_loudly(world: World) -> None:
    """A save over what another run has saved meanwhile fails with both revisions."""
    async with world.host(CRAWL) as host:
        run = await host.start(Crawl)
        await at_rest(host, run)
        carry(host.storage).save(KEY, Cursor(99), expected_revision=0)
        await host.answer(run, "working", "go")
        await ended(host, run)
        error = (await host.read(run)).context["error"]
        assert "expected revision 0" in str(error)
        assert carry(host.storage).load(KEY) == Carried(value=Cursor(99), revision=1)


@pytest.mark.parametrize(
    ("version", "value", "reason"),
    [(3, {"at": 1}, "future-version"), (1, ["at"], "migration-failed")],
)
async def test_a_contract_that_is_not_met_stops_the_run(
    world: World, version: int, value: Any, reason: str
) -> None:
    """The chart is told why, at once: nothing is tried again, and nothing goes on unchecked."""
    in_file(world, lambda b: carry(b, version).save(KEY, value, expected_revision=0))
    async with world.host(CRAWL) as host:
        run = await host.start(Crawl)
        await ended(host, run)
        view = await host.read(run)
        assert view.configuration == ("broken",)
        assert reason in str(view.context["error"])
        assert view.effects[0]["attempt"] == 1


async def test_an_id_of_ones_own_names_the_effect(world: World) -> None:
    """Per call: the ledger has it, and the key may be a function of the run."""

    class Named(StateChart):
        loading = State(
            initial=True, invoke=CURSOR.load(lambda model: f"crawl-{model.site}", id="site.load")
        )
        clearing = State(invoke=CURSOR.clear(KEY, id="site.clear"))
        over = State(final=True)
        done_invoke_loading = loading.to(clearing, on="keep")
        done_invoke_clearing = clearing.to(over)

        def keep(self, data: Carried | None) -> None:
            self.model.found = data

    scope = Scope(workflow="Named")

    def prepare(backend: Backend) -> None:
        state = CarryState(backend.carry, scope, contract=CURSOR.contract)
        state.save("crawl-7", Cursor(7), expected_revision=0)
        state.save(KEY, Cursor(1), expected_revision=0)

    in_file(world, prepare)
    async with world.host(Named) as host:
        run = await host.start(Named, {"site": 7})
        await ended(host, run)
        view = await host.read(run)
        assert [row["kind"] for row in view.effects] == ["site.load", "site.clear"]
        assert view.context["found"] == Carried(value=Cursor(7), revision=1)
        assert host.storage.carry.load(scope, KEY) is None


def test_a_storage_that_cannot_be_reached_is_asked_again(tmp_path: Path) -> None:
    """Only that: a full disk, a broken contract and another's revision are told at once."""
    spec = CURSOR.load(KEY)
    place = str(tmp_path)
    assert spec.judge(StorageBusyError("load", place, "wait"), 1) == "retry"
    assert spec.judge(StorageBusyError("load", place, "wait"), spec.retries + 1) == "failed"
    assert spec.judge(StorageFullError("load", place, "make room"), 1) == "failed"
    assert spec.judge(RevisionConflictError(KEY, 1, 2), 1) == "failed"


def test_a_run_without_a_host_carries_state_too(tmp_path: Path) -> None:
    """In the runs' own file, without a loop."""
    with open_store(tmp_path / "state.db") as store:
        for number in (1, 2):
            with open_run(store, CRAWL, f"r{number}") as chart:
                chart.send("go")
                assert chart.model.revision == number
        with open_storage(store) as backend:
            assert carry(backend).load(KEY) == Carried(value=Cursor(2), revision=2)


async def test_a_hosts_own_storage_is_used_where_it_has_one(world: World) -> None:
    """Nothing of it is in the file of the runs then; its caller closes it."""
    with open_storage("memory:", clock=world.clock) as memory:
        async with world.host(CRAWL, storage=memory) as host:
            run = await host.start(Crawl)
            await at_rest(host, run)
            await host.answer(run, "working", "go")
            await ended(host, run)
        assert carry(memory).load(KEY) == Carried(value=Cursor(1), revision=1)
        assert in_file(world, lambda b: carry(b).load(KEY)) is None


async def test_callbacks_and_coroutines_reach_the_state_of_their_workflow(world: World) -> None:
    """With the classes that the machine knows; work in a thread is told to be a coroutine."""
    seen: list[Any] = []

    async def note(ctx: Context) -> None:
        state_of(ctx.machine).put("from work", Cursor(2))

    def in_a_thread(ctx: Context) -> None:
        storage_of(ctx.machine)

    class Notes(StateChart):
        noting = State(initial=True, invoke=note)
        failing = State(invoke=in_a_thread)
        using = State(
            invoke=storage_effect(
                lambda ctx: state_of(ctx.machine).get("from work"), kind="state.get"
            )
        )
        over = State(final=True)
        done_invoke_noting = noting.to(failing)
        error_execution = failing.to(using, on="keep_error")
        done_invoke_using = using.to(over, on="keep")

        def on_enter_noting(self) -> None:
            assert scope_of(self) == Scope(workflow="notes")
            state_of(self).put("from callback", 1)

        def keep_error(self, error: Exception) -> None:
            seen.append(error)

        def keep(self, data: Any) -> None:
            seen.append(data)

    async with world.host(Machine(Notes, name="notes", types=[Cursor])) as host:
        run = await host.start(Notes)
        await ended(host, run)
        error, value = seen
        assert type(error) is DefinitionError
        assert "coroutine" in str(error)
        assert value == Cursor(2)
        codec = host.machines["notes"].codec
        found = host.storage.keyed.list(Scope(workflow="notes"))
        assert [(one.key, codec.decode(one.value)) for one in found] == [
            ("from callback", 1),
            ("from work", Cursor(2)),
        ]


def test_a_chart_of_no_run_has_no_storage() -> None:
    """It is told to be run by something that keeps it."""

    class Alone(StateChart):
        only = State(initial=True)
        again = only.to.itself()

    with pytest.raises(DefinitionError, match="no storage"):
        run_of(Alone())


async def test_what_has_expired_is_swept_with_the_runs(world: World) -> None:
    """The host's sweep deletes expired keys of its storage."""
    async with world.host(CRAWL) as host:
        await until(lambda: not host.report.unswept)
        for number in range(120):
            host.storage.keyed.put(SCOPE, f"k{number}", b"1", ttl_ms=1_000)
        world.clock.advance(1_000)
        await host.sweep()
        rows = host.store.database.rows("count", "select count(*) from keyed")
        assert rows == [(0,)]
