"""Faults of macrosteps, queues and children: each was met in a system of this kind, none here.

What they are is told in `docs/faults.md`, each with its test.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from statemachine import HistoryState, State, StateChart, StateMachine

from machines import Machine, child, effect, gate, open_run
from machines.errors import IllegalConfigurationError
from machines.recovery.decision import read as read_blob
from machines.run.run import Run
from snapshots.errors import StorageReadOnlyError
from snapshots.records import StoredRun
from tests.host import life
from tests.host.charts import Review, Trunk, mailer, waiter
from tests.host.lives import Lives
from tests.host.world import (
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


def rebuilt(host: Any, machine: Machine, stored: StoredRun) -> Run:
    """Return a run restored from its row: it is in nobody's memory, and nothing of it began."""
    value = read_blob(stored, machine)
    given = value.get("input", {})
    run = Run(host.store, machine, stored.header.run_id, given, host, clock=host.clock)
    run.restore(stored.header, value, restarted=True)
    return run


# -- saves that fail, callbacks that raise ---------------------------------------------------------


def mailing(base: type[Any], send: Callable[..., Any]) -> Any:
    """Return a chart that sends a letter on each round, and has a place for its errors."""

    class Mailing(base):
        idle = State(initial=True)
        sending = State(invoke=effect(send, kind="mail"))
        stopped = State(final=True)
        sad = State(final=True)

        again = idle.to(sending)
        done_invoke_sending = sending.to(idle)
        stop = idle.to(stopped) | sending.to(stopped)
        error_execution = idle.to(sad) | sending.to(sad)

    return Mailing


@pytest.mark.parametrize("base", [StateMachine, StateChart])
@pytest.mark.parametrize("write", range(1, 11))
async def test_a_save_that_fails_at_whatever_write_lets_no_effect_follow_and_tells_the_sender(
    world: World, outside: Outside, base: Any, write: int
) -> None:
    """The n-th write of a whole life fails, in a chart that catches errors as events too.

    Until the next write nothing leaves; the sender has the disk's error, and the run is what its
    row says; the chart is not told. Then the life goes on, and each call is made once.
    """
    chart = mailing(base, outside.service("mail"))
    left: list[int] = []
    async with world.host(chart) as host:
        disk = Disk(host)

        def fails(count: int) -> bool:
            if count in (write, write + 1):
                left.append(len(outside.calls))
            return count == write

        disk.fails = fails

        async def surely(act: Callable[[], Any]) -> None:
            try:
                await act()
            except StorageReadOnlyError:
                if world.ids():
                    held = json.loads(resident(host, "a").as_stored().blob)
                    assert held["root"] == world.blob("a")["root"]
                await act()

        await surely(lambda: host.start(chart, run_id="a"))
        for round_ in range(2):
            await surely(lambda: host.send("a", "again"))
            await until(lambda n=round_: outside.count("mail") == n + 1)
            await until(lambda: world.configuration("a") == ["idle"])
        await surely(lambda: host.send("a", "stop"))
    assert left[0] == left[1]
    assert world.status("a") == "done"
    assert world.configuration("a") == ["stopped"]
    assert outside.keys("mail") == ["a/sending.1", "a/sending.2"]
    assert world.effects("a") == ["done", "done"]


class Moving(StateMachine):
    """Changes its model in every callback of a macrostep, and raises in one of them."""

    calm = State(initial=True)
    moved = State(final=True)
    move = calm.to(moved)

    def touch(self, here: str) -> None:
        self.model.seen.append(here)
        self.model.last = here
        if here == self.model.breaks:
            message = f"smashed {here}"
            raise ValueError(message)

    def on_exit_calm(self) -> None:
        self.touch("leaving")

    def before_move(self) -> None:
        self.touch("before")

    def on_move(self) -> None:
        self.touch("on")

    def on_enter_moved(self) -> None:
        self.touch("entering")

    def after_move(self) -> None:
        self.touch("after")


class MovingSlowly(Moving):
    """The same, with a coroutine among its callbacks."""

    async def on_move(self) -> None:
        await asyncio.sleep(0)
        self.touch("on")


@pytest.mark.parametrize("chart", [Moving, MovingSlowly])
@pytest.mark.parametrize("place", ["leaving", "before", "on", "entering", "after"])
async def test_a_callback_that_raises_half_way_leaves_the_run_at_its_last_save_model_included(
    world: World, chart: Any, place: str
) -> None:
    """Wherever in the macrostep it raises, what was changed before it is as it was."""
    async with world.host(chart) as host:
        run = await host.start(chart, {"seen": [], "breaks": place})
        before = world.stored(run)
        with pytest.raises(ValueError, match=f"smashed {place}"):
            await host.send(run, "move")
        assert world.stored(run) == before
        assert resident(host, run).as_stored() == before
        view = await host.read(run)
    assert view.configuration == ("calm",)
    assert view.context == {"seen": [], "breaks": place}


async def test_no_row_ever_holds_a_configuration_from_the_middle_of_a_step(
    world: World, outside: Outside
) -> None:
    """An outcome is saved while a macrostep stands between two states: the row is without a gap."""
    entered, release = asyncio.Event(), asyncio.Event()
    outside.hold("call")

    class Between(StateChart):
        class outer(State.Parallel):  # noqa: N801 - a state is named as its id
            class left(State.Compound):  # noqa: N801 - a state is named as its id
                here = State(initial=True)
                there = State(final=True)
                move = here.to(there)

            class right(State.Compound):  # noqa: N801 - a state is named as its id
                calling = State(initial=True, invoke=effect(outside.service("call")))
                called = State(final=True)
                done_invoke_calling = calling.to(called)

        over = State(final=True)
        done_state_outer = outer.to(over)

        async def on_move(self) -> None:
            entered.set()
            await release.wait()

    async with world.host(Between) as host:
        run = await host.start(Between)
        move = asyncio.create_task(host.send(run, "move"))
        await entered.wait()
        saves = world.saves(run)
        outside.hold("call").set()
        await until(lambda: world.saves(run) > saves, "the save in the middle")
        node = resident(host, run).tree.root
        assert node is not None
        live = {node.names.name(state) for state in node.chart.configuration}
        assert not live & {"here", "there"}, "the macrostep stands between its two states"
        assert sorted(world.configuration(run)) == ["calling", "here", "left", "outer", "right"]
        after = world.after_kill()
        release.set()
        await move
        await ended(host, run)
    async with after.host(Between) as host:
        await host.send(run, "move")
        await ended(host, run)
    assert after.status(run) == "done"
    assert outside.count("call") == 1


@pytest.mark.parametrize("left", [[], ["outer"], ["outer", "lower"], ["nowhere"]])
async def test_a_row_whose_configuration_is_empty_or_without_its_leaf_is_refused_when_read(
    world: World, left: list[str]
) -> None:
    """Its run is reported, its row kept; a run with its leaf goes on."""

    class Nested(StateChart):
        class outer(State.Compound):  # noqa: N801 - a state is named as its id
            class lower(State.Compound, initial=True):  # noqa: N801 - a state is named as its id
                leaf = State(initial=True)
                other = State()
                turn = leaf.to(other)

        over = State(final=True)
        finish = outer.to(over)

    async with world.host(Nested) as host:
        bad = await host.start(Nested)
        good = await host.start(Nested)
    blob = world.blob(bad)
    assert blob["root"]["configuration"] == ["outer", "lower", "leaf"]
    blob["root"]["configuration"] = left
    world.overwrite(bad, json.dumps(blob).encode())
    before = world.stored(bad)
    async with world.host(Nested) as host:
        await host.send(good, "turn")
        with pytest.raises(IllegalConfigurationError):
            await host.send(bad, "turn")
        assert bad in host.report.unresumed
    assert world.stored(bad) == before
    assert world.status(good) == "live"


# -- what was accepted, and what had ended ---------------------------------------------------------


async def test_an_event_accepted_but_not_yet_run_at_a_death_runs_once_after_the_restore(
    lives: Lives,
) -> None:
    """Killed in the macrostep behind a save that held the rest: each note is kept once."""
    lives.die("talk", "noting b")
    async with lives.host() as host:
        await until(lambda: len(lives.world.blob("a")["root"]["context"]["notes"]) == 3)
        await settled()
        assert (await host.read("a")).context == {"notes": ["a", "b", "c"]}
    assert lives.log.lines("noting") == ["noting a", "noting b", "noting b", "noting c"]


@pytest.mark.parametrize(
    ("scenario", "ending", "reaction"),
    [
        ("nest", "ending inside", "reacting"),
        ("pay", "charge a/paying.1", "entering mailing"),
        ("plain", "working", "using"),
    ],
    ids=["a child", "an effect", "a plain call"],
)
async def test_what_ended_before_its_parent_reacted_leads_on_after_a_death_and_reports_once(
    lives: Lives, scenario: str, ending: str, reaction: str
) -> None:
    """Killed inside the reaction: what ended is not begun again, and is reacted to in one save."""
    lives.die(scenario, reaction)
    before = lives.world.configuration("a")
    async with lives.host():
        await until(lambda: lives.world.configuration("a") != before)
        await settled()
    async with lives.host():
        await settled()
    assert lives.log.lines(ending) == [ending]
    assert lives.log.lines(reaction) == [reaction] * 2
    trail = [(event, to) for _, _, event, _, to in lives.world.blob("a")["trail"]]
    assert len([event for event, _ in trail if event == f"done.invoke.{before[0]}.1"]) == 1


# -- trees of charts -------------------------------------------------------------------------------


async def test_three_levels_with_the_last_one_busy_come_back_and_are_saved_to_the_same_bytes(
    lives: Lives,
) -> None:
    """Killed in the innermost chart's call: restored, saved and restored again, nothing moves."""
    lives.die("deep", "charge")
    stored, machine = lives.world.stored("a"), Machine(life.Top)
    middle = lives.world.blob("a")["root"]["children"]["holding.1"]
    assert middle["children"]["holding.1"]["configuration"] == ["charging"]
    assert lives.world.effects("a") == ["calling"]
    async with World(lives.world.path.with_name("other.db"), lives.world.clock, Outside()).host(
        life.Top
    ) as elsewhere:
        for _ in range(2):
            blob = rebuilt(elsewhere, machine, lives.world.stored("a")).as_stored().blob
            assert blob == stored.blob
            lives.world.overwrite("a", bytes(blob))
    async with lives.host() as host:
        await until(lambda: statuses(host, "a") == ["unknown"])
        await host.resolve("a", "holding.1/holding.1/charging.1", done="in the bank's book")
        await ended(host, "a")
    assert lives.world.blob("a")["root"]["context"]["got"] == "in the bank's book"
    assert lives.log.lines("charge") == ["charge a/holding.1/holding.1/charging.1"]


async def test_a_restored_run_that_nobody_touched_is_saved_to_the_same_bytes(
    world: World, outside: Outside
) -> None:
    """Restore then save, without anything between: byte for byte the same blob."""
    chart = mailer(outside.service("mail"))
    async with world.host(Trunk, Review, chart, waiter(60)) as host:
        trunk = await host.start(Trunk)
        await at_rest(host, trunk)
        review = await host.start(Review, {"title": "a", "pages": (1, 2)})
        await host.send(review, "submit", delivery="d1")
        mail = await host.start(chart)
        await host.send(mail, "again")
        await at_rest(host, mail)
        waits = await host.start("Waiter")
        runs = {trunk: Trunk, review: Review, mail: chart}
        assert waits
        for run_id, machine in runs.items():
            stored = world.stored(run_id)
            made = Machine.of(machine)
            value = read_blob(stored, made)
            rebuilt = Run(host.store, made, run_id, value["input"], host, clock=world.clock)
            rebuilt.restore(stored.header, value, restarted=True)
            assert rebuilt.as_stored().blob == stored.blob


async def test_loading_never_writes(world: World, outside: Outside) -> None:
    """Trees, gates, timers, a call in doubt: no row changes before something happens to a run."""
    outside.hold("mail")
    chart = mailer(outside.service("mail"))
    charts = (Trunk, Review, waiter(60), chart)
    async with world.host(*charts, grace_s=0) as host:
        trunk = await host.start(Trunk)
        await at_rest(host, trunk)
        review = await host.start(Review)
        await host.send(review, "submit")
        waits = await host.start("Waiter")
        mail = await host.start(chart)
        await host.send(mail, "again")
        await until(lambda: outside.count("mail") == 1)
        after = world.after_kill()
    runs = (trunk, review, waits, mail)
    before = [after.stored(run) for run in runs]
    async with after.host(*charts, grace_s=0) as host:
        assert sorted(host.report.resumed) == sorted(runs)
        await host.gates(trunk)
        await host.gates(review)
        assert [after.stored(run) for run in runs] == before
        await settled()
        assert [after.stored(run) for run in runs[:-1]] == before[:-1]


async def test_ids_of_unnamed_children_come_from_a_counter_in_the_blob_and_never_return(
    world: World,
) -> None:
    """A state that invokes a child again and again counts on, over restarts too."""

    class Once(StateChart):
        only = State(initial=True, final=True)

    class Again(StateChart):
        idle = State(initial=True)
        holding = State(invoke=child(Once))
        over = State(final=True)
        go = idle.to(holding)
        done_invoke_holding = holding.to(idle, on="note")
        finish = idle.to(over)

        def note(self, event: str) -> None:
            self.model.seen = [*getattr(self.model, "seen", []), str(event)]

    for _ in range(3):
        async with world.host(Again) as host:
            if not world.ids():
                await host.start(Again, run_id="again")
            await host.send("again", "go")
            await at_rest(host, "again")
            seen = (await host.read("again")).context["seen"]
    assert seen == [f"done.invoke.holding.{number}" for number in (1, 2, 3)]


class Inner(StateChart):
    """Ends when it is told to."""

    waiting = State(initial=True, invoke=gate("end", key="inner"))
    ended = State(final=True)
    end = waiting.to(ended)


class Leaves(StateMachine):
    """Leaves the state that invoked a chart when that has ended."""

    holding = State(initial=True, invoke=child(Inner))
    held = State()
    over = State(final=True)
    done_invoke_holding = holding.to(held)
    finish = held.to(over)


class Stays(StateMachine):
    """Only takes note when a chart that it invoked has ended, and stays where it is."""

    holding = State(initial=True, invoke=child(Inner))
    over = State(final=True)
    done_invoke_holding = holding.to.itself(internal=True, on="note")
    finish = holding.to(over)

    def note(self) -> None:
        self.model.noted = True


@pytest.mark.parametrize("chart", [Leaves, Stays])
async def test_a_finished_child_is_dropped_once_its_parent_reacted(
    world: World, chart: Any
) -> None:
    """The blob does not carry charts that have ended, whether their state is left or not."""
    async with world.host(chart) as host:
        run = await host.start(chart)
        await at_rest(host, run)
        assert list(world.blob(run)["root"]["children"]) == ["holding.1"]
        await host.answer(run, "inner", "end")
        await at_rest(host, run)
        assert "children" not in world.blob(run)["root"]
        after = world.after_kill()
    async with after.host(chart) as host:
        await host.send(run, "finish")
    assert after.status(run) == "done"


async def test_the_join_of_regions_of_which_one_had_ended_happens_when_the_other_ends(
    world: World,
) -> None:
    """One region had ended before: the join happens when the other does."""

    class Joins(StateChart):
        class Both(State.Parallel):
            class Left(State.Compound):
                a = State(initial=True)
                a_done = State(final=True)
                end_a = a.to(a_done)

            class Right(State.Compound):
                b = State(initial=True)
                b_done = State(final=True)
                end_b = b.to(b_done)

        over = State(final=True)
        done_state_Both = Both.to(over)  # noqa: N815 - the library's name

    async with world.host(Joins) as host:
        run = await host.start(Joins)
        await host.send(run, "end_a")
        after = world.after_kill()
    async with after.host(Joins) as host:
        await host.send(run, "end_b")
    assert after.status(run) == "done"


class Told:
    """A listener, made anew for each chart, that is told of every state and transition."""

    heard: list[str] = []

    def on_enter_state(self, state: State) -> None:
        self.heard.append(f"entered {state.id}")

    def after_transition(self, event: str) -> None:
        self.heard.append(f"after {event}")


class Ends(StateChart):
    """Has a listener, and callbacks of its own."""

    listeners = [Told]
    only = State(initial=True)
    over = State(final=True)
    finish = only.to(over)

    def on_enter_over(self) -> None:
        Told.heard.append("entering over")

    def after_finish(self) -> None:
        Told.heard.append("finished")


async def test_a_run_that_is_in_a_final_state_has_finished_and_nobody_is_told_again(
    world: World,
) -> None:
    """Neither by a boot nor where its chart is built anew to be looked at; its row stays."""
    Told.heard.clear()
    async with world.host(Ends) as host:
        run = await host.start(Ends)
        await host.send(run, "finish")
    assert Told.heard.count("entering over") == Told.heard.count("entered over") == 1
    heard, before = list(Told.heard), world.stored(run)
    async with world.host(Ends) as host:
        await settled()
        assert host.report.resumed == []
        assert (await host.read(run)).status == "done"
    with world.opened(read_only=False) as store, open_run(store, Ends, run) as chart:
        assert chart.is_terminated
    assert Told.heard == heard
    assert world.stored(run) == before


# -- history ---------------------------------------------------------------------------------------


def player(*, remembers: bool) -> Any:
    """Return a player that goes on where it was, or one that has forgotten how to."""

    class Player(StateChart):
        class playing(State.Compound):  # noqa: N801 - a state is named as its id
            slow = State(initial=True)
            fast = State()
            faster = slow.to(fast)
            if remembers:
                last = HistoryState()

        paused = State()
        over = State(final=True)
        pause = playing.to(paused)
        resume = paused.to(playing.last if remembers else playing)
        stop = paused.to(over)

    return Player


async def test_a_history_target_leads_to_the_right_child_after_a_restore(world: World) -> None:
    """The recorded child is entered, not the initial one."""
    chart = player(remembers=True)
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "faster")
        await host.send(run, "pause")
        after = world.after_kill()
    async with after.host(chart) as host:
        await host.send(run, "resume")
        assert "fast" in (await host.read(run)).configuration


async def test_a_run_whose_history_state_is_gone_from_the_definition_is_drifted(
    world: World,
) -> None:
    """It is not sent to the initial child without a word: the difference is named."""
    async with world.host(player(remembers=True)) as host:
        run = await host.start("Player")
        await host.send(run, "faster")
        await host.send(run, "pause")
    async with world.host(player(remembers=False)) as host:
        assert "'last' is gone" in host.report.drifted[run]
    assert world.status(run) == "drifted"
    assert world.blob(run)["root"]["history"] == {"last": ["fast"]}
