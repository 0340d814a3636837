"""Runs on a host, whatever the storage beside them is: what they carry, and what is decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Host
from machines.approvals import approval
from machines.carry import Carry, storage_effect
from machines.charts import etl
from machines.host import approving
from machines.sentinel import sentinel_state
from machines.state import state_of
from snapshots.storage import Backend, Scope
from snapshots.storage.approvals import Approvals
from snapshots.storage.carry import CarryState
from snapshots.storage.contracts import Contract
from snapshots.storage.refusals import LiveOccurrenceError
from snapshots.storage.state import StateStore
from snapshots.testing import ManualClock
from tests.host.world import until

CONTRACT = Contract("cursor", 2, migrations={1: lambda value: {"at": value}})


def host(
    folder: Path, storage: Backend, clock: ManualClock, *machines: Any, **options: Any
) -> Host:
    """Return a host whose runs lie in a file of their own."""
    return Host(folder / "runs.db", machines, clock=clock, verify=True, storage=storage, **options)


async def test_a_run_carries_state(
    backend: Backend, scope: Scope, clock: ManualClock, tmp_path: Path
) -> None:
    """Loaded and migrated, saved under its revision, cleared."""
    carry = Carry(CONTRACT, scope=scope)

    class Crawl(StateChart):
        loading = State(initial=True, invoke=carry.load("crawl"))
        saving = State(
            invoke=carry.save(
                "crawl",
                lambda model: {"at": model.found.value["at"] + 1},
                expected_revision=lambda model: model.found.revision,
            )
        )
        saved = State(final=True)
        done_invoke_loading = loading.to(saving, on="keep")
        done_invoke_saving = saving.to(saved)

        def keep(self, data: Any) -> None:
            self.model.found = data

    before = CarryState(backend.carry, scope, contract=Contract("cursor", 1))
    before.save("crawl", 7, expected_revision=0)
    async with host(tmp_path, backend, clock, Crawl) as keeper:
        run = await keeper.start(Crawl)
        await until(lambda: not keeper.is_live(run))
        found = (await keeper.read(run)).context["found"]
        assert (found.value, found.revision, found.migrated) == ({"at": 7}, 1, (1, 2))
    after = CarryState(backend.carry, scope, contract=CONTRACT).load("crawl")
    assert after is not None
    assert (after.value, after.revision, after.migrated) == ({"at": 8}, 2, None)


async def test_a_decision_from_another_handle_resumes_a_run(
    *,
    backend: Backend,
    another: Callable[[], AbstractContextManager[Backend]],
    scope: Scope,
    clock: ManualClock,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before a restart of the host, or after it."""
    monkeypatch.setattr(approving, "APPROVAL_POLL_MS", 5)

    class Ticket(StateChart):
        reviewing = State(
            initial=True, invoke=approval("approve", correlation=lambda model: model.key)
        )
        approved = State(final=True)
        approve = reviewing.to(approved, on="keep")

        def keep(self, by: str) -> None:
            self.model.by = by

    def decide(key: str) -> None:
        with another() as other:
            state = StateStore(other.keyed, other.leases, scope)
            Approvals(state, clock=clock).decide(key, "approve", by="ann")

    async with host(tmp_path, backend, clock, Ticket, approvals=scope) as keeper:
        runs = [await keeper.start(Ticket, {"key": key}) for key in "ab"]
        approvals = keeper.approvals
        assert approvals is not None
        await until(lambda: len(approvals.opened()) == 2)
        await asyncio.to_thread(decide, "a")
        await until(lambda: not keeper.is_live(runs[0]))
    await asyncio.to_thread(decide, "b")
    async with host(tmp_path, backend, clock, Ticket, approvals=scope) as keeper:
        await until(lambda: not keeper.is_live(runs[1]))
        for run in runs:
            assert (await keeper.read(run)).context["by"] == "ann"


async def test_work_uses_the_state_of_its_workflow(
    backend: Backend, scope: Scope, clock: ManualClock, tmp_path: Path
) -> None:
    """On the loop or in a thread, as the storage needs it; what fails is told to the chart."""

    def count(ctx: Any) -> int:
        state = state_of(ctx.machine, scope)
        with state.transaction():
            state.put("n", (state.get("n") or 0) + 1)
        return int(state.get("n"))

    def fail(ctx: Any) -> None:
        state_of(ctx.machine, scope).get("\x00")

    class Counts(StateChart):
        counting = State(initial=True, invoke=storage_effect(count, kind="count"))
        failing = State(invoke=storage_effect(fail, kind="fail"))
        over = State(final=True)
        done_invoke_counting = counting.to(failing, on="keep")
        error_execution = failing.to(over)

        def keep(self, data: int) -> None:
            self.model.n = data

    async with host(tmp_path, backend, clock, Counts) as keeper:
        for n in (1, 2):
            run = await keeper.start(Counts)
            await until(lambda run=run: not keeper.is_live(run))
            assert (await keeper.read(run)).context["n"] == n


async def test_one_wake_of_a_schedule_is_live(
    backend: Backend, scope: Scope, clock: ManualClock, tmp_path: Path
) -> None:
    """The second is refused by its start, and by its load."""
    schedule = sentinel_state("nightly", scope=scope)

    class Nightly(StateChart):
        loading = State(initial=True, invoke=schedule.load())
        awake = State()
        refused = State(final=True)
        asleep = State(final=True)
        done_invoke_loading = loading.to(awake)
        error_execution = loading.to(refused)
        sleep = awake.to(asleep)

    async with host(tmp_path, backend, clock, Nightly) as keeper:
        first = await schedule.start(keeper, Nightly)
        await until(lambda: keeper._resident[first].at_rest)
        with pytest.raises(LiveOccurrenceError):
            await schedule.start(keeper, Nightly)
        second = await keeper.start(Nightly)
        await until(lambda: not keeper.is_live(second))
        assert (await keeper.read(second)).configuration == ("refused",)
        await keeper.send(first, "sleep")
        third = await schedule.start(keeper, Nightly)
        await until(lambda: keeper._resident[third].at_rest)
        assert (await keeper.read(third)).configuration == ("awake",)


async def test_wakes_of_runs_in_memory_are_told_apart(
    backend: Backend, scope: Scope, clock: ManualClock
) -> None:
    """Two hosts whose files are called alike have one wake, also where its load asks by itself."""
    schedule = sentinel_state("nightly", scope=scope)

    class Nightly(StateChart):
        loading = State(initial=True, invoke=schedule.load())
        awake = State()
        refused = State(final=True)
        asleep = State(final=True)
        done_invoke_loading = loading.to(awake)
        error_execution = loading.to(refused, on="keep_error")
        sleep = awake.to(asleep)

        def keep_error(self, error: Exception) -> None:
            self.model.error = str(error)

    def in_memory() -> Host:
        return Host(":memory:", [Nightly], clock=clock, storage=backend)

    async with in_memory() as here, in_memory() as there:
        first = await schedule.start(here, Nightly)
        await until(lambda: here._resident[first].at_rest)
        with pytest.raises(LiveOccurrenceError, match=r"invokes release\(\)") as caught:
            await schedule.start(there, Nightly)
        assert caught.value.is_elsewhere
        for keeper in (here, there):
            second = await keeper.start(Nightly)
            await until(lambda keeper=keeper, second=second: not keeper.is_live(second))
            view = await keeper.read(second)
            assert view.configuration == ("refused",)
            assert "has a live occurrence" in view.context["error"]
        await here.send(first, "sleep")
        third = await schedule.start(here, Nightly)
        await until(lambda: here._resident[third].at_rest)
        assert (await here.read(third)).configuration == ("awake",)


async def test_a_load_takes_a_lock_whose_time_is_over(
    backend: Backend, scope: Scope, clock: ManualClock, tmp_path: Path
) -> None:
    """In its own name, under a token that the stalled holder does not have."""
    del scope
    state = StateStore(backend.keyed, backend.leases, etl.SCOPE)
    lock = state.claim(f"market {tmp_path}", etl.LOCK_TTL_MS, holder="stalled")
    assert lock is not None
    clock.advance(etl.LOCK_TTL_MS)
    given = {"market": f"market {tmp_path}", "service": "nowhere"}
    async with host(tmp_path, backend, clock, etl.Etl) as keeper:
        run = await keeper.start(etl.Etl, given)
        await until(lambda: keeper._resident[run].tree.timers.items != [])
        held = backend.leases.read(etl.SCOPE, given["market"])
        assert held is not None
        assert (held.holder, held.token) == (run, lock.token + 1)
        await keeper.cancel(run)
