"""History is a week: what is swept, and what never is."""

from __future__ import annotations

import asyncio
import inspect
import os
import re
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any, get_type_hints

import pytest
import typer
from statemachine import State, StateChart, StateMachine
from typer.main import get_command

import machines
import snapshots
from machines import Host, Machine
from machines.errors import RunFinishedError
from machines.limits import SWEEP_INTERVAL_S
from snapshots.errors import AmbiguousRunError, RunNotFoundError
from snapshots.inspection.cli.app import app
from snapshots.limits import RETENTION_MS, SWEEP_SLICE_ROWS
from tests.host.charts import Door, Review
from tests.host.world import World, ended, ring, settled, until
from tests.house.sources import PACKAGES, modules, read

DAY_MS = 24 * 60 * 60 * 1000


async def finished(host: Any, run_id: str | None = None) -> str:
    """Return a run that has just ended."""
    run: str = await host.start(Door, run_id=run_id)
    await host.send(run, "remove")
    return run


@pytest.mark.parametrize(("after_ms", "swept"), [(-1, 0), (0, 0), (1, 1)])
async def test_a_finished_run_is_kept_for_seven_days_exactly(
    world: World, after_ms: int, swept: int
) -> None:
    """At the limit it is there, one millisecond past it it is not."""
    async with world.host(Door) as host:
        run = await finished(host)
        world.clock.advance(RETENTION_MS + after_ms)
        assert await host.sweep() == swept
        assert world.ids() == ([] if swept else [run])
    assert RETENTION_MS == 7 * 24 * 60 * 60 * 1000


async def test_age_counts_from_the_end_and_not_from_the_start(world: World) -> None:
    """A run that lived for a month and ended today is kept for a week from today."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        world.clock.advance(30 * 24 * 60 * 60 * 1000)
        await host.send(run, "remove")
        world.clock.advance(RETENTION_MS)
        assert await host.sweep() == 0
        world.clock.advance(1)
        assert await host.sweep() == 1


async def test_a_live_run_is_never_swept(world: World) -> None:
    """A gate that waits for a year is still open."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
        world.clock.advance(365 * 24 * 60 * 60 * 1000)
        assert await host.sweep() == 0
    async with world.host(Review) as host:
        await host.answer(run, "review", "approve")


class Ends(StateMachine):
    """Ends well, in a failure, or of an exception that nobody waits for."""

    idle = State(initial=True)
    well = State(final=True)
    badly = State(final=True)
    go = idle.to(well)
    fail = idle.to(badly)
    arm = idle.to.itself(on="set_it")
    burst = idle.to(well)

    def set_it(self) -> None:
        self.send("burst", delay=1)

    def on_burst(self) -> None:
        message = "it burst"
        raise ValueError(message)


class Works(StateChart):
    """Has work in flight, so that it is asked for its world at a boot."""

    working = State(initial=True, invoke=lambda ctx: ctx.cancelled.wait(5))
    over = State(final=True)
    finish = working.to(over)
    done_invoke_working = working.to(over)


def door(*, more: bool) -> Any:
    """Return a door of one of two shapes, under one name."""

    class Gate(StateChart):
        shut = State(initial=True)
        gone = State(final=True)
        remove = shut.to(gone)
        if more:
            locked = State()
            lock = shut.to(locked)
            unlock = locked.to(shut)

    return Gate


async def done(world: World) -> str:
    """Return a run that reached its end."""
    async with world.host(Ends) as host:
        run = await host.start(Ends)
        await host.send(run, "go")
    return run


async def failed(world: World) -> str:
    """Return a run that reached an end which its machine names a failure."""
    async with world.host(Machine(Ends, failed="badly")) as host:
        run = await host.start(Ends)
        await host.send(run, "fail")
    return run


async def broken(world: World) -> str:
    """Return a run that died of an exception."""
    async with world.host(Ends) as host:
        run = await host.start(Ends)
        await host.send(run, "arm")
        world.clock.advance(1)
        ring(host)
        await ended(host, run)
    return run


async def cancelled(world: World) -> str:
    """Return a run that somebody ended."""
    async with world.host(Ends) as host:
        run = await host.start(Ends)
        await host.cancel(run)
    return run


async def lost(world: World) -> str:
    """Return a run whose world was gone at a boot."""
    async with world.host(Works, grace_s=0) as host:
        run = await host.start(Works)
        after = world.after_kill()
    world.path = after.path
    async with world.host(Machine(Works, reconcile=lambda _: False)) as host:
        assert run in host.report.lost
    return run


async def drifted(world: World) -> str:
    """Return a run whose machine had another shape at a boot."""
    async with world.host(door(more=True)) as host:
        run = await host.start("Gate")
    async with world.host(door(more=False)) as host:
        assert run in host.report.drifted
    return run


ENDS: dict[str, Callable[[World], Any]] = {
    "done": done,
    "failed": failed,
    "error": broken,
    "cancelled": cancelled,
    "lost": lost,
    "drifted": drifted,
}


def test_every_status_that_is_not_live_is_among_those_that_are_swept_here() -> None:
    """The tests below leave none out."""
    statuses = get_type_hints(snapshots.RunHeader)["status"].__args__
    assert {*ENDS, "live"} == set(statuses)


@pytest.mark.parametrize("status", ENDS)
async def test_every_status_that_is_not_live_ages_alike(world: World, status: str) -> None:
    """A week after the write that ended it a run is there, a millisecond later it is not."""
    run = await ENDS[status](world)
    assert world.status(run) == status
    assert world.stored(run).header.ended_ms == world.clock.now_ms()
    async with world.host() as host:
        world.clock.advance(RETENTION_MS)
        assert await host.sweep() == 0
        world.clock.advance(1)
        assert await host.sweep() == 1
        with pytest.raises(RunNotFoundError):
            await host.read(run)


async def test_a_drifted_run_is_swept_a_week_after_the_deploy_that_changed_its_machine(
    world: World,
) -> None:
    """However long it had waited, a person has a week to look at it."""
    async with world.host(door(more=True)) as host:
        run = await host.start("Gate")
    world.clock.advance(100 * DAY_MS)
    async with world.host(door(more=False)) as host:
        assert run in host.report.drifted
    for _ in range(7):
        async with world.host(door(more=False)) as host:
            await host.sweep()
            assert (await host.read(run)).status == "drifted"
        world.clock.advance(DAY_MS)
    world.clock.advance(1)
    async with world.host(door(more=False)) as host:
        await host.sweep()
    assert world.ids() == []


async def test_a_run_that_is_parked_on_a_gate_for_a_month_stays_and_is_restored(
    world: World,
) -> None:
    """A boot and a sweep on each day leave it as it was, and then it takes its answer."""
    async with world.host(Review) as host:
        run = await host.start(Review)
        await host.send(run, "submit")
    before = world.stored(run)
    for _ in range(31):
        world.clock.advance(DAY_MS)
        async with world.host(Review) as host:
            assert await host.sweep() == 0
            assert host.report.resumed == [run]
    assert world.stored(run) == before
    async with world.host(Review) as host:
        await host.answer(run, "review", "approve")
    assert world.status(run) == "done"


async def test_a_revived_run_is_not_swept(world: World) -> None:
    """What lives again has no end to count from."""
    async with world.host(Door) as host:
        run = await host.start(Door)
        assert await host.unload(run)
        host.store.mark(world.stored(run).header, "lost", "for the test")
        await host.revive(run)
        world.clock.advance(RETENTION_MS + 1)
        assert await host.sweep() == 0
        await host.send(run, "push")


async def test_more_than_a_slice_is_swept_in_several_transactions(world: World) -> None:
    """No transaction deletes more than a slice, and all of it goes."""
    async with world.host(Door) as host:
        await settled()  # the boot's own sweep
        count = 2 * SWEEP_SLICE_ROWS + 3
        for _ in range(count):
            await finished(host)
        deletes: list[str] = []
        database: Any = host.store
        world.clock.advance(RETENTION_MS + 1)
        database.database.trace_statements(
            lambda sql, _: deletes.append(sql) if "delete from runs" in sql else None
        )
        assert await host.sweep() == count
        database.database.trace_statements(None)
    assert len(deletes) >= 3
    assert world.ids() == []


async def test_a_boot_sweeps(world: World) -> None:
    """What grew old while no host ran is gone soon after the next one opened."""
    async with world.host(Door) as host:
        run = await finished(host)
    world.clock.advance(RETENTION_MS + 1)
    async with world.host(Door):
        await until(lambda: world.ids() == [])
    assert run not in world.ids()


async def test_what_is_live_goes_on_between_the_slices_of_a_sweep(world: World) -> None:
    """A sender is answered before a long sweep has ended."""
    async with world.host(Door) as host:
        await settled()  # the boot's own sweep
        live = await host.start(Door)
        for _ in range(3 * SWEEP_SLICE_ROWS):
            await finished(host)
        world.clock.advance(RETENTION_MS + 1)
        sweeping = asyncio.create_task(host.sweep())
        await asyncio.sleep(0)
        assert len(await host.runs(limit=1_000)) == 2 * SWEEP_SLICE_ROWS + 1
        await host.send(live, "push")
        assert not sweeping.done()
        assert await sweeping == 3 * SWEEP_SLICE_ROWS
    assert world.ids() == [live]


async def test_a_host_sweeps_by_itself_again_and_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every hour: what grows old while a host runs goes without being asked for."""
    assert SWEEP_INTERVAL_S == 60 * 60
    monkeypatch.setattr("machines.host.host.SWEEP_INTERVAL_S", 0.005)
    async with world.host(Door) as host:
        for _ in range(2):
            await finished(host)
            world.clock.advance(RETENTION_MS + 1)
            await until(lambda: world.ids() == [], "the next sweep")


async def test_an_id_that_was_swept_frees_its_prefix(world: World) -> None:
    """An abbreviation that named two runs names the one that is left."""
    async with world.host(Door) as host:
        await finished(host, "order-1")
        live = await host.start(Door, run_id="order-2")
        with pytest.raises(AmbiguousRunError):
            await host.send("order", "push")
        world.clock.advance(RETENTION_MS + 1)
        await host.sweep()
        assert await host.send("order", "push") == "pushed by nobody"
        assert (await host.read("order")).run_id == live


async def test_an_id_that_was_swept_can_be_used_again(world: World) -> None:
    """Nothing of the old run is left to be mistaken for the new one's."""
    async with world.host(Door) as host:
        await finished(host, "a")
        with pytest.raises(RunFinishedError):
            await host.send("a", "push")
        world.clock.advance(RETENTION_MS + 1)
        await host.sweep()
        assert await host.start(Door, run_id="a") == "a"
        await host.send("a", "push")
    assert world.configuration("a") == ["ajar"]


# -- a week, whatever anybody says -----------------------------------------------------------------

WEEK_WORDS = {"retain", "retains", "retention", "keep", "keeps", "history", "age", "days", "expire"}
"""What a setting that changed how long a run is kept would have in its name."""
A_RUNS_OWN = ("machines", "AsyncWorkspace", "history")
"""What a run of a thread leaves with a fact: bytes, and no time."""
OWN_FILES = ("demo", "keep")
"""The demo leaves the files that it made itself, if it is told to: no run is kept by that."""


def words(name: str) -> set[str]:
    """Return the words of a name."""
    return set(re.split(r"[^a-z]+", name.lower()))


def settings(thing: Any) -> set[str]:
    """Return the parameters of a callable, and of the public methods of a class."""
    found: set[str] = set()
    callables = [thing] if callable(thing) else []
    if inspect.isclass(thing):
        callables += [member for name, member in inspect.getmembers(thing) if name[0] != "_"]
    for one in filter(callable, callables):
        try:
            found |= set(inspect.signature(one).parameters)
        except (TypeError, ValueError):
            continue  # what is written in C takes nothing of ours
    return found


def test_no_parameter_says_how_long_a_finished_run_is_kept() -> None:
    """Nothing that the packages offer takes such a setting, and a sweep takes none at all."""
    offered = {(p, name): getattr(p, name) for p in (machines, snapshots) for name in p.__all__}
    assert Host in offered.values()
    wrong = {
        (package.__name__, name, parameter)
        for (package, name), thing in offered.items()
        for parameter in settings(thing)
        if words(parameter) & WEEK_WORDS
    }
    assert wrong == {A_RUNS_OWN}
    assert list(inspect.signature(Host.sweep).parameters) == ["self"]
    of_store = inspect.signature(snapshots.SnapshotStore.sweep).parameters
    assert list(of_store) == ["self", "slice_rows"]


def options(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the options and arguments of a command and of those below it, with its name."""
    for parameter in command.params:
        for name in {parameter.name, *parameter.opts, *parameter.secondary_opts}:
            yield (*path, name.strip("-"))
    if hasattr(command, "list_commands"):
        context = typer.Context(command)
        for name in command.list_commands(context):
            yield from options(command.get_command(context, name), (*path, name))


def test_no_option_says_how_long_a_finished_run_is_kept() -> None:
    """Nor does any command, its own or another package's."""
    found = set(options(get_command(app)))
    assert ("runs", "limit") in found
    assert OWN_FILES in found
    assert {path for path in found if words(path[-1]) & WEEK_WORDS} == {OWN_FILES}


VARIABLES = {
    "DATABASE_URL": "postgres://nobody@nowhere/nothing",
    "SNAPSHOTS_DATABASE_URL": "nonsense",
    "SNAPSHOTS_RETENTION_DAYS": "0",
    "SNAPSHOTS_KEEP": "forever",
    "RETENTION_MS": "1",
    "RUNS_RETAIN": "1",
}


class Watched(MutableMapping[str, str]):
    """An environment that remembers what it was asked for."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> str:
        self.asked.add(name)
        return self.names[name]

    def __setitem__(self, name: str, value: str) -> None:
        self.names[name] = value

    def __delitem__(self, name: str) -> None:
        del self.names[name]

    def __iter__(self) -> Iterator[str]:
        self.asked.add("all of them")
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


async def test_no_variable_is_read_by_a_host_and_none_changes_the_week(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`DATABASE_URL` and whatever else may be set: nobody looks, and a week is a week."""
    watched = Watched({**os.environ, **VARIABLES})
    with monkeypatch.context() as patched:
        patched.setattr(os, "environ", watched)
        async with world.host(Door) as host:
            run = await finished(host)
            world.clock.advance(RETENTION_MS)
            assert await host.sweep() == 0
            assert world.ids() == [run]
            world.clock.advance(1)
            assert await host.sweep() == 1
        assert os.getenv("HOME") == watched.names.get("HOME")
    assert watched.asked - {"HOME"} == set()


def test_no_variable_that_the_packages_name_is_about_a_database_or_an_age() -> None:
    """Every text that looks like the name of a variable is looked at."""
    quoted = re.compile(r"""["']([A-Z]+_[A-Z_]+)["']""")
    named = {name for module in modules(*PACKAGES) for name in quoted.findall(read(module))}
    assert "SNAPSHOTS_FILE" in named
    assert not {name for name in named if words(name) & {*WEEK_WORDS, "database", "url"}}
