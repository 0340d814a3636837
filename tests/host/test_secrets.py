"""A secret that is planted in a run is refused by its type, and never found in the file."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from statemachine import State, StateChart

from machines import Context, Host, Machine, effect, gate, timeout
from snapshots import EncodeError, Secret
from tests.host.world import Outside, World, ended, ring

WORDS = "hunter2-correct-horse"
SECRETS = [SecretStr(WORDS), Secret(WORDS)]


def keeper(outside: Outside) -> Any:
    """Return a chart that keeps whatever it is given."""

    def note(ctx: Context) -> str:
        """Record a handle, which is what the outside answers."""
        ctx.admissions.record(outside.take("note", "k"))
        return "noted"

    class Keeper(StateChart):
        catch_errors_as_events = False

        idle = State(initial=True)
        asking = State(invoke=gate("told"))
        calling = State(invoke=effect(outside.service("fetch"), failed_on=(ValueError,)))
        noting = State(invoke=note)
        dying = State(invoke=timeout(5, on="ring"))
        failed = State(final=True)
        over = State(final=True)

        keep = idle.to.itself(on="take")
        ask = idle.to(asking)
        told = asking.to(over, on="take")
        call = idle.to(calling)
        die = idle.to(dying)
        record = idle.to(noting)
        done_invoke_calling = calling.to(over, on="take")
        done_invoke_noting = noting.to(over)
        ring = dying.to(over, on="break_down")
        error_execution = calling.to(failed) | noting.to(failed)

        def break_down(self) -> None:
            outside.take("die", "k")

        def take(self, data: Any = None) -> None:
            self.model.kept = data

    return Keeper


def is_written(world: World) -> bool:
    """Whether the secret is anywhere in the file, or in what lies beside it."""
    return any(WORDS.encode() in path.read_bytes() for path in world.path.parent.iterdir())


Plant = Callable[[Host, Any, str, Any], Awaitable[Any]]


async def in_an_event(host: Host, chart: Any, run: str, secret: Any) -> None:
    """With an event's data, some way down."""
    del chart
    await host.send(run, "keep", data={"cards": [(secret,)]})


async def in_an_answer(host: Host, chart: Any, run: str, secret: Any) -> None:
    """With an answer to a gate."""
    del chart
    await host.send(run, "ask")
    await host.answer(run, "asking", "told", data=[secret])


async def in_an_input(host: Host, chart: Any, run: str, secret: Any) -> None:
    """With the input of another run."""
    del run
    await host.start(chart, {"card": secret}, run_id="another")


@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: type(secret).__name__)
@pytest.mark.parametrize("plant", [in_an_event, in_an_answer, in_an_input])
async def test_who_plants_a_secret_is_told_and_nothing_is_written(
    world: World, outside: Outside, plant: Plant, secret: Any
) -> None:
    """The sender gets the refusal, which does not show it; the run is where it was."""
    chart = keeper(outside)
    async with world.host(chart) as host:
        run = await host.start(chart, run_id="a")
        with pytest.raises(EncodeError) as refused:
            await plant(host, chart, run, secret)
        assert WORDS not in str(refused.value)
        assert world.ids() == ["a"]
        assert "kept" not in (await host.read(run)).context
        assert not is_written(world)
    assert not is_written(world)


@pytest.mark.parametrize("event", ["call", "record"])
@pytest.mark.parametrize("secret", SECRETS, ids=lambda secret: type(secret).__name__)
async def test_a_secret_that_comes_from_outside_is_an_error_for_the_chart(
    world: World, outside: Outside, event: str, secret: Any
) -> None:
    """As the result of an effect, or as the handle of an admission."""
    chart = keeper(outside)
    outside.answers({"call": "fetch", "record": "note"}[event], {"card": secret})
    async with world.host(chart) as host:
        run = await host.start(chart, run_id="a")
        await host.send(run, event)
        await ended(host, run)
        assert (await host.read(run)).configuration == ("failed",)
    assert not is_written(world)


@pytest.mark.parametrize("event", ["call", "die"])
async def test_a_message_that_holds_a_secret_is_written_as_its_redaction(
    world: World, outside: Outside, event: str
) -> None:
    """An exception is a text like any other: its machine looks at it before it is stored."""
    outside.answers("fetch", ValueError(f"401 for {WORDS}"))
    outside.answers("die", KeyError(WORDS))
    machine = Machine(keeper(outside), redact=lambda text: text.replace(WORDS, "[secret]"))
    async with world.host(machine) as host:
        run = await host.start(machine, run_id="a")
        await host.send(run, event)
        world.clock.advance(5_000)
        ring(host)
        await ended(host, run)
    assert not is_written(world)
    assert b"[secret]" in bytes(world.stored(run).blob)


async def test_without_a_redaction_a_message_is_written_as_it_is(
    world: World, outside: Outside
) -> None:
    """What an exception says is the chart's affair."""
    outside.answers("fetch", ValueError(f"401 for {WORDS}"))
    chart = keeper(outside)
    async with world.host(chart) as host:
        run = await host.start(chart, run_id="a")
        await host.send(run, "call")
        await ended(host, run)
    assert is_written(world)


def test_the_search_finds_what_is_there(world: World) -> None:
    """Else none of this would say anything."""
    Path(world.path).write_bytes(b"x" + WORDS.encode())
    assert is_written(world)
