"""Releases that change a contract while a run is between its load and its save."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Machine, gate
from machines.carry import Carry
from machines.errors import UnresumedError
from snapshots import DecodeError, open_storage, persistent
from snapshots.storage import Scope
from snapshots.storage.carry import Carried, CarryState
from snapshots.storage.contracts import Contract
from tests.host.world import World, at_rest, ended

KEY = "crawl"
SCOPE = Scope(workflow="crawl")


@persistent("cursor")
@dataclass
class First:
    """What version 1 carries."""

    at: int


@persistent("cursor")
@dataclass
class Second:
    """What version 2 carries, by the name that the first had."""

    at: int
    region: str = "eu"


@persistent("cursor 2")
@dataclass
class Renamed(Second):
    """The same by a name of its own."""


def add_region(value: Any) -> Any:
    """Bring a value of version 1 to version 2."""
    return {**value, "region": "us"}


FIRST = Carry(Contract("cursor", 1, validate=First))
SECOND = Carry(Contract("cursor", 2, validate=Second, migrations={1: add_region}))
RENAMED = Carry(Contract("cursor", 2, validate=Renamed, migrations={1: add_region}))


def release(carry: Carry, following: Callable[..., Any], *types: type) -> Machine:
    """Return a release: equal in shape to every other one, with a contract of its own."""

    class Crawl(StateChart[Any]):
        loading = State(initial=True, invoke=carry.load(KEY))
        working = State(invoke=gate("go"))
        saving = State(
            invoke=carry.save(KEY, following, expected_revision=lambda model: model.found.revision)
        )
        saved = State(final=True)
        done_invoke_loading = loading.to(working, on="keep")
        go = working.to(saving)
        done_invoke_saving = saving.to(saved)

        def keep(self, data: Carried) -> None:
            self.model.found = data

    return Machine(Crawl, name="crawl", types=types)


def further(model: Any) -> Any:
    """Return a value of the class that was found."""
    found = model.found.value
    return type(found)(**{**asdict(found), "at": found.at + 1})


def further_from_either(model: Any) -> Renamed:
    """Return a value of today's class, whichever one was found."""
    found = model.found.value
    if isinstance(found, First):
        found, _ = RENAMED.contract.bring(KEY, asdict(found), 1)
    return Renamed(found.at + 1, found.region)


async def started(world: World) -> str:
    """Begin a run under the first release, and end the host once the run has loaded."""
    with open_storage(world.path, clock=world.clock) as backend:
        state = CarryState(backend.carry, SCOPE, contract=FIRST.contract)
        state.save(KEY, First(7), expected_revision=0)
    async with world.host(release(FIRST, further)) as host:
        run: str = await host.start("crawl")
        await at_rest(host, run)
    return run


async def test_a_class_that_changed_under_its_name_leaves_the_run_and_says_what_to_do(
    world: World,
) -> None:
    """The run is as it was, and goes on with the class that wrote it."""
    run = await started(world)
    before = world.stored(run)
    async with world.host(release(SECOND, further)) as host:
        with pytest.raises((DecodeError, UnresumedError)) as caught:
            await host.answer(run, "working", "go")
        assert "the fields of 'cursor' changed: there is no region" in str(caught.value)
        assert "register the class that wrote it under that name" in str(caught.value)
    assert world.stored(run) == before
    async with world.host(release(FIRST, further)) as host:
        await host.answer(run, "working", "go")
        await ended(host, run)
        assert world.status(run) == "done"


async def test_a_class_that_stays_beside_its_successor_lets_the_run_go_on(world: World) -> None:
    """Under its stored name: what was loaded before is brought to today's version, and saved so."""
    run = await started(world)
    async with world.host(release(RENAMED, further_from_either, First)) as host:
        await host.answer(run, "working", "go")
        await ended(host, run)
        assert world.status(run) == "done"
        state = CarryState(host.storage.carry, SCOPE, contract=RENAMED.contract)
        assert state.load(KEY) == Carried(value=Renamed(8, "us"), revision=2)
        again = await host.start("crawl")
        await at_rest(host, again)
        await host.answer(again, "working", "go")
        await ended(host, again)
        assert state.load(KEY) == Carried(value=Renamed(9, "us"), revision=3)
