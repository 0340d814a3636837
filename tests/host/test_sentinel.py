"""Sentinels: what wakes carry on, and that one wake of a schedule is live at a time."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Host, Machine, gate
from machines.sentinel import sentinel_state
from snapshots.errors import InvalidKeyError
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.storage.carry import Carried
from snapshots.storage.refusals import LiveOccurrenceError
from tests.host.world import World, at_rest, ended, resident


@dataclass
class Watch:
    """What is carried."""

    wakes: int


NIGHTLY = sentinel_state(
    "nightly", 2, validate=Watch, migrations={1: lambda wakes: {"wakes": wakes}}
)


class Nightly(StateChart):
    """One wake, which waits until it is told to end."""

    loading = State(initial=True, invoke=NIGHTLY.load())
    awake = State(invoke=gate("sleep"))
    saving = State(
        invoke=NIGHTLY.save(
            lambda model: Watch(model.wakes + 1),
            expected_revision=lambda model: model.revision,
        )
    )
    asleep = State(final=True)
    refused = State(final=True)
    done_invoke_loading = loading.to(awake, on="keep")
    sleep = awake.to(saving)
    done_invoke_saving = saving.to(asleep)
    error_execution = loading.to(refused, on="keep_error") | saving.to(refused, on="keep_error")

    def keep(self, data: Carried | None) -> None:
        self.model.wakes = data.value.wakes if data else 0
        self.model.revision = data.revision if data else 0
        self.model.migrated = data.migrated if data else None

    def keep_error(self, error: Exception) -> None:
        self.model.error = error


MACHINE = Machine(Nightly, name="nightly", failed=("refused",))


async def wake(host: Any) -> str:
    """Wake, and wait until it is awake."""
    run: str = await NIGHTLY.start(host, "nightly")
    await at_rest(host, run)
    return run


async def test_wakes_carry_state_under_the_schedules_own_contract(world: World) -> None:
    """Contract and key are named after the schedule; each wake goes on from the one before."""
    assert (NIGHTLY.contract.id, NIGHTLY.key) == ("nightly.state", "sentinel:nightly")
    async with world.host(MACHINE) as host:
        for wakes in range(3):
            run = await wake(host)
            model = resident(host, run).tree.root.chart.model  # type: ignore[union-attr]  # it has one
            assert (model.wakes, model.revision) == (wakes, wakes)
            await host.answer(run, "awake", "sleep")
            await ended(host, run)
        kinds = [row["kind"] for row in (await host.read(run)).effects]
        assert kinds == ["nightly.state.load", "nightly.state.save"]


async def test_the_first_wake_of_a_new_contract_migrates(world: World) -> None:
    """It says so, and its save ends it."""
    with open_storage(world.path, clock=world.clock) as backend:
        backend.carry.save(
            Scope(workflow="sentinel"),
            "sentinel:nightly",
            contract_version=1,
            payload=b"41",
            expected_revision=0,
        )
    async with world.host(MACHINE) as host:
        for wakes, migrated in ((41, (1, 2)), (42, None)):
            run = await wake(host)
            model = resident(host, run).tree.root.chart.model  # type: ignore[union-attr]  # it has one
            assert (model.wakes, model.migrated) == (wakes, migrated)
            await host.answer(run, "awake", "sleep")
            await ended(host, run)


async def test_a_second_live_wake_is_refused(world: World) -> None:
    """By the start, before anything is stored, and by the load where nobody asked the start."""
    async with world.host(MACHINE) as host:
        first = await wake(host)
        with pytest.raises(LiveOccurrenceError) as refusal:
            await NIGHTLY.start(host, "nightly")
        assert (refusal.value.schedule, refusal.value.run_id) == ("nightly", first)
        assert len(await host.runs()) == 1
        second = await host.start("nightly")
        await ended(host, second)
        view = await host.read(second)
        assert (view.status, view.configuration) == ("failed", ("refused",))
        assert "live occurrence" in str(view.context["error"])
        await host.answer(first, "awake", "sleep")
        await ended(host, first)
        assert (await host.read(first)).status == "done"


async def test_a_live_wake_is_refused_a_rival_after_a_restart(world: World) -> None:
    """Its row says that it is live, whichever process keeps it."""
    async with world.host(MACHINE) as host:
        first = await wake(host)
    async with world.host(MACHINE) as host:
        with pytest.raises(LiveOccurrenceError):
            await NIGHTLY.start(host, "nightly")
        await host.cancel(first)
        third = await wake(host)
        assert (await host.read(third)).configuration == ("awake",)


async def test_of_many_starts_at_once_one_wakes(world: World) -> None:
    """The others are refused, and store nothing."""
    async with world.host(MACHINE) as host:
        starts = [NIGHTLY.start(host, "nightly") for _ in range(5)]
        answers = await asyncio.gather(*starts, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, LiveOccurrenceError)]
        assert len(refused) == 4
        assert len(await host.runs()) == 1


async def test_a_start_that_came_to_nothing_holds_nobody_up(world: World) -> None:
    """What it claimed is free, since there is no such run."""
    async with world.host(MACHINE) as host:
        await wake_in_vain(host)
        run = await wake(host)
        assert (await host.read(run)).configuration == ("awake",)


async def wake_in_vain(host: Any) -> None:
    """Start a wake of a machine that there is not."""
    with pytest.raises(Exception, match="no such"):
        await NIGHTLY.start(host, "no such", run_id="never")


async def test_hosts_of_two_files_share_a_schedule(world: World) -> None:
    """A run of the other file counts as live until it gives the schedule back."""
    shared = Scope(tenant="acme", workflow="sentinel")
    state = sentinel_state("hourly", scope=shared)

    class Hourly(StateChart):
        loading = State(initial=True, invoke=state.load())
        awake = State()
        leaving = State(invoke=state.release())
        asleep = State(final=True)
        done_invoke_loading = loading.to(awake)
        sleep = awake.to(leaving)
        done_invoke_leaving = leaving.to(asleep)

    other = World(world.path.with_name("other.db"), world.clock, world.outside)
    with open_storage("memory:", clock=world.clock) as storage:
        async with (
            world.host(Hourly, storage=storage) as here,
            other.host(Hourly, storage=storage) as there,
        ):
            run = await state.start(here, Hourly)
            await at_rest(here, run)
            with pytest.raises(LiveOccurrenceError) as refusal:
                await state.start(there, Hourly)
            assert (refusal.value.run_id, refusal.value.file) == (run, str(world.path))
            await here.send(run, "sleep")
            await ended(here, run)
            await at_rest(there, await state.start(there, Hourly))


async def test_hosts_of_runs_in_memory_are_not_taken_for_one(world: World) -> None:
    """Both files are called `:memory:`, and a wake of one of them is live for the other."""
    with open_storage("memory:", clock=world.clock) as storage:
        options: Any = {"clock": world.clock, "verify": True, "storage": storage}
        async with (
            Host(":memory:", [MACHINE], **options) as here,
            Host(":memory:", [MACHINE], **options) as there,
        ):
            run = await NIGHTLY.start(here, "nightly")
            await at_rest(here, run)
            with pytest.raises(LiveOccurrenceError) as refusal:
                await NIGHTLY.start(there, "nightly")
            assert refusal.value.run_id == run
            assert refusal.value.file not in ("", ":memory:")
            with pytest.raises(LiveOccurrenceError) as again:
                await NIGHTLY.start(here, "nightly")
            assert again.value.run_id == run
            await here.answer(run, "awake", "sleep")
            await ended(here, run)
            await at_rest(here, await NIGHTLY.start(here, "nightly"))


def test_a_schedule_needs_an_id() -> None:
    """It names the contract."""
    with pytest.raises(InvalidKeyError):
        sentinel_state("a\nb")
