"""Connects the states of a random chart: transitions, guards, and what callbacks do.

Whatever could go on for ever without anybody's doing pays: an eventless transition from a store
of fuel, and what charts send themselves, raise, or do at `done.state`, `error.execution` and
`done.invoke` from a budget. So every chart comes to rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tools.charts.spec import Act, EventSpec, Guard, TransitionSpec, WeightedSpec

if TYPE_CHECKING:
    import random

    from tools.charts.growth import Draft

EVENTS = ("e0", "e1", "e2", "e3")
INTERNAL = ("i0", "i1")
DELAYED, RAISED, ROLLED = "d0", "r0", "w0"
FIELDS = ("f0", "f1", "f2")
SEND_IDS = ("t0", "t1")
# Delays end in 0 and timeouts do not, so that the two are rarely due at the same moment.
DELAYS_MS = (20, 50, 80, 120, 190, 310)

SPEND_FUEL = Act(verb="spend", name="fuel")
SPEND_BUDGET = Act(verb="spend", name="budget")
HAS_FUEL = Guard(kind="fuel", name="fuel")
HAS_BUDGET = Guard(kind="budget")


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """What a chart is about; a chart that had everything would show little of anything."""

    parallel_root: bool
    eventless: bool
    raises: bool
    sends: bool
    delays: bool
    declared: bool
    failing: bool
    calls: bool
    timeouts: bool
    children: bool
    weighted: bool


@dataclass(slots=True)
class Wiring:
    """The transitions of one chart as they are drawn."""

    rng: random.Random
    theme: Theme
    top: list[Draft]
    is_machine: bool = False
    """Whether the chart is a StateMachine, whose internal transitions enter nothing."""
    transitions: list[TransitionSpec] = field(default_factory=list)
    weighted: list[WeightedSpec] = field(default_factory=list)

    @property
    def states(self) -> list[Draft]:
        """All states, history states included."""
        return [state for top in self.top for state in top.walk()]

    @property
    def sources(self) -> list[Draft]:
        """The states that may be left."""
        return [state for state in self.states if state.kind in ("atomic", "compound", "parallel")]

    def chance(self, probability: float) -> bool:
        """Whether something of this probability happens."""
        return self.rng.random() < probability

    def add(self, source: Draft, target: Draft | None, *events: str, **options: Any) -> None:
        """Add a transition."""
        goal = target.id if target is not None else None
        made = TransitionSpec(source=source.id, target=goal, events=events, **options)
        self.transitions.append(made)

    def connect(self) -> None:
        """Draw everything that does not belong to an invoke."""
        for state in self.sources:
            for _ in range(self._how_many(state)):
                self._add_ordinary(state)
            self._decorate(state)
        for state in self.states:
            if state.is_history:
                self._add_default(state)
            elif state.kind == "final":
                self._lead_to(state)
        self._add_joins()
        self._add_what_the_theme_asks_for()

    def _add_what_the_theme_asks_for(self) -> None:
        if self.theme.eventless:
            for state in self.rng.sample(self.sources, k=min(2, len(self.sources))):
                self._add_eventless(state)
        if self.theme.failing:
            self.handle_errors()
        if self.theme.weighted:
            self._add_weighted()

    def _how_many(self, state: Draft) -> int:
        if state.kind == "atomic":
            return self.rng.choice((1, 2, 2, 3))
        return self.rng.choice((0, 0, 1))

    def _add_ordinary(self, source: Draft) -> None:
        events = [self.rng.choice(EVENTS)]
        if self.theme.raises and self.chance(0.4):
            events = [self.rng.choice((*INTERNAL, RAISED))]
        if self.theme.declared and self.chance(0.3):
            events = [DELAYED]
        if self.chance(0.2):
            events.append(self.rng.choice(EVENTS))
        target = self.target(source)
        self.add(
            source,
            target,
            *dict.fromkeys(events),
            guards=self._guards(),
            internal=self._may_be_internal(source, target) and self.chance(0.4),
            before=self._acts("before"),
            on=self._acts("on"),
            after=self._acts("after"),
        )

    def _may_be_internal(self, source: Draft, target: Draft | None) -> bool:
        """Whether an internal transition leads the library to a legal configuration.

        Within a region of a parallel state it enters the other regions anew beside what is active
        there, and under StateMachine one of a compound state leaves it without a child.
        """
        if target is None or target.is_history:
            return False
        if any(above.kind == "parallel" for above in source.ancestors()):
            return False
        if target is source:
            return source.kind == "atomic"
        return source.kind == "compound" and source in target.ancestors() and not self.is_machine

    def target(self, source: Draft) -> Draft | None:
        """Somewhere to go from a state: mostly beside it, so that regions stay active."""
        roll = self.rng.random()
        histories = [state for state in self.states if state.is_history]
        real = [state for state in self.states if not state.is_history]
        inner = [state for state in real if state.parent is not None or state.kind != "final"]
        if roll < 0.45 and source.siblings:
            return self.rng.choice(source.siblings)
        if roll < 0.62 and histories:
            return self.rng.choice(histories)
        if roll < 0.72:
            return source
        if roll < 0.77:
            return None
        if roll < 0.82 and source.children:
            return self.rng.choice([state for state in source.walk() if not state.is_history])
        return self.rng.choice(inner if roll < 0.96 else real)

    def _guards(self) -> tuple[Guard, ...]:
        if not self.chance(0.4):
            return ()
        kinds = ["field", "expression", "attribute", "level"]
        kind = self.rng.choice(kinds + (["failing"] if self.theme.failing else []))
        negated = kind != "failing" and self.chance(0.3)
        match kind:
            case "attribute":
                made = Guard(kind="attribute", name="armed", negated=negated)
            case "level":
                made = Guard(kind="level", amount=self.rng.randint(1, 4), negated=negated)
            case "expression":
                name, amount = self.rng.choice(FIELDS), self.rng.randint(1, 4)
                made = Guard(kind="expression", name=name, amount=amount, negated=negated)
            case "field":
                name, amount = self.rng.choice(FIELDS), self.rng.randint(0, 2)
                made = Guard(kind="field", name=name, amount=amount, negated=negated)
            case _:
                made = Guard(kind="failing", name="f1", amount=self.rng.randint(1, 5))
        return (made,)

    def _acts(self, slot: str) -> tuple[Act, ...]:
        if not self.chance(0.7 if slot == "on" else 0.2):
            return ()
        return tuple(self._act(slot) for _ in range(self.rng.choice((1, 1, 2))))

    def _act(self, slot: str) -> Act:
        verbs = ["add", "add", "note", "level", "toggle"]
        # Only what an event brings about may refill: what goes by itself would never stop.
        verbs += ["refill"] * (slot in ("before", "after"))
        verbs += ["raise"] * 2 * self.theme.raises + ["send"] * 2 * self.theme.sends
        verbs += ["later", "later", "cancel"] * self.theme.delays
        verbs += ["declared"] * self.theme.declared
        # A machine's first entering is no transition: its default transitions must not fail.
        verbs += ["fail"] * (self.theme.failing and slot != "before")
        return self._make(self.rng.choice(verbs))

    def _make(self, verb: str) -> Act:
        rng, amount = self.rng, self.rng.randint(1, 4)
        raised = rng.choice((*INTERNAL, RAISED, RAISED))
        made = {
            "note": Act(verb="note", name=rng.choice("abc"), amount=amount),
            "level": Act(verb="level", amount=amount),
            "toggle": Act(verb="toggle"),
            "refill": Act(verb="refill", name="fuel", amount=1),
            # An event declared internal is raised by an ordinary send.
            "raise": Act(verb="send" if raised == RAISED else "raise", name=raised, amount=amount),
            "send": Act(verb="send", name=rng.choice(EVENTS), amount=amount),
            "declared": Act(verb="send", name=DELAYED, amount=amount),
            "later": self.later(amount),
            "cancel": Act(verb="cancel", send_id=rng.choice(SEND_IDS)),
            "fail": Act(verb="fail", name="f2", amount=amount % 3),
            "add": Act(verb="add", name=rng.choice(FIELDS), amount=amount),
        }
        return made[verb]

    def later(self, amount: int) -> Act:
        """Send an event with a delay, half of the time with an id to cancel it by."""
        return Act(
            verb="later",
            name=self.rng.choice(EVENTS),
            amount=amount,
            delay_ms=self.rng.choice(DELAYS_MS),
            send_id=self.rng.choice((*SEND_IDS, None, None)),
        )

    def _decorate(self, state: Draft) -> None:
        if self.chance(0.4):
            state.enter.append(self._act("enter"))
        if self.chance(0.25):
            state.exit.append(self._act("exit"))

    def _add_default(self, history: Draft) -> None:
        assert history.parent is not None
        inside = [s for s in history.parent.children if not s.is_history and s.kind != "final"]
        if history.parent.kind == "parallel":
            inside = inside[:1]  # the library enters the other regions by themselves
        self.add(history, self.rng.choice(inside), on=self._acts("on"))

    def _lead_to(self, final: Draft) -> None:
        if final.parent is None:
            # One way out of the chart, which not every script finds.
            self.add(self.rng.choice(self.sources), final, self.rng.choice(EVENTS))
            return
        for state in final.siblings:
            if state.kind != "final" and self.chance(0.8):
                self.add(state, final, self.rng.choice(EVENTS))

    def _add_joins(self) -> None:
        for state in self.sources:
            ends = any(below.kind == "final" for below in state.walk())
            likely = 0.2 if self.theme.parallel_root else 0.65
            if ends and state.children and self.chance(likely):
                self.pay(state, self.target(state), f"done.state.{state.id}")

    def pay(self, source: Draft, target: Draft | None, *events: str) -> None:
        """Add a transition that needs, and takes, one of the budget."""
        self.add(
            source, target, *events, guards=(HAS_BUDGET,), before=(SPEND_BUDGET,),
            on=self._acts("on"),
        )  # fmt: skip

    def _add_eventless(self, state: Draft) -> None:
        chosen = self.rng.choice(
            (
                Guard(kind="field", name="f0", amount=1),
                Guard(kind="expression", name="f1", amount=3),
            )
        )
        target = self.target(state)
        on = self._acts("on")
        self.add(state, target, guards=(HAS_FUEL, chosen), before=(SPEND_FUEL,), on=on)

    def handle_errors(self) -> None:
        """Have every top-level state react to failures, unless they do already."""
        if any("error.execution" in made.events for made in self.transitions):
            return
        for state in self.top:
            if state.kind != "final":
                self.pay(state, self.target(state), "error.execution")

    def _add_weighted(self) -> None:
        atomic = [state for state in self.sources if state.kind == "atomic"]
        for source in self.rng.sample(atomic, k=min(2, len(atomic))):
            drawn = [self.target(source) for _ in range(3)]
            choices = tuple((goal.id, self.rng.randint(1, 5)) for goal in drawn if goal is not None)
            if len(choices) > 1:
                seed = self.rng.randint(1, 999)
                made = WeightedSpec(source=source.id, event=ROLLED, seed=seed, choices=choices)
                self.weighted.append(made)

    def declared(self) -> tuple[EventSpec, ...]:
        """The events that need a declaration."""
        made = []
        if self.theme.declared:
            made.append(EventSpec(name=DELAYED, delay_ms=self.rng.choice((40, 90, 170))))
        if self.theme.raises:
            made.append(EventSpec(name=RAISED, internal=True))
        return tuple(made)
