"""What an effect's outcome means, while the process lives."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Context, effect
from machines.errors import (
    DefinitionError,
    EffectNotFoundError,
    RunFinishedError,
    UnsettledEffectError,
)
from machines.limits import THREADS_MAX
from snapshots.errors import EncodeError
from tests.host.charts import careful, checkout, mailer
from tests.host.world import (
    Barrier,
    Disk,
    Outside,
    World,
    at_rest,
    ended,
    resident,
    settled,
    statuses,
    until,
)

AT_ONCE = {"backoff": lambda _: 0.0}


class RefusedError(Exception):
    """The other side said no."""


class UnreachableError(Exception):
    """No connection was made."""


async def paying(host: Any, chart: Any, given: Any = None) -> str:
    """Start a checkout and have it pay."""
    run: str = await host.start(chart, given)
    await host.send(run, "pay")
    return run


async def test_a_result_reaches_the_chart_as_data(world: World, outside: Outside) -> None:
    """`done.invoke.<state>` carries what the function returned, and the row says done."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await ended(host, run)
        view = await host.read(run)
    assert view.context["receipt"] == "charge done"
    assert [row["status"] for row in view.effects] == ["done"]
    assert outside.count("charge") == 1


async def test_a_function_gets_what_it_names(world: World) -> None:
    """An effect's function may name ctx, machine, model, key and the data of the event."""
    seen: list[Any] = []

    def charge(ctx: Context, machine: Any, model: Any, key: str, card: str) -> None:
        seen.append((ctx.run_id, ctx.attempt, type(machine).__name__, model.amount, key, card))

    chart = checkout(charge)
    async with world.host(chart) as host:
        run = await host.start(chart, {"amount": 12})
        await host.send(run, "pay", card="4242")
        await ended(host, run)
    assert seen == [(run, 1, "Checkout", 12, f"{run}/paying.1", "4242")]


async def test_a_method_of_the_model_is_called_by_its_name(world: World) -> None:
    """`effect("charge")` finds the method of the chart or of its model."""

    class Till(StateChart):
        paying = State(initial=True, invoke=effect("charge"))
        paid = State(final=True)
        done_invoke_paying = paying.to(paid)

        def charge(self, key: str) -> str:
            return f"till {key}"

        def on_enter_paid(self, data: str = "") -> None:
            self.model.receipt = data

    async with world.host(Till) as host:
        run = await host.start(Till)
        await ended(host, run)
        assert (await host.read(run)).context["receipt"] == f"till {run}/paying.1"


async def test_the_intent_is_on_disk_before_the_call(world: World, outside: Outside) -> None:
    """From inside the call, a second connection reads `calling` and the entered state."""
    seen: list[Any] = []

    async def charge(ctx: Context) -> None:
        assert ctx.run_id is not None
        blob = world.blob(ctx.run_id)
        seen.append((blob["root"]["configuration"], blob["effects"][0]["status"]))

    chart = checkout(charge)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await ended(host, run)
    assert seen == [(["paying"], "calling")]


async def test_an_error_outside_failed_on_is_in_doubt(world: World, outside: Outside) -> None:
    """An exception that proves nothing leaves a call that is not idempotent in doubt."""
    outside.answers("charge", ConnectionResetError("gone"))
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: statuses(host, run) == ["unknown"])
        assert world.blob(run)["effects"][0]["error"]["message"] == "gone"
        assert (await host.read(run)).configuration == ("paying",)
    assert outside.count("charge") == 1


async def test_failed_on_proves_that_nothing_happened(world: World, outside: Outside) -> None:
    """An error of `failed_on` is `failed`, and the chart gets it as `error.execution`."""
    outside.answers("charge", RefusedError("no funds"))
    chart = checkout(outside.service("charge"), failed_on=(RefusedError,))
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await ended(host, run)
        view = await host.read(run)
    assert view.context["why"] == "no funds"
    assert [row["status"] for row in view.effects] == ["failed"]
    assert view.effects[0]["error"]["message"] == "no funds"


@pytest.mark.parametrize("blocking", [False, True])
async def test_a_timeout_is_in_doubt(world: World, outside: Outside, blocking: bool) -> None:
    """A call that is not idempotent and takes too long is in doubt, never failed."""
    barrier = Barrier()

    async def waits(key: str) -> None:
        await outside.hold("charge").wait()

    def blocks(key: str) -> None:
        barrier.wait()

    chart = checkout(blocks if blocking else waits, timeout=0.01)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: statuses(host, run) == ["unknown"])
        barrier.released.set()
        await settled()
        assert world.effects(run) == ["unknown"]
        assert world.configuration(run) == ["paying"]


@pytest.mark.parametrize("named", ["failed_on", "retry_on"])
async def test_a_timeout_is_in_doubt_whatever_errors_are_named(
    world: World, outside: Outside, named: str
) -> None:
    """Our own timeout proves nothing, although TimeoutError is an OSError that was named."""
    options: dict[str, Any] = {named: (OSError,), "timeout": 0.01, **AT_ONCE}
    if named == "retry_on":
        options["retries"] = 3
    outside.hold("charge")
    chart = checkout(outside.service("charge"), **options)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: statuses(host, run) == ["unknown"])
    assert outside.count("charge") == 1


async def test_a_cancellation_that_the_call_raises_is_in_doubt(
    world: World, outside: Outside
) -> None:
    """A call cancelled from within is in doubt; the host and the run go on."""
    outside.answers("charge", asyncio.CancelledError("by a pool"))
    chart = careful(outside.service("charge"))
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: world.configuration(run) == ["checking"])
        assert world.effects(run) == ["unknown"]
        await host.send(run, "found")
    assert world.status(run) == "done"


async def test_an_idempotent_call_that_times_out_is_retried_with_its_key(
    world: World, outside: Outside
) -> None:
    """Retries of an idempotent effect carry the same key, and count attempts."""
    attempts: list[tuple[int, str]] = []

    async def charge(ctx: Context, key: str) -> str:
        attempts.append((ctx.attempt, key))
        if ctx.attempt < 3:
            await outside.hold("charge").wait()
        return "paid"

    chart = checkout(charge, idempotent=True, retries=2, timeout=0.01, **AT_ONCE)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await ended(host, run)
    key = f"{run}/paying.1"
    assert attempts == [(1, key), (2, key), (3, key)]
    assert world.blob(run)["effects"][0]["attempt"] == 3
    assert world.status(run) == "done"


async def test_retry_on_repeats_a_call_that_certainly_did_not_happen(
    world: World, outside: Outside
) -> None:
    """Errors of `retry_on` are tried again, after a backoff that grows with the attempt."""
    waits: list[int] = []

    def backoff(attempt: int) -> float:
        waits.append(attempt)
        return 0.0

    outside.answers("charge", UnreachableError("1"), UnreachableError("2"))
    chart = checkout(
        outside.service("charge"), retries=2, retry_on=UnreachableError, backoff=backoff
    )
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await ended(host, run)
    assert outside.count("charge") == 3
    assert waits == [1, 2]
    assert world.status(run) == "done"


async def test_retries_that_are_used_up_fail(world: World, outside: Outside) -> None:
    """After the last retry the error is the outcome: nothing happened, so nothing is in doubt."""
    outside.answers("charge", UnreachableError("1"), UnreachableError("2"))
    chart = checkout(outside.service("charge"), retries=1, retry_on=UnreachableError, **AT_ONCE)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await ended(host, run)
        assert (await host.read(run)).context["why"] == "2"
    assert world.effects(run) == ["failed"]


async def test_an_error_that_is_not_named_ends_the_retries(world: World, outside: Outside) -> None:
    """A first error that may be repeated, then one that proves nothing: in doubt, not repeated."""
    outside.answers("charge", UnreachableError("1"), ValueError("odd"))
    chart = checkout(outside.service("charge"), retries=5, retry_on=UnreachableError, **AT_ONCE)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: statuses(host, run) == ["unknown"])
    assert outside.count("charge") == 2


async def test_a_death_between_two_attempts_leaves_no_doubt(world: World, outside: Outside) -> None:
    """While an effect waits to be retried nothing is under way: dying then, it is called again."""
    outside.answers("charge", UnreachableError("1"))
    slow = checkout(
        outside.service("charge"), retries=1, retry_on=UnreachableError, backoff=lambda _: 60.0
    )
    async with world.host(slow, grace_s=0) as host:
        run = await paying(host, slow)
        await until(lambda: outside.count("charge") == 1 and world.effects(run) == ["intent"])
        after = world.after_kill()
    async with after.host(slow) as host:
        await ended(host, run)
    assert outside.count("charge") == 2
    assert after.status(run) == "done"


async def test_a_stop_does_not_wait_for_a_backoff(world: World, outside: Outside) -> None:
    """A host that stops does not wait for an attempt that would begin in a minute."""
    outside.answers("charge", UnreachableError("1"))
    chart = checkout(
        outside.service("charge"), retries=1, retry_on=UnreachableError, backoff=lambda _: 60.0
    )
    async with asyncio.timeout(5), world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: outside.count("charge") == 1)
    assert world.effects(run) == ["intent"]


@pytest.mark.parametrize(
    "options", [{"retries": 1}, {"retries": -1}, {"timeout": 0}, {"timeout": -1.0}]
)
def test_senseless_effects_are_refused_at_definition(options: dict[str, Any]) -> None:
    """Retries that could repeat a call, and numbers that mean nothing, never get to run."""
    with pytest.raises(DefinitionError):
        effect(print, **options)


def test_retries_need_idempotence_or_errors_that_prove_it() -> None:
    """With either of the two the same number of retries is taken."""
    assert effect(print, retries=1, idempotent=True).retries == 1
    assert effect(print, retries=1, retry_on=UnreachableError).retries == 1


async def test_a_result_that_cannot_be_stored_is_an_error_for_the_chart(world: World) -> None:
    """The call happened: its row is done, and the chart is told why it gets no value."""

    async def charge() -> object:
        return object()

    chart = checkout(charge)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await ended(host, run)
        view = await host.read(run)
    assert view.configuration == ("refused",)
    assert "object" in view.context["why"]
    assert view.effects[0]["status"] == "done"
    assert view.effects[0]["error"]["type"].endswith("EncodeError")


@pytest.mark.parametrize("kind", ["effect", "plain"])
async def test_a_result_that_is_too_large_breaks_neither_host_nor_run(
    world: World, kind: str
) -> None:
    """An outcome beyond the bound of a blob is an error for its chart, and nothing else stops."""

    async def large() -> str:
        return "x" * (17 * 1024 * 1024)

    class Reader(StateChart):
        reading = State(initial=True, invoke=effect(large) if kind == "effect" else large)
        read = State(final=True)
        failed = State(final=True)
        done_invoke_reading = reading.to(read)
        error_execution = reading.to(failed)

    async with world.host(Reader) as host:
        run = await host.start(Reader)
        await ended(host, run)
        assert await host.start(Reader, run_id="another")
        assert (await host.read(run)).configuration == ("failed",)
        await ended(host, "another")


async def test_an_outcome_is_saved_before_it_waits_behind_other_events(
    world: World, outside: Outside
) -> None:
    """While a macrostep awaits, an outcome that arrives is on disk at once."""
    entered, release = asyncio.Event(), asyncio.Event()

    class Slow(StateChart):
        class Both(State.Parallel):
            class Left(State.Compound):
                paying = State(initial=True, invoke=effect(outside.service("charge")))
                paid = State(final=True)
                done_invoke_paying = paying.to(paid)

            class Right(State.Compound):
                talking = State(initial=True)
                said = State(final=True)
                talk = talking.to(said)

        async def on_talk(self) -> None:
            entered.set()
            await release.wait()

    outside.hold("charge")
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        await until(lambda: outside.count("charge") == 1)
        talk = asyncio.create_task(host.send(run, "talk"))
        await entered.wait()
        outside.hold("charge").set()
        await until(lambda: world.effects(run) == ["done"])
        assert "paid" not in world.configuration(run)
        after = world.after_kill()
        release.set()
        await talk
        await at_rest(host, run)
    async with after.host(Slow) as host:
        await until(lambda: "paid" in after.configuration(run))
        await settled()
    assert outside.count("charge") == 1


async def test_an_outcome_whose_save_fails_is_kept_and_saved_again(
    world: World, outside: Outside
) -> None:
    """A full disk at the moment of the outcome costs nothing: it is saved when there is room."""
    outside.hold("charge")
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        disk = Disk(host)
        run = await paying(host, chart)
        await until(lambda: outside.count("charge") == 1)
        disk.fail_always()
        outside.hold("charge").set()
        await until(lambda: resident(host, run).trouble is not None)
        assert world.effects(run) == ["calling"]
        assert world.configuration(run) == ["paying"]
        disk.heal()
        await ended(host, run)
    assert world.status(run) == "done"
    assert world.effects(run) == ["done"]
    assert outside.count("charge") == 1


async def test_a_call_does_not_leave_while_its_calling_cannot_be_saved(
    world: World, outside: Outside
) -> None:
    """The save directly before the call fails: the call waits, and leaves once it is saved."""
    chart = checkout(outside.service("charge"), backoff=lambda _: 0.01)
    async with world.host(chart) as host:
        disk = Disk(host)
        run = await host.start(chart)
        disk.fails = lambda write: write in (disk.writes, 3, 4) and write > 2
        await host.send(run, "pay")
        await until(lambda: disk.writes >= 4)
        assert outside.count("charge") == 0
        disk.heal()
        await ended(host, run)
    assert outside.count("charge") == 1
    assert world.status(run) == "done"


async def test_a_call_whose_state_was_left_finishes_and_is_recorded_without_an_event(
    world: World, outside: Outside
) -> None:
    """Leaving the state neither stops the call nor tells the chart; the row says what became."""
    outside.hold("charge")
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: outside.count("charge") == 1)
        await host.send(run, "leave")
        outside.hold("charge").set()
        await until(lambda: world.effects(run) == ["done"])
        assert world.configuration(run) == ["aside"]
        assert "tail" not in world.blob(run)["effects"][0]


async def test_doubt_about_a_call_whose_state_was_left_is_recorded_without_an_event(
    world: World, outside: Outside
) -> None:
    """A chart that has moved on is not told of a doubt, even where it names one."""
    told: list[str] = []

    class Mover(StateChart):
        paying = State(initial=True, invoke=effect(outside.service("charge")))
        aside = State()
        over = State(final=True)
        leave = paying.to(aside)
        done_invoke_paying = paying.to(over)
        error_indoubt_paying = aside.to(over)
        close = aside.to(over)

        def on_enter_over(self, event: str) -> None:
            told.append(str(event))

    outside.hold("charge")
    outside.answers("charge", ConnectionResetError("gone"))
    async with world.host(Mover) as host:
        run = await host.start(Mover)
        await until(lambda: outside.count("charge") == 1)
        await host.send(run, "leave")
        outside.hold("charge").set()
        await until(lambda: world.effects(run) == ["unknown"])
        await settled()
        assert world.configuration(run) == ["aside"]
    assert told == []


async def test_a_call_whose_state_is_left_before_it_leaves_is_not_made(
    world: World, outside: Outside
) -> None:
    """An intent whose state is gone before the call is withdrawn, in the save that leaves it."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await host.send(run, "leave")
        assert world.effects(run) == ["failed"]
        await settled()
        assert outside.count("charge") == 0
        await host.send(run, "close")
    assert world.effects(run) == ["failed"]


async def test_a_retry_whose_state_was_left_is_not_made(world: World, outside: Outside) -> None:
    """A call that certainly did not happen is not tried again for a state that was left."""
    outside.answers("charge", UnreachableError("1"))
    chart = checkout(
        outside.service("charge"), retries=3, retry_on=UnreachableError, backoff=lambda _: 0.02
    )
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: world.effects(run) == ["intent"] and outside.count("charge") == 1)
        await host.send(run, "leave")
        await until(lambda: not host._shop.busy(resident(host, run)))
        assert world.effects(run) == ["failed"]
    assert outside.count("charge") == 1


async def test_a_stop_gives_up_after_its_grace(world: World, outside: Outside) -> None:
    """A call that never ends cannot keep the host: it is in doubt at the next boot."""
    outside.hold("charge")
    chart = checkout(outside.service("charge"))
    async with world.host(chart, grace_s=0.02) as host:
        run = await paying(host, chart)
        await until(lambda: outside.count("charge") == 1)
    assert world.effects(run) == ["calling"]
    async with world.host(chart) as host:
        await until(lambda: statuses(host, run) == ["unknown"])
    assert outside.count("charge") == 1


async def test_a_stop_begins_no_new_call(world: World, outside: Outside) -> None:
    """An effect that a last outcome leads to keeps its intent for the next host."""

    class Chain(StateChart):
        first = State(initial=True, invoke=effect(outside.service("one")))
        second = State(invoke=effect(outside.service("two")))
        over = State(final=True)
        done_invoke_first = first.to(second)
        done_invoke_second = second.to(over)

    outside.hold("one")
    host = world.host(Chain)
    await host.__aenter__()
    run = await host.start(Chain)
    await until(lambda: outside.count("one") == 1)
    stopping = asyncio.create_task(host.stop())
    await settled()
    outside.hold("one").set()
    await stopping
    assert world.effects(run) == ["done", "intent"]
    assert outside.count("two") == 0
    async with world.host(Chain) as host:
        await ended(host, run)
    assert (outside.count("one"), outside.count("two")) == (1, 1)


async def test_what_is_calling_at_a_terminal_write_becomes_unknown(
    world: World, outside: Outside
) -> None:
    """A run that is cancelled while it calls says for ever that the outcome is not known."""
    outside.hold("charge")
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: outside.count("charge") == 1)
        await host.cancel(run, "no longer wanted")
        assert world.effects(run) == ["unknown"]
        assert world.status(run) == "cancelled"
        outside.hold("charge").set()
        await settled()
        assert host._stopped is None
    assert world.effects(run) == ["unknown"]
    assert world.stored(run).header.reason == "no longer wanted"


async def test_a_tail_goes_with_the_save_after_its_transition(
    world: World, outside: Outside
) -> None:
    """The result is in the row until its transition is saved, and the row itself stays."""
    chart = mailer(outside.service("mail"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        for round_ in range(3):
            await host.send(run, "again")
            await until(lambda n=round_: world.effects(run) == ["done"] * (n + 1))
            await until(lambda: world.configuration(run) == ["idle"])
        await host.send(run, "again")
        await until(lambda: len(world.effects(run)) == 4)
        rows = world.blob(run)["effects"]
        assert all("tail" not in row for row in rows[:3])
        assert [row["id"] for row in rows[:3]] == [f"{run}/sending.{n}" for n in (1, 2, 3)]
        await at_rest(host, run)
        await host.send(run, "stop")
    assert all("tail" not in row for row in world.blob(run)["effects"])


async def test_the_thirty_third_blocking_call_waits_with_its_intent(
    world: World, outside: Outside
) -> None:
    """A call without a free thread has not left: dying then, it is called, not in doubt."""
    barrier = Barrier()

    def charge(key: str) -> None:
        outside.calls.append(("charge", key))
        barrier.wait()

    chart = checkout(charge)
    async with world.host(chart) as host:
        runs = [await paying(host, chart) for _ in range(THREADS_MAX + 1)]
        await until(lambda: outside.count("charge") == THREADS_MAX)
        await settled()
        states = [world.effects(run)[0] for run in runs]
        assert sorted(states) == sorted(["calling"] * THREADS_MAX + ["intent"])
        barrier.released.set()
        for run in runs:
            await ended(host, run)
    assert outside.count("charge") == THREADS_MAX + 1


async def doubted(world: World, outside: Outside, host: Any, chart: Any) -> str:
    """Return a run whose charge is in doubt."""
    outside.answers("charge", ConnectionResetError("gone"))
    run = await paying(host, chart)
    await until(lambda: statuses(host, run) == ["unknown"])
    return run


async def test_resolve_done_goes_on_with_the_result(world: World, outside: Outside) -> None:
    """A person who knows that it happened says so, and the chart gets the result."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await doubted(world, outside, host, chart)
        await host.resolve(run, "paying.1", done={"receipt": 7})
        assert world.status(run) == "done"
        assert (await host.read(run)).context["receipt"] == {"receipt": 7}
    assert world.effects(run) == ["done"]
    assert outside.count("charge") == 1


@pytest.mark.parametrize("given", ["bank says no", RefusedError("bank says no")])
async def test_resolve_failed_is_an_error_for_the_chart(
    world: World, outside: Outside, given: Any
) -> None:
    """A person who knows that it did not happen says so, in words or as an exception."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await doubted(world, outside, host, chart)
        await host.resolve(run, f"{run}/paying.1", failed=given)
        assert (await host.read(run)).context["why"] == "bank says no"
    assert world.effects(run) == ["failed"]


async def test_resolve_again_calls_again_with_the_same_key(world: World, outside: Outside) -> None:
    """A person who knows that it may be repeated has it called again."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await doubted(world, outside, host, chart)
        await host.resolve(run, "paying.1", again=True)
        await ended(host, run)
    assert outside.keys("charge") == [f"{run}/paying.1"] * 2
    assert world.status(run) == "done"


async def test_resolve_is_refused_where_it_makes_no_sense(world: World, outside: Outside) -> None:
    """No such effect, not exactly one verdict, an effect that is not in doubt, a run that ended."""
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await doubted(world, outside, host, chart)
        with pytest.raises(EffectNotFoundError):
            await host.resolve(run, "paying.9", done=1)
        with pytest.raises(UnsettledEffectError):
            await host.resolve(run, "paying.1")
        with pytest.raises(UnsettledEffectError):
            await host.resolve(run, "paying.1", done=1, again=True)
        with pytest.raises(EncodeError):
            await host.resolve(run, "paying.1", done=object())
        assert world.effects(run) == ["unknown"]
        assert statuses(host, run) == ["unknown"]
        await host.resolve(run, "paying.1", done=None)
        with pytest.raises(RunFinishedError):
            await host.resolve(run, "paying.1", done=1)


async def test_again_is_refused_for_a_state_that_was_left(world: World, outside: Outside) -> None:
    """Nobody waits for a new call there; what became of the old one can still be said."""
    outside.hold("charge")
    outside.answers("charge", ConnectionResetError("gone"))
    chart = checkout(outside.service("charge"))
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: outside.count("charge") == 1)
        await host.send(run, "leave")
        outside.hold("charge").set()
        await until(lambda: statuses(host, run) == ["unknown"])
        with pytest.raises(UnsettledEffectError):
            await host.resolve(run, "paying.1", again=True)
        await host.resolve(run, "paying.1", done="it did")
        assert world.effects(run) == ["done"]
        assert world.configuration(run) == ["aside"]


async def test_a_call_for_a_left_state_is_in_doubt_after_a_death(
    world: World, outside: Outside
) -> None:
    """Dead while a call whose state was left was under way: it is in doubt, and can be settled."""
    outside.hold("charge")
    chart = checkout(outside.service("charge"))
    async with world.host(chart, grace_s=0) as host:
        run = await paying(host, chart)
        await until(lambda: outside.count("charge") == 1)
        await host.send(run, "leave")
        after = world.after_kill()
    async with after.host(chart) as host:
        await settled()
        await host.resolve(run, "paying.1", failed="it did not")
        assert after.effects(run) == ["failed"]
    assert outside.count("charge") == 1


async def test_a_probe_that_answers_late_does_not_overrule_a_person(
    world: World, outside: Outside
) -> None:
    """Resolved while the probe was being asked again: what the person said stays."""
    outside.hold("probe")

    async def probe() -> None:
        await outside.hold("probe").wait()

    outside.answers("charge", ConnectionResetError("gone"))
    chart = checkout(outside.service("charge"), probe=probe)
    outside.hold("probe").set()
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: statuses(host, run) == ["unknown"])
    outside.hold("probe").clear()
    async with world.host(chart) as host:
        await settled()
        await host.resolve(run, "paying.1", failed="it did not")
        assert world.effects(run) == ["failed"]
        outside.hold("probe").set()
        await settled()
    assert world.effects(run) == ["failed"]
    assert outside.count("charge") == 1


def broken_backoff(attempt: int) -> float:
    """Cannot say how long to wait."""
    raise ZeroDivisionError(attempt)


@pytest.mark.parametrize(
    "options",
    [
        {"idempotent": True, "retries": 2, "backoff": broken_backoff},
        {"retry_on": UnreachableError, "retries": 2, "backoff": broken_backoff},
    ],
)
async def test_what_is_wrong_around_a_call_breaks_that_effect_alone(
    world: World, outside: Outside, options: dict[str, Any]
) -> None:
    """A backoff that raises, a probe that is not there: the host and other runs go on."""
    outside.answers("charge", UnreachableError("1"))
    chart = checkout(outside.service("charge"), **options)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await until(lambda: world.effects(run)[0] in ("unknown", "failed"))
        assert host._stopped is None
        other = await paying(host, chart)
        await ended(host, other)
    assert world.status(other) == "done"


async def test_a_parameter_that_nothing_gives_is_a_call_that_never_left(
    world: World, outside: Outside
) -> None:
    """The function needs what no event brought: failed, not in doubt, and never calling."""

    async def charge(card: str) -> None:
        outside.calls.append(("charge", card))

    chart = checkout(charge)
    async with world.host(chart) as host:
        run = await paying(host, chart)
        await ended(host, run)
        assert "card" in (await host.read(run)).context["why"]
    assert world.effects(run) == ["failed"]
    assert outside.calls == []


async def test_a_doubt_that_arises_in_mid_macrostep_is_offered_behind_it(
    world: World, outside: Outside
) -> None:
    """While a chart is between states nobody can be asked: it is offered when it rests."""
    entered, release = asyncio.Event(), asyncio.Event()

    class Slow(StateChart):
        class Both(State.Parallel):
            class Left(State.Compound):
                paying = State(initial=True, invoke=effect(outside.service("charge")))
                checking = State(final=True)
                error_indoubt_paying = paying.to(checking)

            class Right(State.Compound):
                talking = State(initial=True)
                said = State()
                talk = talking.to(said)

        async def on_talk(self) -> None:
            entered.set()
            await release.wait()

    outside.hold("charge")
    outside.answers("charge", ConnectionResetError("gone"))
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        await until(lambda: outside.count("charge") == 1)
        talk = asyncio.create_task(host.send(run, "talk"))
        await entered.wait()
        outside.hold("charge").set()
        await until(lambda: world.effects(run) == ["unknown"])
        release.set()
        await talk
        await until(lambda: "checking" in world.configuration(run))
    assert outside.count("charge") == 1
