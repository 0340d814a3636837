"""The testing kit: it turns the clock, fakes the outside, and kills hosts where it is told to."""

from __future__ import annotations

import asyncio
import itertools
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest
from statemachine import State, StateChart, StateMachine

from machines import DefinitionError, HostStoppedError, Machine, child, effect, gate, timeout
from machines.testing import (
    POINTS,
    START_MS,
    Crashed,
    Lab,
    ManualClock,
    assert_survives_restarts,
)
from machines.testing.survival import DONE_TWICE, KEPT_BESIDE
from tests.host.charts import Door, Trunk, checkout, waiter
from tests.host.lab_life import TIMES, Trade, trade
from tests.host.world import until


async def charge(amount: int = 0, key: str = "") -> str:
    """Be called by nobody."""
    message = "the real function was called"
    raise AssertionError(message)


def order(**options: Any) -> type[StateChart[Any]]:
    """Return a chart that pays, and waits for an answer for a minute."""

    class Order(StateChart):
        cart = State(initial=True)
        paying = State(invoke=effect(charge, **options))
        review = State(invoke=[gate("approve"), timeout(60, on="forget")])
        forgotten = State(final=True)
        shipped = State(final=True)
        refused = State(final=True)

        pay = cart.to(paying)
        done_invoke_paying = paying.to(review, on="keep")
        error_execution = paying.to(refused)
        approve = review.to(shipped)
        forget = review.to(forgotten)

        def keep(self, data: Any) -> None:
            self.model.receipt = data

    return Order


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return a lab with one order."""
    return Lab(tmp_path / "state.db", [order()])


async def paid(lab: Lab) -> None:
    """Start an order and pay it."""
    async with lab.host() as host:
        run = await host.start("Order", run_id="o-1")
        await host.send(run, "pay", amount=12)
        await lab.settled()


# -- the outside --------------------------------------------------------------------------------


async def test_a_fake_records_calls_and_answers(lab: Lab) -> None:
    """Whose call it is, its key, attempt and arguments; then the script, then `otherwise`."""
    fake = lab.fake("charge", otherwise="later").returns("first")
    async with lab.host() as host:
        for run in ("o-1", "o-2"):
            await host.start("Order", run_id=run)
            await host.send(run, "pay", amount=12)
            await lab.settled()
        receipts = [(await host.read(run)).context["receipt"] for run in ("o-1", "o-2")]
    assert receipts == ["first", "later"]
    assert [call.run for call in fake.calls] == ["o-1", "o-2"]
    assert fake.calls[0].key == "o-1/paying.1"
    assert fake.calls[0].attempt == 1
    assert fake.calls[0].arguments == {"amount": 12, "key": "o-1/paying.1"}


async def test_an_error_means_what_the_effect_says(tmp_path: Path) -> None:
    """In doubt by default, failed if it is named, called again if it may be."""
    named = Lab(tmp_path / "a.db", [order(failed_on=ValueError)])
    named.fake("charge").raises(ValueError("refused"))
    await paid(named)
    plain = Lab(tmp_path / "b.db", [order()])
    plain.fake("charge").raises(ValueError("refused"))
    await paid(plain)
    async with named.host() as host:
        assert (await host.read("o-1")).status == "done"
        assert (await host.read("o-1")).configuration == ("refused",)
    async with plain.host() as host:
        assert [row["status"] for row in (await host.read("o-1")).effects] == ["unknown"]


async def test_a_call_that_hangs_is_ended_by_its_timeout_on_the_clock(tmp_path: Path) -> None:
    """Nobody waits for real: the timeout comes when the clock is turned that far."""
    lab = Lab(tmp_path / "state.db", [order(timeout=30, idempotent=True, retries=1)])
    fake = lab.fake("charge").hangs().returns("second")
    async with lab.host() as host:
        run = await host.start("Order")
        await host.send(run, "pay")
        await lab.advance(29_999)
        assert [row["status"] for row in (await host.read(run)).effects] == ["calling"]
        await lab.advance(1)
        assert len(fake.calls) == 1
        await lab.advance(499)
        assert len(fake.calls) == 1
        await lab.advance(1)
        assert [call.attempt for call in fake.calls] == [1, 2]
        assert (await host.read(run)).context == {"receipt": "second"}


async def test_a_fake_needs_what_its_function_needs(tmp_path: Path) -> None:
    """An argument that no event gives is missed, as it would be by the real one."""

    async def wire(iban: str) -> None:
        """Be called by nobody."""

    class Transfer(StateMachine):
        idle = State(initial=True)
        wiring = State(invoke=effect(wire))
        wired = State(final=True)
        refused = State(final=True)
        go = idle.to(wiring)
        done_invoke_wiring = wiring.to(wired)
        error_execution = wiring.to(refused)

    lab = Lab(tmp_path / "state.db", [Transfer])
    fake = lab.fake("wire")
    async with lab.host() as host:
        for run, data, end in (("a", {}, "refused"), ("b", {"iban": "NL"}, "wired")):
            await host.start(Transfer, run_id=run)
            await host.send(run, "go", **data)
            await lab.settled()
            assert (await host.read(run)).configuration == (end,)
    assert [call.arguments for call in fake.calls] == [{"iban": "NL"}]


async def test_effects_of_methods_and_of_charts_within_are_faked(tmp_path: Path) -> None:
    """Those that are named by a text, and those of a child chart."""

    class Inner(StateChart):
        posting = State(initial=True, invoke=effect("post", kind="post"))
        posted = State(final=True)
        done_invoke_posting = posting.to(posted)

        def post(self) -> None:
            message = "the real method was called"
            raise AssertionError(message)

    class Outer(StateChart):
        working = State(initial=True, invoke=child(Inner))
        over = State(final=True)
        done_invoke_working = working.to(over)

    lab = Lab(tmp_path / "state.db", [Outer])
    fake = lab.fake("post")
    async with lab.host() as host:
        run = await host.start(Outer)
        await lab.settled()
        assert (await host.read(run)).status == "done"
    assert [call.key for call in fake.calls] == [f"{run}/working.1/posting.1"]


def test_a_fake_of_nothing_is_refused(lab: Lab) -> None:
    """A slip in a kind would let the real function be called."""
    with pytest.raises(DefinitionError, match="chrage"):
        lab.fake("chrage")


# -- the clock ----------------------------------------------------------------------------------


async def test_timers_fire_one_after_the_other_each_at_its_time(tmp_path: Path) -> None:
    """What a timer leads to has come to rest before the next: an hour is walked, not jumped."""
    ticks: list[int] = []
    clock = ManualClock()

    class Ticking(StateMachine):
        on = State(initial=True)
        off = State(final=True)
        tick = on.to.itself()
        stop = on.to(off)

        def on_enter_on(self) -> None:
            ticks.append(clock.now_ms() - START_MS)
            self.send("tick", delay=1_000)

    lab = Lab(tmp_path / "state.db", [Ticking], clock=clock)
    async with lab.host() as host:
        await host.start(Ticking)
        await lab.advance(3_500)
    assert ticks == [0, 1_000, 2_000, 3_000]
    assert lab.clock.now_ms() == START_MS + 3_500


async def test_a_timer_fires_at_its_time_and_not_before(tmp_path: Path) -> None:
    """One millisecond decides."""
    lab = Lab(tmp_path / "state.db", [waiter(60.0)])
    async with lab.host() as host:
        run = await host.start("Waiter")
        before = (await host.read(run)).configuration
        await lab.advance(59_999)
        assert (await host.read(run)).configuration == before
        await lab.advance(1)
        assert (await host.read(run)).configuration != before


async def test_what_goes_on_for_ever_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is not faked and never comes back is no reason to wait for ever."""
    monkeypatch.setattr("machines.testing.lab.LAB_PATIENCE_S", 0.05)
    held = asyncio.Event()

    async def hold() -> None:
        await held.wait()

    lab = Lab(tmp_path / "state.db", [checkout(hold)])
    async with lab.host() as host:
        run = await host.start("Checkout")
        await host.send(run, "pay")
        with pytest.raises(AssertionError, match=r"'paying\.1' of run"):
            await lab.settled()
        held.set()


@pytest.mark.parametrize("ms", [-1, 1.5, True, "1"])
async def test_the_clock_goes_forward_in_whole_milliseconds(lab: Lab, ms: Any) -> None:
    """Anything else is refused, and the clock stands."""
    async with lab.host():
        with pytest.raises(ValueError, match="ms is"):
            await lab.advance(ms)
        await lab.advance(0)
    assert lab.clock.now_ms() == START_MS


def test_a_fake_raises_exceptions_alone(lab: Lab) -> None:
    """A text is refused where it is scripted, instead of in the middle of a run."""
    wrong: Any = "down"
    with pytest.raises(TypeError, match="'down'"):
        lab.fake("charge").raises(wrong)


async def test_an_advance_needs_a_host(lab: Lab) -> None:
    """The error says how to get one."""
    with pytest.raises(AssertionError, match="no host"):
        await lab.advance(1)


# -- deaths -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("point", "n", "found"),
    [
        ("before save", 1, (None, 0, None)),
        ("before save", 2, (None, 0, ("cart",))),
        ("after save", 1, (None, 0, ("cart",))),
        ("before save", 3, ("done", 1, ("review",))),
        ("after save", 3, ("unknown", 0, ("paying",))),
        ("before step", 1, (None, 0, None)),
        ("before step", 2, (None, 0, ("cart",))),
        ("before step", 3, ("done", 1, ("review",))),
        ("after step", 2, ("done", 1, ("review",))),
        ("before call", 1, ("unknown", 0, ("paying",))),
        ("after call", 1, ("unknown", 1, ("paying",))),
        ("before outcome", 1, ("unknown", 1, ("paying",))),
        ("after outcome", 1, ("done", 1, ("review",))),
    ],
)
async def test_a_host_dies_where_it_is_told_to(
    lab: Lab, point: str, n: int, found: tuple[str | None, int, tuple[str, ...] | None]
) -> None:
    """The next host finds what was on disk there, and goes on as it must."""
    status, calls, configuration = found
    fake = lab.fake("charge", otherwise="receipt")
    lab.crash_at(point, n)
    await paid(lab)
    async with lab.host() as host:
        await lab.settled()
        stored = {header.run_id for header in await host.runs()}
        assert stored == (set() if configuration is None else {"o-1"})
        if configuration is None:
            return
        view = await host.read("o-1")
    assert view.configuration == configuration
    assert [row["status"] for row in view.effects] == ([status] if status else [])
    assert len(fake.calls) == calls


async def test_a_death_leaves_the_bytes_that_sigkill_leaves(tmp_path: Path) -> None:
    """At each point, of two runs with parts, calls and timers: the same rows, to the byte."""
    killed, let_go = tmp_path / "killed", tmp_path / "let-go"
    killed.mkdir()
    let_go.mkdir()
    child = [sys.executable, "-m", "tests.host.lab_life", str(killed)]
    told = await asyncio.to_thread(subprocess.check_output, child, text=True)
    ends = dict(line.split() for line in told.splitlines())
    assert set(ends.values()) == {str(-signal.SIGKILL)}
    for point in POINTS:
        for n in TIMES:
            name = f"{point.replace(' ', '-')}-{n}.db"
            await trade(Lab(let_go / name, [Trade]), point, n)
            assert rows(let_go / name) == rows(killed / name), name
            del ends[name]
    assert ends == {}


def rows(file: Path) -> list[object]:
    """Return all that a file of runs holds, but for who holds it."""
    with closing(apsw.Connection(str(file))) as connection:
        return [
            *connection.execute("select * from runs order by id"),
            *connection.execute("select * from shapes order by digest"),
            *connection.execute("select * from mailbox"),
            *connection.execute("select term from owner"),
        ]


async def test_a_fake_can_be_where_the_host_dies(lab: Lab) -> None:
    """Before the outside is reached, or after: it has been called, and nobody knows."""
    fake = lab.fake("charge").crashes_before().crashes_after()
    await paid(lab)
    assert fake.calls == []
    async with lab.host() as host:
        await lab.settled()
        await host.resolve("o-1", "paying.1", again=True)
        await lab.settled()
    assert len(fake.calls) == 1
    async with lab.host() as host:
        await lab.settled()
        assert [row["status"] for row in (await host.read("o-1")).effects] == ["unknown"]
    assert len(fake.calls) == 1


async def test_who_waits_is_told_of_the_death(tmp_path: Path) -> None:
    """A sender that waits for a macrostep of coroutines gets Crashed."""

    class Slow(StateChart):
        calm = State(initial=True)
        busy = State()
        go = calm.to(busy)
        back = busy.to(calm)

        async def on_go(self) -> None:
            await asyncio.sleep(0)

    lab = Lab(tmp_path / "state.db", [Slow])
    async with lab.host() as host:
        run = await host.start(Slow)
        lab.crash_at("before save")
        with pytest.raises(Crashed, match="before save"):
            await host.send(run, "go")
    async with lab.host() as host:
        assert (await host.read(run)).configuration == ("calm",)


async def test_a_group_of_tasks_may_be_where_it_is_told(tmp_path: Path) -> None:
    """A TaskGroup says it as a group, which leaves the block too, unless it says anything else."""

    async def fail() -> None:
        raise KeyError

    async def start_two(lab: Lab, *others: Any) -> None:
        lab.crash_at("after save")
        async with lab.host() as host, asyncio.TaskGroup() as tasks:
            for work in (host.start(Door), host.start(Door), *others):
                tasks.create_task(work)

    await start_two(Lab(tmp_path / "state.db", [Door]))
    with pytest.RaisesGroup(Crashed, HostStoppedError, KeyError):
        await start_two(Lab(tmp_path / "other.db", [Door]), fail())


async def test_two_labs_die_each_for_itself(tmp_path: Path) -> None:
    """The death of one leaves its own block, whichever block is within which."""
    outer, inner = (Lab(tmp_path / f"{name}.db", [Door]) for name in ("outer", "inner"))
    seen: list[str] = []
    async with outer.host() as host:
        run = await host.start(Door)
        inner.crash_at("after save")
        async with inner.host() as other:
            await other.start(Door)
            seen.append("no")
        await host.send(run, "push")
        outer.crash_at("after save")
        async with inner.host():
            await host.send(run, "pull")
        seen.append("no")
    async with outer.host() as host:
        assert (await host.read(run)).configuration == ("shut",)
    assert seen == []


async def test_the_dead_do_nothing_more(lab: Lab) -> None:
    """Other runs of the host that were under way neither save nor call from the crash on."""
    fake = lab.fake("charge", otherwise="ok")
    async with lab.host() as host:
        for number in range(5):
            await host.start("Order", run_id=f"o-{number}")
        lab.crash_at("before call", 2)
        for number in range(5):
            await host.send(f"o-{number}", "pay")
        await lab.settled()
    assert len(fake.calls) == 1
    async with lab.host() as host:
        await lab.settled()
        found = [
            [row["status"] for row in (await host.read(f"o-{number}")).effects]
            for number in range(5)
        ]
    assert sorted(found) == [["done"]] * 4 + [["unknown"]]


async def test_a_death_leaves_no_thread_and_no_task(tmp_path: Path) -> None:
    """A host with threads and a busy loop is gone behind its block."""
    begun, released = threading.Event(), threading.Event()

    def block() -> str:
        begun.set()
        released.wait(5)
        return "late"

    chart = checkout(block)
    lab = Lab(tmp_path / "state.db", [chart, Door])
    async with lab.host() as host:
        run = await host.start(chart)
        await host.send(run, "pay")
        await until(begun.is_set)
        door = await host.start(Door)
        lab.crash_at("after save")
        await host.send(door, "push")
    released.set()
    async with lab.host() as host:
        await lab.settled()
        assert (await host.read(door)).configuration == ("ajar",)
        assert [row["status"] for row in (await host.read(run)).effects] == ["unknown"]


async def test_a_death_that_does_not_come_about_fails_the_test(lab: Lab) -> None:
    """A point that is never reached proves nothing: the block says so as it ends."""
    lab.fake("charge")
    lab.crash_at("after call", 2)
    with pytest.raises(AssertionError, match="'after call' at time 2, and was there 1"):
        await paid(lab)


async def test_an_error_of_the_test_itself_comes_through(lab: Lab) -> None:
    """Neither a crash that did not come about nor one that did hides it."""
    lab.crash_at("after call")

    async def fail(*, crash: bool) -> None:
        async with lab.host() as host:
            if crash:
                lab.crash_at("after save")
                with pytest.raises(Crashed):
                    await host.start("Order")
            raise KeyError

    lab.fake("charge")
    for crash in (False, True):
        with pytest.raises(KeyError):
            await fail(crash=crash)


def test_points_are_named(lab: Lab) -> None:
    """What is none is refused with the list of them."""
    with pytest.raises(ValueError, match="before call"):
        lab.crash_at("save")
    wrong: Any
    for wrong in (0, -1, 1.5, True, "1"):
        with pytest.raises(ValueError, match=f"n is {wrong!r}"):
            lab.crash_at("after save", wrong)
    assert len(POINTS) == 8


# -- restarts -----------------------------------------------------------------------------------


async def test_a_chart_survives_restarts_everywhere() -> None:
    """Behind every macrostep, those of effects, timers and charts within included."""
    acts = ["pay", 59_999, 1]
    restarts = await assert_survives_restarts(
        order(), acts, prepare=lambda lab: lab.fake("charge", otherwise="ok")
    )
    assert restarts == 4
    assert await assert_survives_restarts(Trunk, []) > 0
    assert await assert_survives_restarts(Door, [("push", {"by": "me"}), "pull", "remove"]) == 4


async def test_an_exception_is_compared_too() -> None:
    """A chart that refuses an event refuses it after a restart."""

    class Strict(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        finish = calm.to(over)

    assert await assert_survives_restarts(Strict, ["nonsense", "finish", "finish"]) == 2


async def test_a_chart_that_forgets_is_found() -> None:
    """What is kept beside the model is gone after a restart, and the difference is named."""
    kept: dict[int, int] = {}

    class Forgetful(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        note = calm.to.itself(internal=True, on="count")
        finish = calm.to(over)

        def count(self) -> None:
            kept[id(self)] = kept.get(id(self), 0) + 1
            self.model.seen = kept[id(self)]

    with pytest.raises(AssertionError, match="behind 'note' the run's context"):
        await assert_survives_restarts(Forgetful, ["note", "note", "note"])


async def test_what_a_constructor_makes_anew_is_named() -> None:
    """What a constructor makes anew counts from its beginning after a restart."""

    class Counting(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        note = calm.to.itself(internal=True, on="count")
        finish = calm.to(over)

        def __init__(self, *given: Any, **named: Any) -> None:
            self.numbers = itertools.count()
            super().__init__(*given, **named)

        def count(self) -> None:
            self.model.seen = next(self.numbers)

    chart = Machine(Counting, transient=("numbers",))
    with pytest.raises(AssertionError, match="a restart shows: behind 'note'") as found:
        await assert_survives_restarts(chart, ["note", "note"])
    assert KEPT_BESIDE in str(found.value)


async def test_a_callback_that_calls_the_outside_is_found() -> None:
    """The process dies before the save, the macrostep is run again, and so is the call."""
    posted: list[str] = []

    class Hasty(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        post = calm.to.itself(internal=True, on="call")
        finish = calm.to(over)

        def call(self) -> None:
            posted.append("post")
            self.model.ticket = f"T-{len(posted)}"

    with pytest.raises(AssertionError, match=r"'T-2'.* if it dies before each save") as found:
        await assert_survives_restarts(Hasty, ["post"], prepare=lambda _: posted.clear())
    assert DONE_TWICE in str(found.value)


async def test_a_chart_that_comes_out_otherwise_each_time_is_told_so() -> None:
    """Nothing can be said of its restarts, and they are not blamed."""
    drawn = itertools.count()

    class Chance(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        draw = calm.to.itself(internal=True, on="choose")
        finish = calm.to(over)

        def choose(self) -> None:
            self.model.drawn = next(drawn)

    with pytest.raises(AssertionError, match="two runs without any restart differ") as found:
        await assert_survives_restarts(Chance, ["draw"])
    assert "random numbers" in str(found.value)
    assert "a restart shows" not in str(found.value)


@pytest.mark.parametrize(
    "acts", ["push", ["push", -1], [True], [("push",)], [("push", 7)], [""], [None], [1.5]]
)
async def test_what_is_no_act_is_refused(acts: Any) -> None:
    """Before anything is run: each letter of a word would be an event that nothing takes."""
    with pytest.raises(ValueError, match="act"):
        await assert_survives_restarts(Door, acts)


async def test_a_start_that_raises_is_no_survival() -> None:
    """There is nothing that could survive."""

    class Stillborn(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        go = calm.to(over)

        def on_enter_calm(self) -> None:
            message = "not today"
            raise ValueError(message)

    with pytest.raises(ValueError, match="not today"):
        await assert_survives_restarts(Stillborn, [])


# -- the kit itself -----------------------------------------------------------------------------


async def test_a_lab_takes_what_a_host_takes(tmp_path: Path) -> None:
    """Its clock, machines with options, and options of the host."""
    clock = ManualClock(1_800_000_000_000)
    machine = Machine(Door, name="gate")
    lab = Lab(tmp_path / "state.db", [machine], clock=clock, resident_max=1)
    async with lab.host() as host:
        run = await host.start("gate")
        assert (await host.read(run)).machine == "gate"
        assert host._passing.runs_max == 1
        assert host.verify
        assert host.clock is clock


def test_the_kit_imports_no_test_framework() -> None:
    """It can be used with any, and in a program that has none."""
    code = (
        "import sys, machines.testing, snapshots.testing\n"
        "assert not {'pytest', '_pytest', 'unittest'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30)
