"""The pool: items of a source, each worked once by a chart of its own, in one row."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Context, Machine, child, effect, gate, open_run
from machines.charts.pool import Outcome, PoolChart, pool
from machines.charts.sources import ItemRefusedError
from machines.errors import DefinitionError
from machines.shape import digest_of
from snapshots import open_store
from snapshots.codec import load
from tests.host.world import (
    Outside,
    World,
    at_rest,
    ended,
    resident,
    ring,
    settled,
    until,
)

MINUTE_MS = 60_000
KB = 1_000


class Held(StateChart):
    """Works its item once it is told to go, and says what it worked."""

    held = State(initial=True, invoke=gate("go", "give_up"))
    worked = State(final=True, donedata="say")
    given_up = State(final=True)
    go = held.to(worked)
    give_up = held.to(given_up)

    def say(self) -> Any:
        return self.model.item


class Quick(StateChart):
    """Works its item at once."""

    working = State(initial=True)
    worked = State(final=True, donedata="say")
    working.to(worked)

    def say(self) -> Any:
        return self.model.item


class Awaits(StateChart):
    """Works its item in callbacks that wait."""

    working = State(initial=True)
    worked = State(final=True, donedata="say")
    working.to(worked, on="work")

    async def work(self) -> None:
        await asyncio.sleep(0)

    def say(self) -> Any:
        return self.model.item


def id_of(item: Any) -> str:
    """Return the id of an item."""
    return str(item["id"] if isinstance(item, dict) else item)


class Supply:
    """Where items come from: it remembers what it was asked, and answers what it has."""

    def __init__(self, *items: Any) -> None:
        self.items = list(items)
        self.empty: Any = None
        """What is answered when there is nothing to take."""
        self.asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        self.trouble: list[Exception] = []
        """What the next questions get."""

    def next(self, active: tuple[str, ...], outcomes: Mapping[str, Outcome]) -> Any:
        """Return the first item that is not worked and has no outcome."""
        self.asked.append((active, tuple(outcomes)))
        if self.trouble:
            raise self.trouble.pop(0)
        known = {*active, *outcomes}
        return next((item for item in self.items if id_of(item) not in known), self.empty)


def at_once(attempt: int) -> float:
    """Wait for nothing before another attempt."""
    del attempt
    return 0.0


async def configuration(host: Any, run: str) -> tuple[str, ...]:
    """Return the active states of a run."""
    found: tuple[str, ...] = (await host.read(run)).configuration
    return found


async def tell(host: Any, run: str, worker: str, what: str = "go") -> None:
    """Let a worker go, and the pool do what follows from it."""
    await host.answer(run, f"working.@{worker}/held", what)
    await at_rest(host, run)


# -- items -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("worker", [Quick, Awaits])
async def test_every_item_is_worked_once_and_its_outcome_kept(
    world: World, worker: type[StateChart]
) -> None:
    """Texts, numbers and mappings; a worker with callbacks that wait, and one without."""
    supply = Supply("a", 7, {"id": "c", "pages": [1, 2]}, {"id": 12})
    chart = pool(worker, supply.next)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await ended(host, run)
        view = await host.read(run)
    assert (view.status, view.configuration) == ("done", ("drained",))
    assert view.context["outcomes"] == {
        "a": {"ended": ["worked"], "data": "a"},
        "7": {"ended": ["worked"], "data": 7},
        "c": {"ended": ["worked"], "data": {"id": "c", "pages": [1, 2]}},
        "12": {"ended": ["worked"], "data": {"id": 12}},
    }
    assert view.context["active"] == []


@pytest.mark.parametrize("waits", [True, False])
async def test_a_source_may_wait_or_block(world: World, waits: bool) -> None:
    """A coroutine function, and a function that is called in a thread of its own."""
    supply, threads = Supply("a", "b"), set()

    def block(active: tuple[str, ...], outcomes: Mapping[str, Outcome]) -> Any:
        threads.add(threading.current_thread())
        return supply.next(active, outcomes)

    async def wait(active: tuple[str, ...], outcomes: Mapping[str, Outcome]) -> Any:
        await asyncio.sleep(0)
        return block(active, outcomes)

    chart = pool(Held, wait if waits else block)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert [gate.path for gate in await host.gates(run)] == ["working.@a", "working.@b"]
        await tell(host, run, "a")
        await tell(host, run, "b")
        assert (await host.read(run)).configuration == ("drained",)
    assert len(supply.asked) == 5
    assert (threading.current_thread() in threads) is waits


async def test_outcomes_are_kept_in_the_order_in_which_they_ended(world: World) -> None:
    """Not in the order in which they began; and how each ended is told."""
    chart = pool(Held, Supply("a", "b", "c").next)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        await tell(host, run, "c", "give_up")
        await tell(host, run, "a")
        await tell(host, run, "b", "give_up")
        outcomes = (await host.read(run)).context["outcomes"]
    assert list(outcomes) == ["c", "a", "b"]
    assert outcomes["c"] == {"ended": ["given_up"], "data": None}
    assert outcomes["a"] == {"ended": ["worked"], "data": "a"}


async def test_no_more_work_at_a_time_than_the_cap(world: World) -> None:
    """A full pool asks nobody; a worker's end makes room for one."""
    supply = Supply("a", "b", "c", "d")
    chart = pool(Held, supply.next, cap=2)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert await configuration(host, run) == ("working", "full")
        assert supply.asked == [((), ()), (("a",), ())]
        await tell(host, run, "a")
        assert await configuration(host, run) == ("working", "full")
        assert supply.asked[2:] == [(("b",), ("a",))]
        for worker in "bcd":
            await tell(host, run, worker)
        assert (await host.read(run)).configuration == ("drained",)
    assert max(len(active) for active, _ in supply.asked) == 1


async def test_a_cap_that_was_lowered_lets_workers_end_first(world: World) -> None:
    """The cap is no part of the shape: a restored pool with more workers than may be asks later."""
    supply = Supply("a", "b", "c", "d")
    async with world.host(pool(Held, supply.next, cap=3, name="P")) as host:
        run = await host.start("P")
        await at_rest(host, run)
        after = world.after_kill()
    async with after.host(pool(Held, supply.next, cap=1, name="P")) as host:
        asked = len(supply.asked)
        for worker in "ab":
            await tell(host, run, worker)
            assert await configuration(host, run) == ("working", "full")
        assert len(supply.asked) == asked
        await tell(host, run, "c")
        assert [gate.path for gate in await host.gates(run)] == ["working.@d"]


async def test_the_model_is_the_runs_own(world: World) -> None:
    """A class of the user's is the model; the source may name it, the chart and its context."""

    @dataclass
    class Site:
        """What the pool is about."""

        urls: list[str]
        outcomes: dict[str, Outcome] = field(default_factory=dict)

    runs = []

    def next_url(model: Site, machine: PoolChart, ctx: Context) -> str | None:
        runs.append(ctx.run_id)
        assert machine.model is model
        return model.urls[0] if model.urls[0] not in model.outcomes else None

    chart = pool(Quick, next_url)
    async with world.host(Machine(chart, context=Site)) as host:
        run = await host.start(chart, {"urls": ["x"]})
        await ended(host, run)
        view = await host.read(run)
    assert list(view.context["outcomes"]) == ["x"]
    assert set(runs) == {run}


@dataclass(frozen=True)
class Part:
    """A value that an item may hold."""

    name: str


async def test_items_may_hold_values_of_the_workers_types(world: World) -> None:
    """What the worker's machine knows, its pool knows too, over a restart as well."""
    item = {"id": 1, "part": Part("wheel")}
    chart = pool(Machine(Held, types=[Part]), Supply(item).next)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        after = world.after_kill()
    async with after.host(chart) as host:
        await host.answer(run, "working.@1/held", "go")
        root = resident(host, run).tree.root
        assert root.chart.model.outcomes["1"]["data"] == item
        await ended(host, run)


async def test_a_source_cannot_change_the_outcomes(world: World) -> None:
    """They are given to be read: one that tries fails like any that raises."""

    def forgets(outcomes: dict[str, Outcome]) -> str:
        outcomes.pop("a", None)
        return "a"

    chart = pool(Quick, forgets, retries=0)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await ended(host, run)
        view = await host.read(run)
    assert view.configuration == ("unreachable",)
    assert isinstance(view.context["error"], AttributeError)


async def test_outcomes_of_an_earlier_run_count_as_worked(world: World) -> None:
    """They can be the input of the next one."""
    chart = pool(Quick, Supply("a", "b").next)
    earlier = {"a": {"ended": ["worked"], "data": 1}}
    async with world.host(chart) as host:
        run = await host.start(chart, {"outcomes": earlier})
        await ended(host, run)
        outcomes = (await host.read(run)).context["outcomes"]
    assert outcomes == {**earlier, "b": {"ended": ["worked"], "data": "b"}}


@pytest.mark.parametrize("name", ["a b", "a.b.c", "*", "@", "x.@y", "é…", "a" * 200, "error.x"])
async def test_any_printable_id_will_do(world: World, name: str) -> None:
    """Ids are parts of paths and of event names, and none is mistaken for something else there."""
    chart = pool(Quick, Supply(name).next)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await ended(host, run)
        assert list((await host.read(run)).context["outcomes"]) == [name]


# -- endings and waiting ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "end"), [(None, "drained"), ((None, 0), "drained"), ((None, 3), "deadlocked")]
)
async def test_a_pool_where_nobody_works_ends_by_what_is_open(
    world: World, answer: Any, end: str
) -> None:
    """Nothing open: drained. Something open that nothing could free: deadlocked."""
    supply = Supply("a")
    supply.empty = answer
    chart = pool(Quick, supply.next)
    async with world.host(Machine(chart, failed=["deadlocked", "unreachable"])) as host:
        run = await host.start(chart.__name__)
        await ended(host, run)
        view = await host.read(run)
    assert view.configuration == (end,)
    assert view.status == ("failed" if end == "deadlocked" else "done")
    assert list(view.context["outcomes"]) == ["a"]


async def test_a_workers_end_may_free_what_was_blocked(world: World) -> None:
    """Nothing to take while somebody works: the pool waits, and asks again at each end."""
    supply = Supply("a", "b")
    supply.empty = (None, 1)
    chart = pool(Held, supply.next)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert await configuration(host, run) == ("working", "waiting")
        assert (await host.read(run)).context["open"] == 1
        asked = len(supply.asked)
        await tell(host, run, "a")
        assert len(supply.asked) == asked + 1
        supply.items.append("c")
        supply.empty = None
        await tell(host, run, "b")
        await tell(host, run, "c")
        assert (await host.read(run)).configuration == ("drained",)


async def test_a_wake_event_has_a_waiting_pool_ask_again(world: World) -> None:
    """With one, a pool where nobody works stays: its row is parked, and an event wakes it."""
    supply = Supply()
    supply.empty = (None, 2)
    chart = pool(Quick, supply.next, wake="item.added")
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert await configuration(host, run) == ("working", "waiting")
        assert world.stored(run).header.parked
        supply.items.append("a")
        await host.send(run, "item.added")
        await at_rest(host, run)
        assert list((await host.read(run)).context["outcomes"]) == ["a"]
        supply.empty = None
        await host.send(run, "item.added")
        await ended(host, run)


async def test_a_pool_asks_again_after_its_interval(world: World) -> None:
    """A timer of the row: it is not moved by a restart, and starts anew after each answer."""
    supply = Supply()
    supply.empty = (None, 1)
    chart = pool(Quick, supply.next, interval_s=60)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert len(supply.asked) == 1
        world.clock.advance(MINUTE_MS - 1)
        ring(host)
        await settled()
        assert len(supply.asked) == 1
        after = world.after_kill()
    after.clock.advance(1)
    async with after.host(chart) as host:
        await until(lambda: len(supply.asked) == 2)
        await at_rest(host, run)
        assert after.stored(run).header.due_ms == after.clock.now_ms() + MINUTE_MS
        supply.empty = None
        after.clock.advance(MINUTE_MS)
        ring(host)
        await ended(host, run)


class Hand:
    """A source whose answers are given one by one: each question waits for its own."""

    def __init__(self) -> None:
        self.questions: list[asyncio.Future[Any]] = []

    async def ask(self) -> Any:
        """Wait for the answer."""
        self.questions.append(asyncio.get_running_loop().create_future())
        return await self.questions[-1]

    async def answer(self, number: int, answer: Any) -> None:
        """Give the n-th question its answer, once it was asked."""
        await until(lambda: len(self.questions) >= number, f"question {number}")
        self.questions[number - 1].set_result(answer)


async def test_an_event_that_comes_while_the_source_is_asked_is_not_lost(world: World) -> None:
    """The answer may be older than the event: it is asked again before the pool ends."""
    hand = Hand()
    chart = pool(Quick, hand.ask, wake="news")
    async with world.host(chart) as host:
        run = await host.start(chart)
        await until(lambda: hand.questions)
        await host.send(run, "news")
        await hand.answer(1, None)
        await hand.answer(2, "a")
        await hand.answer(3, None)
        await hand.answer(4, None)
        await ended(host, run)
        assert list((await host.read(run)).context["outcomes"]) == ["a"]
    assert len(hand.questions) == 4


async def test_an_end_that_comes_while_the_source_is_asked_is_not_lost(world: World) -> None:
    """The question was asked when the worker still worked: its answer is no reason to end."""
    hand = Hand()
    chart = pool(Held, hand.ask)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await hand.answer(1, "a")
        await until(lambda: len(hand.questions) == 2)
        await host.answer(run, "working.@a/held", "go")
        await hand.answer(2, (None, 1))
        await hand.answer(3, "b")
        await hand.answer(4, (None, 0))
        await until(lambda: world.configuration(run) == ["working", "waiting"])
        await host.answer(run, "working.@b/held", "go")
        await hand.answer(5, None)
        await ended(host, run)
        assert list((await host.read(run)).context["outcomes"]) == ["a", "b"]


async def test_an_event_that_is_queued_behind_the_last_answer_is_not_lost(world: World) -> None:
    """The pool is deciding to end when it comes: it is heard first."""
    supply = Supply()
    reached, go_on = asyncio.Event(), asyncio.Event()

    class Busy(pool(Quick, supply.next, wake="news")):  # type: ignore[misc]  # a class made at run time
        """Takes its time over each answer."""

        async def on_exit_asking(self) -> None:
            reached.set()
            await go_on.wait()

    async with world.host(Busy) as host:
        run = await host.start(Busy)
        await reached.wait()
        supply.items.append("a")
        sent = asyncio.create_task(host.send(run, "news"))
        await settled()
        go_on.set()
        await sent
        await ended(host, run)
        assert list((await host.read(run)).context["outcomes"]) == ["a"]


async def test_news_change_nothing_while_the_pool_is_full(world: World) -> None:
    """It asks anyway once there is room."""
    supply = Supply("a", "b")
    chart = pool(Held, supply.next, cap=1, wake="news")
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        await host.send(run, "news")
        assert await configuration(host, run) == ("working", "full")
        assert len(supply.asked) == 1
        await tell(host, run, "a")
        assert [gate.path for gate in await host.gates(run)] == ["working.@b"]


# -- what a source does wrong ----------------------------------------------------------------------


async def test_an_item_that_is_worked_or_done_is_not_worked_again(world: World) -> None:
    """A source that is behind gives it again and again: no worker, and no hot loop."""
    asked = []

    def behind(active: tuple[str, ...]) -> str:
        asked.append(active)
        return "a"

    chart = pool(Held, behind)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert asked == [(), ("a",)]
        assert await configuration(host, run) == ("working", "waiting")
        await tell(host, run, "a")
        view = await host.read(run)
    assert asked == [(), ("a",), ()]
    assert view.configuration == ("deadlocked",)
    assert view.context["open"] == 1
    assert view.context["outcomes"] == {"a": {"ended": ["worked"], "data": "a"}}


async def test_a_source_that_raises_is_asked_again_and_then_the_pool_fails(world: World) -> None:
    """With nothing that could change it the run ends as unreachable, with the error on record."""
    supply = Supply("a")
    supply.trouble = [OSError(f"down {n}") for n in range(4)]
    chart = pool(Quick, supply.next, retries=3, backoff=at_once)
    async with world.host(Machine(chart, failed=["unreachable"])) as host:
        run = await host.start(chart.__name__)
        await ended(host, run)
        view = await host.read(run)
    assert (view.status, view.configuration) == ("failed", ("unreachable",))
    assert repr(view.context["error"]) == "OSError('down 3')"
    assert len(supply.asked) == 4


async def test_a_source_that_raises_for_a_while_is_waited_for(world: World) -> None:
    """Its retries bridge it: the pool never hears of it."""
    supply = Supply("a")
    supply.trouble = [OSError("down"), OSError("down")]
    chart = pool(Quick, supply.next, retries=2, backoff=at_once)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await ended(host, run)
        view = await host.read(run)
    assert view.configuration == ("drained",)
    assert view.context["error"] is None
    assert view.context["failures"] == 0
    assert len(supply.asked) == 5


async def test_the_pause_before_a_retry_grows_and_outlives_a_restart(world: World) -> None:
    """It is a timer of the row, doubled each time: half a second, then one."""
    supply = Supply("a")
    supply.trouble = [OSError("down"), OSError("down"), OSError("down")]
    chart = pool(Quick, supply.next)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert await configuration(host, run) == ("working", "retrying")
        assert world.stored(run).header.due_ms == world.clock.now_ms() + 500
        world.clock.advance(500)
        ring(host)
        await at_rest(host, run)
        assert world.stored(run).header.due_ms == world.clock.now_ms() + 1_000
        after = world.after_kill()
    after.clock.advance(999)
    async with after.host(chart) as host:
        await settled()
        assert len(supply.asked) == 2
        after.clock.advance(1)
        ring(host)
        await until(lambda: len(supply.asked) == 3)
        await at_rest(host, run)
        assert after.stored(run).header.due_ms == after.clock.now_ms() + 2_000
        after.clock.advance(2_000)
        ring(host)
        await ended(host, run)


async def test_news_during_the_pause_have_the_source_asked_at_once(world: World) -> None:
    """The pause is over then: its timer is gone, and a later one has its whole length."""
    supply = Supply("a")
    supply.trouble = [OSError("down"), OSError("down")]
    chart = pool(Quick, supply.next, wake="news")
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        world.clock.advance(499)
        await host.send(run, "news")
        await at_rest(host, run)
        assert len(supply.asked) == 2
        assert [timer["due"] for timer in world.blob(run)["timers"]] == [world.clock.now_ms() + 500]
        world.clock.advance(500)
        ring(host)
        await ended(host, run)
        assert list((await host.read(run)).context["outcomes"]) == ["a"]


async def test_a_pool_that_can_be_woken_outlives_its_source(world: World) -> None:
    """It waits with the error in its context, and asks again at the event."""
    supply = Supply("a")
    supply.trouble = [OSError("down")]
    chart = pool(Quick, supply.next, retries=0, wake="news")
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        view = await host.read(run)
        assert view.configuration == ("working", "waiting")
        assert str(view.context["error"]) == "down"
        await host.send(run, "news")
        await ended(host, run)
        view = await host.read(run)
    assert view.context["error"] is None
    assert list(view.context["outcomes"]) == ["a"]


async def test_a_workers_end_leads_to_another_question_after_an_error(world: World) -> None:
    """While somebody works the pool waits, whatever its source does."""
    supply = Supply("a", "b")
    chart = pool(Held, supply.next, cap=2, retries=0)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        supply.trouble = [OSError("down")]
        await tell(host, run, "a")
        assert await configuration(host, run) == ("working", "waiting")
        await tell(host, run, "b")
        view = await host.read(run)
    assert view.configuration == ("drained",)
    assert list(view.context["outcomes"]) == ["a", "b"]


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ({"name": "x"}, "NoneType"),
        ({"id": True}, "bool"),
        ({"id": 1.5}, "float"),
        (["a"], r"\['a'\]"),
        ([None, 1], "list"),
        (False, "bool"),
        ("", "1 to 200"),
        ("a/b", "slash"),
        ("a\nb", "printable"),
        ("x" * 201, "1 to 200"),
        ({"id": "x" * 201}, "1 to 200"),
        pytest.param(10**5_000, "digits", id="many digits"),
        ((None, -1), "pair"),
        ((None, True), "pair"),
        (("a", 1), "pair"),
        ((), "pair"),
    ],
)
async def test_what_is_no_item_is_refused(world: World, answer: Any, named: str) -> None:
    """As an error of the source is answered: what was given is named, and the pool fails typed."""
    supply = Supply()
    supply.empty = answer
    chart = pool(Quick, supply.next, retries=1, backoff=at_once)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await ended(host, run)
        view = await host.read(run)
    assert view.configuration == ("unreachable",)
    error = view.context["error"]
    assert error.type_name == "machines.charts.sources:ItemRefusedError"
    with pytest.raises(ItemRefusedError, match=named):
        raise ItemRefusedError(str(error), "")
    assert len(supply.asked) == 2


async def test_an_answer_that_no_row_can_hold_is_an_error_of_the_source(world: World) -> None:
    """It is named by type, and the pool goes on to wait."""
    supply = Supply()
    supply.empty = {"id": "a", "connection": object()}
    chart = pool(Quick, supply.next, retries=0, wake="news")
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        view = await host.read(run)
    assert view.configuration == ("working", "waiting")
    assert "object" in str(view.context["error"])


# -- workers ---------------------------------------------------------------------------------------


async def test_a_worker_that_is_stopped_has_an_outcome(world: World) -> None:
    """It says so, its item is not worked again, and the pool goes on."""
    chart = pool(Held, Supply("a", "b", "c").next, cap=2)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert await host.send(run, "stop_worker", worker="a", reason="too slow") is True
        await at_rest(host, run)
        assert [gate.path for gate in await host.gates(run)] == ["working.@b", "working.@c"]
        assert await host.send(run, "stop_worker", worker="a") is None
        outcome = (await host.read(run)).context["outcomes"]["a"]
        assert outcome["ended"] == []
        assert str(outcome["error"]) == "worker 'a' was stopped: too slow"
        for worker in "bc":
            await host.send(run, "stop_worker", worker=worker)
            await at_rest(host, run)
        assert (await host.read(run)).configuration == ("drained",)


async def test_a_worker_can_be_stopped_while_the_source_is_asked(world: World) -> None:
    """The question goes on, and is asked anew."""
    hand = Hand()
    chart = pool(Held, hand.ask)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await hand.answer(1, "a")
        await until(lambda: len(hand.questions) == 2)
        assert await host.send(run, "stop_worker", worker="a") is True
        await hand.answer(2, (None, 1))
        await hand.answer(3, None)
        await ended(host, run)
        assert list((await host.read(run)).context["outcomes"]) == ["a"]


@dataclass
class Sized:
    """A model that takes no item but a small one."""

    item: int

    def __post_init__(self) -> None:
        """Refuse what is too large."""
        if self.item > 10:
            message = f"{self.item} is too large"
            raise ValueError(message)


async def test_a_worker_that_cannot_be_made_has_an_outcome(world: World) -> None:
    """Its error is the outcome, and the other items are worked, with the pool full or not."""
    for cap in (1, 2, 40):
        chart = pool(Machine(Quick, context=Sized), Supply(1, 50, 3, 60).next, cap=cap)
        async with world.host(chart) as host:
            run = await host.start(chart)
            await ended(host, run)
            view = await host.read(run)
        assert view.configuration == ("drained",)
        outcomes = view.context["outcomes"]
        assert sorted(outcomes) == ["1", "3", "50", "60"]
        assert (outcomes["50"]["ended"], outcomes["50"]["data"]) == ([], None)
        assert repr(outcomes["50"]["error"]) == "ValueError('50 is too large')"


async def test_a_pool_gives_its_outcomes_to_the_chart_that_invoked_it(world: World) -> None:
    """As done data; a run of its own does not hold them twice."""
    chart = pool(Quick, Supply("a").next)

    class Outer(StateChart):
        crawling = State(initial=True, invoke=child(chart))
        over = State(final=True)
        done_invoke_crawling = crawling.to(over, on="keep")

        def keep(self, data: Any) -> None:
            self.model.found = data

    async with world.host(Outer, chart) as host:
        outer = await host.start(Outer)
        alone = await host.start(chart)
        await ended(host, outer)
        await ended(host, alone)
        found = (await host.read(outer)).context["found"]
        assert found == {"a": {"ended": ["worked"], "data": "a"}}
        assert (await host.read(alone)).output is None


def test_a_pool_of_plain_functions_needs_no_loop(world: World) -> None:
    """Opened without a host it works in the caller's thread."""
    chart = pool(Quick, Supply("a", "b").next)
    with (
        open_store(world.path, clock=world.clock) as store,
        open_run(store, chart, "p", clock=world.clock) as crawl,
    ):
        assert list(crawl.model.outcomes) == ["a", "b"]
    assert world.status("p") == "done"


# -- the row ---------------------------------------------------------------------------------------


class Laden(StateChart):
    """A worker with about 2 KB of context, as one that talks with a service has."""

    talking = State(initial=True, invoke=gate("answered", "ended", meta={"asks": "the service"}))
    over = State(final=True)
    answered = talking.to.itself(internal=True, on="note")
    ended = talking.to(over)

    def on_enter_talking(self) -> None:
        if hasattr(self.model, "messages"):
            return  # the library enters a state anew that an internal transition leads to itself
        self.model.messages = [
            {"role": "user", "text": f"{n}: {self.model.item['path']}, " + "and why? " * 24}
            for n in range(7)
        ]

    def note(self, text: str) -> None:
        self.model.messages = [*self.model.messages[1:], {"role": "service", "text": text}]


def laden_pool() -> tuple[type[PoolChart], Supply]:
    """Return a pool of 40 laden workers, and its source."""
    items = [{"id": n, "path": f"src/part-{n}/module.py", "size": n * n} for n in range(40)]
    supply = Supply(*items)
    return pool(Laden, supply.next), supply


async def test_a_pool_of_40_workers_is_one_row_of_about_100_kb(world: World) -> None:
    """Every worker is in it, whole: after a kill the next host goes on from the same bytes."""
    chart, _ = laden_pool()
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert world.ids() == [run]
        stored = world.stored(run)
        assert 80 * KB < len(stored.blob) < 140 * KB
        assert len(world.blob(run)["root"]["children"]) == 40
        after = world.after_kill()
    async with after.host(chart) as host:
        assert len(await host.gates(run)) == 40
        assert load(resident(host, run).as_stored().blob) == load(stored.blob)


async def test_a_step_of_one_worker_encodes_only_that_worker(world: World) -> None:
    """The bytes of the 39 others, and of the pool itself, are the very objects that they were."""
    chart, _ = laden_pool()
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        live = resident(host, run)
        live.verify = False  # it encodes all charts, to compare
        await host.send(run, "nothing")
        before = {node.path: node.fragment for node in live.tree.root.walk()}
        assert len(before) == 41
        await host.answer(run, "working.@17/talking", "answered", text="a short one")
        after = {node.path: node.fragment for node in live.tree.root.walk()}
    moved = [path for path in before if after[path] is not before[path]]
    assert moved == ["working.@17"]
    assert b"a short one" in world.stored(run).blob


@pytest.mark.parametrize("ends", [True, False])
async def test_a_pool_goes_on_after_a_death_while_it_asked(world: World, ends: bool) -> None:
    """Its question is asked again, and told what is worked by now."""
    hand = Hand()
    async with world.host(pool(Held, hand.ask, name="P")) as host:
        run = await host.start("P")
        await hand.answer(1, "a")
        await hand.answer(2, "b")
        await until(lambda: len(hand.questions) == 3)
        if ends:
            await host.answer(run, "working.@a/held", "go")
        after = world.after_kill()
    supply, restored = Supply("a", "b", "c"), []

    def ask(ctx: Context, active: tuple[str, ...], outcomes: Mapping[str, Outcome]) -> Any:
        restored.append(ctx.restored)
        return supply.next(active, outcomes)

    async with after.host(pool(Held, ask, name="P")) as host:
        await until(lambda: len(supply.asked) == 2)
        await at_rest(host, run)
        paths = [gate.path for gate in await host.gates(run)]
    assert supply.asked[0] == ((("b",), ("a",)) if ends else (("a", "b"), ()))
    assert restored == [True, False]
    assert paths == [f"working.@{worker}" for worker in ("bc" if ends else "abc")]


async def test_a_pool_that_waits_does_not_grow(world: World) -> None:
    """Questions leave nothing in the row, however many there were."""
    supply = Supply()
    supply.empty = (None, 1)
    chart = pool(Quick, supply.next, interval_s=60)
    async with world.host(chart) as host:
        run = await host.start(chart)
        sizes = []
        for _ in range(150):
            await at_rest(host, run)
            sizes.append(len(world.stored(run).blob))
            world.clock.advance(MINUTE_MS)
            ring(host)
    assert len(supply.asked) >= 150
    assert max(sizes[100:]) - min(sizes[100:]) < 16


# -- definition ------------------------------------------------------------------------------------

PRINT_DIGESTS = """
from tests.host.test_pool import Held, Supply, pool
from machines.shape import digest_of
print(digest_of(pool(Held, Supply().next)), digest_of(pool(Held, Supply().next, wake="news")))
"""


def test_the_digest_is_the_same_in_every_process() -> None:
    """It follows from what was given alone."""
    arguments = [sys.executable, "-c", PRINT_DIGESTS]
    printed = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.split()
    source = Supply().next
    assert printed == [digest_of(pool(Held, source)), digest_of(pool(Held, source, wake="news"))]


def test_the_digest_follows_from_the_worker_and_from_what_wakes_the_pool() -> None:
    """Numbers, names and sources do not count: they may change under a stored run."""

    async def another(ctx: Context) -> None:
        del ctx

    source = Supply().next
    plain = digest_of(pool(Held, source))
    assert digest_of(pool(Held, another, cap=3, name="Other", retries=0)) == plain
    others = [
        pool(Quick, source),
        pool(Held, source, wake="news"),
        pool(Held, source, wake="other"),
        pool(Held, source, interval_s=5),
    ]
    assert len({plain, *map(digest_of, others)}) == 5
    assert digest_of(pool(Held, source, interval_s=9)) == digest_of(others[3])


def test_a_pool_is_named_after_its_worker_or_as_it_is_told() -> None:
    """Rows are stored under that name."""
    assert Machine(pool(Held, Supply().next)).name == "HeldPool"
    assert Machine(pool(Held, Supply().next, name="Crawl")).name == "Crawl"


async def test_two_pools_live_side_by_side(world: World) -> None:
    """One class is not the other's, whatever they have in common."""
    first = pool(Quick, Supply("a").next, cap=1, name="First")
    second = pool(Quick, Supply("b").next, wake="news", name="Second")
    async with world.host(first, second) as host:
        runs = [await host.start(first), await host.start(second)]
        for run in runs:
            await ended(host, run)
        found = [list((await host.read(run)).context["outcomes"]) for run in runs]
    assert found == [["a"], ["b"]]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"cap": 0}, "cap=0"),
        ({"interval_s": 0}, "interval_s=0"),
        ({"retries": -1}, "retries=-1"),
        ({"wake": ""}, "wake=''"),
        ({"wake": "two events"}, "two events"),
        ({"wake": "*"}, r"wake='\*'"),
        ({"wake": "stop_worker"}, "uses itself"),
        ({"wake": "waiting"}, "uses itself"),
        ({"wake": "send"}, "uses itself"),
        ({"wake": "cap"}, "uses itself"),
        ({"wake": "done.invoke.asking"}, "uses itself"),
        ({"wake": "error_execution"}, "uses itself"),
        ({"wake": "error"}, "uses itself"),
    ],
)
def test_senseless_options_are_refused(options: dict[str, Any], said: str) -> None:
    """At once, where the pool is made."""
    with pytest.raises(DefinitionError, match=said):
        pool(Held, Supply().next, **options)


@pytest.mark.parametrize("source", [None, 7, "next_item", lambda items: items])
def test_a_source_that_cannot_be_asked_is_refused(source: Any) -> None:
    """What is no function, or needs what no pool has."""
    with pytest.raises(DefinitionError, match="source"):
        pool(Held, source)


def test_a_worker_must_be_a_chart() -> None:
    """As for every child."""
    nothing: Callable[[], None] = lambda: None  # noqa: E731 - a source in one line
    with pytest.raises(DefinitionError, match="StateChart"):
        pool(Supply, nothing)  # type: ignore[arg-type]  # the fault under test


async def test_workers_call_outside_once_per_item(world: World, outside: Outside) -> None:
    """Each with keys of its own, eight at a time."""

    class Caller(StateChart):
        calling = State(initial=True, invoke=effect(outside.service("call")))
        called = State(final=True, donedata="say")
        done_invoke_calling = calling.to(called, on="keep")

        def keep(self, data: Any) -> None:
            self.model.answer = data

        def say(self) -> Any:
            return self.model.answer

    items = [f"item-{n}" for n in range(50)]
    chart = pool(Caller, Supply(*items).next, cap=8)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await ended(host, run)
        outcomes = (await host.read(run)).context["outcomes"]
    assert sorted(outcomes) == sorted(items)
    assert outside.count("call") == len(set(outside.keys("call"))) == 50
