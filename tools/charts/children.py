"""Random child charts: they get no events from a script, so everything in them goes by itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tools.charts.growth import Draft
from tools.charts.spec import (
    Act,
    ChartSpec,
    EventSpec,
    Guard,
    InvokeKind,
    InvokeSpec,
    StateKind,
    TransitionSpec,
)

if TYPE_CHECKING:
    import random

TIMEOUTS_MS = (27, 41, 66, 94)
DELAYS_MS = (30, 60, 110)
FIELDS = {"f0": 0, "f1": 2, "f2": 0, "fuel": 6, "budget": 20}


@dataclass(slots=True)
class _Chain:
    """States that lead to each other one after the other, down to a final one."""

    rng: random.Random
    depth: int
    at_once: bool
    name: str
    made: int = 0
    children: int = 0
    transitions: list[TransitionSpec] = field(default_factory=list)

    def grow(self, parent: Draft | None, length: int) -> list[Draft]:
        """The states of a chain, the last one final."""
        states = [self._new("atomic", parent) for _ in range(length)]
        states[0].initial = True
        final = self._new("final", parent)
        if not self.at_once:
            final.donedata = self.rng.choice(("", "fields", "value"))
        for state, following in zip(states, [*states[1:], final], strict=True):
            state.enter.append(Act(verb="add", name="f0", amount=self.rng.randint(1, 3)))
            self._link(state, following, nested=parent is not None)
        return [*states, final]

    def _new(self, kind: StateKind, parent: Draft | None) -> Draft:
        state = Draft(f"s{self.made}", kind, parent)
        self.made += 1
        if parent is not None:
            parent.children.append(state)
        return state

    def _link(self, state: Draft, following: Draft, *, nested: bool) -> None:
        kinds = ["eventless", "raise"]
        if not self.at_once:
            kinds = ["timeout", "expiry", "delay", "call", "call", "eventless"]
            # The first state of a chart that may go deeper mostly does.
            kinds += ["child"] * (30 if state.initial else 4) if self.depth > 1 else []
            kinds += ["parallel"] if not nested else []
        getattr(self, f"_by_{self.rng.choice(kinds)}")(state, following)

    def _go(self, state: Draft, following: Draft, *events: str, **options: Any) -> None:
        made = TransitionSpec(source=state.id, target=following.id, events=events, **options)
        self.transitions.append(made)

    def _by_eventless(self, state: Draft, following: Draft) -> None:
        spend = Act(verb="spend", name="fuel")
        self._go(state, following, guards=(Guard(kind="fuel", name="fuel"),), before=(spend,))

    def _by_raise(self, state: Draft, following: Draft) -> None:
        state.enter.append(Act(verb="raise", name=f"i-{state.id}", amount=1))
        self._go(state, following, f"i-{state.id}")

    def _by_delay(self, state: Draft, following: Draft) -> None:
        delay_ms = self.rng.choice(DELAYS_MS)
        state.enter.append(Act(verb="later", name=f"e-{state.id}", delay_ms=delay_ms, amount=2))
        self._go(state, following, f"e-{state.id}")

    def _by_timeout(self, state: Draft, following: Draft) -> None:
        duration_ms = self.rng.choice(TIMEOUTS_MS)
        state.invokes.append(InvokeSpec(kind="timeout", duration_ms=duration_ms))
        self._go(state, following, f"done.invoke.{state.id}")

    def _by_expiry(self, state: Draft, following: Draft) -> None:
        duration_ms, on = self.rng.choice(TIMEOUTS_MS), f"x-{state.id}"
        state.invokes.append(InvokeSpec(kind="timeout", duration_ms=duration_ms, on=on))
        self._go(state, following, on)

    def _by_call(self, state: Draft, following: Draft) -> None:
        kind: InvokeKind = self.rng.choice(("call", "class", "group"))
        state.invokes.append(InvokeSpec(kind=kind, label=f"{self.name} {state.id}"))
        self._go(state, following, f"done.invoke.{state.id}")

    def _by_child(self, state: Draft, following: Draft) -> None:
        self.children += 1
        name = f"{self.name}x{self.children}"
        at_once = self.rng.random() < (0.3 if self.depth == 2 else 0.1)
        child = child_chart(self.rng, name, depth=self.depth - 1, at_once=at_once)
        state.invokes.append(InvokeSpec(kind="child", child=child))
        self._go(state, following, f"done.invoke.{state.id}")

    def _by_parallel(self, state: Draft, following: Draft) -> None:
        state.kind = "parallel"
        for _ in range(2):
            region = self._new("compound", state)
            self.grow(region, 1)
        self._go(state, following, f"done.state.{state.id}")


def child_chart(rng: random.Random, name: str, *, depth: int, at_once: bool) -> ChartSpec:
    """A synchronous chart that reaches a final state without anybody's help.

    At once means before its constructor returns: it invokes nothing and waits for nothing. Else
    it lives on timeouts, delayed events and invokes, with charts below it if ``depth`` is above 1.
    """
    chain = _Chain(rng, depth, at_once, name)
    states = chain.grow(None, rng.randint(1, 3))
    return ChartSpec(
        name=name,
        flavour="chart",
        states=tuple(state.freeze() for state in states),
        transitions=tuple(chain.transitions),
        declared=(EventSpec(name="unused", internal=True),) if rng.random() < 0.1 else (),
        fields=dict(FIELDS),
        own={"level": rng.randint(0, 3), "armed": rng.randint(0, 1)},
    )


def finishes_at_once(spec: ChartSpec) -> bool:
    """Whether a child chart reaches its end before its constructor returns."""
    waits = any(act.verb == "later" for state in spec.walk() for act in state.enter)
    return not waits and not any(state.invokes for state in spec.walk())
