"""Deliveries: an external event that comes twice is run once, whatever happens between."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import TAKEN, Host
from machines.errors import RunFinishedError
from snapshots.errors import InvalidKeyError, StorageError
from snapshots.limits import DELIVERIES_MAX
from tests.host.charts import Door, Strict
from tests.host.world import Disk, World, settled, until


async def test_a_repeat_is_taken_and_not_run(world: World) -> None:
    """The second delivery with one id is answered TAKEN; another id is another event."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        assert await host.send(run, "note", text="a", delivery="d1") == "a"
        assert await host.send(run, "note", text="b", delivery="d1") is TAKEN
        assert await host.send(run, "note", text="c", delivery="d2") == "c"
        assert (await host.read(run)).context["notes"] == ["a", "c"]


async def test_a_repeat_is_taken_after_a_restart(world: World) -> None:
    """The ids are in the row, so that the next host knows them."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        await host.send(run, "note", text="a", delivery="d1")
        after = world.after_kill()
    async with after.host(Strict) as host:
        assert await host.send(run, "note", text="b", delivery="d1") is TAKEN
        assert (await host.read(run)).context["notes"] == ["a"]


async def test_a_repeat_to_a_finished_run_is_taken(world: World) -> None:
    """The event that ended a run may be delivered again, now and by the next host."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        await host.send(run, "remove", delivery="d1")
        assert await host.send(run, "remove", delivery="d1") is TAKEN
    async with world.host(Door) as host:
        assert await host.send(run, "remove", delivery="d1") is TAKEN


async def test_a_repeat_to_a_run_out_of_memory_is_taken(world: World) -> None:
    """A run that only waits in its row knows its deliveries too."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        await host.send(run, "note", text="a", delivery="d1")
        assert await host.unload(run)
        assert await host.send(run, "note", text="b", delivery="d1") is TAKEN


async def test_a_delivery_whose_macrostep_raised_is_not_kept(world: World) -> None:
    """A sender that got an exception may deliver the event again: it is run again."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        for _ in range(2):
            with pytest.raises(ValueError, match="smashed"):
                await host.send(run, "smash", delivery="d1")
        await host.send(run, "note", text="a")
        assert world.blob(run).get("deliveries", []) == []


async def test_a_delivery_whose_save_failed_is_not_kept(world: World) -> None:
    """A sender that got the disk's error delivers again, and the event is run."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageError):
            await host.send(run, "note", text="a", delivery="d1")
        assert await host.send(run, "note", text="a", delivery="d1") == "a"
        assert (await host.read(run)).context["notes"] == ["a"]


class Slow(StateMachine):
    """Takes notes, each after it was let on; some it cannot take."""

    calm = State(initial=True)
    over = State(final=True)
    note = calm.to.itself(internal=True)
    finish = calm.to(over)

    async def on_note(self, release: Any, text: str) -> str:
        self.model.tries = getattr(self.model, "tries", 0) + 1
        await RELEASES[release].wait()
        if text == "bad":
            message = "a bad note"
            raise ValueError(message)
        return text


RELEASES: dict[str, asyncio.Event] = {}


@pytest.fixture
def releases() -> dict[str, asyncio.Event]:
    """Return the events that let notes on, by name."""
    RELEASES.clear()
    RELEASES.update(first=asyncio.Event(), second=asyncio.Event())
    return RELEASES


async def repeated(host: Host, run: str, text: str) -> tuple[asyncio.Task[Any], asyncio.Task[Any]]:
    """Send one delivery twice while its macrostep is under way."""
    first = asyncio.create_task(host.send(run, "note", release="first", text=text, delivery="d1"))
    await settled()
    second = asyncio.create_task(
        host.send(run, "note", release="second", text="again", delivery="d1")
    )
    await settled()
    assert not second.done()
    return first, second


async def test_a_repeat_waits_for_the_event_that_is_under_way(
    world: World, releases: dict[str, asyncio.Event]
) -> None:
    """TAKEN is said when the first delivery is on disk, not while it may still fail."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        first, second = await repeated(host, run, "good")
        releases["first"].set()
        assert await first == "good"
        assert await second is TAKEN
        assert (await host.read(run)).context["tries"] == 1


async def test_a_repeat_is_run_if_the_event_under_way_fails(
    world: World, releases: dict[str, asyncio.Event]
) -> None:
    """The first delivery raised, so the second one is the event."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        first, second = await repeated(host, run, "bad")
        releases["first"].set()
        with pytest.raises(ValueError, match="a bad note"):
            await first
        releases["second"].set()
        assert await second == "again"
        assert await host.send(run, "note", release="first", text="x", delivery="d1") is TAKEN


async def test_a_delivery_accepted_in_mid_macrostep_is_on_disk_with_its_event(
    world: World, releases: dict[str, asyncio.Event]
) -> None:
    """Whatever is saved then holds both or neither: after a death it runs once, and is known."""

    class Busy(StateChart):
        class Both(State.Parallel):
            class Left(State.Compound):
                talking = State(initial=True)
                talk = talking.to.itself(on="speak")

            class Right(State.Compound):
                working = State(initial=True, invoke=lambda: None)
                worked = State(final=True)
                done_invoke_working = working.to(worked)

        async def speak(self, text: str, release: str = "") -> None:
            self.model.said = [*getattr(self.model, "said", []), text]
            if release:
                await RELEASES[release].wait()

    async with world.host(Busy) as host:
        run = await host.start(Busy)
        await until(lambda: "worked" in world.configuration(run))
        talk = asyncio.create_task(host.send(run, "talk", text="long", release="first"))
        await settled()
        short = asyncio.create_task(host.send(run, "talk", text="short", delivery="d1"))
        await settled()
        host._resident[run].write()
        after = world.after_kill()
        releases["first"].set()
        await asyncio.gather(talk, short)
    async with after.host(Busy) as host:
        await until(lambda: "arrivals" not in after.blob(run))
        await settled()
        assert (await host.read(run)).context["said"].count("short") == 1
        assert await host.send(run, "talk", text="short", delivery="d1") is TAKEN


async def test_what_a_run_is_cancelled_before_is_not_kept_as_taken(
    world: World, releases: dict[str, asyncio.Event]
) -> None:
    """What runs and what is queued did not happen, as its senders are told; what ran before did."""
    del releases
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        RELEASES["first"].set()
        await host.send(run, "note", release="first", text="a", delivery="d1")
        running = host.send(run, "note", release="second", text="b", delivery="d2")
        behind = host.send(run, "note", release="first", text="c", delivery="d3")
        told = [asyncio.create_task(sent) for sent in (running, behind)]
        await settled()
        await host.cancel(run)
        outcomes = await asyncio.gather(*told, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [RunFinishedError] * 2
        assert world.blob(run)["deliveries"] == ["d1"]
        with pytest.raises(RunFinishedError):
            await host.send(run, "note", text="b", delivery="d2")


async def test_what_a_run_could_not_be_cancelled_before_stays_taken(
    world: World, releases: dict[str, asyncio.Event]
) -> None:
    """The write that would have ended it fails: the event goes on, and its delivery is known."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        sent = host.send(run, "note", release="first", text="a", delivery="d1")
        running = asyncio.create_task(sent)
        await settled()
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageError):
            await host.cancel(run)
        releases["first"].set()
        assert await running == "a"
        assert world.blob(run)["deliveries"] == ["d1"]


async def test_only_the_newest_deliveries_are_known(world: World) -> None:
    """Beyond the bound the oldest is forgotten, and a repeat of it runs again."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        for number in range(DELIVERIES_MAX + 1):
            await host.send(run, "note", text=str(number), delivery=f"d{number}")
        assert await host.send(run, "note", text="x", delivery="d1") is TAKEN
        assert await host.send(run, "note", text="again", delivery="d0") == "again"
        assert len(world.blob(run)["deliveries"]) == DELIVERIES_MAX


@pytest.mark.parametrize("delivery", ["", "x" * 201, "\ud800", "a\nb", 7])
async def test_an_id_that_no_row_could_keep_is_refused_at_the_door(
    world: World, releases: dict[str, asyncio.Event], delivery: Any
) -> None:
    """Its sender is told, and nobody else: the event that is under way is not disturbed."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        first = asyncio.create_task(host.send(run, "note", release="first", text="good"))
        await settled()
        with pytest.raises(InvalidKeyError):
            await host.send(run, "note", release="second", text="x", delivery=delivery)
        releases["first"].set()
        assert await first == "good"


async def test_what_a_sender_changes_later_does_not_reach_its_event(
    world: World, releases: dict[str, asyncio.Event]
) -> None:
    """The event has the values that it was sent with, though it waits behind another."""

    class Keeps(Slow):
        async def on_note(self, release: Any, text: Any) -> Any:
            await RELEASES[release].wait()
            return text

    async with world.host(Keeps) as host:
        run = await host.start(Keeps)
        first = asyncio.create_task(host.send(run, "note", release="first", text="a"))
        await settled()
        given: list[Any] = [1, (2, 3)]
        second = asyncio.create_task(host.send(run, "note", release="second", text=given))
        await settled()
        given.append(object())
        releases["first"].set()
        releases["second"].set()
        assert await first == "a"
        assert await second == [1, (2, 3)]
