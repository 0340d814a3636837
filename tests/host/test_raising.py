"""All or nothing: what becomes of a run when an exception leaves its chart."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import Event, State, StateChart, StateMachine
from statemachine.exceptions import TransitionNotAllowed

from machines import effect, timeout
from machines.errors import MicrostepLimitError, RunFinishedError
from snapshots.errors import (
    EncodeError,
    FencedError,
    RevisionConflictError,
    RunExistsError,
    RunNotFoundError,
    StorageFullError,
)
from snapshots.limits import TRAIL_EVENT_CHARS_MAX
from tests.host.charts import Strict
from tests.host.letterbox import Letterbox
from tests.host.world import Outside, World, at_rest, ended, ring, settled, until


async def test_a_run_stays_live_after_a_raise(world: World) -> None:
    """It takes the next event, and the one after a restart."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        with pytest.raises(ValueError, match="smashed"):
            await host.send(run, "smash")
        assert await host.send(run, "note", text="still here") == "still here"
        after = world.after_kill()
    async with after.host(Strict) as host:
        with pytest.raises(ValueError, match="smashed"):
            await host.send(run, "smash")
        await host.send(run, "finish")
    assert after.status(run) == "done"


async def test_a_raise_costs_no_save(world: World) -> None:
    """Nothing changed, so nothing is written."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        with pytest.raises(ValueError, match="smashed"):
            await host.send(run, "smash")
        assert world.saves(run) == 1


async def test_an_event_that_a_strict_chart_does_not_take_is_refused(world: World) -> None:
    """The library's TransitionNotAllowed reaches the caller, and the run goes on."""
    async with world.host(Strict) as host:
        run = await host.start(Strict)
        with pytest.raises(TransitionNotAllowed):
            await host.send(run, "repair")
        assert await host.send(run, "note", text="a") == "a"


async def test_a_value_that_cannot_be_saved_is_refused_by_run_and_path(world: World) -> None:
    """Whoever waits for one of many runs, or reads its log, is told which one it is."""

    class Hoarder(StateChart[Any]):
        empty = State(initial=True)
        full = State()
        fill = empty.to(full)
        clear = full.to(empty)

        def on_fill(self) -> None:
            self.model.thing = [object()]

    async with world.host(Hoarder) as host:
        run = await host.start(Hoarder, run_id="shelf-7")
        message = r"^run 'shelf-7': cannot save root\.context\.thing\[0\] of type object: "
        with pytest.raises(EncodeError, match=message) as caught:
            await host.send(run, "fill")
        view = await host.read(run)
    assert caught.value.run_id == run
    assert view.configuration == ("empty",)


async def test_a_chart_that_never_comes_to_rest_is_stopped(world: World) -> None:
    """Eventless transitions in a circle: the caller is told, and the run is as it was."""

    class Circle(StateMachine):
        calm = State(initial=True)
        left = State()
        right = State()
        over = State(final=True)
        spin = calm.to(left)
        left.to(right)
        right.to(left)
        finish = calm.to(over) | left.to(over)

    async with world.host(Circle) as host:
        run = await host.start(Circle)
        with pytest.raises(MicrostepLimitError):
            await host.send(run, "spin")
        await host.send(run, "finish")
    assert world.status(run) == "done"


class Slow(StateMachine):
    """Takes events one after the other, each of which waits until it is let on."""

    calm = State(initial=True)
    over = State(final=True)
    note = calm.to.itself(internal=True)
    smash = calm.to.itself(internal=True)
    finish = calm.to(over)

    async def on_note(self, text: str) -> str:
        self.model.notes = [*getattr(self.model, "notes", []), text]
        await GATE.wait()
        return text

    async def on_smash(self) -> None:
        self.model.smashed = True
        await GATE.wait()
        message = "smashed"
        raise ValueError(message)


class SlowGate:
    """What slow charts wait at, until a test lets them on."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def set(self) -> None:
        """Let everybody on."""
        self.event.set()

    async def wait(self) -> None:
        """Wait to be let on."""
        await self.event.wait()


GATE = SlowGate()


@pytest.fixture(autouse=True)
def closed_gate() -> None:
    """Keep slow charts waiting until a test lets them on."""
    GATE.event = asyncio.Event()


@pytest.mark.parametrize("begun", [False, True])
async def test_events_behind_a_failing_one_stay_queued(world: World, begun: bool) -> None:
    """Sent together or while the first is under way: each sender gets its own answer."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        sent = [asyncio.create_task(host.send(run, "smash"))]
        if begun:
            await settled()
        sent += [asyncio.create_task(host.send(run, "note", text=text)) for text in "ab"]
        await settled()
        GATE.set()
        answers = await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 5)
        assert isinstance(answers[0], ValueError)
        assert answers[1:] == ["a", "b"]
        assert (await host.read(run)).context == {"notes": ["a", "b"]}


@pytest.mark.parametrize("order", ["ssn", "sns", "nss", "sss", "nsn"])
async def test_several_failing_events_each_fail_alone(world: World, order: str) -> None:
    """Failing and good events in any order, sent while one is under way: nothing else is lost."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        first = asyncio.create_task(host.send(run, "note", text="first"))
        await settled()
        sent = [
            asyncio.create_task(
                host.send(run, "smash") if kind == "s" else host.send(run, "note", text=str(at))
            )
            for at, kind in enumerate(order)
        ]
        await settled()
        GATE.set()
        answers = await asyncio.wait_for(asyncio.gather(*sent, return_exceptions=True), 5)
        assert await first == "first"
        kinds = "".join("s" if isinstance(a, ValueError) else "n" for a in answers)
        assert kinds == order
        good = [str(at) for at, kind in enumerate(order) if kind == "n"]
        assert (await host.read(run)).context == {"notes": ["first", *good]}
        assert world.status(run) == "live"


async def test_what_was_queued_by_the_failing_macrostep_is_gone(world: World) -> None:
    """An event that a chart sent to itself before it raised never runs."""

    class Sends(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        smash = calm.to.itself(internal=True)
        echo = calm.to(over)
        finish = calm.to(over)

        def on_smash(self) -> None:
            self.send("echo")
            message = "smashed"
            raise ValueError(message)

    async with world.host(Sends) as host:
        run = await host.start(Sends)
        with pytest.raises(ValueError, match="smashed"):
            await host.send(run, "smash")
        await settled()
        assert world.status(run) == "live"


async def test_what_was_invoked_before_goes_on_after_a_raise(
    world: World, outside: Outside
) -> None:
    """A call in flight belongs to the run: it is not made again, and its outcome arrives."""

    class Busy(StateMachine):
        class Both(State.Parallel):
            class Left(State.Compound):
                paying = State(initial=True, invoke=effect(outside.service("charge")))
                paid = State(final=True)
                done_invoke_paying = paying.to(paid)

            class Right(State.Compound):
                calm = State(initial=True)
                smash = calm.to.itself(on="fail")

        def fail(self) -> None:
            message = "smashed"
            raise ValueError(message)

    outside.hold("charge")
    async with world.host(Busy) as host:
        run = await host.start(Busy)
        await until(lambda: outside.count("charge") == 1)
        for _ in range(3):
            with pytest.raises(ValueError, match="smashed"):
                await host.send(run, "smash")
        outside.hold("charge").set()
        await until(lambda: "paid" in world.configuration(run))
    assert outside.count("charge") == 1


async def test_a_plain_call_goes_on_after_a_raise(world: World) -> None:
    """Work in flight reaches the rebuilt chart with what it sends, and with what it returns."""
    go = asyncio.Event()

    async def work(ctx: Any) -> str:
        started.append(ctx.attempt)
        await go.wait()
        ctx.send("note", text="from work")
        return "worked"

    started: list[int] = []

    class Working(StateMachine):
        working = State(initial=True, invoke=work)
        worked = State()
        smash = working.to.itself(internal=True)
        note = working.to.itself(internal=True) | worked.to.itself(internal=True)
        over = State(final=True)
        done_invoke_working = working.to(worked)
        finish = worked.to(over)

        def on_smash(self) -> None:
            message = "smashed"
            raise ValueError(message)

        def on_note(self, text: str) -> None:
            self.model.note = text

    async with world.host(Working) as host:
        run = await host.start(Working)
        await until(lambda: started == [1])
        with pytest.raises(ValueError, match="smashed"):
            await host.send(run, "smash")
        go.set()
        await until(lambda: world.configuration(run) == ["worked"])
        assert (await host.read(run)).context["note"] == "from work"
    assert started == [1]


async def dies(world: World, host: Any, run: str, message: str) -> None:
    """Check that a run became `error` with its exception, as it was saved before."""
    await ended(host, run)
    header = world.stored(run).header
    assert header.status == "error"
    assert header.reason == f"ValueError: {message}"
    assert world.blob(run)["error"] == {"type": "ValueError", "message": message}
    assert header.ended_ms == world.clock.now_ms()
    with pytest.raises(RunFinishedError):
        await host.send(run, "finish")


def dying(**work: Any) -> Any:
    """Return a strict chart that cannot take the event which its work leads to."""

    class Dying(StateMachine):
        calm = State(initial=True, **work)
        after = State()
        over = State(final=True)
        expired = calm.to(after)
        done_invoke_calm = calm.to(after)
        finish = calm.to(over) | after.to(over)

        def on_enter_after(self) -> None:
            self.model.changed = True
            message = "cannot go there"
            raise ValueError(message)

    return Dying


async def test_a_raise_on_a_timer_makes_the_run_an_error(world: World) -> None:
    """Nobody waits for a timer: the run ends with the exception, in one write."""
    chart = dying(invoke=timeout(5, on="expired"))
    async with world.host(chart) as host:
        run = await host.start(chart)
        world.clock.advance(5_000)
        ring(host)
        await dies(world, host, run, "cannot go there")
    assert world.saves(run) == 2
    assert world.configuration(run) == ["calm"]
    assert "context" not in world.blob(run)["root"]


async def test_a_raise_on_an_outcome_makes_the_run_an_error(world: World, outside: Outside) -> None:
    """An effect's outcome that the chart cannot take ends the run; the effect itself is done."""
    chart = dying(invoke=effect(outside.service("charge")))
    async with world.host(chart) as host:
        run = await host.start(chart)
        await dies(world, host, run, "cannot go there")
    assert world.effects(run) == ["done"]


async def test_a_raise_in_a_restored_queue_makes_the_run_an_error(
    world: World, outside: Outside
) -> None:
    """The event was accepted by a host that died: whoever sent it does not wait any more."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        note = asyncio.create_task(host.send(run, "note", text="a"))
        await settled()
        smash = asyncio.create_task(host.send(run, "smash"))
        await settled()
        save = host.store.save
        copies: list[World] = []

        def copy(header: Any, blob: Any, **options: Any) -> Any:
            saved = save(header, blob, **options)
            copies.append(world.after_kill())
            return saved

        host.store.save = copy
        GATE.set()
        await asyncio.gather(note, smash, return_exceptions=True)
    after = copies[0]
    assert [item["event"] for item in after.blob(run)["root"]["queue"]] == ["smash"]
    async with after.host(Slow) as host:
        await dies(after, host, run, "smashed")
    assert after.blob(run)["root"]["context"] == {"notes": ["a"]}


async def test_a_run_that_dies_tells_who_waits_behind(world: World) -> None:
    """An event behind the one that ends the run is answered, not left hanging."""

    class Slowly(StateMachine):
        calm = State(initial=True, invoke=timeout(5, on="expired"))
        over = State(final=True)
        expired = calm.to(over)
        note = calm.to.itself(internal=True)

        async def on_expired(self) -> None:
            await GATE.wait()
            message = "too late"
            raise ValueError(message)

    async with world.host(Slowly) as host:
        run = await host.start(Slowly)
        world.clock.advance(5_000)
        ring(host)
        await settled()
        notes = [asyncio.create_task(host.send(run, "note")) for _ in range(2)]
        await settled()
        GATE.set()
        answers = await asyncio.wait_for(asyncio.gather(*notes, return_exceptions=True), 5)
        assert [type(answer) for answer in answers] == [RunFinishedError] * 2
    assert world.status(run) == "error"


async def test_a_statechart_takes_its_errors_as_events(world: World) -> None:
    """`error.execution` is handled by the chart and saved; the caller gets no exception."""

    class Catching(StateChart):
        calm = State(initial=True)
        hurt = State()
        sad = State()
        over = State(final=True)
        smash = calm.to(hurt)
        error_execution = hurt.to(sad)
        finish = sad.to(over)

        def on_smash(self) -> None:
            self.model.smashed = True
            message = "smashed"
            raise ValueError(message)

        def on_enter_sad(self, error: Any) -> None:
            self.model.why = str(error)

    async with world.host(Catching) as host:
        run = await host.start(Catching)
        await host.send(run, "smash")
        assert world.configuration(run) == ["sad"]
        assert world.blob(run)["root"]["context"] == {"smashed": True, "why": "smashed"}
        await host.send(run, "finish")
    assert world.status(run) == "done"


async def test_a_statechart_that_does_not_name_the_error_goes_on(world: World) -> None:
    """As in the library the error is dropped, and the transition is made."""

    class Ignoring(StateChart):
        calm = State(initial=True)
        hurt = State()
        over = State(final=True)
        smash = calm.to(hurt)
        finish = hurt.to(over)

        def on_smash(self) -> None:
            message = "smashed"
            raise ValueError(message)

    async with world.host(Ignoring) as host:
        run = await host.start(Ignoring)
        await host.send(run, "smash")
        assert world.configuration(run) == ["hurt"]
        assert world.status(run) == "live"


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_cancellation_raised_by_a_callback_is_a_raise(
    world: World, asynchronous: bool
) -> None:
    """It is no Exception to Python: the run is put back all the same, and nothing hangs."""

    class Cancelled(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        smash = calm.to.itself(internal=True)
        note = calm.to.itself(internal=True)
        finish = calm.to(over)

        def on_smash(self) -> None:
            self.model.smashed = True
            raise asyncio.CancelledError

        def on_note(self, text: str) -> str:
            return text

    class Later(Cancelled):
        async def on_note(self, text: str) -> str:
            return text

    chart = Later if asynchronous else Cancelled
    async with world.host(chart) as host:
        run = await host.start(chart)
        sent = asyncio.create_task(host.send(run, "smash"))
        await until(sent.done)
        with pytest.raises(RuntimeError, match="CancelledError"):
            await sent
        assert await asyncio.wait_for(host.send(run, "note", text="a"), 5) == "a"
        assert (await host.read(run)).context == {}


async def test_a_cancellation_that_a_timers_callback_raises_does_not_stop_the_alarm(
    world: World,
) -> None:
    """The run that raised it is an error; the timers of the others fire."""

    class Cancelled(StateMachine):
        calm = State(initial=True, invoke=timeout(5, on="expired"))
        over = State(final=True)
        expired = calm.to(over)

        def on_expired(self) -> None:
            if getattr(self.model, "bad", False):
                raise asyncio.CancelledError

    async with world.host(Cancelled) as host:
        bad = await host.start(Cancelled, {"bad": True})
        good = await host.start(Cancelled)
        world.clock.advance(5_000)
        ring(host)
        await settled()
        assert world.status(bad) == "error"
        assert world.status(good) == "done"


async def test_a_sender_that_is_cancelled_leaves_its_event(world: World) -> None:
    """The event was taken: it runs to its end, and the run is not disturbed."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        first = asyncio.create_task(host.send(run, "note", text="a"))
        await settled()
        second = asyncio.create_task(host.send(run, "note", text="b"))
        await settled()
        first.cancel()
        second.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        GATE.set()
        await at_rest(host, run)
        assert (await host.read(run)).context == {"notes": ["a", "b"]}


async def test_a_failing_event_whose_sender_was_cancelled_leaves_the_run_live(
    world: World,
) -> None:
    """Somebody waited for it when it was taken: it is refused, not the run's end."""
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        smash = asyncio.create_task(host.send(run, "smash"))
        await settled()
        smash.cancel()
        await asyncio.gather(smash, return_exceptions=True)
        GATE.set()
        await at_rest(host, run)
        assert await host.send(run, "note", text="a") == "a"
        assert world.status(run) == "live"


async def test_a_chart_that_cannot_be_built_anew_is_let_go_and_reported(world: World) -> None:
    """A constructor that works once: the run stays in its row, the host and others go on."""
    made: list[int] = []

    class Fickle(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        smash = calm.to(over)
        finish = calm.to(over)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(1)
            if len(made) == 2:
                message = "not twice"
                raise RuntimeError(message)
            super().__init__(*args, **kwargs)

        def on_smash(self) -> None:
            message = "smashed"
            raise ValueError(message)

    async with world.host(Fickle, Strict) as host:
        run = await host.start(Fickle)
        other = await host.start(Strict)
        with pytest.raises((ValueError, RuntimeError)):
            await host.send(run, "smash")
        assert "not twice" in host.report.unresumed[run]
        assert await host.send(other, "note", text="a") == "a"
        await host.send(run, "finish")
    assert world.status(run) == "done"


LIKE_OF_THE_FILE = [
    RunExistsError("other", same_machine=True, same_input=None),
    RunNotFoundError("other", "other.db"),
    RevisionConflictError("other", 1, 2, status="live"),
    FencedError("other.db", 3, "another"),
    StorageFullError("save", "other.db", "make room"),
]
"""What a callback may raise of a file that it uses itself: no save of its run has failed."""


def tripping(error: Exception) -> tuple[Any, list[int]]:
    """Return a chart whose callback raises, sent for or by a timer, and how often it was called."""
    calls: list[int] = []

    class Tripping(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        trip = calm.to.itself(on="raise_it")
        later = Event(calm.to.itself(on="raise_it"), delay=1_000)
        finish = calm.to(over)

        def raise_it(self) -> None:
            calls.append(1)
            raise error

    return Tripping, calls


@pytest.mark.parametrize("error", LIKE_OF_THE_FILE, ids=lambda error: type(error).__name__)
async def test_what_a_callback_raises_of_another_file_is_its_runs_own(
    world: World, error: Exception
) -> None:
    """It is no failed save: a caller gets it, a run where nobody waits dies, the host goes on."""
    chart, calls = tripping(error)
    async with world.host(chart) as host:
        run, other = await host.start(chart), await host.start(chart)
        with pytest.raises(type(error)):
            await host.send(run, "trip")
        assert len(calls) == 1
        await host.send(run, "later")
        world.clock.advance(1_000)
        ring(host)
        await ended(host, run)
        assert len(calls) == 2
        assert (world.status(run), world.status(other)) == ("error", "live")
        await host.send(other, "finish")
        assert host.report.unresumed == {}


@pytest.mark.parametrize("error", LIKE_OF_THE_FILE, ids=lambda error: type(error).__name__)
async def test_what_a_callback_raises_of_another_file_refuses_an_entry_once(
    world: World, error: Exception
) -> None:
    """The mailbox does not try again what no save has failed for."""
    chart, calls = tripping(error)
    with Letterbox(world) as box:
        async with world.host(chart) as host:
            run = await host.start(chart)
            assert str(error)[:40] in await box.refusal(box.send(run, "trip"))
            assert len(calls) == 1
            await host.send(run, "finish")


async def test_a_start_whose_callback_is_fenced_from_another_file_stops_no_host(
    world: World,
) -> None:
    """Its caller gets the error, and nothing is stored of the run."""

    class Tripping(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        finish = calm.to(over)

        def on_enter_calm(self) -> None:
            path, holder = "other.db", "another"
            raise FencedError(path, 3, holder)

    async with world.host(Tripping, Strict) as host:
        with pytest.raises(FencedError):
            await host.start(Tripping)
        await host.start(Strict)


async def test_an_error_that_no_transition_takes_is_in_the_trail(world: World) -> None:
    """The library drops its event: the trail says when, where and what it was."""

    class Careless(StateChart):
        only = State(initial=True, invoke=effect(lambda: 1 // 0, failed_on=ZeroDivisionError))
        there = State()
        over = State(final=True)
        go = only.to(there, on="stumble")
        finish = there.to(over)

        def stumble(self, text: str) -> None:
            raise ValueError(text)

    async with world.host(Careless) as host:
        run = await host.start(Careless)
        await at_rest(host, run)
        await host.send(run, "go", text="x" * 5_000)
        after = world.after_kill()
        trail = world.blob(run)["trail"]
    said = [(event, was, now) for _, _, event, was, now in trail]
    assert said[0] == ("", [], ["only"])
    assert said[1][0].startswith("error.execution, not taken: ZeroDivisionError: ")
    assert said[1][1:] == (["only"], ["only"])
    assert said[2] == ("go", ["only"], ["there"])  # as the library has it: the error is its own
    assert said[3][0].startswith("error.execution, not taken: ValueError: xxx")
    assert len(said[3][0]) == TRAIL_EVENT_CHARS_MAX
    async with after.host(Careless):
        assert after.blob(run)["trail"] == trail


async def test_an_error_that_a_transition_takes_is_an_ordinary_event(world: World) -> None:
    """It is in the trail as what led somewhere, and nowhere else."""

    class Careful(StateChart):
        only = State(initial=True)
        broken = State(final=True)
        go = only.to.itself(on="stumble")
        error_execution = only.to(broken)

        def stumble(self) -> None:
            message = "no"
            raise ValueError(message)

    async with world.host(Careful) as host:
        run = await host.start(Careful)
        await host.send(run, "go")
    assert [entry[2] for entry in world.blob(run)["trail"]] == ["", "go"]
