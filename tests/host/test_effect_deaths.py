"""What becomes of an effect when the process dies: every row of the table of effects."""

from __future__ import annotations

from typing import Any

import pytest

from machines import Done, NotDone, Unknown
from tests.host.charts import careful, checkout, greedy, pair, patient
from tests.host.world import Outside, World, ended, settled, statuses, until


async def killed_while_calling(world: World, chart: Any) -> tuple[World, str]:
    """Return the world after a death between the outside's acceptance and our record."""
    world.outside.hold("charge")
    before = world.outside.count("charge")
    async with world.host(chart, grace_s=0) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await until(lambda: world.outside.count("charge") == before + 1, "the call")
        after = world.after_kill()
    world.outside.hold("charge").set()
    return after, run


async def test_an_intended_call_is_made_once_after_a_death(world: World, outside: Outside) -> None:
    """Dead after the intent's save and before the call: the restored run makes the call, once."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart, grace_s=0) as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        after = world.after_kill()
        assert after.effects(run) == ["intent"]
        outside.hold("charge")
    calls = outside.count("charge")
    outside.hold("charge").set()
    async with after.host(chart) as host:
        await ended(host, run)
    assert outside.count("charge") == calls + 1
    assert after.effects(run) == ["done"]
    assert after.status(run) == "done"


async def test_a_call_that_is_not_idempotent_is_in_doubt_after_a_death(
    world: World, outside: Outside
) -> None:
    """Dead between the outside's acceptance and our record: it is not called again."""
    chart = checkout(outside.service("charge"))
    after, run = await killed_while_calling(world, chart)
    assert after.effects(run) == ["calling"]
    async with after.host(chart) as host:
        await until(lambda: statuses(host, run) == ["unknown"], "doubt")
        await settled()
        assert outside.count("charge") == 1
        assert (await host.read(run)).configuration == ("paying",)
    assert after.effects(run) == ["unknown"]
    assert after.status(run) == "live"


async def test_an_effect_in_doubt_stays_in_doubt_over_every_restart(
    world: World, outside: Outside
) -> None:
    """Neither age nor boots settle it: after a year and three boots it is still in doubt."""
    chart = checkout(outside.service("charge"))
    after, run = await killed_while_calling(world, chart)
    for _ in range(3):
        after.clock.advance(120 * 24 * 60 * 60 * 1000)
        async with after.host(chart) as host:
            await settled()
            assert run in host.report.resumed
            assert statuses(host, run) == ["unknown"]
    assert outside.count("charge") == 1
    assert after.status(run) == "live"


async def test_an_idempotent_call_is_made_again_with_the_same_key(
    world: World, outside: Outside
) -> None:
    """Dead while calling: the restored run calls again, and the receiver sees one key twice."""
    chart = checkout(outside.service("charge"), idempotent=True)
    after, run = await killed_while_calling(world, chart)
    async with after.host(chart) as host:
        await ended(host, run)
    assert outside.keys("charge") == [f"{run}/paying.1"] * 2
    assert after.status(run) == "done"


async def test_a_key_of_ones_own_is_fixed_before_the_first_call(
    world: World, outside: Outside
) -> None:
    """A key made from the model is the stored one after a restart, whatever the model says then."""
    chart = checkout(outside.service("charge"), idempotent=True, key=lambda model: model.order)
    world.outside.hold("charge")
    async with world.host(chart, grace_s=0) as host:
        run = await host.start(chart, {"order": "order-7"})
        await host.send(run, "pay")
        await until(lambda: outside.count("charge") == 1)
        after = world.after_kill()
    outside.hold("charge").set()
    async with after.host(chart) as host:
        await ended(host, run)
    assert outside.keys("charge") == ["order-7", "order-7"]


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_probe_that_says_done_settles_the_doubt(
    world: World, outside: Outside, asynchronous: bool
) -> None:
    """The outcome that the probe found reaches the chart as if the call had returned it."""
    asked: list[str] = []

    def probe(key: str) -> Done:
        asked.append(key)
        return Done("found it")

    async def later(key: str) -> Done:
        return probe(key)

    chart = checkout(outside.service("charge"), probe=later if asynchronous else probe)
    after, run = await killed_while_calling(world, chart)
    async with after.host(chart) as host:
        await ended(host, run)
        view = await host.read(run)
    assert view.configuration == ("paid",)
    assert view.context["receipt"] == "found it"
    assert asked == [f"{run}/paying.1"]
    assert outside.count("charge") == 1
    assert after.effects(run) == ["done"]


async def test_a_probe_that_says_not_done_has_the_call_made(world: World, outside: Outside) -> None:
    """What certainly did not happen is called, and counted as the second attempt."""
    chart = checkout(outside.service("charge"), probe=NotDone)
    after, run = await killed_while_calling(world, chart)
    async with after.host(chart) as host:
        await ended(host, run)
    assert outside.count("charge") == 2
    assert after.blob(run)["effects"][0]["attempt"] == 2
    assert after.status(run) == "done"


async def raising_probe(key: str) -> Done:
    """Cannot reach what it asks."""
    raise ConnectionError(key)


@pytest.mark.parametrize("probe", [Unknown, lambda: None, raising_probe])
async def test_a_probe_that_cannot_tell_leaves_the_doubt(
    world: World, outside: Outside, probe: Any
) -> None:
    """Unknown, nothing at all and an exception of the probe are no outcome: it stays in doubt."""
    chart = checkout(outside.service("charge"), probe=probe)
    after, run = await killed_while_calling(world, chart)
    async with after.host(chart) as host:
        await until(lambda: statuses(host, run) == ["unknown"])
        await settled()
    assert outside.count("charge") == 1
    assert after.effects(run) == ["unknown"]


async def test_a_doubt_that_a_probe_left_is_probed_again_at_the_next_boot(
    world: World, outside: Outside
) -> None:
    """A probe that could not tell today may tell tomorrow."""
    answers: list[Any] = [Unknown(), Done("at last")]
    chart = checkout(outside.service("charge"), probe=lambda: answers.pop(0))
    after, run = await killed_while_calling(world, chart)
    async with after.host(chart) as host:
        await until(lambda: statuses(host, run) == ["unknown"])
    async with after.host(chart) as host:
        await ended(host, run)
    assert after.status(run) == "done"
    assert outside.count("charge") == 1


async def test_doubt_is_offered_to_a_chart_that_names_it(world: World, outside: Outside) -> None:
    """A transition on `error.indoubt.<state>` is taken, and gets the effect's id."""
    chart = careful(outside.service("charge"))
    after, run = await killed_while_calling(world, chart)
    async with after.host(chart) as host:
        await until(lambda: after.configuration(run) == ["checking"])
        view = await host.read(run)
        assert view.context["doubted"] == f"{run}/paying.1"
        assert view.effects[0]["status"] == "unknown"
    assert outside.count("charge") == 1


async def test_doubt_is_offered_once(world: World, outside: Outside) -> None:
    """A chart that was told and stayed is not told again by the next boot."""
    told: list[str] = []
    chart = patient(outside.service("charge"), told)
    after, run = await killed_while_calling(world, chart)
    async with after.host(chart) as host:
        await until(lambda: told != [])
    async with after.host(chart) as host:
        await settled()
        assert host.report.resumed == [run], str(host.report)
        assert statuses(host, run) == ["unknown"]
    assert told == [f"{run}/paying.1"]


async def test_error_and_star_do_not_take_a_doubt(world: World, outside: Outside) -> None:
    """Transitions on `error` and on `*` leave an effect in doubt alone: it waits for a person."""
    chart = greedy(outside.service("charge"))
    after, run = await killed_while_calling(world, chart)
    async with after.host(chart) as host:
        await until(lambda: statuses(host, run) == ["unknown"])
        await settled()
        assert (await host.read(run)).configuration == ("paying",)
    assert after.status(run) == "live"


async def test_two_effects_of_one_macrostep_are_judged_each_by_its_own_row(
    world: World, outside: Outside
) -> None:
    """Dead between two calls: the first is in doubt, the second was not made and is called."""
    outside.hold("first")
    copies: list[World] = []
    chart = pair(outside.service("first"), outside.service("second"))
    async with world.host(chart, grace_s=0) as host:
        run = await host.start(chart)
        original = host.store.save

        def save(header: Any, blob: Any, **options: Any) -> Any:
            saved = original(header, blob, **options)
            if not copies and b'"status":"calling"' in bytes(blob):
                copies.append(world.after_kill())
            return saved

        host.store.save = save
        await host.send(run, "go")
        await until(lambda: copies != [])
        after = copies[0]
        assert after.effects(run) == ["calling", "intent"]
    seen = outside.count("second")
    async with after.host(chart) as host:
        await until(lambda: outside.count("second") == seen + 1, "the second call")
        await until(lambda: sorted(statuses(host, run)) == ["done", "unknown"])
    assert after.effects(run) == ["unknown", "done"]
    assert outside.count("second") == seen + 1
