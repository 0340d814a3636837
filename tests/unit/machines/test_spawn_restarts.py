"""Random charts that spawn at three levels, restarted at every boundary and never: no difference.

What the charts do is in the data of their events: each callback of a chart does what the event
names for its place. So one set of charts spawns, stops and sends in any order and anywhere.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest
from statemachine import HistoryState, State, StateChart

from machines import (
    Machine,
    children,
    gate,
    send_down,
    send_up,
    spawn,
    spawned,
    stop_child,
    timeout,
)
from machines.errors import MachinesError
from tools.harness import Bench

Ops = dict[str, list[list[Any]]]
Step = tuple[str, int, dict[str, Any]]

SEEDS = 16
STEPS = 12
DEPTH = 3
NAMES = ("a", "b c")
PLACES = ("on", "on", "on", "before", "after", "enter", "exit")
KINDS = ("spawn", "spawn", "spawn", "stop", "down", "up", "raise", "self", "list")
NURSERIES = ("left", "left", "left", "l2", "r1", None, None)
EVENTS = ("do", "do", "do", "go", "again", "told", "end")


class Acts:
    """Does what an event names for the place of its callback, and notes what came of it."""

    def note(self: Any, *what: Any) -> None:
        self.model.log = [*getattr(self.model, "log", []), list(what)]

    def act(self: Any, ops: Ops | None, place: str) -> None:
        for kind, name, event, data, nursery in (ops or {}).get(place, ()):
            self.note(place, kind, name, self.verb(kind, name, event, data, nursery))

    def verb(self: Any, kind: str, name: str, event: str, data: Any, nursery: str | None) -> Any:
        verbs = {
            "spawn": lambda: spawn(self, name, {"ops": data}, state=nursery),
            "stop": lambda: stop_child(self, name),
            "down": lambda: send_down(self, name, event, ops=data),
            "up": lambda: send_up(self, event, ops=data),
            "raise": lambda: self.raise_(event, ops=data) and None,
            "self": lambda: self.send(event, ops=data, delay=20) and None,
            "list": lambda: list(spawned(self)),
        }
        try:
            return verbs[kind]()
        except MachinesError as error:
            return type(error).__name__

    def before_transition(self, ops: Ops | None = None) -> None:
        self.act(ops, "before")

    def on_transition(self, ops: Ops | None = None) -> None:
        self.act(ops, "on")

    def after_transition(self, ops: Ops | None = None) -> None:
        self.act(ops, "after")

    def on_exit_state(self, ops: Ops | None = None) -> None:
        self.act(ops, "exit")

    def on_enter_state(self, state: State, ops: Ops | None = None) -> None:
        self.note("entered", state.id)
        self.act(ops, "enter")

    def hear(self, child: str | None = None, data: Any = None, error: Any = None) -> None:
        self.note("heard", child, data, type(error).__name__)


class Leaf(Acts, StateChart):
    """Ends by itself after a while, or when it is told to."""

    waiting = State(initial=True, invoke=timeout(0.05))
    held = State(invoke=gate("end"))
    over = State(final=True, donedata="say")
    do = waiting.to(None) | held.to(None)
    end = waiting.to(over) | held.to(over)
    done_invoke_waiting = waiting.to(held)

    def say(self) -> int:
        return len(self.model.log)


class Middle(Acts, StateChart):
    """Has children of its own, and hands on what it is told."""

    held = State(initial=True, invoke=children(Leaf, forward=True))
    resting = State()
    over = State(final=True)
    do = held.to(None) | resting.to(None)
    told = held.to(None) | resting.to(held)
    go = held.to(resting) | resting.to(held)
    again = held.to.itself()
    end = held.to(over) | resting.to(over)
    done_invoke_held = held.to(None, on="hear")
    error_execution = held.to(None, on="hear")


class Top(Acts, StateChart):
    """Has nurseries in two regions, one above the other in the first, and comes back to them."""

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound, invoke=children(Middle)):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State(invoke=children(Leaf))
            was = HistoryState()
            turn = l1.to(l2) | l2.to(l1)

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True, invoke=children(Leaf))
            r2 = State()
            go = r1.to(r2) | r2.to(r1)
            again = r1.to.itself() | r2.to.itself(internal=True)

    idle = State()
    over = State(final=True)
    do = both.to(None)
    told = both.to(None) | idle.to(both.left.was)
    end = both.to(idle)
    open = idle.to(both)
    close = idle.to(over)
    done_invoke_left = both.to(None, on="hear")
    done_invoke_l2 = both.to(None, on="hear")
    done_invoke_r1 = both.to(None, on="hear")
    error_execution = both.to(None, on="hear")


def some_ops(chance: random.Random, depth: int = 0) -> Ops:
    """Return what the callbacks of one event do, in some of their places."""
    ops: Ops = {}
    for _ in range(chance.randint(1, 3) if depth < DEPTH else 0):
        kind, name, event = chance.choice(KINDS), chance.choice(NAMES), chance.choice(EVENTS)
        data = some_ops(chance, depth + 1)
        found = ops.setdefault(chance.choice(PLACES), [])
        found.append([kind, name, event, data, chance.choice(NURSERIES)])
    return ops


def script(chance: random.Random) -> Iterator[Step]:
    """Yield events for the root, and for the charts below it."""
    for _ in range(STEPS):
        data = {"ops": some_ops(chance)}
        yield chance.choice((*EVENTS, "turn", "open")), chance.choice((0, 0, 0, 1, 2, 3)), data


def play(seed: int, *, before: bool, after: bool) -> tuple[list[Any], int]:
    """Return what became of every chart after each step, and how often the tree was restarted."""
    bench = Bench(Machine(Top), before=before, after=after)
    seen: list[Any] = []
    bench.begin()
    bench.run()
    for event, number, data in script(random.Random(seed)):
        charts = [node for node in bench.tree.root.walk() if not node.finished]
        charts[number % len(charts)].engine.enqueue(event, **data)
        bench.run()
        bench.clock.advance(30)
        bench.run()
        seen.append([shown(node) for node in bench.tree.root.walk()])
    return seen, bench.restarts


def shown(node: Any) -> list[Any]:
    """Return what can be told of a chart from outside, and what its keys are made of."""
    invokes, model = node.engine.invokes, node.chart.model
    states = sorted(state.id for state in node.chart.configuration)
    numbers = [invokes.spawned, dict(invokes.floors), spawned(node.chart)]
    return [node.path, states, getattr(model, "log", []), numbers]


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_tree_that_spawns_is_the_same_wherever_it_is_restarted(seed: int) -> None:
    """In the order in which it does things, in what each chart hears, and in its numbers."""
    never, _ = play(seed, before=False, after=False)
    for before, after in ((True, False), (False, True), (True, True)):
        restarted, restarts = play(seed, before=before, after=after)
        assert restarts > STEPS
        assert restarted == never


def test_the_random_charts_do_what_they_are_to_show() -> None:
    """They spawn, stop and refuse in every place, at three levels, and hear of ends."""
    paths: set[str] = set()
    happened: set[tuple[str, ...]] = set()
    for seed in range(SEEDS):
        for charts in play(seed, before=False, after=False)[0]:
            for path, _, log, _ in charts:
                paths.add(path)
                happened.update((*note[:2], str(note[-1])[:5]) for note in log)
    assert max(path.count("/") for path in paths) >= 1
    assert {("on", "stop", "True"), ("on", "spawn", "Child"), ("on", "spawn", "Event")} <= happened
    assert {(place, "spawn", "left.") for place in set(PLACES) - {"exit"}} <= happened
    assert {("heard", name) for name in NAMES} <= {what[:2] for what in happened}
