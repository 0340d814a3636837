"""Gives the states of a random chart something to invoke, and transitions for what comes of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.charts.children import child_chart
from tools.charts.spec import InvokeKind, InvokeSpec

if TYPE_CHECKING:
    import random

    from tools.charts.growth import Draft
    from tools.charts.wiring import Wiring

TIMEOUTS_MS = (33, 57, 71, 113, 149, 211, 263)
EXPIRED = ("x0", "x1")
PLAIN_KINDS: tuple[InvokeKind, ...] = ("call", "call", "class", "instance", "group")
AWAITED_KINDS: tuple[InvokeKind, ...] = ("coroutine", "coroutine", "async-instance")


class Invoking:
    """Adds invokes to a chart that is being wired."""

    def __init__(self, wiring: Wiring, *, is_async: bool) -> None:
        self.wiring = wiring
        self.rng: random.Random = wiring.rng
        self.kinds = PLAIN_KINDS + (AWAITED_KINDS if is_async else ())
        self.labels = 0

    def add(self) -> None:
        """Add what the chart's theme asks for."""
        theme = self.wiring.theme
        if theme.calls:
            for state in self._some(3):
                self._add_calls(state)
        if theme.timeouts:
            for state in self._some(2):
                self._add_timeout(state)
        if theme.children:
            # Mostly one: beside others the library's own order is open.
            for number, state in enumerate(self._some(self.rng.choice((1, 1, 2)))):
                self._add_child(state, number)

    def _some(self, most: int) -> list[Draft]:
        """Some states, the initial one likely among them so that something is invoked at all."""
        wanted = [state for state in self.wiring.sources if state.kind != "parallel"]
        count = min(self.rng.randint(1, most), len(wanted))
        chosen = self.rng.sample(wanted, k=count)
        first = self.wiring.sources[0]
        if first in wanted and first not in chosen and self.wiring.chance(0.5):
            chosen[0] = first
        return chosen

    def _label(self) -> str:
        self.labels += 1
        return f"work{self.labels}"

    def _add_calls(self, state: Draft) -> None:
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            fails = self.wiring.chance(0.2)
            kind = self.rng.choice(self.kinds)
            state.invokes.append(InvokeSpec(kind=kind, label=self._label(), fails=fails))
            if fails:
                self.wiring.handle_errors()
        self._react(state)

    def _react(self, state: Draft) -> None:
        """Add transitions for the end of what a state invokes, some for one invocation only."""
        done = f"done.invoke.{state.id}"
        if self.wiring.chance(0.45):
            for number in sorted(self.rng.sample(range(1, 6), k=2)):
                self.wiring.pay(state, self.wiring.target(state), f"{done}.{number}")
        if self.wiring.chance(0.85):
            again = self.wiring.chance(0.35)
            self.wiring.pay(state, state if again else self.wiring.target(state), done)

    def _add_timeout(self, state: Draft) -> None:
        named = self.wiring.chance(0.5)
        on = self.rng.choice(EXPIRED) if named else None
        duration_ms = self.rng.choice(TIMEOUTS_MS)
        state.invokes.append(InvokeSpec(kind="timeout", duration_ms=duration_ms, on=on))
        if on is not None:
            self.wiring.add(state, self.wiring.target(state), on)
        if on is None or self.wiring.chance(0.5):
            self._react(state)

    def _add_child(self, state: Draft, number: int) -> None:
        at_once = self.wiring.chance(0.4)
        name = f"Child{number}"
        child = child_chart(self.rng, name, depth=self.rng.choice((1, 2, 3, 3, 3)), at_once=at_once)
        state.invokes.append(InvokeSpec(kind="child", child=child))
        self._react(state)
