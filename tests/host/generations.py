"""Charts of two generations, and runs that the older one left behind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from statemachine import State, StateChart

from machines import Draft, Machine, Migration, effect, gate, timeout
from tests.host.world import World, at_rest, settled, until


def digest(chart: Any) -> str:
    """Return the digest of a chart's shape."""
    return Machine(chart).digest


def moved(old: Any, new: Any, function: Any = None, **how: Any) -> Machine:
    """Return the machine of a chart with one migration, from an older generation of it."""
    return Machine(new, migrations=[Migration(digest(old), function, **how)])


def rewrite(world: World, run: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what the row of a run holds, as its JSON."""
    value = world.blob(run)
    change(value)
    world.overwrite(run, json.dumps(value).encode())


def draft_change(act: Callable[[Draft], object]) -> Callable[[Draft], None]:
    """Return a function of a migration that does one thing."""

    def function(draft: Draft) -> None:
        act(draft)

    return function


class Review1:
    """A document is reviewed, with a deadline."""

    class Review(StateChart):
        writing = State(initial=True)
        review = State(
            invoke=[gate("approve", "reject"), timeout(60, on="expired")],
        )
        approved = State(final=True)
        rejected = State(final=True)

        submit = writing.to(review)
        approve = review.to(approved)
        reject = review.to(rejected)
        expired = review.to(rejected)


class Review2:
    """The same, where the review has another name and its gate asks for more."""

    class Review(StateChart):
        writing = State(initial=True)
        checking = State(
            invoke=[gate("approve", "reject", meta={"four": "eyes"}), timeout(30, on="late")],
        )
        approved = State(final=True)
        rejected = State(final=True)

        submit = writing.to(checking)
        approve = checking.to(approved)
        reject = checking.to(rejected)
        late = checking.to(rejected)


OLD, NEW = Review1.Review, Review2.Review
RENAMED = {"review": "checking"}


async def reviewed(world: World) -> str:
    """Leave a run behind whose document is under review."""
    async with world.host(OLD) as host:
        run = await host.start(OLD, {"title": "a"})
        await host.send(run, "submit", delivery="d1")
    return run


def shop(charge: Any, paying: str = "paying", **options: Any) -> Any:
    """Return a chart that pays in a state of this name."""
    pays = State(invoke=effect(charge, kind="charge", **options))
    idle, aside = State(initial=True), State()
    paid, refused = State(final=True), State(final=True)
    names: dict[str, Any] = {
        "idle": idle,
        paying: pays,
        "aside": aside,
        "paid": paid,
        "refused": refused,
        "pay": idle.to(pays),
        "leave": pays.to(aside),
        "close": aside.to(refused) | pays.to(refused),
        f"done_invoke_{paying}": pays.to(paid, on="keep"),
        "error_execution": pays.to(refused),
        "keep": lambda self, data=None: setattr(self.model, "receipt", data),
    }
    return type(StateChart)("Shop", (StateChart,), names)


async def charging(world: World, old: Any, status: str) -> tuple[World, str]:
    """Return the world as a kill leaves it whose run has an effect in this status."""
    world.outside.hold("charge")
    async with world.host(old, grace_s=0) as host:
        run = await host.start(old)
        await host.send(run, "pay")
        await until(lambda: world.outside.count("charge") == 1)
        left = world.after_kill()
    world.outside.hold("charge").set()
    await settled()
    world.outside.calls.clear()

    def change(value: dict[str, Any]) -> None:
        (row,) = value["effects"]
        assert row["status"] == "calling"
        row["status"] = status
        row["attempt"] = 0 if status == "intent" else 1

    rewrite(left, run, change)
    return left, run


def waiting(*invoke: Any) -> Any:
    """Return a chart that waits in one state, which invokes this."""

    class Waiting(StateChart):
        begun = State(initial=True)
        waits = State(invoke=list(invoke)) if invoke else State()
        told = State()
        over = State(final=True)
        wait = begun.to(waits)
        done_invoke_waits = waits.to(told, on="note")
        error_execution = waits.to(told, on="note")
        go = waits.to(over)
        end = told.to(over)

        def note(self, data: Any = None, error: Any = None) -> None:
            self.model.news = str(data or error)

    return Waiting


async def left_waiting(world: World, chart: Any) -> str:
    """Leave a run behind that waits."""
    async with world.host(chart) as host:
        run = await host.start(chart)
        await host.send(run, "wait")
        await at_rest(host, run)
    return run


def named(state: str, *more: str) -> Any:
    """Return a generation of a chart whose one state has this name."""
    at, over = State(initial=True, invoke=gate("go")), State(final=True)
    names: dict[str, Any] = {state: at, "over": over, "go": at.to(over)}
    names |= {name: State(final=True) for name in more}
    names |= {f"to_{name}": at.to(names[name]) for name in more}
    return type(StateChart)("Named", (StateChart,), names)
