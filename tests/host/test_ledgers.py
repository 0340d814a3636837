"""Ledgers that work keeps in its run: on disk at the write, and there after a death."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import STALE, Context, Machine, Restored, ledgers_of
from machines.binding import start
from machines.errors import DefinitionError, HostStoppedError, RunFinishedError
from snapshots.errors import InvalidKeyError, LimitError, StorageError
from tests.host.world import World, at_rest, ended, until


def working(work: Any) -> Machine:
    """Return a machine that does the work in its first state, and can be told what to do."""

    class Works(StateChart):
        doing = State(initial=True, invoke=work)
        did = State()
        broken = State()
        over = State(final=True)
        done_invoke_doing = doing.to(did, on="keep")
        error_execution = doing.to(broken)
        leave = doing.to(did)
        finish = did.to(over) | broken.to(over)

        def keep(self, data: Any) -> None:
            self.model.data = data

    return Machine(Works, name="Works")


async def test_a_change_is_on_disk_before_it_returns(world: World) -> None:
    """Another connection sees each of them at once, from a coroutine."""
    seen: list[Any] = []

    async def work(ctx: Context) -> None:
        run = ctx.run_id or ""
        ctx.admissions.record("job-7")
        seen.append(world.blob(run)["admissions"]["doing.1"]["handle"])
        ctx.admissions.advance(12)
        seen.append(world.blob(run)["admissions"]["doing.1"]["offset"])
        ctx.epochs.bump("chat")
        seen.append(world.blob(run)["epochs"])
        ctx.notices.add("build", "red")
        seen.append(world.blob(run)["notices"]["build"]["text"])
        ctx.picks.pick("colour", chain="chat", offer=["red", "blue"])
        seen.append(world.blob(run)["picks"][0]["chain"])
        ctx.pushes.record("slot", commit="c1", source="s1", squashed=[], bundle=b"pack")
        seen.append(world.blob(run)["pushes"]["slot"][0]["commit"])

    async with world.host(working(work)) as host:
        run = await host.start("Works")
        await at_rest(host, run)
    assert seen == ["job-7", 12, {"chat": 1}, "red", "chat", "c1"]


async def test_blocking_work_changes_ledgers_from_its_thread(world: World) -> None:
    """It waits for the save that its run's own thread makes."""
    threads: list[int] = []

    def work(ctx: Context) -> int:
        threads.append(threading.get_ident())
        ctx.admissions.record("job-7")
        stored: int = world.blob(ctx.run_id or "")["admissions"]["doing.1"]["offset"]
        ctx.admissions.advance(5)
        return stored

    async with world.host(working(work)) as host:
        run = await host.start("Works")
        await at_rest(host, run)
        view = await host.read(run)
    assert view.context["data"] == 0
    assert threads != [threading.get_ident()]
    assert world.blob(run)["admissions"]["doing.1"]["offset"] == 5


async def test_restored_work_finds_what_it_recorded(world: World) -> None:
    """It is told that it is restored, how often it began, and where it was."""
    posted: list[str] = []
    told: list[tuple[bool, int, Any]] = []

    async def work(ctx: Context) -> str:
        found = ctx.admission
        told.append((ctx.restored, ctx.attempt, found and (found.handle, found.offset)))
        if found is None:
            posted.append(ctx.key or "")
            ctx.admissions.record({"job": 7}, offset=1)
            ctx.admissions.advance(3)
            await asyncio.Event().wait()
        return "followed to its end"

    async with world.host(working(work)) as host:
        run = await host.start("Works")
        await until(lambda: "admissions" in world.blob(run))
        after = world.after_kill()
    async with after.host(working(work)) as host:
        await at_rest(host, run)
        assert (await host.read(run)).context["data"] == "followed to its end"
    assert posted == [f"{run}/doing.1"]
    assert told == [(False, 1, None), (True, 2, ({"job": 7}, 3))]
    assert after.blob(run)["admissions"]["doing.1"]["settled"] is True


async def test_a_fault_bumps_the_epoch_in_the_save_that_says_so(world: World) -> None:
    """The conversation of its session is burned with the very event that tells its chart."""

    async def work(ctx: Context) -> None:
        ctx.admissions.record("session", conversation="chat")
        message = "the line is dead"
        raise OSError(message)

    async with world.host(working(work)) as host:
        run = await host.start("Works")
        await at_rest(host, run)
        assert world.configuration(run) == ["broken"]
        ledgers = await host.ledgers(run)
        assert ledgers.epochs.mint("chat") == "chat/1"
        assert [row.handle for row in ledgers.admissions.open()] == ["session"]


class Talks(StateChart):
    """Asks, and hears answers; a fault may come in between."""

    asking = State(initial=True)
    answered = State()
    over = State(final=True)
    fault = asking.to.itself(on="burn")
    answer = asking.to(answered, on="hear")
    slow = asking.to.itself(on="take_time")
    finish = answered.to(over)

    def burn(self) -> None:
        ledgers_of(self).epochs.bump("chat")

    def hear(self, text: str) -> str:
        self.model.heard = text
        return text

    async def take_time(self) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        ledgers_of(self).epochs.bump("chat")


async def test_an_answer_of_an_older_epoch_is_ignored(world: World) -> None:
    """Its sender is told; the answer of the current epoch is heard, also after a restart."""
    async with world.host(Talks) as host:
        run = await host.start(Talks)
        minted = (await host.ledgers(run)).epochs.mint("chat")
        assert minted == "chat/0"
        await host.send(run, "fault")
        saves = world.saves(run)
        assert await host.send(run, "answer", text="old", epoch=minted) is STALE
        assert world.saves(run) == saves
        after = world.after_kill()
    async with after.host(Talks) as host:
        assert await host.send(run, "answer", text="old", epoch=minted) is STALE
        again = (await host.ledgers(run)).epochs.mint("chat")
        assert await host.send(run, "answer", text="new", epoch=again) == "new"
        assert (await host.read(run)).context["heard"] == "new"
        with pytest.raises(InvalidKeyError, match="minted"):
            await host.send(run, "finish", epoch="chat")


async def test_an_answer_that_waits_behind_a_fault_is_ignored_too(world: World) -> None:
    """It was current when it came; when its turn came, it was not."""
    async with world.host(Talks) as host:
        run = await host.start(Talks)
        first = asyncio.create_task(host.send(run, "slow"))
        await asyncio.sleep(0)
        second = asyncio.create_task(host.send(run, "answer", text="late", epoch="chat/0"))
        await first
        assert await second is STALE
        assert world.configuration(run) == ["asking"]


async def test_a_change_that_cannot_be_saved_did_not_happen(world: World) -> None:
    """The ledger is as it was, in memory as on disk, and whoever asked for it is told."""
    caught: list[BaseException] = []

    async def work(ctx: Context) -> None:
        ctx.admissions.record("small")
        for attempt in (
            lambda: ctx.admissions.record(b"x" * 13_000_000, key="big"),
            lambda: ctx.admissions.advance(-1),
            lambda: ctx.admissions.record(object(), key="opaque"),
        ):
            try:
                attempt()
            except Exception as error:  # noqa: BLE001 - they are looked at below
                caught.append(error)

    async with world.host(working(work)) as host:
        run = await host.start("Works")
        await at_rest(host, run)
        assert [row.key for row in (await host.ledgers(run)).admissions.open()] == []
    assert isinstance(caught[0], LimitError)
    assert run in str(caught[0])
    assert isinstance(caught[1], InvalidKeyError)
    assert "admissions.opaque.handle" in str(caught[2])
    assert list(world.blob(run)["admissions"]) == ["doing.1"]


async def test_a_busy_file_refuses_a_change_and_the_next_one_is_saved(world: World) -> None:
    """Whoever writes the file meanwhile is waited for to a bound; nothing is half done."""
    outcomes: list[Any] = []
    may_go = asyncio.Event()

    async def work(ctx: Context) -> None:
        await may_go.wait()
        with world.opened(read_only=False) as other, other.transaction():
            with pytest.raises(StorageError):
                ctx.admissions.record("while it is busy")
            outcomes.append(ctx.admission)
        outcomes.append(ctx.admissions.record("afterwards").handle)
        await asyncio.Event().wait()

    async with world.host(working(work)) as host:
        run = await host.start("Works")
        may_go.set()
        await until(lambda: len(outcomes) == 2)
        assert outcomes == [None, "afterwards"]
        assert world.blob(run)["admissions"]["doing.1"]["handle"] == "afterwards"


async def test_work_that_outlives_its_run_or_its_host_is_refused(world: World) -> None:
    """A late change of a ledger has no row that it could go to."""
    kept: list[Context] = []
    caught: list[BaseException] = []
    release = threading.Event()

    def work(ctx: Context) -> None:
        kept.append(ctx)
        release.wait()
        try:
            ctx.admissions.record("late")
        except Exception as error:  # noqa: BLE001 - it is looked at below
            caught.append(error)

    async with world.host(working(work)) as host:
        run = await host.start("Works")
        await until(lambda: kept)
        await host.send(run, "leave")
        await host.send(run, "finish")
        await ended(host, run)
        with pytest.raises(RunFinishedError):
            kept[0].admissions.record("late")
        release.set()
        await until(lambda: caught)
    assert isinstance(caught[0], RunFinishedError)
    with pytest.raises((RunFinishedError, HostStoppedError)):
        kept[0].epochs.bump("chat")


async def test_a_thread_that_waits_for_a_stopped_host_is_let_go(world: World) -> None:
    """Its host ends without its work: the change is refused, and the thread ends."""
    begun, caught = threading.Event(), threading.Event()
    release = threading.Event()

    def work(ctx: Context) -> None:
        begun.set()
        release.wait()
        try:
            ctx.admissions.record("too late")
        except HostStoppedError:
            caught.set()

    host = world.host(working(work))
    async with host:
        run = await host.start("Works")
        await until(begun.is_set)
    release.set()
    await until(caught.is_set)
    assert "admissions" not in world.blob(run)


async def test_callbacks_and_callers_have_the_ledgers_too(world: World) -> None:
    """A chart through `ledgers_of`, a caller through the host; a key must be given there."""
    async with world.host(Talks) as host:
        run = await host.start(Talks)
        ledgers = await host.ledgers(run)
        ledgers.notices.add("build", "red")
        assert world.blob(run)["notices"]["build"]["text"] == "red"
        with pytest.raises(InvalidKeyError, match="key"):
            ledgers.admissions.record("nobody's")
        ledgers.admissions.record("somebody's", key="mine")
        assert ledgers.admission is None


async def test_ledgers_of_a_first_macrostep_come_with_the_first_save(world: World) -> None:
    """There is no row before it, and none if it raises."""

    class Begins(StateChart):
        catch_errors_as_events = False
        only = State(initial=True)
        over = State(final=True)
        finish = only.to(over)

        def on_enter_only(self) -> None:
            ledgers_of(self).epochs.bump("chat")
            if getattr(self.model, "fails", False):
                message = "not today"
                raise ValueError(message)

    async with world.host(Begins) as host:
        run = await host.start(Begins)
        assert world.blob(run)["epochs"] == {"chat": 1}
        assert world.saves(run) == 1
        with pytest.raises(ValueError, match="not today"):
            await host.start(Begins, {"fails": True}, run_id="b")
        assert world.ids() == [run]


def test_a_chart_without_a_run_has_no_ledgers() -> None:
    """It is told what to do."""
    with pytest.raises(DefinitionError, match="Host"):
        ledgers_of(start(Talks))
    with pytest.raises(DefinitionError, match="Host"):
        ledgers_of(Talks())


async def test_reconcile_sees_the_admissions_and_decides(world: World) -> None:
    """A job that the outside does not know any more makes its run lost; another goes on."""
    alive = {"job-1"}

    async def work(ctx: Context, model: Any) -> None:
        if ctx.admission is None:
            ctx.admissions.record(model.job)
        await asyncio.Event().wait()

    def reconcile(run: Restored) -> bool:
        return all(row["handle"] in alive for row in run.admissions.values())

    chart = working(work).chart
    machine = Machine(chart, name="Works", reconcile=reconcile)
    async with world.host(machine) as host:
        for number in (1, 2):
            await host.start("Works", {"job": f"job-{number}"}, run_id=f"run-{number}")
        await until(lambda: all("admissions" in world.blob(run) for run in ("run-1", "run-2")))
        after = world.after_kill()
    async with after.host(machine) as host:
        assert host.report.resumed == ["run-1"]
        assert list(host.report.lost) == ["run-2"]
        assert after.status("run-2") == "lost"
