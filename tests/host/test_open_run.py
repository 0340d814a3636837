"""A run without a host: each macrostep is saved, and nobody needs an event loop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine

from machines import Host, Machine, NotDone, child, effect, open_run, timeout
from machines.errors import (
    DriftError,
    HostLockedError,
    NeedsLoopError,
    RunFinishedError,
    UnknownMachineError,
    UnsettledEffectError,
)
from snapshots import SnapshotStore, open_store
from snapshots.errors import DecodeError, EncodeError, InvalidKeyError, RevisionConflictError
from tests.host.charts import Door, Reminder, Review, Strict, Trunk, checkout, waiter
from tests.host.world import Outside, World, ended


@pytest.fixture
def store(world: World) -> Any:
    """Return an open store on the world's file."""
    with open_store(world.path, clock=world.clock) as opened:
        yield opened


def test_a_run_is_started_with_its_input_and_saved(world: World, store: SnapshotStore) -> None:
    """Opened for the first time it is stored at once."""
    with open_run(store, Door, "a", {"colour": "red"}, clock=world.clock):
        assert world.configuration("a") == ["shut"]
        assert world.blob("a")["input"] == {"colour": "red"}
    assert world.status("a") == "live"


def test_each_macrostep_is_saved_when_send_returns(world: World, store: SnapshotStore) -> None:
    """And its result is what the transition returned."""
    with open_run(store, Door, "a", clock=world.clock) as door:
        assert door.send("push", by="me") == "pushed by me"
        assert world.configuration("a") == ["ajar"]
        assert world.saves("a") == 2
        assert door.pull() is None
        assert world.saves("a") == 3


def test_a_run_goes_on_where_it_was(world: World, store: SnapshotStore) -> None:
    """The second time its input is not asked for, and its model is there."""
    with open_run(store, Door, "a", {"colour": "red"}, clock=world.clock) as chart:
        chart.send("push", by="me")
    with open_run(store, Door, "a", {"colour": "blue"}, clock=world.clock) as chart:
        assert (chart.model.colour, chart.model.by) == ("red", "me")
        chart.send("remove")
    assert world.status("a") == "done"


def test_opening_writes_nothing(world: World, store: SnapshotStore) -> None:
    """Looking at a run leaves its row as it is."""
    with open_run(store, Door, "a", clock=world.clock):
        pass
    before = world.stored("a")
    with open_run(store, Door, "a", clock=world.clock) as door:
        assert door.current_state_value == "shut"
    assert world.stored("a") == before


def test_a_raise_puts_the_chart_back_in_place(world: World, store: SnapshotStore) -> None:
    """The object that the caller holds is as it was saved, and goes on."""
    with open_run(store, Strict, "a", {"amount": 1}, clock=world.clock) as chart:
        before = world.stored("a")
        with pytest.raises(ValueError, match="smashed"):
            chart.send("smash")
        assert world.stored("a") == before
        assert not hasattr(chart.model, "smashed")
        assert chart.model.amount == 1
        assert chart.send("note", text="a") == "a"
        assert chart.model.notes == ["a"]
        with pytest.raises(ValueError, match="smashed"):
            chart.send("smash")
        assert chart.model.notes == ["a"]
        chart.send("finish")
    assert world.status("a") == "done"


@pytest.mark.parametrize("place", ["before", "on_exit", "on", "on_enter", "after"])
@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, asyncio.CancelledError])
def test_an_interrupt_puts_the_chart_back_in_place(
    world: World, store: SnapshotStore, kind: type[BaseException], place: str
) -> None:
    """Who stops it goes on from the last save: nothing of the macrostep is there or is saved."""

    def interrupt(where: str, model: Any, cut: str | None) -> None:
        model.places = [*getattr(model, "places", []), where]
        if where == cut:
            raise kind

    class Cut(StateChart):
        idle = State(initial=True)
        busy = State()
        go = idle.to(busy)
        back = busy.to(idle)

        def before_go(self, model: Any, cut: str | None = None) -> None:
            interrupt("before", model, cut)

        def on_exit_idle(self, model: Any, cut: str | None = None) -> None:
            interrupt("on_exit", model, cut)

        def on_go(self, model: Any, cut: str | None = None) -> None:
            self.send("back")
            interrupt("on", model, cut)

        def on_enter_busy(self, model: Any, cut: str | None = None) -> None:
            interrupt("on_enter", model, cut)

        def after_go(self, model: Any, cut: str | None = None) -> None:
            interrupt("after", model, cut)

    with open_run(store, Cut, "a", clock=world.clock) as chart:
        before = world.stored("a")
        with pytest.raises(kind):
            chart.send("go", cut=place)
        assert chart.idle.is_active
        assert not hasattr(chart.model, "places")
        assert world.stored("a") == before
        chart.send("go")
        assert chart.idle.is_active
        assert chart.model.places == ["before", "on_exit", "on", "on_enter", "after"]
    assert world.saves("a") == 3


def test_an_interrupt_behind_a_save_leaves_what_is_queued(
    world: World, store: SnapshotStore
) -> None:
    """The macrostep that was saved stays, and the interrupted one runs with the next event."""
    cuts = [True]

    class Two(StateChart):
        idle = State(initial=True)
        go = idle.to.itself(on="send_more")
        more = idle.to.itself(on="cut")

        def send_more(self) -> None:
            self.send("more")

        def cut(self, model: Any) -> None:
            model.times = getattr(model, "times", 0) + 1
            if cuts.pop():
                raise KeyboardInterrupt

    with open_run(store, Two, "a", clock=world.clock) as chart:
        with pytest.raises(KeyboardInterrupt):
            chart.send("go")
        assert world.saves("a") == 2
        cuts[:] = [False]
        chart.send("unheard-of")
        assert chart.model.times == 1
        assert world.saves("a") >= 3
        assert world.blob("a")["root"]["context"] == {"times": 1}


def test_of_two_at_once_the_second_gets_a_conflict(world: World, store: SnapshotStore) -> None:
    """Two processes hold one run: the later save is refused, and its chart put back."""
    with open_run(store, Door, "a", clock=world.clock) as first:
        with (
            open_store(world.path, clock=world.clock) as elsewhere,
            open_run(elsewhere, Door, "a", clock=world.clock) as second,
        ):
            first.send("push", by="first")
            with pytest.raises(RevisionConflictError):
                second.send("push", by="second")
            assert second.current_state_value == "shut"
            assert not hasattr(second.model, "by")
        first.send("pull")
    assert world.blob("a")["root"]["context"] == {"by": "first", "pushes": 1}


async def test_it_is_refused_while_a_host_holds_the_file(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a host is refused while a run is open without one."""
    monkeypatch.setattr("machines.host.host.LOCK_PATIENCE_S", 0.0)
    async with Host(world.path, [Door], clock=world.clock) as host:
        run = await host.start(Door)
        with (
            open_store(world.path) as elsewhere,
            pytest.raises(HostLockedError),
            open_run(elsewhere, Door, run),
        ):
            pass
    with open_store(world.path) as elsewhere, open_run(elsewhere, Door, run) as door:
        door.send("push")
        with pytest.raises(HostLockedError):
            await Host(world.path, [Door]).__aenter__()
    async with Host(world.path, [Door], clock=world.clock) as host:
        assert await host.send(run, "pull") is None


def test_two_runs_can_be_open_at_once(world: World, store: SnapshotStore) -> None:
    """The lock is shared by those who have no host."""
    with (
        open_run(store, Door, "a", clock=world.clock) as first,
        open_store(world.path, clock=world.clock) as elsewhere,
        open_run(elsewhere, Door, "b", clock=world.clock) as second,
    ):
        first.send("push")
        second.send("push")
    assert world.configuration("a") == world.configuration("b") == ["ajar"]


def test_a_chart_with_coroutines_is_refused(world: World, store: SnapshotStore) -> None:
    """It needs a loop, and nothing of it is stored."""

    class Later(StateChart):
        only = State(initial=True)
        over = State(final=True)
        finish = only.to(over)

        async def on_finish(self) -> None:
            """End it."""

    with pytest.raises(NeedsLoopError), open_run(store, Later, "a", clock=world.clock):
        pass
    assert world.ids() == []


def test_a_chart_that_invokes_a_coroutine_is_refused(
    world: World, store: SnapshotStore, outside: Outside
) -> None:
    """It needs a loop: nothing is stored, and no call is made."""
    chart = checkout(outside.service("charge"))
    with (
        pytest.raises(NeedsLoopError, match="invokes a coroutine in its state 'paying'"),
        open_run(store, chart, "a", clock=world.clock),
    ):
        pytest.fail("the block was entered")
    assert world.ids() == []
    assert outside.count("charge") == 0


def test_an_effect_is_called_inline_after_its_save(world: World, store: SnapshotStore) -> None:
    """From inside the call the row says `calling`; when `send` returns all is done."""
    seen: list[Any] = []

    def charge(key: str) -> str:
        blob = world.blob("a")
        seen.append((key, blob["effects"][0]["status"], blob["root"]["configuration"]))
        return "receipt"

    chart = checkout(charge)
    with open_run(store, chart, "a", clock=world.clock) as checkout_chart:
        checkout_chart.send("pay")
        assert checkout_chart.model.receipt == "receipt"
    assert seen == [("a/paying.1", "calling", ["paying"])]
    assert world.status("a") == "done"
    assert world.effects("a") == ["done"]


def test_a_plain_call_and_a_child_run_inline(world: World, store: SnapshotStore) -> None:
    """What a state invokes is done when `send` returns, one after the other."""

    class Inner(StateChart):
        working = State(initial=True, invoke=lambda: "worked")
        over = State(final=True, donedata="result")
        done_invoke_working = working.to(over, on="keep")

        def keep(self, data: Any = None) -> None:
            self.model.data = data

        def result(self) -> Any:
            return self.model.data

    class Outer(StateChart):
        idle = State(initial=True)
        holding = State(invoke=child(Inner))
        over = State(final=True)
        go = idle.to(holding)
        done_invoke_holding = holding.to(over, on="keep")

        def keep(self, data: Any = None) -> None:
            self.model.data = data

    with open_run(store, Outer, "a", clock=world.clock) as chart:
        chart.send("go")
        assert chart.model.data == "worked"
    assert world.status("a") == "done"


async def test_a_run_whose_call_may_be_under_way_is_refused(
    world: World, store: SnapshotStore
) -> None:
    """Without a host nobody knows whether another process makes the call: a host settles it."""
    calls: list[str] = []

    def charge(key: str) -> str:
        calls.append(key)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return "receipt"

    chart = checkout(charge, probe=NotDone)
    with (
        pytest.raises(KeyboardInterrupt),
        open_run(store, chart, "a", clock=world.clock) as checkout_chart,
    ):
        checkout_chart.send("pay")
    assert world.effects("a") == ["calling"]
    with pytest.raises(UnsettledEffectError), open_run(store, chart, "a", clock=world.clock):
        pass
    store.close()
    async with world.host(chart) as host:
        await ended(host, "a")
    assert calls == ["a/paying.1"] * 2
    assert world.status("a") == "done"


def test_an_idempotent_effect_is_called_again_at_the_next_opening(
    world: World, store: SnapshotStore
) -> None:
    """Interrupted while calling: the same key goes out again."""
    calls: list[str] = []

    def charge(key: str) -> str:
        calls.append(key)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return "receipt"

    chart = checkout(charge, idempotent=True)
    with (
        pytest.raises(KeyboardInterrupt),
        open_run(store, chart, "a", clock=world.clock) as checkout_chart,
    ):
        checkout_chart.send("pay")
    with open_run(store, chart, "a", clock=world.clock) as checkout_chart:
        assert checkout_chart.model.receipt == "receipt"
    assert calls == ["a/paying.1"] * 2


def test_an_effect_without_a_probe_stays_in_doubt(world: World, store: SnapshotStore) -> None:
    """It is not called again by opening the run."""
    calls: list[str] = []

    def charge(key: str) -> str:
        calls.append(key)
        message = "gone"
        raise ConnectionResetError(message)

    chart = checkout(charge)
    with open_run(store, chart, "a", clock=world.clock) as checkout_chart:
        checkout_chart.send("pay")
    for _ in range(2):
        with open_run(store, chart, "a", clock=world.clock):
            assert world.effects("a") == ["unknown"]
    assert calls == ["a/paying.1"]


def test_timers_that_are_due_fire_as_it_is_opened(world: World, store: SnapshotStore) -> None:
    """Once, and not before their time."""
    chart = waiter(60)
    with open_run(store, chart, "a", clock=world.clock):
        pass
    world.clock.advance(59_999)
    with open_run(store, chart, "a", clock=world.clock):
        assert world.status("a") == "live"
    world.clock.advance(1)
    with open_run(store, chart, "a", clock=world.clock):
        assert world.status("a") == "done"
    assert world.saves("a") == 2


def test_delayed_events_are_kept_and_can_be_taken_back(world: World, store: SnapshotStore) -> None:
    """`send(delay=…)` does not hold the caller up, and is saved with its macrostep."""
    with open_run(store, Reminder, "a", clock=world.clock) as chart:
        chart.send("arm", seconds=60)
        assert world.blob("a")["timers"][0]["due"] == world.clock.now_ms() + 60_000
        chart.send("disarm")
        assert "timers" not in world.blob("a")


def test_gates_are_answered_by_sending(world: World, store: SnapshotStore) -> None:
    """A web view needs no more than the chart."""
    with open_run(store, Review, "a", clock=world.clock) as chart:
        chart.send("submit")
    with open_run(store, Review, "a", clock=world.clock) as chart:
        assert chart.send("approve", note="fine") == "approved: fine"
    assert world.status("a") == "done"


def test_a_tree_is_opened_whole(world: World, store: SnapshotStore) -> None:
    """Three levels are built, and saved as they run."""
    with open_run(store, Trunk, "a", clock=world.clock):
        before = world.stored("a")
    with open_run(store, Trunk, "a", clock=world.clock):
        assert world.stored("a") == before
    inner = before.blob
    assert b"budding" in inner


def test_a_finished_run_can_be_looked_at(world: World, store: SnapshotStore) -> None:
    """Its chart is in its final state, and takes nothing."""
    with open_run(store, Door, "a", clock=world.clock) as door:
        door.send("remove")
    before = world.stored("a")
    with open_run(store, Door, "a", clock=world.clock) as door:
        assert door.is_terminated
        assert door.send("push") is None
    assert world.stored("a") == before


@pytest.mark.parametrize("status", ["lost", "drifted", "cancelled", "error"])
def test_a_run_that_was_set_aside_is_refused(
    world: World, store: SnapshotStore, status: Any
) -> None:
    """Events for it would vanish silently."""
    with open_run(store, Door, "a", clock=world.clock):
        pass
    store.mark(store.load("a").header, status, "for the test")
    with pytest.raises(RunFinishedError), open_run(store, Door, "a", clock=world.clock):
        pass


def test_a_run_that_dies_while_it_is_open_says_so(world: World, store: SnapshotStore) -> None:
    """Its work led to an exception that nobody handles: the sender is told, now and later."""

    class Dies(StateMachine):
        idle = State(initial=True)
        working = State(invoke=lambda: "worked")
        over = State(final=True)
        go = idle.to(working)
        done_invoke_working = working.to(over)

        def on_done_invoke_working(self) -> None:
            """Nothing: what raises is entering the state."""

        def on_enter_over(self) -> None:
            message = "cannot end"
            raise ValueError(message)

    with open_run(store, Dies, "a", clock=world.clock) as chart:
        for _ in range(2):
            with pytest.raises(RunFinishedError) as caught:
                chart.send("go")
        assert isinstance(caught.value.__cause__, ValueError)
    assert world.stored("a").header.reason == "ValueError: cannot end"


def test_a_first_macrostep_that_raises_stores_nothing(world: World, store: SnapshotStore) -> None:
    """The exception reaches the caller, and the id is free."""

    class Fails(StateMachine):
        only = State(initial=True, final=True)

        def on_enter_only(self) -> None:
            message = "not today"
            raise ValueError(message)

    with (
        pytest.raises(ValueError, match="not today"),
        open_run(store, Fails, "a", clock=world.clock),
    ):
        pass
    assert world.ids() == []


def test_what_cannot_be_opened_is_a_typed_error(world: World, store: SnapshotStore) -> None:
    """Another machine's run, another shape, a bad blob, a bad id, a bad input."""

    def chart(*, more: bool) -> Any:
        class Gate(StateChart):
            shut = State(initial=True)
            ajar = State(final=True)
            push = shut.to(ajar)
            if more:
                knock = shut.to.itself()

        return Gate

    with open_run(store, chart(more=True), "a", clock=world.clock):
        pass
    with pytest.raises(UnknownMachineError), open_run(store, Door, "a"):
        pass
    with pytest.raises(DriftError, match="knock"), open_run(store, chart(more=False), "a"):
        pass
    with pytest.raises(InvalidKeyError), open_run(store, Door, ""):
        pass
    with pytest.raises(EncodeError), open_run(store, Door, "b", {"x": object()}):
        pass
    world.overwrite("a", b"{}")
    with pytest.raises(DecodeError), open_run(store, chart(more=True), "a"):
        pass
    assert world.ids() == ["a"]


def test_a_save_that_fails_reaches_the_sender(world: World, store: SnapshotStore) -> None:
    """The chart is put back in place, nothing is invoked, and the next send works."""
    calls: list[str] = []

    def charge(key: str) -> None:
        calls.append(key)

    chart = checkout(charge)
    with open_run(store, chart, "a", clock=world.clock) as checkout_chart:
        connection = store.database.connection
        connection.pragma("query_only", True)
        with pytest.raises(Exception, match="readonly"):
            checkout_chart.send("pay")
        assert checkout_chart.current_state_value == "idle"
        assert calls == []
        connection.pragma("query_only", False)
        checkout_chart.send("pay")
    assert calls == ["a/paying.1"]
    assert world.status("a") == "done"


def test_work_sends_to_its_chart(world: World, store: SnapshotStore) -> None:
    """`ctx.send` out of inline work is run after it, and saved."""

    class Working(StateChart):
        working = State(initial=True, invoke=lambda ctx: ctx.send("note", text="a"))
        noted = State(final=True)
        note = working.to(noted)
        done_invoke_working = working.to.itself(internal=True, cond="never")

        def on_note(self, text: str) -> None:
            self.model.text = text

        def never(self) -> bool:
            return False

    with open_run(store, Working, "a", clock=world.clock):
        pass
    assert world.status("a") == "done"
    assert world.blob("a")["root"]["context"] == {"text": "a"}


async def test_a_host_takes_up_what_was_begun_without_one(
    world: World, store: SnapshotStore
) -> None:
    """One file, one format: the host goes on with the run, its timers and its gates."""
    calls: list[str] = []

    def work(key: str) -> None:
        calls.append(key)

    class Both(StateChart):
        asking = State(initial=True, invoke=timeout(60, on="late"))
        working = State(invoke=effect(work))
        over = State(final=True)
        late = asking.to(working)
        done_invoke_working = working.to(over)

    machine = Machine(Both, name="both")
    with open_run(store, machine, "a", clock=world.clock):
        pass
    store.close()
    world.clock.advance(60_000)
    async with world.host(machine) as host:
        await ended(host, "a")
    assert world.status("a") == "done"
    assert calls == ["a/working.2"]
