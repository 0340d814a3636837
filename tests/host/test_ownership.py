"""One owner: a second host is refused, or takes over, and then the first one writes nothing."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Host, open_run
from machines.errors import HostLockedError, HostStoppedError
from snapshots.errors import FencedError, ForeignFileError
from tests.host.charts import Door, checkout, mailer
from tests.host.world import Outside, World, ended, settled, statuses, until


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for a lock that nobody will give back."""
    monkeypatch.setattr("machines.host.host.LOCK_PATIENCE_S", 0.0)
    monkeypatch.setattr("machines.host.host.LOCK_RETRY_S", 0.005)


async def test_a_second_host_is_refused_by_name(world: World) -> None:
    """The error says who holds the file; the first host does not notice."""
    async with world.host(Door) as first:
        run = await first.start(Door)
        with pytest.raises(HostLockedError, match="process"):
            await world.host(Door).__aenter__()
        await first.send(run, "push")
    async with world.host(Door) as second:
        assert second.report.resumed == [run]


async def test_a_host_waits_a_moment_for_a_run_without_a_host(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`open_run` holds the file for a moment only: a host that opens then gets it."""
    monkeypatch.setattr("machines.host.host.LOCK_PATIENCE_S", 5.0)
    with world.opened(read_only=False) as store:
        held = open_run(store, Door, "a")
        held.__enter__()
        opening = asyncio.create_task(world.host(Door).__aenter__())
        await settled()
        assert not opening.done()
        held.__exit__(None, None, None)
    host = await opening
    assert host.report.resumed == ["a"]
    await host.stop()


async def test_the_term_goes_up_with_every_host(world: World) -> None:
    """Each host raises it once, and its writes carry it."""
    terms = []
    for _ in range(3):
        async with world.host(Door) as host:
            terms.append(host.store.term)
    assert terms == [1, 2, 3]


async def test_the_former_host_is_refused_and_stops(world: World) -> None:
    """After a takeover its save, its start and its sweep change nothing, and it says why."""
    first = world.host(Door)
    await first.__aenter__()
    run = await first.start(Door)
    old = await first.start(Door)
    await first.send(old, "remove")
    async with world.host(Door, take_over=True) as second:
        assert run in second.report.resumed
        with pytest.raises(FencedError):
            await first.send(run, "push")
        assert world.configuration(run) == ["shut"]
        for act in (
            lambda: first.send(run, "push"),
            lambda: first.start(Door),
            first.sweep,
            lambda: first.read(run),
        ):
            with pytest.raises(HostStoppedError, match="fenced"):
                await act()
        assert await second.send(run, "push") == "pushed by nobody"
        await first.stop()
        await second.send(run, "pull")
    assert world.configuration(run) == ["shut"]
    assert len(world.ids()) == 2


async def test_a_fenced_host_makes_no_call_that_it_intended(world: World, outside: Outside) -> None:
    """The save before the call is refused, so the call does not leave: the new owner makes it."""
    chart = checkout(outside.service("charge"))
    first = world.host(chart, grace_s=0)
    await first.__aenter__()
    run = await first.start(chart)
    await first.send(run, "pay")
    async with world.host(chart, take_over=True) as second:
        await ended(second, run)
        assert str(first._stopped).startswith("fenced")
        await first.stop()
    assert outside.count("charge") == 1
    assert world.status(run) == "done"


async def test_a_call_in_flight_at_a_takeover_is_in_doubt_for_the_new_owner(
    world: World, outside: Outside
) -> None:
    """The former host's outcome is refused; the new one does not repeat the call."""
    outside.hold("charge")
    chart = checkout(outside.service("charge"))
    first = world.host(chart)
    await first.__aenter__()
    run = await first.start(chart)
    await first.send(run, "pay")
    await until(lambda: outside.count("charge") == 1)
    async with world.host(chart, take_over=True) as second:
        await until(lambda: statuses(second, run) == ["unknown"])
        outside.hold("charge").set()
        await until(lambda: first._stopped is not None)
        await first.stop()
        assert world.effects(run) == ["unknown"]
        await second.resolve(run, "paying.1", done="asked the bank")
    assert world.status(run) == "done"
    assert outside.count("charge") == 1


async def test_who_waits_at_a_fenced_host_is_told(world: World) -> None:
    """Senders in the middle of a macrostep and behind it get an answer, not silence."""
    release = asyncio.Event()

    class Slow(StateChart):
        calm = State(initial=True)
        over = State(final=True)
        note = calm.to.itself(on="keep")
        finish = calm.to(over)

        async def keep(self) -> None:
            await release.wait()

    first = world.host(Slow, Door)
    await first.__aenter__()
    slow = [await first.start(Slow) for _ in range(2)]
    waiting = [asyncio.create_task(first.send(run, "note")) for run in slow for _ in range(2)]
    await settled()
    async with world.host(Slow, Door, take_over=True):
        with pytest.raises(FencedError):
            await first.start(Door)
        answers = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), 5)
        assert [type(answer) for answer in answers] == [HostStoppedError] * 4
        release.set()
        await first.stop()


async def test_the_new_owner_gets_the_lock_when_the_former_one_stops(world: World) -> None:
    """It keeps trying, so that a third host is refused again."""
    first = world.host(Door)
    await first.__aenter__()
    async with world.host(Door, take_over=True) as second:
        assert not second._lock.held
        await first.stop()
        await until(lambda: second._lock.held)
        with pytest.raises(HostLockedError):
            await world.host(Door).__aenter__()


async def test_the_term_reaches_the_receiver(world: World) -> None:
    """`ctx.term` is what a receiver can refuse a former owner's late call by."""
    seen: list[Any] = []

    def send(ctx: Any) -> None:
        seen.append(ctx.term)

    chart = mailer(send)
    for round_ in range(2):
        async with world.host(chart) as host:
            if round_ == 0:
                await host.start(chart, run_id="a")
            await host.send("a", "again")
            await until(lambda n=round_: len(seen) == n + 1)
    assert seen == [1, 2]


async def test_a_stopped_host_takes_nothing(world: World) -> None:
    """Every verb says that it has stopped; stopping again is harmless."""
    host = world.host(Door)
    async with host:
        run = await host.start(Door)
    await host.stop()
    for act in (
        lambda: host.start(Door),
        lambda: host.send(run, "push"),
        lambda: host.answer(run, "gate", "push"),
        lambda: host.cancel(run),
        lambda: host.unload(run),
        lambda: host.resolve(run, "effect", done=1),
        lambda: host.revive(run),
        lambda: host.read(run),
        host.runs,
        lambda: host.gates(run),
        host.sweep,
    ):
        with pytest.raises(HostStoppedError, match="stopped"):
            await act()


async def test_a_file_that_is_not_ours_is_refused_and_the_lock_given_back(world: World) -> None:
    """The error names the file, it stays as it is, and nothing is held."""
    world.path.write_bytes(b"not a database, but long enough to be looked at" * 100)
    before = world.path.read_bytes()
    with pytest.raises(ForeignFileError):
        await world.host(Door).__aenter__()
    assert world.path.read_bytes() == before
    world.path.unlink()
    async with world.host(Door):
        pass


async def test_a_host_in_memory_works(world: World) -> None:
    """`:memory:` needs no lock and leaves no file."""
    async with Host(":memory:", [Door], clock=world.clock, verify=True) as host:
        run = await host.start(Door)
        await host.send(run, "push")
        assert (await host.read(run)).configuration == ("ajar",)


async def test_a_host_that_was_not_opened_says_so(world: World) -> None:
    """Every verb is a typed error, and stopping it is harmless."""
    host = world.host(Door)
    with pytest.raises(HostStoppedError, match="not opened"):
        await host.start(Door)
    with pytest.raises(HostStoppedError, match="not opened"):
        await host.send("a", "push")
    await host.stop()
    with pytest.raises(HostStoppedError, match="stopped"):
        await host.__aenter__()
