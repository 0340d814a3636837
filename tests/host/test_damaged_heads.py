"""A row whose head is damaged: its run is named and kept, or goes on; all others live."""

from __future__ import annotations

import contextlib
import random

import pytest

from machines.errors import MachinesError
from snapshots.errors import DecodeError, SnapshotsError
from snapshots.heads import HEAD_BYTES, is_sound
from tests.host.charts import Door, Review, waiter
from tests.host.world import World, ring

SOUND = b"0000008589934593 0001764460800123 0004102444800000 1"
LOST = [
    bytes(HEAD_BYTES),
    b"x" * HEAD_BYTES,
    b"0000000000000000" + SOUND[16:],
    b"+000008589934593" + SOUND[16:],
    b"00_0008589934593" + SOUND[16:],
    b"000000 589934593" + SOUND[16:],
    b"8589934593 1 4102444800000 1".ljust(HEAD_BYTES),
]
"""No save finds these."""
MENDED = [
    SOUND[:-1] + b"x",
    SOUND[:17] + b"x" * 16 + SOUND[33:],
    SOUND[:34] + b"  4102444800 000" + SOUND[50:],
    SOUND[:16] + bytes(36),
]
"""The next save makes these anew."""


def damage(world: World, run: str, head: bytes) -> None:
    """Write a head over that of a run, as a fault of the disk would; its revision is the first."""
    with world.opened(read_only=False) as store:
        database = store.database  # type: ignore[attr-defined]  # a store of SQLite
        with database.transaction("damage"):
            database.run("update runs set head = ? where run_id = ?", (head, run))


def head_of(world: World, run: str) -> bytes:
    """Return the head that a run has."""
    with world.opened() as store:
        database = store.database  # type: ignore[attr-defined]  # a store of SQLite
        ((head,),) = database.rows("look", "select head from runs where run_id = ?", (run,))
    return bytes(head)


@pytest.mark.parametrize("head", LOST)
async def test_a_run_that_no_save_would_find_is_named_and_kept(world: World, head: bytes) -> None:
    """Whether it waits or is to go on; it is not resumed, and nobody is told that it took a thing.

    One that had ended is not revived either.
    """
    async with world.host(Door, Review) as host:
        bad, good = await host.start(Door), await host.start(Door)
        ended = await host.start(Review)
    damage(world, bad, head)
    with world.opened(read_only=False) as store:
        store.mark(store.load(ended).header, "lost", "its world is gone")
    damage(world, ended, head)
    before = world.stored(bad)
    async with world.host(Door, Review) as host:
        assert [*host.report.unresumed] == [bad]
        assert "its row is damaged" in host.report.unresumed[bad]
        assert host.report.resumed == [good]
        with pytest.raises(DecodeError, match="the head of its row is damaged"):
            await host.send(bad, "push")
        with pytest.raises(DecodeError, match="the head of its row is damaged"):
            await host.revive(ended)
        assert await host.send(good, "push", by="me") == "pushed by me"
        assert (await host.read(bad)).status == "live"
    assert world.stored(bad) == before


@pytest.mark.parametrize("head", MENDED)
async def test_what_a_save_makes_anew_stops_no_run(world: World, head: bytes) -> None:
    """The revision is there, the rest follows from the blob."""
    async with world.host(Door) as host:
        run = await host.start(Door)
    assert world.stored(run).header.revision == int(SOUND[:16]) - 1
    damage(world, run, SOUND[:15] + b"2" + head[16:])
    async with world.host(Door) as host:
        assert host.report.resumed == [run]
        await host.send(run, "push")
    assert is_sound(head_of(world, run))


async def test_a_timer_outlives_the_head_that_knew_of_it(world: World) -> None:
    """Where the head is damaged the blob is read, which has the timers."""
    chart = waiter(60.0)
    async with world.host(chart) as host:
        run = await host.start(chart)
    before = head_of(world, run)
    damage(world, run, before[:34] + b"?" * 16 + before[50:])
    world.clock.advance(1_000_000)
    async with world.host(chart) as host:
        ring(host)
        await host.settled(run)
    assert world.status(run) == "done"


@pytest.mark.parametrize("seed", range(30))
async def test_a_bit_that_flips_in_a_head_stops_nobody(world: World, seed: int) -> None:
    """The run goes on, or is named; the other one goes on."""
    chance = random.Random(seed)
    async with world.host(Door) as host:
        bad, good = await host.start(Door), await host.start(Door)
    head = bytearray(head_of(world, bad))
    head[chance.randrange(HEAD_BYTES)] ^= 1 << chance.randrange(8)
    damage(world, bad, bytes(head))
    async with world.host(Door) as host:
        assert {*host.report.unresumed, *host.report.resumed} == {bad, good}
        assert good in host.report.resumed
        with contextlib.suppress(SnapshotsError, MachinesError):
            await host.send(bad, "push")
            assert bad in host.report.resumed
            assert is_sound(head_of(world, bad))
        assert await host.send(good, "push", by="me") == "pushed by me"
