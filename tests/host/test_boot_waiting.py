"""Runs that only wait are cheap to boot: no blob is read, little is kept, and others may run."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import child, children
from machines.approvals import approval, opens_approvals
from machines.limits import BOOT_SLICE_MS
from snapshots.limits import SURVEY_SLICE_ROWS
from snapshots.storage import Scope
from tests.host.charts import Door, Review, checkout, waiter
from tests.host.test_approvals import SCOPE, TICKET, Ticket, asked, open_keys
from tests.host.test_boot_rows import Watched, reads_blobs, watched  # noqa: F401 - a fixture
from tests.host.world import World, settled, until

BYTES_MAX = 1_024
"""What a run that only waits may weigh in memory."""
COPY = """
with recursive counted(n) as (select 1 union all select n + 1 from counted where n < ?)
insert into runs (run_id, machine, digest, status, reason, created_ms, ended_ms, head, blob)
select printf('wait-%08d', n), machine, digest, status, reason, created_ms, ended_ms,
  cast(substr(head, 1, 34) || printf('%016d', cast(substr(head, 35, 16) as integer)
    + case substr(head, 35, 16) when x'30303034313032343434383030303030' then 0 else n end)
    || substr(head, 51) as blob),
  cast(replace(cast(blob as text), run_id, printf('wait-%08d', n)) as blob)
from counted, runs where run_id = ?"""


async def many(world: World, chart: Any, count: int) -> list[str]:
    """Leave runs of a chart behind that only wait, all like the first one."""
    async with world.host(chart) as host:
        first = await host.start(chart, run_id="wait-first")
    with world.opened(read_only=False) as store, store.transaction():
        store.database.run(COPY, (count - 1, first))
    return [first, *(f"wait-{number:08d}" for number in range(1, count))]


def of_blobs(watched: Watched) -> list[str]:  # noqa: F811 - what the fixture gives
    """Return the watched statements that select the blob itself."""
    return [sql for sql in watched.statements if reads_blobs(sql) and ", blob" in sql]


@contextmanager
def ticking() -> Iterator[list[float]]:
    """Have another task of the loop note each turn that it gets."""
    turns: list[float] = []

    async def tick() -> None:
        while True:
            turns.append(asyncio.get_running_loop().time())
            await asyncio.sleep(0)

    task = asyncio.ensure_future(tick())
    try:
        yield turns
    finally:
        task.cancel()


async def test_no_blob_of_a_run_that_waits_is_read(world: World, watched: Watched) -> None:  # noqa: F811 - the fixture
    """Not by the boot, and not behind it: approvals are looked for where a chart has them."""
    runs = await many(world, Door, 500)
    watched.statements.clear()
    async with world.host(Door, TICKET, approvals=SCOPE) as host:
        assert set(host.report.resumed) == set(runs) == host.waiting
        await until(lambda: not host._changed)
        await settled()
        assert of_blobs(watched) == []
        await host.send(runs[-1], "push")
        assert len(of_blobs(watched)) == 1


async def test_blobs_that_may_hold_an_approval_are_read_behind_the_boot(
    world: World,
    watched: Watched,  # noqa: F811 - the fixture
) -> None:
    """The host takes events by then; what was open is found, and no chart is built for that."""
    async with world.host(TICKET, Door, approvals=Scope(workflow="former")) as host:
        run = await asked(host)
        await host.start(Door)
    watched.statements.clear()
    async with world.host(TICKET, Door, approvals=SCOPE) as host:
        assert of_blobs(watched) == []
        await until(lambda: open_keys(host) == ["ticket-17"])
        assert len(of_blobs(watched)) == 1
        assert run in host.waiting


async def test_a_run_that_waits_weighs_less_than_a_kilobyte(world: World) -> None:
    """Its id, and its place in the alarm's order if it has a timer: all of it, by tracemalloc."""
    for chart, count in ((Door, 2_000), (waiter(60), 2_000)):
        runs = await many(world, chart, count)
        host = world.host(chart)
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            async with host:
                gc.collect()
                held, _ = tracemalloc.get_traced_memory()
                assert len(host.waiting) == count
        finally:
            tracemalloc.stop()
        assert (held - before) / count < BYTES_MAX
        with world.opened(read_only=False) as store, store.transaction():
            store.database.run("delete from runs")
        assert runs


async def test_a_boot_lets_others_run(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes, another task of the loop gets its turns in between."""
    assert 0 < BOOT_SLICE_MS < 10
    slices = 8
    await many(world, Door, slices * SURVEY_SLICE_ROWS)
    with ticking() as turns:
        monkeypatch.setattr("machines.host.boot.BOOT_SLICE_MS", 0)
        async with world.host(Door):
            between = len(turns)
    assert between >= slices


async def test_a_boot_lets_others_run_between_the_runs_that_it_builds(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each run that does something is a slice of its own, if it takes as long."""
    world.outside.hold("charge")
    paying = checkout(world.outside.service("charge"), idempotent=True)
    async with world.host(paying, grace_s=0) as host:
        runs = [await host.start(paying) for _ in range(10)]
        for run in runs:
            await host.send(run, "pay")
    monkeypatch.setattr("machines.host.boot.BOOT_SLICE_MS", 0)
    with ticking() as turns:
        async with world.host(paying, grace_s=0) as host:
            between = len(turns)
            assert sorted(host.report.resumed) == sorted(runs)
    assert between >= len(runs)


async def test_timers_of_runs_that_wait_are_armed_by_their_rows(world: World) -> None:
    """A hundred runs, due one after the other: each is built at its time and not before."""
    chart = waiter(60)
    runs = await many(world, chart, 100)
    async with world.host(chart) as host:
        world.clock.advance(60_010)
        host._alarm.ring_due()
        await settled()
        assert set(runs) - host.waiting == set(runs[:11])
        world.clock.advance(60_000)
        host._alarm.ring_due()
        await settled()
        assert host.waiting == set()
    assert {world.status(run) for run in runs} == {"done"}


async def test_runs_that_wait_for_a_machine_that_is_not_there_are_reported(world: World) -> None:
    """Each by its name, with the reason; the others wait as ever, and the rows stay live."""
    async with world.host(Door, Review) as host:
        doors = [await host.start(Door) for _ in range(3)]
        reviews = [await host.start(Review) for _ in range(3)]
    async with world.host(Door) as host:
        assert sorted(host.report.unresumed) == sorted(reviews)
        assert "'Review'" in host.report.unresumed[reviews[0]]
        assert host.waiting == set(doors)
    async with world.host(Door, Review) as host:
        assert host.waiting == {*doors, *reviews}


async def test_runs_that_wait_come_before_those_that_go_on(world: World) -> None:
    """What a run does as it goes on finds every run that waits, also one of a later row."""
    found: list[bool] = []

    async def look(key: str) -> None:
        del key
        found.append(late in hosts[-1].waiting)

    world.outside.hold("charge")
    hosts: list[Any] = []
    slow = checkout(world.outside.service("charge"), idempotent=True)
    async with world.host(slow, Door, grace_s=0) as host:
        run = await host.start(slow)
        await host.send(run, "pay")
        late = await host.start(Door)
    looking = checkout(look, idempotent=True)
    hosts.append(world.host(looking, Door))
    async with hosts[0] as host:
        await until(lambda: found == [True])
        assert host.report.resumed == [late, run]


def test_charts_that_may_open_an_approval_are_told_apart() -> None:
    """By a state of theirs, of a chart that they invoke in whatever form, or of one below that."""

    class Above(StateChart[Any]):
        a = State(initial=True, invoke=Ticket)
        again = a.to.itself()

    class Further(StateChart[Any]):
        a = State(initial=True, invoke=[child(Door), child(Above)])
        again = a.to.itself()

    class Nursing(StateChart[Any]):
        a = State(initial=True, invoke=children(Further))
        again = a.to.itself()

    class Own(StateChart[Any]):
        a = State(initial=True)
        b = State(invoke=approval("yes", correlation="k"))
        go = a.to(b)
        yes = b.to(a)

    class Other(StateChart[Any]):
        a = State(initial=True, invoke=[child(Door), Review])
        again = a.to.itself()

    assert [opens_approvals(one) for one in (Own, Ticket, Above, Further, Nursing)] == [True] * 5
    assert [opens_approvals(one) for one in (Door, Review, Other)] == [False] * 3
