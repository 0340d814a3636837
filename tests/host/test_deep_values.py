"""How deep things may be nested: whatever a save takes, a restart reads, and no call is lost."""

from __future__ import annotations

from typing import Any

import pytest
from statemachine import State, StateChart

from machines import child, effect
from machines.limits import CHARTS_DEPTH_MAX
from snapshots.errors import EncodeError
from snapshots.limits import VALUE_DEPTH_MAX
from tests.host.world import Outside, World, at_rest, settled


def nested(levels: int) -> Any:
    """Return lists in lists, of which the innermost is a tuple."""
    value: Any = (1,)
    for _ in range(levels - 1):
        value = [value]
    return value


class Keeps(StateChart):
    """Keeps what it is given, and has the same done in charts below it."""

    here = State(initial=True)
    over = State(final=True)
    keep = here.to.itself(internal=True, on="put")
    wait = here.to.itself(internal=True, on="set_timer")
    end = here.to(over)

    def put(self, levels: int) -> None:
        self.model.value = nested(levels)

    def set_timer(self, levels: int) -> None:
        self.send("note", delay=10_000, value=nested(levels))


def above(chart: type[StateChart[Any]], *, forward: bool) -> type[StateChart[Any]]:
    """Return a chart that invokes another one."""

    class Above(StateChart):
        here = State(initial=True, invoke=child(chart, forward=forward))
        heard = State()
        over = State(final=True)
        error_execution = here.to(heard, on="hear")
        end = here.to(over) | heard.to(over)

        def hear(self, error: Exception) -> None:
            self.model.error = str(error)

    return Above


def root_of(levels: int) -> type[StateChart[Any]]:
    """Return a chart with so many others below it, one in the other, that get its events."""
    chart: type[StateChart[Any]] = Keeps
    for _ in range(levels):
        chart = above(chart, forward=True)
    return chart


def deepest(world: World, run: str) -> dict[str, Any]:
    """Return the innermost chart of a run as its row holds it."""
    found: dict[str, Any] = world.blob(run)["root"]
    while found.get("children"):
        (found,) = found["children"].values()
    return found


@pytest.mark.parametrize("event", ["keep", "wait"])
@pytest.mark.parametrize("below", [0, 3])
async def test_what_can_be_saved_can_be_read(world: World, below: int, event: str) -> None:
    """At the deepest that a save takes, in the root chart and far below it, a restart goes on."""
    root, taken = root_of(below), 0
    async with world.host(root) as host:
        run = await host.start(root)
        await settled()
        for levels in range(VALUE_DEPTH_MAX - 6, VALUE_DEPTH_MAX + 1):
            try:
                await host.send(run, event, levels=levels)
                await at_rest(host, run)
            except EncodeError:
                break
            if world.status(run) != "live":
                break
            taken = levels
            after = world.after_kill()
            async with after.host(root) as other:
                assert other.report.unresumed == {}
                assert (await other.read(run)).status == "live"
    assert VALUE_DEPTH_MAX - 6 <= taken < VALUE_DEPTH_MAX


async def test_a_result_that_can_be_recorded_can_be_read(world: World, outside: Outside) -> None:
    """The outcome of an effect is on its row and on the queue before its chart reacts."""

    class Calls(StateChart):
        calling = State(initial=True, invoke=effect(outside.service("call")))
        called = State()
        over = State(final=True)
        done_invoke_calling = calling.to(called, on="keep")
        error_execution = calling.to(called)
        end = called.to(over)

        def keep(self, data: Any) -> None:
            self.model.value = data

    for levels in range(VALUE_DEPTH_MAX - 8, VALUE_DEPTH_MAX + 1):
        outside.answers("call", nested(levels))
        async with world.host(Calls) as host:
            run = await host.start(Calls)
            await at_rest(host, run)
            after = world.after_kill()
        async with after.host(Calls) as host:
            assert host.report.unresumed == {}
            assert after.status(run) in ("live", "error")


async def test_charts_nested_too_deep_are_an_error_for_the_one_above(world: World) -> None:
    """The chart that cannot be made is told to who invokes it, and the run can be read."""
    root = above(root_of(CHARTS_DEPTH_MAX), forward=False)
    async with world.host(root) as host:
        run = await host.start(root)
        await settled()
        held = deepest(world, run)
        assert held["configuration"] == ["heard"]
        assert str(CHARTS_DEPTH_MAX) in held["context"]["error"]
        after = world.after_kill()
    async with after.host(root) as host:
        assert host.report.unresumed == {}
        assert (await host.read(run)).status == "live"
