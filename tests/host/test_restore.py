"""What a boot makes of the rows that it finds, and what it leaves as it is."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Machine, Restored
from machines.errors import RunFinishedError, UnresumedError
from snapshots.errors import DecodeError, RunNotFoundError
from tests.host.charts import Door, Review
from tests.host.world import World, ended, resident, settled, until


async def test_every_live_run_is_resumed_and_named(world: World) -> None:
    """Parked or not, the report has them all, and they go on."""
    async with world.host(Door, Review) as host:
        door = await host.start(Door)
        review = await host.start(Review)
        await host.send(review, "submit")
        gone = await host.start(Door)
        await host.send(gone, "remove")
    async with world.host(Door, Review) as host:
        assert sorted(host.report.resumed) == sorted([door, review])
        assert str(host.report) == "2 resumed, 0 not resumed, 0 lost, 0 drifted"
        assert await host.send(door, "push") == "pushed by nobody"
        await host.answer(review, "review", "reject")


def door(*, more: bool) -> Any:
    """Return a door of one of two shapes, under one name."""

    class Gate(StateChart):
        shut = State(initial=True)
        ajar = State()
        gone = State(final=True)
        push = shut.to(ajar)
        remove = ajar.to(gone)
        if more:
            locked = State()
            lock = shut.to(locked)
            unlock = locked.to(shut)

    return Gate


async def test_a_drifted_run_is_set_aside_with_the_difference_in_words(world: World) -> None:
    """Its row says so and names what changed; it takes nothing; nothing of it is lost."""
    async with world.host(door(more=True)) as host:
        run = await host.start("Gate")
        await host.send(run, "lock")
    blob = world.stored(run).blob
    async with world.host(door(more=False)) as host:
        assert list(host.report.drifted) == [run]
        assert "locked" in host.report.drifted[run]
        with pytest.raises(Exception, match="drifted"):
            await host.send(run, "unlock")
        assert (await host.read(run)).configuration == ("locked",)
    stored = world.stored(run)
    assert stored.header.status == "drifted"
    assert "locked" in (stored.header.reason or "")
    assert stored.blob == blob


async def test_a_parked_run_that_drifted_is_set_aside_too(world: World) -> None:
    """The digest in the header is enough to see it."""
    async with world.host(door(more=True)) as host:
        run = await host.start("Gate")
        assert world.stored(run).header.parked
    async with world.host(door(more=False)) as host:
        assert list(host.report.drifted) == [run]
    assert world.status(run) == "drifted"


def asking(verdict: Any, seen: list[Any] | None = None) -> Machine:
    """Return a machine that is asked for its outside world, and answers so."""

    def reconcile(run: Restored) -> Any:
        if seen is not None:
            seen.append((run.run_id, run.machine, dict(run.input), run.configuration))
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    return Machine(StillWorking, reconcile=reconcile)


class StillWorking(StateChart):
    """Has work in flight, so that it is no parked run."""

    working = State(initial=True, invoke=lambda ctx: ctx.cancelled.wait(5))
    over = State(final=True)
    finish = working.to(over)
    done_invoke_working = working.to(over)


async def one_at_work(world: World) -> str:
    """Leave a live run behind that is not parked."""
    async with world.host(StillWorking, grace_s=0) as host:
        run = await host.start(StillWorking, {"a": 1})
        after = world.after_kill()
    world.path = after.path
    assert world.status(run) == "live"
    return run


@pytest.mark.parametrize("verdict", [True, None])
async def test_reconcile_that_finds_the_world_lets_the_run_go_on(
    world: World, verdict: Any
) -> None:
    """It is asked once, with the stored run, before anything is built."""
    run = await one_at_work(world)
    seen: list[Any] = []
    async with world.host(asking(verdict, seen)) as host:
        assert host.report.resumed == [run]
        await host.send(run, "finish")
    assert seen == [(run, "StillWorking", {"a": 1}, ("working",))]


async def test_reconcile_that_finds_the_world_gone_makes_the_run_lost(world: World) -> None:
    """The row keeps everything and says why."""
    run = await one_at_work(world)
    blob = world.stored(run).blob
    async with world.host(asking(verdict=False)) as host:
        assert list(host.report.lost) == [run]
    stored = world.stored(run)
    assert stored.header.status == "lost"
    assert "gone" in (stored.header.reason or "")
    assert stored.blob == blob


async def test_reconcile_that_raises_leaves_the_run_live_and_reported(world: World) -> None:
    """A world that cannot be asked today is asked at the next event, and at the next boot."""
    run = await one_at_work(world)
    before = world.stored(run)
    async with world.host(asking(ConnectionError("no network"))) as host:
        assert "no network" in host.report.unresumed[run]
        with pytest.raises(UnresumedError, match="no network"):
            await host.send(run, "finish")
    assert world.stored(run) == before
    async with world.host(asking(verdict=True)) as host:
        await host.send(run, "finish")
    assert world.status(run) == "done"


async def test_reconcile_that_finds_the_world_gone_at_an_event_makes_the_run_lost(
    world: World,
) -> None:
    """It is reported as lost then, and not as one that the next boot tries again."""
    run = await one_at_work(world)
    answers: list[Any] = [ConnectionError("no network"), False]

    def reconcile(restored: Any) -> Any:
        del restored
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with world.host(Machine(StillWorking, reconcile=reconcile)) as host:
        assert list(host.report.unresumed) == [run]
        with pytest.raises(RunFinishedError):
            await host.send(run, "finish")
        assert (list(host.report.lost), host.report.unresumed) == ([run], {})
    assert world.status(run) == "lost"


async def test_reconcile_is_not_asked_for_parked_runs(world: World) -> None:
    """Neither at the boot nor when they are built, and not after being out of memory."""
    seen: list[Any] = []
    machine = Machine(Door, reconcile=seen.append)
    async with world.host(machine) as host:
        run = await host.start(machine)
    async with world.host(machine) as host:
        await host.send(run, "push")
        assert await host.unload(run)
        await host.send(run, "pull")
    assert seen == []


async def test_a_parked_run_is_built_on_its_first_event(world: World) -> None:
    """The boot makes no chart for it; the report names it as resumed."""
    made: list[int] = []

    class Counted(StateChart):
        only = State(initial=True)
        over = State(final=True)
        finish = only.to(over)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(1)
            super().__init__(*args, **kwargs)

    async with world.host(Counted) as host:
        runs = [await host.start(Counted) for _ in range(5)]
    made.clear()
    async with world.host(Counted) as host:
        await settled()
        assert made == []
        assert sorted(host.report.resumed) == sorted(runs)
        await host.send(runs[2], "finish")
        assert made == [1]


async def test_a_parked_run_with_a_bad_blob_is_reported_when_it_is_read(world: World) -> None:
    """Its first event gets the reason, and the report says what it said too early."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        other = await host.start(Door)
    world.overwrite(run, b'{"v":1}')
    before = world.stored(run)
    async with world.host(Door) as host:
        assert run in host.report.resumed
        for _ in range(2):
            with pytest.raises(DecodeError):
                await host.send(run, "push")
        assert run in host.report.unresumed
        assert run not in host.report.resumed
        await host.send(other, "push")
    assert world.stored(run) == before


async def test_an_event_that_was_accepted_runs_once_after_a_death(world: World) -> None:
    """Queued behind a macrostep when the process died: the next host runs it, once."""
    release = asyncio.Event()

    class Slow(StateChart):
        calm = State(initial=True)
        over = State(final=True)
        note = calm.to.itself(on="keep")
        finish = calm.to(over)

        async def keep(self, text: str) -> None:
            self.model.notes = [*getattr(self.model, "notes", []), text]
            await release.wait()

    copies: list[World] = []
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        sent = [asyncio.create_task(host.send(run, "note", text="a"))]
        await settled()
        sent += [asyncio.create_task(host.send(run, "note", text=text)) for text in "bc"]
        await settled()
        save = host.store.save

        def copy(header: Any, blob: Any, **options: Any) -> Any:
            saved = save(header, blob, **options)
            copies.append(world.after_kill())
            return saved

        host.store.save = copy
        release.set()
        await asyncio.gather(*sent)
    after = copies[0]
    async with after.host(Slow) as host:
        await until(lambda: len(after.blob(run)["root"]["context"]["notes"]) == 3)
        await settled()
        assert (await host.read(run)).context == {"notes": ["a", "b", "c"]}


async def test_a_plain_call_is_started_again_and_told_so(world: World) -> None:
    """`ctx.restored` and `ctx.attempt` say it; its outcome is the run's, once."""
    calls: list[tuple[bool, int]] = []
    release = asyncio.Event()

    async def work(ctx: Any) -> str:
        calls.append((ctx.restored, ctx.attempt))
        await release.wait()
        return "worked"

    class Working(StateChart):
        working = State(initial=True, invoke=work)
        over = State(final=True)
        done_invoke_working = working.to(over)

    async with world.host(Working, grace_s=0) as host:
        run = await host.start(Working)
        await until(lambda: len(calls) == 1)
    async with world.host(Working, grace_s=0) as host:
        await until(lambda: len(calls) == 2)
    release.set()
    async with world.host(Working) as host:
        await ended(host, run)
    assert calls[0] == (False, 1)
    assert [restored for restored, _ in calls[1:]] == [True] * (len(calls) - 1)
    assert world.status(run) == "done"


async def test_a_run_that_wakes_another_during_the_boot_disturbs_nothing(world: World) -> None:
    """A restored callback starts a run and sends to one whose row was not read yet."""
    hosts: list[Any] = []

    async def busybody(ctx: Any) -> None:
        host = hosts[-1]
        if ctx.restored:
            await host.send("zz-door", "push")
            await host.start(Door, run_id="new-door")
        else:
            await asyncio.Event().wait()

    class Busybody(StateChart):
        working = State(initial=True, invoke=busybody)
        over = State(final=True)
        done_invoke_working = working.to(over)

    host = world.host(Busybody, Door, grace_s=0)
    hosts.append(host)
    async with host:
        first = await host.start(Busybody)
        for number in range(60):
            await host.start(Door, run_id=f"door-{number}")
        await host.start(Door, run_id="zz-door")
        await settled()
        after = world.after_kill()
    host = after.host(Busybody, Door)
    hosts.append(host)
    async with host:
        await ended(host, first)
        await host.send("zz-door", "pull")
        await host.send("new-door", "push")
        assert host.report.unresumed == {}
        assert resident(host, "new-door").tree.root is not None
    assert after.configuration("zz-door") == ["shut"]
    assert after.configuration("new-door") == ["ajar"]


async def test_a_blob_of_another_run_is_refused(world: World) -> None:
    """A row that holds another run's blob is reported and kept."""
    async with world.host(StillWorking, grace_s=0) as host:
        first = await host.start(StillWorking)
        second = await host.start(StillWorking)
        after = world.after_kill()
    after.overwrite(first, after.stored(second).blob)
    async with after.host(StillWorking, grace_s=0) as host:
        assert host.report.resumed == [second]
        assert second in host.report.unresumed[first]


async def test_a_blob_of_a_later_version_is_refused_by_number(world: World) -> None:
    """What a later release wrote is left for that release."""
    run = await one_at_work(world)
    blob = json.loads(world.stored(run).blob)
    blob["v"] = 2
    world.overwrite(run, json.dumps(blob).encode())
    async with world.host(StillWorking) as host:
        assert "version 2" in host.report.unresumed[run]


async def test_a_field_of_a_later_release_is_refused_by_name(world: World) -> None:
    """It could not be kept, so the run is not taken up."""
    run = await one_at_work(world)
    blob = json.loads(world.stored(run).blob)
    blob["root"]["mood"] = "fine"
    world.overwrite(run, json.dumps(blob).encode())
    async with world.host(StillWorking) as host:
        assert "'mood'" in host.report.unresumed[run]
        with pytest.raises(DecodeError):
            await host.send(run, "finish")


async def test_a_row_that_is_not_there_is_not_found(world: World) -> None:
    """No run of this id, and no run that starts so."""
    async with world.host(Door) as host:
        with pytest.raises(RunNotFoundError):
            await host.send("nobody", "push")
        with pytest.raises(RunNotFoundError):
            await host.read("nobody")


async def test_an_asynchronous_run_under_a_synchronous_chart_is_not_taken_up(
    world: World,
) -> None:
    """The engine's kind is part of what was saved: the reason says so, and the row is kept."""

    def chart(*, asynchronous: bool) -> Any:
        class Both(StateChart):
            working = State(initial=True, invoke=lambda ctx: ctx.cancelled.wait(5))
            over = State(final=True)
            finish = working.to(over)

            if asynchronous:

                async def on_finish(self) -> None:
                    """End it."""

        return Both

    async with world.host(chart(asynchronous=True), grace_s=0) as host:
        run = await host.start("Both")
        after = world.after_kill()
    before = after.stored(run)
    async with after.host(chart(asynchronous=False)) as host:
        assert "async" in host.report.unresumed[run]
    assert after.stored(run) == before


async def test_a_view_has_values_type_for_type_where_the_machine_is_known(world: World) -> None:
    """Of a resident run, of one that waits in its row, and of one that has ended."""

    class Keeps(StateChart):
        only = State(initial=True)
        over = State(final=True, donedata="say")
        finish = only.to(over)

        def say(self) -> Any:
            return self.model.pair

    given = {"pair": (1, 2), "at": datetime(2026, 1, 1, tzinfo=UTC)}
    async with world.host(Keeps) as host:
        run = await host.start(Keeps, given)
        assert (await host.read(run)).context == given
        await host.unload(run)
        assert (await host.read(run)).context == given
        await host.send(run, "finish")
        assert (await host.read(run)).output == (1, 2)
    async with world.host() as host:
        assert (await host.read(run)).context["pair"] == {"$": "tuple", "v": [1, 2]}
