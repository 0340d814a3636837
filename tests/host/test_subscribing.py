"""Who subscribes to a host gets what is asked for, as far as there is room, and hurts nobody."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from machines import HostOptionError, HostStoppedError, Occurrence
from machines.limits import SUBSCRIPTION_HELD_MAX
from machines.telemetry import KINDS, subscriptions
from snapshots.errors import StorageError, StorageReadOnlyError
from tests.host.charts import Door, checkout
from tests.host.listening import Heard, lines
from tests.host.world import Disk, Outside, World, ended, settled


async def test_an_iterator_gives_what_happens(world: World) -> None:
    """From the subscription on, in order, with the fields of the kind; it ends with the host."""
    async with world.host(Door) as host:
        happened = host.subscribe(kinds=["machine.step", "run"])
        run = await host.start(Door)
        await host.send(run, "push")
        await host.send(run, "remove")
    told = [one async for one in happened]
    assert [one.kind for one in told] == [
        "machine.step", "run.started", "machine.step", "machine.step", "run.ended",
    ]  # fmt: skip
    assert {one.run for one in told} == {run}
    assert {one.machine for one in told} == {"Door"}
    assert [one.state for one in told] == [("shut",), ("shut",), ("ajar",), ("gone",), ("gone",)]
    assert told[2].data["event"] == "push"
    assert told[-1].data == {"status": "done", "reason": None}
    assert {one.at_ms for one in told} == {world.clock.now_ms()}


async def test_an_occurrence_cannot_be_changed(world: World) -> None:
    """Several listeners get the same one."""
    heard = Heard()
    async with world.host(Door) as host:
        host.subscribe(heard)
        await host.start(Door)
    fields: Any = heard.of("machine.step")[0].data
    with pytest.raises(TypeError):
        fields["event"] = "another"


async def test_an_iterator_waits_for_what_comes(world: World) -> None:
    """A task that listens is woken by what happens, and ended by the end of its block."""
    got: list[str] = []

    async def listen(host: Any) -> None:
        async with host.subscribe(kinds="run") as happened:
            async for one in happened:
                got.append(one.kind)
                if one.kind == "run.ended":
                    return

    async with world.host(Door) as host:
        listening = asyncio.create_task(listen(host))
        await settled()
        run = await host.start(Door)
        await settled()
        assert got == ["run.started"]
        await host.send(run, "remove")
        await listening
        assert got == ["run.started", "run.ended"]
        assert not host.told.subscriptions.wants("run.ended", run)


async def test_kinds_and_runs_are_filtered(world: World) -> None:
    """By the name of a kind, by the first part of it, by one run or several."""
    one, several, starts = Heard(), Heard(), Heard()
    async with world.host(Door) as host:
        host.subscribe(one, run="b", kinds="snapshot.save")
        host.subscribe(several, run=["a", "b"], kinds=["machine", "run.started"])
        host.subscribe(starts, kinds="run")
        for run in ("a", "b", "c"):
            await host.start(Door, run_id=run)
        await host.send("b", "push")
    assert [(told.kind, told.run) for told in one.all] == [("snapshot.save", "b")] * 2
    assert {told.run for told in several.all} == {"a", "b"}
    assert set(several.kinds) == {"machine.step", "run.started"}
    assert [told.run for told in starts.all] == ["a", "b", "c"]


async def test_what_is_of_no_run_is_told_to_who_asks_for_a_run(world: World) -> None:
    """A listener to one run hears of the host's end."""
    heard = Heard()
    host = world.host(Door)
    host.subscribe(heard, run="a", kinds=["host", "run"])
    async with host:
        await host.start(Door, run_id="a")
        await host.start(Door, run_id="b")
    assert heard.kinds == ["host.started", "run.started", "host.stopped"]


async def test_a_slow_listener_loses_the_oldest_and_is_told_how_many(world: World) -> None:
    """Where they were stands one gap; the run has not waited."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        happened = host.subscribe(kinds="snapshot.save", held_max=3)
        for event in ("push", "pull", "push", "pull", "push"):
            await host.send(run, event)
        first = world.stored(run).header.revision - 2
        assert happened.lost == 2
        got = [await anext(happened) for _ in range(4)]
        await host.send(run, "pull")
        got.append(await anext(happened))
    assert [one.kind for one in got] == ["listener.gap", *["snapshot.save"] * 4]
    assert got[0].data == {"lost": 2}
    assert [one.data["revision"] for one in got[1:]] == [first, first + 1, first + 2, first + 3]


async def test_as_many_as_are_held_make_no_gap(world: World) -> None:
    """Exactly at the bound nothing is lost."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        happened = host.subscribe(kinds="snapshot.save", held_max=3)
        for event in ("push", "pull", "push"):
            await host.send(run, event)
    assert [one.kind async for one in happened] == ["snapshot.save"] * 3
    assert happened.lost == 0


async def test_a_callback_loses_the_oldest_too(world: World) -> None:
    """While the loop has no turn for it, its queue is as bounded as an iterator's."""
    heard = Heard()
    async with world.host(Door) as host:
        run = await host.start(Door)
        host.subscribe(heard, kinds="machine.step", held_max=2)
        for event in ("push", "pull", "push"):
            await host.send(run, event)
        assert heard.all == []
        await settled()
    assert [told.data.get("event", told.data.get("lost")) for told in heard.all] == [
        1, "pull", "push",
    ]  # fmt: skip


async def test_a_slow_callback_leaves_turns_to_others(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its backlog is given in slices, in its order; as the host closes, all that is left."""
    monkeypatch.setattr(subscriptions, "SUBSCRIPTION_SLICE_S", 0.0)
    said: list[str] = []
    async with world.host(Door) as host:
        run = await host.start(Door)
        host.subscribe(lambda told: said.append(told.data["event"]), kinds="machine.step")
        await host.send(run, "push")
        await host.send(run, "pull")
        for _ in range(2):
            asyncio.get_running_loop().call_soon(said.append, "another")
            await asyncio.sleep(0)
        assert said == ["push", "another", "pull", "another"]
        for event in ("push", "pull", "push"):
            await host.send(run, event)
    assert said[4:] == ["push", "pull", "push"]


async def test_a_callback_that_raises_hurts_no_run(world: World) -> None:
    """It goes on being called, the others too, and a line says what it raised."""
    heard = Heard()

    def stumble(told: Occurrence) -> None:
        raise ValueError(told.kind)

    with lines(logging.ERROR) as log:
        async with world.host(Door) as host:
            host.subscribe(stumble, kinds="run")
            host.subscribe(heard, kinds="run")
            run = await host.start(Door)
            await settled()
            await host.send(run, "remove")
    assert heard.kinds == ["run.started", "run.ended"]
    assert [record.reason for record in log.of("listener.raised")] == [
        "ValueError: run.started", "ValueError: run.ended",
    ]  # fmt: skip
    assert world.status(run) == "done"


async def test_a_callback_that_raises_a_cancellation_hurts_no_run(world: World) -> None:
    """The result of a cancelled task raises one: it ends neither the host nor the other listeners.

    The last occurrences are given while the host closes.
    """
    heard = Heard()

    def stumble(told: Occurrence) -> None:
        raise asyncio.CancelledError(told.kind)

    with lines() as log:
        async with world.host(Door) as host:
            host.subscribe(stumble, kinds=["run", "host"])
            host.subscribe(heard, kinds=["run", "host"])
            run = await host.start(Door)
            await host.send(run, "remove")
    assert heard.kinds == ["run.started", "run.ended", "host.stopped"]
    assert [record.reason for record in log.of("listener.raised")] == [
        f"CancelledError: {kind}" for kind in heard.kinds
    ]


async def test_a_callback_may_subscribe_and_stop_the_host(world: World) -> None:
    """Whoever it adds hears what comes later; what was told before the end is given to all."""
    late, stopping = Heard(), []
    host = world.host(Door)

    def act(told: Occurrence) -> None:
        if told.kind == "run.started":
            host.subscribe(late)
        if told.kind == "machine.step" and told.data["event"] == "push":
            stopping.append(asyncio.ensure_future(host.stop()))

    async with host:
        host.subscribe(act)
        run = await host.start(Door)
        await settled()
        await host.send(run, "push")
        await settled()
        await asyncio.gather(*stopping)
    assert len(stopping) == 1
    assert late.kinds == ["machine.step", "snapshot.save", "host.stopped"]
    async with world.host(Door) as after:
        assert (await after.read(run)).configuration == ("ajar",)


async def test_a_log_filter_that_raises_hurts_no_run(world: World) -> None:
    """`logging` lets what a filter raises through; the host does not."""

    class Broken(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise RuntimeError(record.getMessage())

    broken, logger = Broken(), logging.getLogger("machines")
    with lines():
        logger.addFilter(broken)
        try:
            async with world.host(Door) as host:
                run = await host.start(Door)
                assert await host.send(run, "push") == "pushed by nobody"
        finally:
            logger.removeFilter(broken)
    assert world.saves(run) == 2


async def test_a_callback_may_act_on_the_host(world: World) -> None:
    """It is called by the loop, behind the save: what it asks for begins a macrostep of its own."""
    acting: list[asyncio.Task[Any]] = []

    async with world.host(Door) as host:

        def push(told: Occurrence) -> None:
            acting.append(asyncio.ensure_future(host.send(told.run, "push", by="listener")))

        host.subscribe(push, kinds="run.started")
        run = await host.start(Door)
        await settled()
        assert [task.result() for task in acting] == ["pushed by listener"]
        assert (await host.read(run)).configuration == ("ajar",)


async def test_nothing_is_delivered_of_a_save_that_failed(world: World) -> None:
    """The subscriber hears of the stall, and later of the one save that there is."""
    heard = Heard()
    async with world.host(Door) as host:
        run = await host.start(Door)
        host.subscribe(heard, run=run, kinds=["run", "machine", "snapshot"])
        disk = Disk(host)
        disk.fail_once()
        with pytest.raises(StorageReadOnlyError):
            await host.send(run, "push")
        await settled()
        assert heard.kinds == ["run.stalled"]
        disk.heal()
        await host.send(run, "push")
        await settled()
    assert [told.data["revision"] for told in heard.of("snapshot.save")] == [
        world.stored(run).header.revision
    ]


async def test_what_is_delivered_is_on_disk(world: World, outside: Outside) -> None:
    """At each delivery another connection finds a revision that is at least as high."""
    chart = checkout(outside.service("charge"))
    looked_at: list[str] = []

    def look(told: Occurrence) -> None:
        looked_at.append(told.kind)
        if told.kind == "snapshot.save":
            assert world.stored(told.run).header.revision >= told.data["revision"]
        if told.kind == "effect.outcome":
            assert world.effects(told.run) == ["done"]

    with lines(logging.ERROR) as log:
        async with world.host(chart) as host:
            host.subscribe(look)
            run = await host.start(chart)
            await host.send(run, "pay")
            await ended(host, run)
    assert {"snapshot.save", "effect.outcome", "run.ended"} <= set(looked_at)
    assert log.records == []


async def test_closing_ends_an_iterator_that_waits(world: World) -> None:
    """Who waits is told that it is over; what was queued is dropped; twice is harmless."""
    async with world.host(Door) as host:
        happened = host.subscribe(kinds="run")
        waiting = asyncio.ensure_future(anext(happened))
        await settled()
        happened.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
        other = host.subscribe(kinds="run")
        run = await host.start(Door)
        other.close()
        other.close()
        assert [one async for one in other] == []
        assert not host.told.subscriptions.wants("run.ended", run)


async def test_an_iterator_that_nobody_holds_is_forgotten(world: World) -> None:
    """Whoever breaks out of the loop leaves nothing behind."""
    async with world.host(Door) as host:
        happened = host.subscribe()
        assert host.told.each
        del happened
        gc.collect()
        host.told.look()
        assert not host.told.each


async def test_a_host_that_has_stopped_takes_no_listener(world: World) -> None:
    """It says why it stopped."""
    host = world.host(Door)
    async with host:
        pass
    with pytest.raises(HostStoppedError, match="stopped"):
        host.subscribe()


async def test_a_host_that_could_not_be_opened_ends_its_listeners(world: World) -> None:
    """An iterator does not wait for ever for a host that never was."""
    world.path.write_bytes(b"no database at all, but long enough to be looked at" * 20)
    host = world.host(Door)
    happened = host.subscribe()
    with pytest.raises(StorageError):
        await host.__aenter__()
    assert [one.kind async for one in happened] == []


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"kinds": "nothing"}, "kinds='nothing'"),
        ({"kinds": ["run", "snapshots"]}, "kinds='snapshots'"),
        ({"held_max": 0}, "held_max=0"),
        ({"held_max": True}, "held_max=True"),
        ({"callback": 7}, "callback=7"),
    ],
)
async def test_senseless_options_are_refused(
    world: World, options: dict[str, Any], match: str
) -> None:
    """The error says which one, and what was expected."""
    async with world.host(Door) as host:
        with pytest.raises(HostOptionError, match=match):
            host.subscribe(**options)


async def test_a_coroutine_function_is_refused_as_a_callback(world: World) -> None:
    """Nobody would await it."""

    async def listen(told: Occurrence) -> None:
        del told

    async with world.host(Door) as host:
        with pytest.raises(HostOptionError, match="iterate"):
            host.subscribe(listen)


async def test_a_subscription_with_a_callback_is_no_iterator(world: World) -> None:
    """What happens is given once."""
    async with world.host(Door) as host:
        with host.subscribe(Heard()) as happened, pytest.raises(TypeError, match="callback"):
            await anext(happened)


def test_every_kind_can_be_asked_for() -> None:
    """The bound is a documented one, and each kind belongs to a group."""
    assert SUBSCRIPTION_HELD_MAX == 1_000
    assert {kind.partition(".")[0] for kind in KINDS} == {
        "machine", "snapshot", "effect", "run", "host", "sweep", "mail", "listener",
    }  # fmt: skip
