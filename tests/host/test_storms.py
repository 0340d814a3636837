"""Everything at once: events, outcomes, timers and threads that come while a chart is at work."""

from __future__ import annotations

import asyncio
import contextlib
import random
import threading
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import Context, child, effect, gate, timeout
from machines.errors import (
    EventRefusedError,
    GateClosedError,
    HostStoppedError,
    RunFinishedError,
)
from snapshots.codec import load
from snapshots.errors import EncodeError
from tests.host.charts import Door, Strict
from tests.host.world import (
    Barrier,
    Outside,
    World,
    at_rest,
    ended,
    resident,
    ring,
    settled,
    until,
)


async def a_while(chance: random.Random) -> None:
    """Let others run, for a moment of random length."""
    for _ in range(chance.randrange(4)):
        await asyncio.sleep(0)


def busy(outside: Outside, chance: random.Random) -> Any:
    """Return a chart with slow callbacks, effects, timers, a child and events that fail."""

    class Deep(StateChart):
        resting = State(initial=True)
        gone = State(final=True)
        poke = resting.to.itself(on="feel")
        end = resting.to(gone)

        async def feel(self) -> None:
            self.model.felt = getattr(self.model, "felt", 0) + 1
            await a_while(chance)

    class Busy(StateMachine):
        class Both(State.Parallel):
            class Talk(State.Compound):
                talking = State(initial=True)
                note = talking.to.itself(on="keep")
                smash = talking.to.itself(on="fail")

            class Work(State.Compound):
                free = State(initial=True)
                mailing = State(invoke=effect(outside.service("mail")))
                mail = free.to(mailing, cond="is_free") | mailing.to(mailing, cond="never")
                done_invoke_mailing = mailing.to(free, on="count")

            class Time(State.Compound):
                ticking = State(initial=True, invoke=timeout(1, on="tick"))
                tick = ticking.to(ticking, on="tock")

            class Below(State.Compound):
                holding = State(initial=True, invoke=child(Deep, id="deep", forward=True))
                held = State(final=True)
                done_invoke_deep = holding.to(held)

        over = State(final=True)
        finish = Both.to(over)
        poke = Both.to.itself(internal=True, cond="never")
        done_invoke_ticking = Both.to.itself(internal=True, cond="never")

        allow_event_without_transition = True

        async def keep(self, n: int) -> int:
            self.model.notes = [*getattr(self.model, "notes", []), n]
            await a_while(chance)
            return n

        async def fail(self, n: int) -> None:
            self.model.notes = [*getattr(self.model, "notes", []), -n]
            await a_while(chance)
            raise ValueError(n)

        async def count(self) -> None:
            self.model.mails = getattr(self.model, "mails", 0) + 1
            await a_while(chance)

        def tock(self) -> None:
            self.model.ticks = getattr(self.model, "ticks", 0) + 1

        def is_free(self) -> bool:
            return True

        def never(self) -> bool:
            return False

    return Busy


async def storm(world: World, host: Any, run: str, chance: random.Random) -> list[int]:
    """Send, fail, mail, poke and let time pass, all at once; return the notes that were taken."""
    taken: list[int] = []

    async def one(n: int) -> None:
        await a_while(chance)
        kind = chance.choice(["note", "note", "smash", "mail", "poke", "tick", "cancelled"])
        if kind == "tick":
            world.clock.advance(400)
            ring(host)
        elif kind == "smash":
            with pytest.raises(ValueError, match=str(n)):
                await host.send(run, "smash", n=n)
        elif kind == "cancelled":
            sender = asyncio.create_task(host.send(run, "note", n=n))
            await a_while(chance)
            sender.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await sender
            taken.append(n)
        elif kind == "note":
            assert await host.send(run, "note", n=n, delivery=f"d{n}") == n
            taken.append(n)
        else:
            await host.send(run, kind)

    await asyncio.wait_for(asyncio.gather(*(one(n) for n in range(1, 61))), 20)
    return taken


@pytest.mark.parametrize("seed", range(6))
async def test_a_storm_loses_nothing_and_runs_nothing_twice(
    world: World, outside: Outside, seed: int
) -> None:
    """Every note that was taken is kept once, no failed one is, and each mail went out once."""
    chance = random.Random(seed)
    chart = busy(outside, chance)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await settled()
        taken = await storm(world, host, run, chance)
        await at_rest(host, run)
        view = await host.read(run)
        kept = view.context.get("notes", [])
        assert all(n > 0 for n in kept)
        assert len(kept) == len(set(kept))
        assert set(kept) <= set(taken)
        delivered = {int(d[1:]) for d in world.blob(run).get("deliveries", [])}
        assert delivered <= set(kept)
        assert view.context.get("mails", 0) == outside.count("mail")
        assert len(outside.keys("mail")) == len(set(outside.keys("mail")))
        assert load(world.stored(run).blob) == load(resident(host, run).as_stored().blob)
    async with world.host(chart) as host:
        assert (await host.read(run)).context == view.context
        await host.send(run, "finish")
    assert world.status(run) == "done"


@pytest.mark.parametrize("seed", range(6))
async def test_a_copy_of_the_file_at_any_moment_of_a_storm_goes_on(
    world: World, outside: Outside, seed: int
) -> None:
    """Killed in the middle of it, the next host finds a whole run: notes once, none that failed."""
    chance = random.Random(seed)
    chart = busy(outside, chance)
    copies: list[World] = []
    async with world.host(chart) as host:
        run = await host.start(chart)
        save = host.store.save

        def sometimes(header: Any, blob: Any, **options: Any) -> Any:
            saved = save(header, blob, **options)
            if chance.random() < 0.05 and len(copies) < 3:
                copies.append(world.after_kill())
            return saved

        host.store.save = sometimes
        await settled()
        await storm(world, host, run, chance)
        await at_rest(host, run)
    assert copies
    for after in copies:
        async with after.host(chart) as host:
            assert host.report.resumed == [run], str(host.report)
            await until(lambda h=host: run not in h._resident or not h._shop._pumps)
            await settled()
            view = await host.read(run)
            notes = view.context.get("notes", [])
            assert len(notes) == len({abs(n) for n in notes})
            if view.status == "live":
                assert await host.send(run, "note", n=1_000) == 1_000
            else:
                # An event that fails had been accepted, and nobody waits for it any more.
                assert (view.reason or "").startswith("ValueError")


@pytest.mark.parametrize("seed", range(6))
async def test_a_stop_in_the_middle_of_a_storm_answers_everybody(
    world: World, outside: Outside, seed: int
) -> None:
    """Each sender gets its result or an error, nothing hangs, and what was answered is on disk."""
    chance = random.Random(seed)
    chart = busy(outside, chance)
    host = world.host(chart, grace_s=chance.choice([0, 1]))
    await host.__aenter__()
    run = await host.start(chart)
    answered: list[int] = []

    async def one(n: int) -> None:
        await a_while(chance)
        with contextlib.suppress(HostStoppedError):
            kind = chance.choice(["note", "note", "mail", "poke"])
            result = await host.send(run, kind, **({"n": n} if kind == "note" else {}))
            if kind == "note":
                assert result == n
                answered.append(n)

    senders = [asyncio.create_task(one(n)) for n in range(1, 40)]
    for _ in range(chance.randrange(30)):
        await asyncio.sleep(0)
    await asyncio.wait_for(host.stop(), 10)
    await asyncio.wait_for(asyncio.gather(*senders), 5)
    kept = world.blob(run)["root"].get("context", {}).get("notes", [])
    assert set(answered) <= set(kept)
    assert len(kept) == len(set(kept))
    async with world.host(chart) as again:
        assert again.report.resumed == [run]
        await settled()
        assert await again.send(run, "note", n=1_000) == 1_000


async def test_a_stop_answers_a_sender_whose_macrostep_never_ends(world: World) -> None:
    """After the grace the macrostep is given up, its sender is told, and the row is as before."""

    class Hangs(StateChart):
        calm = State(initial=True)
        over = State(final=True)
        hang = calm.to(over)

        async def on_hang(self) -> None:
            await asyncio.Event().wait()

    host = world.host(Hangs, grace_s=0.02)
    await host.__aenter__()
    run = await host.start(Hangs)
    before = world.stored(run)
    first = asyncio.create_task(host.send(run, "hang"))
    await settled()
    behind = asyncio.create_task(host.send(run, "hang"))
    starting = asyncio.create_task(host.start(Hangs, run_id="b"))
    await settled()
    await host.stop()
    await starting
    for sender in (first, behind):
        with pytest.raises(HostStoppedError):
            await asyncio.wait_for(sender, 5)
    assert world.stored(run) == before


async def test_a_stop_answers_a_start_that_never_ends(world: World) -> None:
    """A first macrostep that hangs: nothing is stored, and who started it is told."""

    class Hangs(StateChart):
        only = State(initial=True)
        over = State(final=True)
        finish = only.to(over)

        async def on_enter_only(self) -> None:
            await asyncio.Event().wait()

    host = world.host(Hangs, grace_s=0)
    await host.__aenter__()
    starting = asyncio.create_task(host.start(Hangs))
    await settled()
    await host.stop()
    with pytest.raises(HostStoppedError):
        await asyncio.wait_for(starting, 5)
    assert world.ids() == []


async def test_a_callback_may_stop_the_host(world: World) -> None:
    """It is not waited for by itself; the host closes, and others are told."""
    hosts: list[Any] = []

    class Stops(StateChart):
        calm = State(initial=True)
        over = State(final=True)
        go = calm.to(over)

        async def on_go(self) -> None:
            await hosts[0].stop()

    host = world.host(Stops)
    hosts.append(host)
    await host.__aenter__()
    run = await host.start(Stops)
    with pytest.raises(HostStoppedError):
        await asyncio.wait_for(host.send(run, "go"), 5)
    await settled()
    assert world.configuration(run) == ["calm"]
    await host.stop()


async def test_stopping_twice_at_once_is_harmless(world: World, outside: Outside) -> None:
    """Both wait for the same calls, and both return."""

    class Calls(StateChart):
        calling = State(initial=True, invoke=effect(outside.service("call")))
        over = State(final=True)
        done_invoke_calling = calling.to(over)

    outside.hold("call")
    host = world.host(Calls)
    await host.__aenter__()
    run = await host.start(Calls)
    await until(lambda: outside.count("call") == 1)
    stops = [asyncio.create_task(host.stop()) for _ in range(2)]
    await settled()
    outside.hold("call").set()
    await asyncio.wait_for(asyncio.gather(*stops), 5)
    assert world.status(run) == "done"


async def test_a_callback_may_send_to_another_run(world: World) -> None:
    """An awaiting callback gets the other run's answer; its own macrostep goes on then."""
    hosts: list[Any] = []

    class Asks(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        ask = calm.to.itself(on="do_ask")
        finish = calm.to(over)

        async def do_ask(self, whom: str, what: str, text: str = "") -> Any:
            self.model.asked = getattr(self.model, "asked", 0) + 1
            return await hosts[0].send(whom, what, text=text)

    async with world.host(Asks, Strict) as host:
        hosts.append(host)
        asks = await host.start(Asks)
        strict = await host.start(Strict)
        assert await host.send(asks, "ask", whom=strict, what="note", text="hello") == "hello"
        with pytest.raises(ValueError, match="smashed"):
            await host.send(asks, "ask", whom=strict, what="smash")
        assert (await host.read(asks)).context == {"asked": 1}
        assert (await host.read(strict)).context == {"notes": ["hello"]}


async def test_a_callback_that_would_wait_for_its_own_macrostep_is_refused(world: World) -> None:
    """Sending to the run itself and waiting would never end: it is a typed error at once."""
    hosts: list[Any] = []

    class Selfish(StateMachine):
        calm = State(initial=True, invoke=gate("yes", key="gate"))
        over = State(final=True)
        ask = calm.to.itself(internal=True, on="do_ask")
        yes = calm.to(over)

        async def do_ask(self, run: str, answering: bool) -> None:
            if answering:
                await hosts[0].answer(run, "gate", "yes")
            else:
                await hosts[0].send(run, "yes")

    async with world.host(Selfish) as host:
        hosts.append(host)
        run = await host.start(Selfish)
        for answering in (False, True):
            with pytest.raises(EventRefusedError):
                await asyncio.wait_for(host.send(run, "ask", run=run, answering=answering), 5)
        await host.answer(run, "gate", "yes")


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_task_of_a_callback_may_send_to_its_own_run(
    world: World, asynchronous: bool
) -> None:
    """Begun inside the macrostep and run after it, what the task sends is an event like others."""
    hosts: list[Any] = []
    tasks: list[asyncio.Task[Any]] = []

    class Echoes(StateMachine):
        calm = State(initial=True)
        heard = State()
        over = State(final=True)
        call = calm.to.itself(internal=True, on="do_call")
        echo = calm.to(heard)
        finish = heard.to(over)

        def do_call(self, run: str) -> None:
            tasks.append(asyncio.get_running_loop().create_task(hosts[0].send(run, "echo")))

    class Later(Echoes):
        async def on_enter_heard(self) -> None:
            await asyncio.sleep(0)

    chart = Later if asynchronous else Echoes
    async with world.host(chart) as host:
        hosts.append(host)
        run = await host.start(chart)
        await host.send(run, "call", run=run)
        await asyncio.wait_for(tasks[0], 5)
        assert world.configuration(run) == ["heard"]


async def test_a_synchronous_callback_may_have_another_run_told(world: World) -> None:
    """A task begun in a synchronous chart's callback reaches the other run."""
    hosts: list[Any] = []
    tasks: list[asyncio.Task[Any]] = []

    class Tells(StateChart):
        calm = State(initial=True)
        over = State(final=True)
        tell = calm.to.itself(on="do_tell")
        finish = calm.to(over)

        def do_tell(self, whom: str) -> None:
            tasks.append(asyncio.get_running_loop().create_task(hosts[0].send(whom, "push")))

    async with world.host(Tells, Door) as host:
        hosts.append(host)
        tells = await host.start(Tells)
        door = await host.start(Door)
        await host.send(tells, "tell", whom=door)
        assert await asyncio.wait_for(tasks[0], 5) == "pushed by nobody"


async def test_work_in_a_thread_sends_to_its_chart(world: World) -> None:
    """A hundred events out of a thread arrive in order, and the result behind them."""

    def work(ctx: Context) -> str:
        for n in range(100):
            ctx.send("note", n=n)
        return "worked"

    class Working(StateChart):
        working = State(initial=True, invoke=work)
        over = State(final=True)
        note = working.to.itself(internal=True, on="keep", cond="keep")
        done_invoke_working = working.to(over)

        def keep(self, n: int) -> bool:
            self.model.notes = [*getattr(self.model, "notes", []), n]
            return False

    async with world.host(Working) as host:
        run = await host.start(Working)
        await ended(host, run)
        assert (await host.read(run)).context["notes"] == list(range(100))


async def test_work_in_a_thread_sends_while_its_chart_awaits(world: World) -> None:
    """Events of a thread in the middle of a macrostep wait for its end, and are not lost."""
    release, entered = asyncio.Event(), asyncio.Event()
    barrier = Barrier()

    def work(ctx: Context) -> None:
        barrier.wait()
        for n in range(10):
            ctx.send("note", n=n)
        barrier.reached.clear()
        ctx.cancelled.wait(5)

    class Working(StateMachine):
        working = State(initial=True, invoke=work)
        over = State(final=True)
        note = working.to.itself(internal=True, cond="keep")
        finish = working.to(over)
        hold = working.to(over, cond="held")
        allow_event_without_transition = True

        async def held(self, fails: bool) -> bool:
            entered.set()
            await release.wait()
            if fails:
                message = "failed"
                raise ValueError(message)
            return False

        def keep(self, n: int) -> bool:
            self.model.notes = [*getattr(self.model, "notes", []), n]
            return False

    async with world.host(Working) as host:
        run = await host.start(Working)
        holding = asyncio.create_task(host.send(run, "hold", fails=True))
        await entered.wait()
        await until(barrier.reached.is_set)
        barrier.released.set()
        await until(lambda: len(resident(host, run).tree.arrivals) == 10)
        release.set()
        with pytest.raises(ValueError, match="failed"):
            await holding
        await at_rest_of_tree(host, run)
        assert (await host.read(run)).context["notes"] == list(range(10))
        await host.send(run, "finish")


async def at_rest_of_tree(host: Any, run: str) -> None:
    """Wait until a run's tree has nothing to do, whatever its work does."""
    tree = resident(host, run).tree
    await until(lambda: not (tree.turn or tree.pumping or tree.arrivals))


async def test_work_that_sends_what_cannot_be_stored_gets_the_error(world: World) -> None:
    """It is its own mistake: nobody else's macrostep fails for it."""

    async def work(ctx: Context) -> str:
        try:
            ctx.send("note", n=object())
        except EncodeError as error:
            return f"refused {error.path}"
        return "sent"

    class Working(StateChart):
        working = State(initial=True, invoke=work)
        over = State(final=True)
        note = working.to.itself()
        done_invoke_working = working.to(over, on="keep")

        def keep(self, data: str) -> None:
            self.model.said = data

    async with world.host(Working) as host:
        run = await host.start(Working)
        await ended(host, run)
        assert (await host.read(run)).context["said"] == "refused event note[1].n"


async def test_work_whose_state_was_left_sends_to_nobody_s_harm(world: World) -> None:
    """A thread that goes on after its state, and after its run, disturbs nothing."""
    barrier = Barrier()
    sent: list[int] = []

    def work(ctx: Context) -> None:
        barrier.wait()
        for n in range(5):
            ctx.send("note", n=n)
            sent.append(n)

    class Working(StateChart):
        working = State(initial=True, invoke=work)
        left = State()
        over = State(final=True)
        leave = working.to(left)
        finish = left.to(over)

    async with world.host(Working) as host:
        run = await host.start(Working)
        await until(barrier.reached.is_set)
        await host.send(run, "leave")
        await host.send(run, "finish")
        barrier.released.set()
        await until(lambda: len(sent) == 5)
        await settled()
        assert host._stopped is None
    assert world.status(run) == "done"


async def test_a_thread_that_outlives_the_host_runs_no_chart(world: World) -> None:
    """What it sends after the host has stopped is dropped: no callback, no save."""
    barrier = Barrier()
    ran: list[str] = []

    def work(ctx: Context) -> None:
        barrier.wait()
        ctx.send("note")

    class Working(StateChart):
        working = State(initial=True, invoke=effect(work))
        over = State(final=True)
        note = working.to(over)
        done_invoke_working = working.to(over)

        def on_enter_over(self) -> None:
            ran.append("over")

    async with world.host(Working, grace_s=0) as host:
        run = await host.start(Working)
        await until(barrier.reached.is_set)
    barrier.released.set()
    await settled()
    for thread in host._shop.hands._effects._threads:
        thread.join(5)
    await settled()
    assert ran == []
    assert world.effects(run) == ["calling"]


async def test_a_plain_call_that_waits_to_be_cancelled_does_not_hold_the_process(
    world: World,
) -> None:
    """Stopping tells it; its handler is not told that its state was left, for it was not."""
    told: list[str] = []
    begun = threading.Event()

    class Watcher:
        def run(self, ctx: Context) -> None:
            begun.set()
            ctx.cancelled.wait(5)
            told.append("ended")

        def on_cancel(self) -> None:
            told.append("cancelled")

    class Watches(StateChart):
        watching = State(initial=True, invoke=Watcher())
        over = State(final=True)
        stop = watching.to(over)

    async with asyncio.timeout(3), world.host(Watches) as host:
        await host.start(Watches)
        await until(begun.is_set)
    await until(lambda: told != [])
    assert told == ["ended"]


async def test_a_plain_call_that_raises_a_cancellation_is_an_error_for_its_chart(
    world: World,
) -> None:
    """Nobody cancelled it: the chart is told, and does not wait for ever."""

    async def work() -> None:
        raise asyncio.CancelledError

    class Working(StateChart):
        working = State(initial=True, invoke=work)
        over = State(final=True)
        sad = State(final=True)
        done_invoke_working = working.to(over)
        error_execution = working.to(sad)

    async with world.host(Working) as host:
        run = await host.start(Working)
        await ended(host, run)
        assert (await host.read(run)).configuration == ("sad",)


def unstorable() -> object:
    """Return what no snapshot holds."""
    return object()


async def test_a_plain_result_that_cannot_be_stored_is_an_error_for_its_chart(
    world: World,
) -> None:
    """The host goes on, and so does the run."""

    class Working(StateChart):
        working = State(initial=True, invoke=unstorable)
        over = State(final=True)
        sad = State(final=True)
        done_invoke_working = working.to(over)
        error_execution = working.to(sad, on="keep")

        def keep(self, error: Any) -> None:
            self.model.why = str(error)

    async with world.host(Working) as host:
        run = await host.start(Working)
        await ended(host, run)
        assert "object" in (await host.read(run)).context["why"]


async def test_a_cancel_in_the_middle_of_a_macrostep_tells_its_sender(world: World) -> None:
    """The macrostep is given up: its sender and those behind it are told, the row says why."""
    entered = asyncio.Event()
    gone: list[str] = []

    class Slow(StateChart):
        calm = State(initial=True)
        over = State(final=True)
        note = calm.to.itself(on="keep")
        finish = calm.to(over)

        async def keep(self) -> None:
            entered.set()
            try:
                await asyncio.Event().wait()
            finally:
                gone.append("gone")

    async with world.host(Slow) as host:
        run = await host.start(Slow)
        senders = [asyncio.create_task(host.send(run, "note")) for _ in range(3)]
        await entered.wait()
        await host.cancel(run, "enough")
        answers = await asyncio.wait_for(asyncio.gather(*senders, return_exceptions=True), 5)
        assert [type(answer) for answer in answers] == [RunFinishedError] * 3
        await until(lambda: gone == ["gone"])
    assert world.stored(run).header.reason == "enough"
    assert world.configuration(run) == ["calm"]


async def test_a_gate_that_many_answer_at_once_lets_one_through(world: World) -> None:
    """Twenty answers to one gate: one is taken, nineteen are told that it is closed."""

    class Asks(StateChart):
        idle = State(initial=True)
        asking = State(invoke=gate("yes"))
        told = State()
        over = State(final=True)
        ask = idle.to(asking)
        yes = asking.to(told)
        finish = told.to(over)

        async def on_yes(self, who: int) -> int:
            await asyncio.sleep(0)
            return who

    async with world.host(Asks) as host:
        run = await host.start(Asks)
        await host.send(run, "ask")
        answers = await asyncio.wait_for(
            asyncio.gather(
                *(host.answer(run, "asking", "yes", who=who) for who in range(20)),
                return_exceptions=True,
            ),
            5,
        )
    closed = [answer for answer in answers if isinstance(answer, GateClosedError)]
    assert len(closed) == 19
    assert len([answer for answer in answers if isinstance(answer, int)]) == 1


async def test_a_call_that_left_in_mid_macrostep_is_in_doubt_after_a_death(
    world: World, outside: Outside
) -> None:
    """Its save uses the tree of the last boundary: restored from there, it is not called again."""
    entered, release = asyncio.Event(), asyncio.Event()

    class Slow(StateChart):
        class Both(State.Parallel):
            class Left(State.Compound):
                idle = State(initial=True)
                paying = State(invoke=effect(outside.service("charge")))
                paid = State(final=True)
                pay = idle.to(paying)
                done_invoke_paying = paying.to(paid)

            class Right(State.Compound):
                talking = State(initial=True)
                said = State(final=True)
                talk = talking.to(said)

        async def on_talk(self) -> None:
            entered.set()
            await release.wait()

    outside.hold("charge")
    async with world.host(Slow, grace_s=0) as host:
        run = await host.start(Slow)
        pay = asyncio.create_task(host.send(run, "pay"))
        talk = asyncio.create_task(host.send(run, "talk"))
        await entered.wait()
        await until(lambda: outside.count("charge") == 1)
        assert world.effects(run) == ["calling"]
        after = world.after_kill()
        assert after.blob(run)["root"].get("pending"), "the tree is the one of the last boundary"
        release.set()
        await asyncio.gather(pay, talk)
    outside.hold("charge").set()
    async with after.host(Slow) as host:
        await until(lambda: after.effects(run) == ["unknown"])
        await settled()
        await host.resolve(run, "paying.1", done="it did")
        await until(lambda: "paid" in after.configuration(run))
    assert outside.count("charge") == 1


@pytest.mark.parametrize("dying", [False, True])
async def test_an_outcome_that_comes_while_a_run_is_put_back_is_not_lost(
    world: World, outside: Outside, dying: bool
) -> None:
    """The run goes back to before its call began: the outcome still finds who waits for it."""
    entered, release = asyncio.Event(), asyncio.Event()
    mended: list[bool] = []

    class Slow(StateMachine):
        class Both(State.Parallel):
            class Left(State.Compound):
                idle = State(initial=True)
                paying = State(invoke=effect(outside.service("charge")))
                paid = State(final=True)
                pay = idle.to(paying)
                done_invoke_paying = paying.to(paid)

            class Right(State.Compound):
                talking = State(initial=True)
                said = State(final=True)
                talk = talking.to(said)

        async def on_talk(self) -> None:
            entered.set()
            await release.wait()
            if not mended:
                message = "no"
                raise ValueError(message)

    outside.hold("charge")
    async with world.host(Slow) as host:
        run = await host.start(Slow)
        pay = asyncio.create_task(host.send(run, "pay"))
        talk = asyncio.create_task(host.send(run, "talk"))
        await entered.wait()
        await until(lambda: outside.count("charge") == 1)
        outside.hold("charge").set()
        await until(lambda: world.effects(run) == ["done"])
        after = world.after_kill()
        release.set()
        await pay
        with pytest.raises(ValueError, match="no"):
            await talk
        await until(lambda: "paid" in world.configuration(run))
    if dying:
        async with after.host(Slow) as host:
            # Nobody waits for the talk any more, so its error is the run's; the outcome stays.
            await until(lambda: after.status(run) == "error")
            mended.append(True)
            await host.revive(run)
            await until(lambda: "paid" in after.configuration(run))
    assert outside.count("charge") == 1


async def test_a_call_that_swallows_its_cancellation_does_not_hold_a_stop(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopping takes its grace and a bounded while more; the call is in doubt afterwards."""
    monkeypatch.setattr("machines.host.workshop.ENDING_S", 0.05)
    release = asyncio.Event()

    async def stubborn() -> None:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()

    class Calls(StateChart):
        calling = State(initial=True, invoke=effect(stubborn))
        over = State(final=True)
        done_invoke_calling = calling.to(over)

    host = world.host(Calls, grace_s=0.02)
    await host.__aenter__()
    run = await host.start(Calls)
    await until(lambda: world.effects(run) == ["calling"])
    work = [work.task for work in host._shop._all()]
    await asyncio.wait_for(host.stop(), 5)
    release.set()
    await asyncio.wait(work)
    assert world.effects(run) == ["calling"]
