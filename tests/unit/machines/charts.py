"""Charts that the tests of capturing, rebuilding and running share: each shows one thing.

Every chart writes what it does into the list `log` of its model, so that two runs can be compared
by what their callbacks did and in which order.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from statemachine import HistoryState, State, StateChart, StateMachine


def note(chart: StateChart[Any], text: str) -> None:
    """Write into the log of a chart's model."""
    log_of(chart).append(text)


def log_of(chart: StateChart[Any]) -> list[str]:
    """Return the log of a chart's model."""
    found = getattr(chart.model, "log", None)
    if found is None:
        found = chart.model.log = []
    log: list[str] = found
    return log


CHANGED = threading.Condition()


def signal() -> None:
    """Tell who waits in `until` that something changed; called by what runs in other threads."""
    with CHANGED:
        CHANGED.notify_all()


def until(check: Callable[[], bool]) -> bool:
    """Wait until something holds, looked at again at each signal; return whether it came to."""
    with CHANGED:
        return CHANGED.wait_for(check, timeout=10)


async def settle() -> None:
    """Let the tasks of the running loop go on until those that wait for nothing have ended."""
    for _ in range(100):
        await asyncio.sleep(0)


class Logged:
    """Mixed into a chart: notes what is left, taken and entered."""

    def on_exit_state(self, state: State) -> None:
        note(self, f"-{state.id}")  # type: ignore[arg-type]  # mixed into charts only

    def on_transition(self, event: str, target: State | None) -> str:
        note(self, f"{event}>{target.id if target else ''}")  # type: ignore[arg-type]  # as above
        return f"did {event}"

    def on_enter_state(self, state: State) -> None:
        note(self, f"+{state.id}")  # type: ignore[arg-type]  # as above


class Awaited:
    """Mixed into a chart: does the same as `Logged` by coroutines, for the async engine."""

    async def on_exit_state(self, state: State) -> None:
        note(self, f"-{state.id}")  # type: ignore[arg-type]  # mixed into charts only

    async def on_transition(self, event: str, target: State | None) -> str:
        note(self, f"{event}>{target.id if target else ''}")  # type: ignore[arg-type]  # as above
        return f"did {event}"

    async def on_enter_state(self, state: State) -> None:
        note(self, f"+{state.id}")  # type: ignore[arg-type]  # as above


class Flat(Logged, StateMachine):
    """Two states and back."""

    idle = State(initial=True)
    busy = State()
    gone = State(final=True)

    work = idle.to(busy)
    rest = busy.to(idle)
    leave = idle.to(gone)


class Compound(Logged, StateChart):
    """A state in a state in a state."""

    class outer(State.Compound):  # noqa: N801 - a state is named as its id
        class inner(State.Compound):  # noqa: N801 - as above
            first = State(initial=True)
            second = State(final=True)
            step = first.to(second)

        after = State(final=True)
        done_state_inner = inner.to(after)

    outside = State()
    away = outer.to(outside)
    back = outside.to(outer)


class Regions(Logged, StateChart):
    """Two regions that are joined when both have ended."""

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State()
            l3 = State(final=True)
            flip = l1.to(l2)
            end_left = l2.to(l3)

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True)
            r2 = State(final=True)
            end_right = r1.to(r2)

    joined = State()
    by_left = State()
    by_right = State()

    done_state_both = both.to(joined)
    leave = both.left.l2.to(by_left) | both.right.r1.to(by_right)
    again = joined.to(both) | by_left.to(both) | by_right.to(both)


class Histories(Logged, StateChart):
    """A compound state that is left and entered again where it was, shallowly and deeply."""

    class work(State.Compound):  # noqa: N801 - a state is named as its id
        class part(State.Compound):  # noqa: N801 - as above
            p1 = State(initial=True)
            p2 = State()
            step = p1.to(p2)

        other = State(initial=True)
        shallow = HistoryState()
        deep = HistoryState(type="deep")
        enter_part = other.to(part)
        shallow.to(other)
        deep.to(other)

    outside = State()
    away = work.to(outside)
    resume = outside.to(work.shallow)
    resume_deeply = outside.to(work.deep)


class Eventless(Logged, StateChart):
    """A transition without an event is taken as soon as its guard allows it."""

    filling = State(initial=True)
    full = State()
    empty = State()

    add = filling.to.itself(on="count")
    filling.to(full, cond="is_full")
    drain = full.to(empty)
    refill = empty.to(filling)

    def count(self) -> None:
        self.model.level = getattr(self.model, "level", 0) + 1

    def is_full(self) -> bool:
        return getattr(self.model, "level", 0) >= 3


class AsyncFlat(Awaited, StateMachine):
    """`Flat`, by coroutines."""

    idle = State(initial=True)
    busy = State()
    gone = State(final=True)

    work = idle.to(busy)
    rest = busy.to(idle)
    leave = idle.to(gone)


class AsyncRegions(Awaited, StateChart):
    """Two regions, by coroutines."""

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State(final=True)
            end_left = l1.to(l2)

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True)
            r2 = State(final=True)
            end_right = r1.to(r2)

    joined = State()
    done_state_both = both.to(joined)
    again = joined.to(both)


@dataclass
class Ledger:
    """A model that is a dataclass with nested data."""

    log: list[str] = field(default_factory=list)
    lines: list[dict[str, int]] = field(default_factory=list)
    total: int = 0
