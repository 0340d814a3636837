"""What a run of an older shape has under way, under a new chart: kept, renamed, dropped, begun."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart, StateMachine
from statemachine.io import load

from machines import Draft, Machine, Migration, child, children, effect, gate, spawn, timeout
from snapshots import SqliteSnapshotStore
from tests.host.generations import (
    charging,
    digest,
    draft_change,
    left_waiting,
    moved,
    rewrite,
    shop,
    waiting,
)
from tests.host.world import Outside, World, at_rest, ended, resident, ring, until

# -- effects ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "idempotent", "calls", "then"),
    [
        ("intent", False, 1, "done"),
        ("calling", True, 1, "done"),
        ("calling", False, 0, "unknown"),
        ("unknown", True, 1, "done"),
        ("unknown", False, 0, "unknown"),
    ],
)
async def test_an_effect_goes_on_under_its_old_key(
    world: World, outside: Outside, *, status: str, idempotent: bool, calls: int, then: str
) -> None:
    """Its row is under the new name; who is called knows it by the key of the first attempt."""
    charge = outside.service("charge")
    old, new = shop(charge, idempotent=idempotent), shop(charge, "billing", idempotent=idempotent)
    left, run = await charging(world, old, status)
    async with left.host(moved(old, new, states={"paying": "billing"})) as host:
        assert host.report.resumed == [run]
        await until(lambda: outside.count("charge") == calls)
        await until(lambda: left.effects(run) == [then])
        assert outside.keys("charge") == [f"{run}/paying.1"] * calls
        (row,) = left.blob(run)["effects"]
        assert row["id"] == f"{run}/billing.1"
        assert row.get("invoke", "billing.1") == "billing.1"
        if then == "done":
            await ended(host, run)
    assert left.status(run) == ("done" if then == "done" else "live")


async def test_an_effect_whose_outcome_waits_in_the_queue_reports_it(
    world: World, outside: Outside
) -> None:
    """A done effect is not called again: its queued event has the new name and moves the run."""
    charge = outside.service("charge")
    old, new = shop(charge), shop(charge, "billing")
    left, run = await charging(world, old, "done")

    def change(value: dict[str, Any]) -> None:
        (invoke,) = value["root"]["invokes"]
        invoke |= {"sent": True, "terminated": True}
        seq = value["clock"]["seq"] = value["clock"]["seq"] + 1
        event = {"event": "done.invoke.paying.1", "name": "done.invoke.paying.1"}
        event |= {"kwargs": {"data": "receipt"}, "at": value["clock"]["stamp"], "seq": seq}
        value["root"]["queue"] = [event]
        value["turn"] = [""]
        value["effects"][0]["tail"] = "receipt"

    rewrite(left, run, change)
    async with left.host(moved(old, new, states={"paying": "billing"})) as host:
        await ended(host, run)
    assert outside.count("charge") == 0
    assert left.configuration(run) == ["paid"]
    assert left.blob(run)["root"]["context"] == {"receipt": "receipt"}


async def test_an_outcome_that_came_during_a_macrostep_reports_it(
    world: World, outside: Outside
) -> None:
    """What the row holds as an arrival has the new name too."""
    charge = outside.service("charge")
    old, new = shop(charge), shop(charge, "billing")
    left, run = await charging(world, old, "done")

    def change(value: dict[str, Any]) -> None:
        seq = value["clock"]["seq"] + 1
        event = {"event": "done.invoke.paying.1", "name": "done.invoke.paying.1"}
        event |= {"kwargs": {"data": "receipt"}, "at": value["clock"]["stamp"], "seq": seq}
        value["arrivals"] = [{"node": "", "invoke": "paying.1", "item": event}]
        value["effects"][0]["tail"] = "receipt"

    rewrite(left, run, change)
    async with left.host(moved(old, new, states={"paying": "billing"})) as host:
        await ended(host, run)
    assert outside.count("charge") == 0
    assert left.blob(run)["root"]["context"] == {"receipt": "receipt"}


def without_paying() -> Any:
    """Return the shop as it is once nobody pays there any more."""

    class Shop(StateChart):
        idle = State(initial=True)
        aside = State()
        refused = State(final=True)
        leave = idle.to(aside)
        close = aside.to(refused)

    return Shop


def to_aside(draft: Draft) -> None:
    """Put a run whose state was dropped aside."""
    draft.configuration.append("aside")


async def test_an_effect_that_is_calling_is_not_dropped(world: World, outside: Outside) -> None:
    """Its outcome would find nobody: the run waits for the shape that wrote it."""
    old, new = shop(outside.service("charge")), without_paying()
    left, run = await charging(world, old, "calling")
    before = left.stored(run)
    async with left.host(moved(old, new, to_aside, states={"paying": None})) as host:
        assert f"effect '{run}/paying.1' is calling" in host.report.unresumed[run]
    assert left.stored(run) == before


async def test_an_effect_that_is_calling_does_not_become_another_thing(
    world: World, outside: Outside
) -> None:
    """A gate where the effect was would drop the call: refused as well."""
    old = shop(outside.service("charge"))

    class Shop(StateChart):
        idle = State(initial=True)
        paying = State(invoke=gate("close"))
        refused = State(final=True)
        pay = idle.to(paying)
        close = paying.to(refused)

    left, run = await charging(world, old, "calling")
    async with left.host(moved(old, Shop)) as host:
        assert f"effect '{run}/paying.1' is calling" in host.report.unresumed[run]
    assert left.effects(run) == ["calling"]


async def test_a_function_cannot_drop_a_call_either(world: World, outside: Outside) -> None:
    """Not by taking the row, nor by taking what waits for it."""
    charge = outside.service("charge")
    old, new = shop(charge), shop(charge, "billing")
    left, run = await charging(world, old, "calling")
    before = left.stored(run)
    for act in (lambda d: d.effects.clear(), lambda d: d.invokes.clear()):

        def function(draft: Draft, act: Callable[[Draft], object] = act) -> None:
            act(draft)

        machine = moved(old, new, function, states={"paying": "billing"})
        async with left.host(machine) as host:
            assert run in host.report.unresumed
        assert left.stored(run) == before


@pytest.mark.parametrize(("status", "then"), [("intent", "failed"), ("unknown", "unknown")])
async def test_an_effect_of_a_dropped_state_is_settled_or_stays_in_doubt(
    world: World, outside: Outside, status: str, then: str
) -> None:
    """One that was not called never is; one in doubt is still there for who decides."""
    old, new = shop(outside.service("charge")), without_paying()
    left, run = await charging(world, old, status)
    async with left.host(moved(old, new, to_aside, states={"paying": None})) as host:
        assert left.configuration(run) == ["aside"]
        (row,) = left.blob(run)["effects"]
        assert (row["id"], row["status"]) == (f"{run}/paying.1", then)
        assert "invokes" not in left.blob(run)["root"]
        assert left.stored(run).header.parked == (then == "failed")
        if then == "failed":
            assert row["error"]["type"] == "StateDropped"
        else:
            await host.resolve(run, "paying.1", failed="looked it up")
        await host.send(run, "close")
    assert outside.count("charge") == 0
    assert left.status(run) == "done"


async def test_settled_effects_stay_with_their_keys(world: World, outside: Outside) -> None:
    """A row per call the run ever made, under the new name, keyed as its receiver knows it."""
    charge = outside.service("charge")

    def chart(paying: str) -> Any:
        pays, idle, over = State(invoke=effect(charge)), State(initial=True), State(final=True)
        names: dict[str, Any] = {
            "idle": idle,
            paying: pays,
            "over": over,
            "pay": idle.to(pays),
            f"done_invoke_{paying}": pays.to(idle),
            "end": idle.to(over),
        }
        return type(StateChart)("Again", (StateChart,), names)

    old, new = chart("paying"), chart("billing")
    async with world.host(old) as host:
        run = await host.start(old)
        for _ in range(3):
            await host.send(run, "pay")
            await at_rest(host, run)
    async with world.host(moved(old, new, states={"paying": "billing"})) as host:
        await host.send(run, "pay")
        await at_rest(host, run)
        rows = world.blob(run)["effects"]
    assert [row["id"] for row in rows] == [f"{run}/billing.{n}" for n in (1, 2, 3, 4)]
    keys = [row.get("key", row["id"]) for row in rows]
    assert keys == [f"{run}/paying.{n}" for n in (1, 2, 3)] + [f"{run}/billing.4"]


# -- what is invoked anew -----------------------------------------------------------------------


async def test_what_a_state_invokes_anew_begins_once_the_row_is_written(
    world: World, outside: Outside
) -> None:
    """The migrated row holds the intent as pending; the call sees it, and is the second write."""
    seen: list[tuple[int, Any]] = []
    runs: list[str] = []

    async def look(key: str, ctx: Any) -> str:
        value = world.blob(runs[0])
        seen.append((world.saves(runs[0]), value["effects"], value["digest"], ctx.attempt))
        seen.append(ctx.restored)
        outside.take("look", key)
        return "looked"

    old, new = waiting(gate("go")), waiting(gate("go"), effect(look))
    runs.append(await left_waiting(world, old))
    saves = world.saves(runs[0])
    written: list[dict[str, Any]] = []
    with pytest.MonkeyPatch.context() as patch:
        remember_migrations(patch, written)
        async with world.host(moved(old, new)) as host:
            assert host.report.resumed == runs
            await until(lambda: outside.count("look") == 1)
            await at_rest(host, runs[0])
    (value,) = written
    (pending,) = value["root"]["pending"]
    (row,) = value["effects"]
    assert (pending["state"], pending["index"], value["turn"]) == ("waits", 1, [""])
    assert (row["status"], row["id"]) == ("intent", f"{runs[0]}/{pending['id']}")
    (saved, (calling,), stored, attempt), restored = seen
    assert (saved, calling["status"], stored) == (saves + 2, "calling", digest(new))
    assert (attempt, restored) == (1, False)
    assert outside.count("look") == 1
    assert world.configuration(runs[0]) == ["told"]
    assert world.blob(runs[0])["root"]["context"] == {"news": "looked"}


def remember_migrations(patch: pytest.MonkeyPatch, written: list[dict[str, Any]]) -> None:
    """Keep what stores are given to write for a migration."""
    migrate = SqliteSnapshotStore.migrate

    def remembered(self: SqliteSnapshotStore, header: Any, blob: bytes, **options: Any) -> Any:
        written.append(json.loads(blob))
        return migrate(self, header, blob, **options)

    patch.setattr(SqliteSnapshotStore, "migrate", remembered)


async def test_a_new_timeout_and_a_new_gate_are_in_the_migrated_row(world: World) -> None:
    """What lives in the snapshot alone is active in the very write: its due time is fixed then."""
    old, new = waiting(), waiting(timeout(60, on="go"), gate("go"))
    run = await left_waiting(world, old)
    world.clock.advance(5_000)
    async with world.host(moved(old, new)) as host:
        header = world.stored(run).header
        assert header.parked
        assert header.due_ms == world.clock.now_ms() + 60_000
        assert run not in host._resident
        (found,) = await host.gates(run)
        assert found.key == "waits"
        world.clock.advance(60_000)
        ring(host)
        await ended(host, run)
    assert world.status(run) == "done"


async def test_what_is_another_kind_of_thing_now_is_dropped_and_begun(
    world: World, outside: Outside
) -> None:
    """A timeout where a gate was, an effect where a timeout was: the old ones leave nothing."""
    outside.hold("look")
    old = waiting(gate("go"), timeout(60, on="go"))
    new = waiting(timeout(90, on="go"), effect(outside.service("look")))
    run = await left_waiting(world, old)
    async with world.host(moved(old, new)) as host:
        await until(lambda: outside.count("look") == 1)
        value = world.blob(run)
        kinds = [(invoke["index"], invoke["kind"]) for invoke in value["root"]["invokes"]]
        assert sorted(kinds) == [(0, "timeout"), (1, "effect")]
        (timer,) = value["timers"]
        assert timer["due"] == world.clock.now_ms() + 90_000
        assert await host.gates(run) == []
        numbers = {int(invoke["id"].rpartition(".")[2]) for invoke in value["root"]["invokes"]}
        assert numbers.isdisjoint({1, 2})
        outside.hold("look").set()
        await at_rest(host, run)
    assert outside.count("look") == 1


async def test_what_is_not_invoked_any_more_is_dropped(world: World) -> None:
    """Less is invoked than was: what is left over goes, what remains is the same invocation."""
    old, new = waiting(gate("go"), timeout(60, on="go")), waiting(gate("go"))
    run = await left_waiting(world, old)
    (kept, _) = world.blob(run)["root"]["invokes"]
    async with world.host(moved(old, new)) as host:
        value = world.blob(run)
        assert value["root"]["invokes"] == [kept]
        assert "timers" not in value
        await host.answer(run, "waits", "go")


async def test_a_pending_effect_begins_under_its_new_name(world: World, outside: Outside) -> None:
    """Killed between the save that intends it and its call, it is called once after the move."""
    charge = outside.service("charge")
    old, new = shop(charge), shop(charge, "billing")
    left, run = await charging(world, old, "intent")

    def change(value: dict[str, Any]) -> None:
        (invoke,) = value["root"].pop("invokes")
        mark = {key: invoke[key] for key in ("id", "state", "index")} | {"order": 2}
        value["root"]["pending"] = [mark]
        value |= {"turn": [""], "between": True}

    rewrite(left, run, change)
    async with left.host(moved(old, new, states={"paying": "billing"})) as host:
        await ended(host, run)
    assert outside.keys("charge") == [f"{run}/paying.1"]
    assert left.status(run) == "done"


# -- children -----------------------------------------------------------------------------------


def trunk(leaf: str = "budding", branch: str = "growing", root: str = "alive") -> Any:
    """Return three levels of charts; the innermost waits at a gate and sends a reminder."""

    def make(name: str, state: str, invoke: Any, event: str) -> Any:
        at, over = State(initial=True, invoke=invoke), State(final=True)
        names: dict[str, Any] = {state: at, "over": over, event: at.to(over)}
        return type(StateChart)(name, (StateChart,), names)

    inner = make("Leaf", leaf, [gate("bloom"), timeout(600, on="bloom")], "bloom")
    middle = make("Branch", branch, child(inner), f"done_invoke_{branch}")
    return make("Trunk", root, child(middle), f"done_invoke_{root}")


TREE = {
    "states": {"alive": "rooted"},
    "children": {"Branch": {"growing": "spreading"}, "Leaf": {"budding": "opening"}},
}


async def test_three_levels_of_charts_are_renamed_together(world: World) -> None:
    """Paths, timers and gates of the innermost chart follow the names above it."""
    old, new = trunk(), trunk("opening", "spreading", "rooted")
    async with world.host(old) as host:
        run = await host.start(old)
        await at_rest(host, run)
        (before,) = world.blob(run)["timers"]
        assert before["node"] == "alive.1/growing.1"
    async with world.host(moved(old, new, **TREE)) as host:
        assert host.report.resumed == [run]
        (timer,) = world.blob(run)["timers"]
        path = "rooted.1/spreading.1"
        assert (timer["node"], timer["due"]) == (path, before["due"])
        (found,) = await host.gates(run)
        assert (found.key, found.path) == (f"{path}/opening", path)
        await host.answer(run, f"{path}/opening", "bloom")
        await ended(host, run)
    assert world.status(run) == "done"


async def test_a_child_that_ended_before_the_move_moves_its_parent(world: World) -> None:
    """Its end waits in the parent's queue: the event is renamed with the invocation."""
    old, new = trunk(), trunk("opening", "spreading", "rooted")
    lefts: list[World] = []
    async with world.host(old) as host:
        run = await host.start(old)
        await at_rest(host, run)
        save = host.store.save

        def killed_after(header: Any, blob: bytes, **options: Any) -> Any:
            saved = save(header, blob, **options)
            lefts.append(world.after_kill())
            return saved

        vars(host.store)["save"] = killed_after
        await host.answer(run, "alive.1/growing.1/budding", "bloom")
        await ended(host, run)
    assert len(lefts) > 2
    waited = 0
    for left in lefts:
        value = left.blob(run)
        middle = value["root"].get("children", {}).get("alive.1", {})
        waited += sum(len(node.get("queue", ())) for node in (value["root"], middle))
        async with left.host(moved(old, new, **TREE)) as host:
            if left.status(run) == "live":
                await ended(host, run)
        assert left.status(run) == "done"
    assert waited == 2


async def test_a_child_whose_class_changed_below_is_begun_where_it_must(world: World) -> None:
    """A gate that the innermost chart has since gained opens there, three levels down."""

    def tree(*more: Any) -> Any:
        class Leaf(StateChart):
            budding = State(initial=True, invoke=[gate("bloom"), *more])
            over = State(final=True)
            bloom = budding.to(over)

        class Branch(StateChart):
            growing = State(initial=True, invoke=child(Leaf))
            over = State(final=True)
            done_invoke_growing = growing.to(over)

        class Trunk(StateChart):
            alive = State(initial=True, invoke=child(Branch))
            over = State(final=True)
            done_invoke_alive = alive.to(over)

        return Trunk

    old, new = tree(), tree(timeout(60, on="bloom"))
    async with world.host(old) as host:
        run = await host.start(old)
        await at_rest(host, run)
    async with world.host(moved(old, new)) as host:
        assert host.report.resumed == [run]
        (timer,) = world.blob(run)["timers"]
        assert (timer["node"], timer["event"]) == ("alive.1/growing.1", "bloom")
        world.clock.advance(60_000)
        ring(host)
        await ended(host, run)
    assert world.status(run) == "done"


async def test_a_dropped_child_goes_with_all_below_it(world: World, outside: Outside) -> None:
    """Charts, timers and gates below it are gone; what was in doubt there stays on record."""
    look = outside.service("look")
    outside.answers("look", ConnectionResetError("gone"))

    class Leaf(StateChart):
        looking = State(initial=True, invoke=[effect(look), timeout(600, on="bloom")])
        over = State(final=True)
        done_invoke_looking = looking.to(over)
        bloom = looking.to(over)

    class Branch(StateChart):
        growing = State(initial=True, invoke=child(Leaf))
        over = State(final=True)
        done_invoke_growing = growing.to(over)

    class Trunk(StateChart):
        alive = State(initial=True, invoke=child(Branch))
        resting = State()
        over = State(final=True)
        done_invoke_alive = alive.to(resting)
        fell = resting.to(over) | alive.to(over)

    old = Trunk

    class Trunk(StateChart):  # type: ignore[no-redef]  # the next generation
        resting = State(initial=True)
        over = State(final=True)
        fell = resting.to(over)

    async with world.host(old) as host:
        run = await host.start(old)
        await until(lambda: world.effects(run) == ["unknown"])
    function = draft_change(lambda draft: draft.configuration.append("resting"))
    async with world.host(moved(old, Trunk, function, states={"alive": None})) as host:
        value = world.blob(run)
        assert "children" not in value["root"]
        assert "timers" not in value
        (row,) = value["effects"]
        assert (row["node"], row["status"]) == ("alive.1/growing.1", "unknown")
        await host.send(run, "fell")
    assert world.status(run) == "done"


class Worker1:
    """Works at a gate."""

    class Worker(StateChart):
        working = State(initial=True, invoke=gate("finish"))
        over = State(final=True, donedata="said")
        finish = working.to(over)

        def said(self) -> str:
            return "finished"


class Worker2:
    """The same, called otherwise."""

    class Worker(StateChart):
        busy = State(initial=True, invoke=gate("finish"))
        over = State(final=True, donedata="said")
        finish = busy.to(over)

        def said(self) -> str:
            return "finished"


def crowd(worker: Any, state: str) -> Any:
    """Return a chart that spawns a worker for each name, and notes their ends."""
    at, over = State(initial=True, invoke=children(worker)), State(final=True)

    def hire(self: Any, name: str) -> None:
        spawn(self, name)

    def note(self: Any, child: str = "") -> None:
        self.model.ended = [*getattr(self.model, "ended", []), child]

    names: dict[str, Any] = {
        state: at,
        "over": over,
        "take": at.to.itself(on="hire", internal=True),
        f"done_invoke_{state}": at.to.itself(on="note", internal=True),
        "close": at.to(over),
        "hire": hire,
        "note": note,
    }
    return type(StateChart)("Crowd", (StateChart,), names)


async def test_spawned_children_keep_their_given_ids(world: World) -> None:
    """A nursery is renamed with all that it holds; each child is still found by its own id."""
    old, new = crowd(Worker1.Worker, "open"), crowd(Worker2.Worker, "hiring")
    async with world.host(old) as host:
        run = await host.start(old)
        for name in ("ann", "bob", "cid"):
            await host.send(run, "take", name=name)
        await host.answer(run, "open.@bob/working", "finish")
        await at_rest(host, run)
    how: Any = {"states": {"open": "hiring"}, "children": {"Worker": {"working": "busy"}}}
    async with world.host(moved(old, new, **how)) as host:
        assert host.report.resumed == [run]
        assert {g.path for g in await host.gates(run)} == {"hiring.@ann", "hiring.@cid"}
        assert "hiring.@" in world.blob(run)["root"]["floors"]
        await host.answer(run, "hiring.@ann/busy", "finish")
        await host.send(run, "take", name="bob")
        await at_rest(host, run)
        assert world.blob(run)["root"]["context"] == {"ended": ["bob", "ann"]}
        assert {g.path for g in await host.gates(run)} == {"hiring.@bob", "hiring.@cid"}
        await host.send(run, "close")
    assert world.status(run) == "done"


# -- what waits in queues -----------------------------------------------------------------------


async def test_queued_events_run_in_their_order_after_the_move(world: World) -> None:
    """What was accepted before the move runs behind it, once, also what a timer had to send."""

    class Counter(StateMachine):
        counting = State(initial=True)
        over = State(final=True)
        note = counting.to.itself(internal=True, on="keep")
        finish = counting.to(over)

        def keep(self, text: str) -> None:
            self.model.notes = [*getattr(self.model, "notes", []), text]

    old = Counter

    class Counter(StateMachine):  # type: ignore[no-redef]  # the next generation
        tallying = State(initial=True)
        over = State(final=True)
        note = tallying.to.itself(internal=True, on="keep")
        finish = tallying.to(over)

        def keep(self, text: str) -> None:
            self.model.notes = [*getattr(self.model, "notes", []), text.upper()]

    async with world.host(old) as host:
        run = await host.start(old)
        await host.send(run, "note", text="a")

    def change(value: dict[str, Any]) -> None:
        at, seq = value["clock"]["stamp"], value["clock"]["seq"]
        value["root"]["queue"] = [
            {"event": "note", "kwargs": {"text": text}, "at": at, "seq": seq + number}
            for number, text in enumerate("bc", start=1)
        ]
        timer = {"id": "note.9", "node": "", "due": at + 500, "seq": seq + 3, "event": "note"}
        timer |= {"name": "note", "kwargs": {"text": "d"}, "policy": "deadline", "span": 500}
        value |= {"timers": [timer], "turn": [""]}
        value["clock"]["seq"] = seq + 3

    rewrite(world, run, change)
    with world.opened(read_only=False) as store, store.database.transaction("unpark"):
        store.database.run("update runs set head = cast(substr(head, 1, 51) || '0' as blob)")
    world.clock.advance(1_000)
    async with world.host(moved(old, Counter, states={"counting": "tallying"})) as host:
        await at_rest(host, run)
        notes = (await host.read(run)).context["notes"]
    assert notes[0] == "a"
    assert sorted(notes[1:]) == ["B", "C", "D"]
    assert notes.index("B") < notes.index("C")


# -- timers over the move -----------------------------------------------------------------------


async def test_policies_of_timers_count_from_the_last_save(world: World) -> None:
    """What was left of a `remaining` timer is left after the move, and in the migrated row."""
    old = waiting(timeout(60, on="go", resume="remaining"))
    new = waiting(timeout(60, on="go", resume="remaining"), gate("go"))
    run = await left_waiting(world, old)
    world.clock.advance(600_000)
    async with world.host(moved(old, new)) as host:
        (timer,) = world.blob(run)["timers"]
        assert timer["due"] == world.clock.now_ms() + 60_000
        assert resident(host, run).due_ms == timer["due"]


# -- several charts, other engines ---------------------------------------------------------------


async def test_charts_of_one_tree_begin_what_is_new_in_each(world: World, outside: Outside) -> None:
    """Two children and their parent gain an effect: all three are called, once, and come back."""
    look = outside.service("look")

    def tree(*more: Any) -> Any:
        class Leaf(StateChart):
            budding = State(initial=True, invoke=[gate("bloom"), *more])
            over = State(final=True)
            bloom = budding.to(over)
            done_invoke_budding = budding.to(over)

        class Trunk(StateChart):
            class Alive(State.Parallel):
                class Left(State.Compound):
                    one = State(initial=True, invoke=child(Leaf))
                    one_over = State(final=True)
                    done_invoke_one = one.to(one_over)

                class Middle(State.Compound):
                    two = State(initial=True, invoke=child(Leaf))
                    two_over = State(final=True)
                    done_invoke_two = two.to(two_over)

                class Right(State.Compound):
                    three = State(initial=True, invoke=list(more) or None)
                    three_over = State(final=True)
                    done_invoke_three = three.to(three_over)

            over = State(final=True)
            done_state_Alive = Alive.to(over)  # noqa: N815 - the library's name

        return Trunk

    old, new = tree(), tree(effect(look))
    async with world.host(old) as host:
        run = await host.start(old)
        await at_rest(host, run)
    async with world.host(moved(old, new)) as host:
        await ended(host, run)
    assert world.status(run) == "done"
    assert outside.count("look") == 3
    assert len(set(outside.keys("look"))) == 3


async def test_a_chart_may_gain_coroutines(world: World) -> None:
    """Which engine runs it, today's chart says; without a migration that is refused."""

    class Door(StateChart):
        shut = State(initial=True)
        ajar = State(final=True)
        push = shut.to(ajar)

    old = Door

    class Door(StateChart):  # type: ignore[no-redef]  # the next generation
        closed = State(initial=True)
        ajar = State(final=True)
        push = closed.to(ajar)

        async def on_push(self) -> str:
            return "pushed"

    async with world.host(old) as host:
        run = await host.start(old)
    async with world.host(moved(old, Door, states={"shut": "closed"})) as host:
        assert await host.send(run, "push") == "pushed"
        assert world.blob(run)["root"]["engine"] == "async"


async def test_states_that_become_one_may_not_both_have_invoked(world: World) -> None:
    """Two gates of two regions cannot be one gate; two states that invoked nothing can be one."""

    def chart(*, parted: bool, waits: bool) -> Any:
        class Pair(StateChart):
            if parted:

                class Both(State.Parallel):
                    class Left(State.Compound):
                        a = State(initial=True, invoke=gate("go") if waits else None)

                    class Right(State.Compound):
                        b = State(initial=True, invoke=gate("go") if waits else None)

                over = State(final=True)
                end = Both.to(over)
            else:
                both = State(initial=True, invoke=gate("go") if waits else None)
                over = State(final=True)
                end = both.to(over)

        return Pair

    names = {"Both": None, "Left": None, "Right": None, "a": "both", "b": "both"}
    for waits in (True, False):
        old, new = chart(parted=True, waits=waits), chart(parted=False, waits=waits)
        async with world.host(old) as host:
            run = await host.start(old)
        async with world.host(moved(old, new, states=names)) as host:
            if waits:
                assert "'a' and 'b' of the root chart" in host.report.unresumed[run]
                with world.opened(read_only=False) as store:
                    store.mark(store.load(run).header, "cancelled", "for the test")
            else:
                assert world.configuration(run) == ["both"]
                await host.send(run, "end")


async def test_a_migration_that_has_nothing_to_say_keeps_the_snapshot(world: World) -> None:
    """Only the digest is another one: three levels, a timer and a gate, field by field the same."""

    def make(*, more: bool) -> Any:
        class Leaf(StateChart):
            budding = State(initial=True, invoke=[gate("bloom"), timeout(600, on="bloom")])
            over = State(final=True)
            bloom = budding.to(over)

        class Trunk(StateChart):
            alive = State(initial=True, invoke=child(Leaf))
            over = State(final=True)
            done_invoke_alive = alive.to(over)
            if more:
                felled = State(final=True)
                fell = alive.to(felled)

        return Trunk

    old, new = make(more=False), make(more=True)
    async with world.host(old) as host:
        run = await host.start(old, {"height": 3})
        await at_rest(host, run)
    before = world.blob(run)
    async with world.host(moved(old, new)):
        after = world.blob(run)
        assert world.stored(run).header.parked
    assert after == {**before, "digest": digest(new)}


DOCUMENT = """
<scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="{first}" name="Doc">
  <state id="{first}">
    <invoke type="scxml" id="kid"><content>
      <scxml xmlns="http://www.w3.org/2005/07/scxml" version="1.0" initial="k">
        <state id="k"><transition event="stop" target="e"/></state><final id="e"/>
      </scxml>
    </content></invoke>
    <transition event="go" target="{second}"/>
  </state>
  <state id="{second}"><transition event="end" target="over"/></state>
  <final id="over"/>
</scxml>"""


async def test_a_document_is_migrated_with_the_one_that_it_invokes(
    world: World, tmp_path: Path
) -> None:
    """A chart out of SCXML text: its states are renamed, and its child goes on under its id."""

    def generation(first: str, second: str) -> Any:
        path = tmp_path / f"{first}.scxml"
        path.write_text(DOCUMENT.format(first=first, second=second))
        return load(path)

    old, new = generation("one", "two"), generation("three", "four")
    async with world.host(Machine(old, name="Doc")) as host:
        run = await host.start("Doc")
        await at_rest(host, run)
    migration = Migration(digest(old), states={"one": "three", "two": "four"})
    async with world.host(Machine(new, name="Doc", migrations=[migration])) as host:
        assert list(world.blob(run)["root"]["children"]) == ["kid"]
        await host.send(run, "go")
        assert world.configuration(run) == ["four"]
        await host.send(run, "end")
    assert world.status(run) == "done"


async def test_what_ledgers_call_by_an_invocation_is_renamed_with_it(world: World) -> None:
    """An admission, and a push, that a state's work made are found under the state's new name."""
    old, new = trunk(), trunk("opening", "spreading", "rooted")
    async with world.host(old) as host:
        run = await host.start(old)
        await at_rest(host, run)
    path = "alive.1/growing.1/budding.1"

    def change(value: dict[str, Any]) -> None:
        row = {"handle": "job-7", "offset": 3, "at": 1}
        value["admissions"] = {path: row, "mine": row}
        push = {"id": path, "commit": "c1", "source": "main", "squashed": None, "at": 1}
        value["pushes"] = {"slot": [push]}
        value["notices"] = {"rain": {"delivered": path, "at": 1}}

    rewrite(world, run, change)
    async with world.host(moved(old, new, **TREE)) as host:
        assert host.report.resumed == [run], str(host.report)
        value = world.blob(run)
    renamed = "rooted.1/spreading.1/opening.1"
    assert set(value["admissions"]) == {renamed, "mine"}
    assert value["admissions"][renamed]["handle"] == "job-7"
    assert [push["id"] for push in value["pushes"]["slot"]] == [renamed]
    assert value["notices"]["rain"]["delivered"] == renamed
