"""Runs of an older shape under a new chart: brought over once, and checked before that."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from statemachine import HistoryState, State, StateChart, StateMachine

from machines import (
    Draft,
    DriftError,
    Machine,
    Migration,
    MigrationRefusedError,
    RunFinishedError,
    gate,
    open_run,
    timeout,
)
from snapshots import SqliteSnapshotStore, open_store
from snapshots.errors import FencedError
from tests.host.generations import (
    NEW,
    OLD,
    RENAMED,
    charging,
    digest,
    draft_change,
    moved,
    named,
    reviewed,
    shop,
)
from tests.host.world import Outside, World, ended, ring

ROOT = Path(__file__).resolve().parents[2]


# -- what a boot does ---------------------------------------------------------------------------


async def test_a_run_of_an_older_shape_goes_on_in_todays(world: World) -> None:
    """It is where it was, under the new names; the report says the way, and that it resumed."""
    run = await reviewed(world)
    machine = moved(OLD, NEW, states=RENAMED)
    async with world.host(machine) as host:
        assert host.report.resumed == [run]
        assert host.report.migrated == {run: f"{digest(OLD)} → {digest(NEW)}"}
        assert "1 of them migrated" in str(host.report)
        assert world.configuration(run) == ["checking"]
        await host.answer(run, "checking", "approve")
    assert world.status(run) == "done"


async def test_a_migrated_row_has_todays_digest_and_keeps_the_rest(world: World) -> None:
    """One write: the row's revision grew by one, its shape is stored, its past is there."""
    run = await reviewed(world)
    before = world.stored(run)
    async with world.host(moved(OLD, NEW, states=RENAMED)):
        after = world.stored(run)
        with world.opened() as store:
            assert store.shape(digest(NEW)) is not None
    assert after.header.revision == before.header.revision + 1
    assert (after.header.digest, after.header.status) == (digest(NEW), "live")
    assert (after.header.row, after.header.created_ms) == (
        before.header.row,
        before.header.created_ms,
    )
    value, was = json.loads(after.blob), json.loads(before.blob)
    assert value["digest"] == digest(NEW)
    for kept in ("run", "input", "step", "deliveries"):
        assert value[kept] == was[kept]
    assert value["trail"][:-1] == was["trail"]
    assert value["trail"][-1][1:] == ["", f"migrated to {digest(NEW)}", ["review"], ["checking"]]


async def test_a_migrated_run_is_not_migrated_again(world: World) -> None:
    """The next boot finds today's digest, and writes nothing."""
    run = await reviewed(world)
    machine = moved(OLD, NEW, states=RENAMED)
    async with world.host(machine):
        pass
    before = world.stored(run)
    async with world.host(machine) as host:
        assert host.report.resumed == [run]
        assert host.report.migrated == {}
    assert world.stored(run) == before


async def test_gates_are_described_anew_and_timers_keep_their_due_time(world: World) -> None:
    """The gate has today's events and meta; the deadline is the old one, and says today's event."""
    run = await reviewed(world)
    due = world.blob(run)["timers"][0]["due"]
    world.clock.advance(20_000)
    async with world.host(moved(OLD, NEW, states=RENAMED)) as host:
        (found,) = await host.gates(run)
        assert (found.key, found.meta) == ("checking", {"four": "eyes"})
        (timer,) = world.blob(run)["timers"]
        assert (timer["due"], timer["event"], timer["invoke"]) == (due, "late", "checking.2")
        assert world.stored(run).header.due_ms == due
        world.clock.advance(40_000)
        ring(host)
        await ended(host, run)
    assert world.configuration(run) == ["rejected"]


async def test_a_parked_row_is_migrated_and_not_kept_in_memory(world: World) -> None:
    """What only waits is left to wait: it is built again by its first event."""
    run = await reviewed(world)
    assert world.stored(run).header.parked
    async with world.host(moved(OLD, NEW, states=RENAMED)) as host:
        assert run not in host._resident
        assert run in host.waiting
        await host.answer(run, "checking", "reject")
    assert world.configuration(run) == ["rejected"]


async def test_a_run_without_a_migration_stays_drifted_and_can_be_read(world: World) -> None:
    """Its reason names the difference, its content is there, and it is swept a week after that."""
    run = await reviewed(world)
    world.clock.advance(3_000)
    other = Migration("0" * 12, states=RENAMED)
    async with world.host(Machine(NEW, migrations=[other])) as host:
        assert "'review' is gone" in host.report.drifted[run]
        header = world.stored(run).header
        assert (header.status, header.digest) == ("drifted", digest(OLD))
        assert header.reason == host.report.drifted[run]
        assert (await host.read(run)).configuration == ("review",)
        drifted_ms = world.clock.now_ms()
        world.clock.set(drifted_ms + 7 * 86_400_000)
        assert await host.sweep() == 0
        world.clock.advance(1)
        assert await host.sweep() == 1
        assert world.ids() == []


async def test_one_migration_that_fails_does_not_stop_the_others(world: World) -> None:
    """The bad one is left live as it was and reported; a later boot tries again."""
    runs = [await reviewed(world) for _ in range(3)]
    bad = runs[1]
    broken = [True]

    def function(draft: Draft) -> None:
        if draft.run_id == bad and broken[0]:
            message = "no such document"
            raise LookupError(message)

    before = world.stored(bad)
    machine = moved(OLD, NEW, function, states=RENAMED)
    async with world.host(machine) as host:
        assert sorted(host.report.resumed) == sorted(set(runs) - {bad})
        reason = host.report.unresumed[bad]
        for part in (bad, digest(OLD), digest(NEW), "LookupError: no such document"):
            assert part in reason
        assert bad not in host.report.migrated
    assert world.stored(bad) == before
    broken[0] = False
    async with world.host(machine) as host:
        assert bad in host.report.migrated
        await host.answer(bad, "checking", "approve")


async def test_an_event_tries_a_migration_again(world: World) -> None:
    """A run that its boot could not bring over is brought over by the next event, and runs it."""
    run = await reviewed(world)
    broken = [True]

    def function(draft: Draft) -> None:
        assert not broken[0], "not yet"

    async with world.host(moved(OLD, NEW, function, states=RENAMED)) as host:
        assert run in host.report.unresumed
        with pytest.raises(MigrationRefusedError, match="not yet"):
            await host.answer(run, "checking", "approve")
        assert world.status(run) == "live"
        broken[0] = False
        await host.answer(run, "checking", "approve")
        assert run in host.report.migrated
    assert world.status(run) == "done"


async def test_a_migration_that_cannot_be_saved_changes_nothing(world: World) -> None:
    """The row is as it was, nothing of the run is in memory, and the next boot does it."""
    run = await reviewed(world)
    before = world.stored(run)
    machine = moved(OLD, NEW, states=RENAMED)
    host = world.host(machine)
    with pytest.MonkeyPatch.context() as patch:
        refuse_migrations(patch)
        async with host:
            assert "readonly" in host.report.unresumed[run]
            assert host.report.resumed == []
            assert run not in host._resident
    assert world.stored(run) == before
    async with world.host(machine) as host:
        assert host.report.resumed == [run]


def refuse_migrations(patch: pytest.MonkeyPatch) -> None:
    """Have SQLite refuse the write of a migration, with an error of its own."""
    migrate = SqliteSnapshotStore.migrate

    def refused(self: SqliteSnapshotStore, *args: Any, **options: Any) -> Any:
        self.database.connection.pragma("query_only", True)
        try:
            return migrate(self, *args, **options)
        finally:
            self.database.connection.pragma("query_only", False)

    patch.setattr(SqliteSnapshotStore, "migrate", refused)


async def test_a_fenced_host_migrates_nothing(world: World) -> None:
    """Another owner's term refuses the write; the host stops, and the row is as it was."""
    run = await reviewed(world)
    broken = [True]

    def function(draft: Draft) -> None:
        assert not broken[0]

    async with world.host(moved(OLD, NEW, function, states=RENAMED)) as host:
        before = world.stored(run)
        with world.opened(read_only=False) as store:
            store.take_over("another")
        broken[0] = False
        with pytest.raises(FencedError):
            await host.answer(run, "checking", "approve")
        assert world.stored(run) == before


# -- states -------------------------------------------------------------------------------------


class Plant1:
    """Two regions at once, each with a place to come back to."""

    class Plant(StateChart):
        class On(State.Parallel):
            class Left(State.Compound):
                slow = State(initial=True)
                fast = State(invoke=timeout(600, on="calm_down"))
                back = HistoryState()
                speed_up = slow.to(fast)
                calm_down = fast.to(slow)

            class Right(State.Compound):
                cold = State(initial=True)
                warm = State()
                heat = cold.to(warm)

        off = State(initial=True)
        start = off.to(On)
        stop = On.to(off)
        resume = off.to(On.Left.back)


class Plant2:
    """The regions have other names, and so have two of their states."""

    class Plant(StateChart):
        class On(State.Parallel):
            class Drive(State.Compound):
                slow = State(initial=True)
                quick = State(invoke=timeout(600, on="calm_down"))
                again = HistoryState()
                speed_up = slow.to(quick)
                calm_down = quick.to(slow)

            class Right(State.Compound):
                cold = State(initial=True)
                warm = State()
                heat = cold.to(warm)

        off = State(initial=True)
        start = off.to(On)
        stop = On.to(off)
        resume = off.to(On.Drive.again)


PLANT = {"Left": "Drive", "fast": "quick", "back": "again"}


async def test_parallel_regions_are_renamed_where_they_are(world: World) -> None:
    """All regions stay active, in their order, each in its own state."""
    async with world.host(Plant1.Plant) as host:
        run = await host.start(Plant1.Plant)
        for event in ("start", "speed_up", "heat"):
            await host.send(run, event)
        before = world.configuration(run)
    async with world.host(moved(Plant1.Plant, Plant2.Plant, states=PLANT)) as host:
        assert host.report.resumed == [run]
        assert world.configuration(run) == [PLANT.get(name, name) for name in before]
        await host.send(run, "calm_down")
        assert set(world.configuration(run)) == {"On", "Drive", "slow", "Right", "warm"}


async def test_a_history_leads_back_under_the_new_names(world: World) -> None:
    """What a region remembered is entered again, though all of it was renamed."""
    async with world.host(Plant1.Plant) as host:
        run = await host.start(Plant1.Plant)
        for event in ("start", "speed_up", "stop"):
            await host.send(run, event)
        assert world.blob(run)["root"]["history"] == {"back": ["fast"]}
    async with world.host(moved(Plant1.Plant, Plant2.Plant, states=PLANT)) as host:
        assert world.blob(run)["root"]["history"] == {"again": ["quick"]}
        await host.send(run, "resume")
        assert "quick" in world.configuration(run)


@pytest.mark.parametrize(
    ("states", "said"),
    [
        ({"Left": "Drive", "fast": "quick"}, "'back'"),
        ({"Left": "Drive", "back": "again"}, "'fast'"),
        ({"fast": "quick", "back": "again"}, "'Left'"),
        ({**PLANT, "slow": None}, "'Drive' is active and none"),
    ],
)
async def test_a_state_that_is_gone_must_be_named(
    world: World, states: dict[str, str | None], said: str
) -> None:
    """One that the run is in, or remembers, is refused by name, and the row stays as it was."""
    async with world.host(Plant1.Plant) as host:
        run = await host.start(Plant1.Plant)
        for event in ("start", "speed_up", "stop", "start"):
            await host.send(run, event)
        if "slow" not in states:
            await host.send(run, "speed_up")
    before = world.stored(run)
    async with world.host(moved(Plant1.Plant, Plant2.Plant, states=states)) as host:
        assert said in host.report.unresumed[run]
    assert world.stored(run) == before


async def test_a_history_may_be_dropped(world: World) -> None:
    """A remembered state that is dropped is forgotten, and so is an empty memory."""
    async with world.host(Plant1.Plant) as host:
        run = await host.start(Plant1.Plant)
        for event in ("start", "speed_up", "stop"):
            await host.send(run, event)
    states = {"Left": "Drive", "fast": None, "back": "again"}
    async with world.host(moved(Plant1.Plant, Plant2.Plant, states=states)):
        assert "history" not in world.blob(run)["root"]


async def test_states_may_change_places(world: World) -> None:
    """A map of names is applied at once: two states that swap names do not become one."""

    def chart(a: str, b: str) -> Any:
        states = {a: State(initial=True, invoke=gate("go")), b: State(invoke=gate("back"))}
        states["over"] = State(final=True)
        events = {
            "go": states[a].to(states[b]),
            "back": states[b].to(states[a]),
            "end": states[a].to(states["over"]) | states[b].to(states["over"]),
        }
        return type(StateChart)("Swapped", (StateChart,), {**states, **events})

    old, new = chart("one", "two"), chart("two", "one")
    async with world.host(old) as host:
        run = await host.start(old)
        await host.send(run, "go")
    async with world.host(moved(old, new, states={"one": "two", "two": "one"})) as host:
        assert world.configuration(run) == ["one"]
        (found,) = await host.gates(run)
        assert (found.key, found.events) == ("one", ("back",))


# -- results that are not legal -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda d: d.configuration.clear(), "no state is active"),
        (lambda d: d.configuration.remove("On"), "its parent 'On' is not"),
        (lambda d: d.configuration.append("slow"), "'slow' and 'quick' of its children"),
        (lambda d: [d.configuration.remove(s) for s in ("Right", "cold")], "'On' is parallel"),
        (lambda d: d.configuration.append("off"), "'On' and 'off' of the outermost states"),
        (lambda d: d.configuration.append("nowhere"), "'nowhere'"),
        (lambda d: d.configuration.append("again"), "'again'"),
        (lambda d: d.history.update(again=["warm"]), "which is elsewhere"),
        (lambda d: d.history.update(slow=["quick"]), "no history state"),
        (lambda d: setattr(d, "configuration", ("On",)), "expected a list"),
        (lambda d: d.timers.clear(), "has not ended"),
        (lambda d: d.value.pop("root"), "'root'"),
        (lambda d: d.value.update(extra=1), "'extra'"),
        (lambda d: d.context.update(what=object()), "object"),
        (lambda d: d.queue.append({"event": "heat", "at": 1, "seq": 10_000}), "clock.seq"),
        (lambda d: d.value["root"].update(model="gone"), "'gone'"),
    ],
)
async def test_a_result_that_could_not_go_on_is_refused(
    world: World, act: Callable[[Draft], object], said: str
) -> None:
    """Form, names, configuration, history, values: said by name, and nothing is written."""
    async with world.host(Plant1.Plant) as host:
        run = await host.start(Plant1.Plant)
        for event in ("start", "speed_up"):
            await host.send(run, event)
    before = world.stored(run)
    machine = moved(Plant1.Plant, Plant2.Plant, draft_change(act), states=PLANT)
    async with world.host(machine) as host:
        assert host.report.resumed == []
        assert f"{digest(Plant1.Plant)} → {digest(Plant2.Plant)}" in host.report.unresumed[run]
        assert said in host.report.unresumed[run]
    assert world.stored(run) == before


async def test_a_run_is_not_migrated_into_its_end(world: World) -> None:
    """A final state that no transition entered would never end the run."""
    run = await reviewed(world)
    async with world.host(moved(OLD, NEW, states={"review": "approved"})) as host:
        assert "'approved' is a final state" in host.report.unresumed[run]


async def test_a_function_that_returns_something_is_refused(world: World) -> None:
    """It would have meant what it returned; what counts is the draft."""
    run = await reviewed(world)
    function: Any = lambda draft: dict(draft.value)  # noqa: E731 - as somebody would write it
    async with world.host(moved(OLD, NEW, function, states=RENAMED)) as host:
        assert "returned dict" in host.report.unresumed[run]


# -- functions and chains -----------------------------------------------------------------------


async def test_a_function_changes_context_input_and_what_waits(world: World) -> None:
    """It sees the values type for type, under the new names, and may queue an event."""
    seen: list[Any] = []

    def function(draft: Draft) -> None:
        seen.append((draft.run_id, draft.input, list(draft.configuration), draft.context["pages"]))
        seen.append([invoke["id"] for invoke in draft.invokes])
        draft.context["title"] = draft.context["title"].upper()
        draft.context["pages"] = [*draft.context["pages"], 3]
        draft.input["moved"] = True
        draft.timers[0]["due"] += 1_000
        seq = draft.value["clock"]["seq"] = draft.value["clock"]["seq"] + 1
        draft.queue.append({"event": "approve", "at": draft.value["clock"]["stamp"], "seq": seq})

    async with world.host(OLD) as host:
        run = await host.start(OLD, {"title": "a", "pages": (1, 2)})
        await host.send(run, "submit")
    async with world.host(moved(OLD, NEW, function, states=RENAMED)) as host:
        await ended(host, run)
    assert seen[0] == (run, {"title": "a", "pages": (1, 2), "moved": True}, ["checking"], (1, 2))
    assert seen[1] == ["checking.1", "checking.2"]
    value = world.blob(run)
    assert value["root"]["context"] == {"title": "A", "pages": [1, 2, 3]}
    assert value["input"]["moved"] is True
    assert value["root"]["configuration"] == ["approved"]


async def test_migrations_are_chained(world: World) -> None:
    """A run of the oldest shape goes all the way in one write, one of the middle joins there."""
    one, two, three = named("one"), named("two", "aside"), named("three")
    async with world.host(one) as host:
        first = await host.start(one, {"steps": []})
    async with world.host(Machine(two, name="Other")) as host:
        second = await host.start("Other", {"steps": []})

    def step(name: str) -> Callable[[Draft], None]:
        return draft_change(lambda draft: draft.context["steps"].append(name))

    chained = [
        Migration(digest(two), step("b"), states={"two": "three"}),
        Migration(digest(one), step("a"), to_digest=digest(two), states={"one": "two"}),
    ]
    before = world.saves(first)
    machines = Machine(three, migrations=chained), Machine(three, name="Other", migrations=chained)
    async with world.host(*machines) as host:
        ways = host.report.migrated
        assert ways[first] == " → ".join(map(digest, (one, two, three)))
        assert ways[second] == f"{digest(two)} → {digest(three)}"
        assert (await host.read(first)).context == {"steps": ["a", "b"]}
        assert (await host.read(second)).context == {"steps": ["b"]}
        assert world.saves(first) == before + 1
        with world.opened() as store:
            assert store.shape(digest(three)) is not None
        await host.answer(first, "three", "go")
    assert world.status(first) == "done"


async def test_the_migration_that_failed_is_named(world: World) -> None:
    """Of a chain, the step that raised; the row keeps the oldest shape."""
    one, two, three = named("one"), named("two"), named("three")
    async with world.host(one) as host:
        run = await host.start(one)

    def broken(draft: Draft) -> None:
        del draft.context["nothing"]

    chained = [
        Migration(digest(one), to_digest=digest(two), states={"one": "two"}),
        Migration(digest(two), broken, states={"two": "three"}),
    ]
    before = world.stored(run)
    async with world.host(Machine(three, migrations=chained)) as host:
        assert f"migration {digest(two)} → {digest(three)}" in host.report.unresumed[run]
        with pytest.raises(MigrationRefusedError) as caught:
            await host.answer(run, "three", "go")
        assert caught.value.fields["run_id"] == run
        assert isinstance(caught.value.__cause__.__cause__, KeyError)  # type: ignore[union-attr]  # there is one
    assert world.stored(run) == before


# -- revival ------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["drifted", "lost"])
async def test_a_run_set_aside_is_revived_by_a_migration(world: World, status: Any) -> None:
    """Once the migration is there, it lives again, in one write that clears the reason."""
    run = await reviewed(world)
    with world.opened(read_only=False) as store:
        store.mark(store.load(run).header, status, "for the test")
    before = world.stored(run).header
    due = world.blob(run)["timers"][0]["due"]
    async with world.host(NEW) as host:
        with pytest.raises(DriftError, match="'review' is gone"):
            await host.revive(run)
        assert world.stored(run).header == before
    async with world.host(moved(OLD, NEW, states=RENAMED)) as host:
        assert host.report.resumed == []
        await host.revive(run)
        header = world.stored(run).header
        assert (header.status, header.reason, header.ended_ms) == ("live", None, None)
        assert (header.digest, header.revision) == (digest(NEW), before.revision + 1)
        assert header.due_ms == due
        assert host.report.migrated == {run: f"{digest(OLD)} → {digest(NEW)}"}
        await host.answer(run, "checking", "approve")
    assert world.status(run) == "done"


async def test_a_run_that_died_is_revived_by_a_migration(world: World) -> None:
    """The event that it died of runs again, under the new chart."""

    class Bell(StateMachine):
        calm = State(initial=True)
        over = State(final=True)
        ring = calm.to(over)
        arm = calm.to.itself(on="set_it")

        def set_it(self) -> None:
            self.send("ring", delay=5_000)

        def on_ring(self) -> None:
            message = "broken"
            raise ValueError(message)

    old = Bell

    class Bell(StateMachine):  # type: ignore[no-redef]  # the next generation
        quiet = State(initial=True)
        over = State(final=True)
        ring = quiet.to(over)

    async with world.host(old) as host:
        run = await host.start(old)
        await host.send(run, "arm")
        world.clock.advance(5_000)
        ring(host)
        await ended(host, run)
    assert world.status(run) == "error"
    async with world.host(moved(old, Bell, states={"calm": "quiet"})) as host:
        await host.revive(run)
        await ended(host, run)
    assert world.status(run) == "done"
    assert "error" not in world.blob(run)


async def test_a_revival_whose_migration_is_refused_changes_nothing(world: World) -> None:
    """The run stays drifted with its reason, and can be revived by a better one."""
    run = await reviewed(world)
    async with world.host(NEW):
        pass
    before = world.stored(run)
    assert before.header.status == "drifted"
    async with world.host(moved(OLD, NEW, states={"review": None})) as host:
        with pytest.raises(MigrationRefusedError, match="no state is active"):
            await host.revive(run)
        assert run not in host._resident
    assert world.stored(run) == before
    async with world.host(moved(OLD, NEW, states=RENAMED)) as host:
        await host.revive(run)
        await host.answer(run, "checking", "approve")


# -- the outside world --------------------------------------------------------------------------


async def test_reconcile_is_asked_about_what_a_run_became(world: World, outside: Outside) -> None:
    """It sees the migrated run, before anything is written; what it finds lost keeps its shape."""
    charge = outside.service("charge")
    old, new = shop(charge), shop(charge, "billing")
    left, run = await charging(world, old, "unknown")
    asked: list[Any] = []
    answers: list[Any] = [LookupError("try later"), False]

    def reconcile(restored: Any) -> Any:
        asked.append((restored.configuration, left.stored(run).header.digest))
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    machine = Machine(
        new,
        reconcile=reconcile,
        migrations=[Migration(digest(old), states={"paying": "billing"})],
    )
    before = left.stored(run)
    async with left.host(machine) as host:
        assert "LookupError: try later" in host.report.unresumed[run]
    assert left.stored(run) == before
    async with left.host(machine) as host:
        assert run in host.report.lost
        assert host.report.resumed == []
        with pytest.raises(RunFinishedError):
            await host.send(run, "leave")
    header = left.stored(run).header
    assert (header.status, header.digest) == ("lost", digest(old))
    assert asked == [(("billing",), digest(old))] * 2
    async with left.host(machine) as host:
        await host.revive(run)
        assert left.configuration(run) == ["billing"]


# -- without a host -----------------------------------------------------------------------------


class Switch1:
    """Counts, without a loop."""

    class Switch(StateMachine):
        off = State(initial=True)
        on = State(invoke=timeout(60, on="press"))
        over = State(final=True)
        press = off.to(on) | on.to(off)
        end = off.to(over)


class Switch2:
    """The same, with another word for it."""

    class Switch(StateMachine):
        dark = State(initial=True)
        on = State(invoke=timeout(60, on="press"))
        over = State(final=True)
        press = dark.to(on) | on.to(dark)
        end = dark.to(over)


async def test_open_run_migrates_too(world: World) -> None:
    """One write when it is opened; refused ones leave the row; an ended run stays as it ended."""
    old, new = Switch1.Switch, Switch2.Switch
    bad = moved(old, new)
    good = moved(old, new, states={"off": "dark"})
    with open_store(world.path, clock=world.clock) as store:
        for run in ("a", "b"):
            with open_run(store, old, run, {"colour": "red"}, clock=world.clock):
                pass
        with open_run(store, old, "b", clock=world.clock) as chart:
            chart.send("end")
        before = store.load("a")
        with (
            pytest.raises(MigrationRefusedError, match="'off'"),
            open_run(store, bad, "a", clock=world.clock),
        ):
            pass
        assert store.load("a") == before
        with open_run(store, good, "a", clock=world.clock) as chart:
            assert store.load("a").header.revision == before.header.revision + 1
            assert store.load("a").header.digest == digest(new)
            chart.send("press")
            assert chart.on.is_active
        with open_run(store, good, "a", clock=world.clock) as chart:
            assert chart.model.colour == "red"
        assert json.loads(store.load("a").blob)["input"] == {"colour": "red"}
        with pytest.raises(DriftError), open_run(store, good, "b", clock=world.clock):
            pass
        assert store.load("b").header.status == "done"


# -- deaths -------------------------------------------------------------------------------------

LIFE = """
import asyncio, os, signal, sys
from pathlib import Path
from statemachine import State, StateChart
from machines import Host, Machine, Migration, effect, gate
from machines.host.live_runs import Residents
from snapshots import SqliteSnapshotStore
from snapshots.testing import ManualClock

FILE, MOMENT, CALLS = sys.argv[1:4]

def say(line):
    with Path(CALLS).open("a") as calls:
        calls.write(line + "\\n")

def die():
    os.kill(os.getpid(), signal.SIGKILL)

async def look(key):
    say(key)
    if MOMENT == "call":
        die()

class Old(StateChart):
    waits = State(initial=True, invoke=gate("go"))
    over = State(final=True)
    go = waits.to(over)

class New(StateChart):
    looks = State(initial=True, invoke=[gate("go"), effect(look, idempotent=True)])
    over = State(final=True)
    go = looks.to(over)
    done_invoke_looks = looks.to(over)

def function(draft):
    if MOMENT == "function":
        die()

migrate = SqliteSnapshotStore.migrate

def dying(self, *args, **options):
    if MOMENT == "before":
        die()
    if MOMENT == "within":
        self.database.run("update runs set digest = 'half'")
        die()
    written = migrate(self, *args, **options)
    say("written")
    return written

begin = Residents.begin

def beginning(self, *args, **options):
    if MOMENT == "after":
        die()
    begin(self, *args, **options)

SqliteSnapshotStore.migrate = dying
Residents.begin = beginning

async def main():
    old, new = Machine(Old, name="M"), Machine(New, name="M")
    moved = Machine(
        New, name="M", migrations=[Migration(old.digest, function, states={"waits": "looks"})]
    )
    machine = old if MOMENT == "begin" else moved
    async with Host(FILE, [machine], clock=ManualClock()) as host:
        if MOMENT == "begin":
            await host.start("M", run_id="a")
        elif MOMENT == "end":
            print(host.report.migrated, flush=True)
            await host.settled("a")

asyncio.run(main())
"""


def live(world: World, moment: str) -> subprocess.CompletedProcess[str]:
    """Run a host in a process of its own, which dies at a moment."""
    calls = world.path.with_suffix(".calls")
    return subprocess.run(
        [sys.executable, "-c", LIFE, str(world.path), moment, str(calls)],
        capture_output=True,
        check=False,
        cwd=ROOT,
        encoding="utf-8",
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=25,
    )


@pytest.mark.parametrize(
    ("moment", "is_written"),
    [("function", False), ("before", False), ("within", False), ("after", True), ("call", True)],
)
def test_a_host_killed_in_a_migration_leaves_the_old_row_or_the_new(
    world: World, moment: str, is_written: bool
) -> None:
    """Nothing is half-written, nothing begins before the write, and the next host goes on."""
    assert live(world, "begin").returncode == 0
    before = world.stored("a")
    killed = live(world, moment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = world.stored("a")
    said = world.path.with_suffix(".calls")
    if is_written:
        # Written once; the call, where it came to that, is the second save of the run.
        assert left.header.digest != before.header.digest
        assert left.header.revision == before.header.revision + (2 if moment == "call" else 1)
        assert said.read_text().splitlines()[0] == "written"
        (row,) = world.blob("a")["effects"]
        assert row["status"] == ("calling" if moment == "call" else "intent")
    else:
        assert left == before
        assert not said.exists()
    finished = live(world, "end")
    assert finished.returncode == 0, finished.stderr
    assert ("→" in finished.stdout) is not is_written
    assert world.status("a") == "done"
    lines = said.read_text().splitlines()
    assert lines.count("written") == 1
    assert lines.index("written") == 0
    assert set(lines[1:]) == {"a/looks.3"}
