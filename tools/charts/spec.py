"""The plain data that a chart's specification and its event script are made of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Flavour = Literal["chart", "chart-async", "machine", "machine-async"]
"""Base class and engine: ``chart`` is StateChart, ``machine`` is StateMachine."""

StateKind = Literal["atomic", "compound", "parallel", "final", "history-shallow", "history-deep"]

Verb = Literal[
    "add",
    "note",
    "level",
    "toggle",
    "spend",
    "refill",
    "raise",
    "send",
    "later",
    "cancel",
    "fail",
]

GuardKind = Literal["field", "expression", "attribute", "level", "fuel", "budget", "failing"]

InvokeKind = Literal[
    "call", "coroutine", "class", "instance", "async-instance", "group", "timeout", "child"
]

Value = int | str
"""A state's value as a specification writes it; ``Grade`` members are built from strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """One thing that a callback does; ``name`` is a field, an event or a send id."""

    verb: Verb
    name: str = ""
    amount: int = 0
    delay_ms: int = 0
    send_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """One condition; all guards of a transition must hold."""

    kind: GuardKind
    name: str = ""
    amount: int = 0
    negated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InvokeSpec:
    """One thing that a state invokes; ``on`` and ``duration_ms`` belong to a timeout."""

    kind: InvokeKind
    label: str = ""
    fails: bool = False
    duration_ms: int = 0
    on: str | None = None
    child: ChartSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSpec:
    """A state with all that is nested in it; ``value`` is None where the id is the value."""

    id: str
    kind: StateKind = "atomic"
    value: Value | None = None
    grade: str | None = None
    initial: bool = False
    children: tuple[StateSpec, ...] = ()
    enter: tuple[Act, ...] = ()
    exit: tuple[Act, ...] = ()
    invokes: tuple[InvokeSpec, ...] = ()
    donedata: Literal["", "fields", "value"] = ""

    @property
    def is_history(self) -> bool:
        """Whether this is a pseudo-state that stands for what was active before."""
        return self.kind.startswith("history")

    def walk(self) -> Iterator[StateSpec]:
        """This state and all below it, in document order."""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True, slots=True, kw_only=True)
class TransitionSpec:
    """A transition; without events it is eventless, without a target it is targetless."""

    source: str
    target: str | None
    events: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    before: tuple[Act, ...] = ()
    on: tuple[Act, ...] = ()
    after: tuple[Act, ...] = ()
    internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedSpec:
    """A group of weighted transitions that share one event and one seeded generator."""

    source: str
    event: str
    seed: int
    choices: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSpec:
    """An event declared with ``Event(...)`` because it has a delay or is internal."""

    name: str
    delay_ms: int = 0
    internal: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSpec:
    """Everything that decides how a chart behaves, its child charts included.

    ``events`` are those that a script may send. ``asynchronous`` says what makes the library
    choose its asynchronous engine. ``incomparable`` holds the reasons, in words, why a run of
    this chart on our engine may rightly differ from the library's own run; empty means that it
    may not.
    """

    name: str
    flavour: Flavour
    asynchronous: Literal["no", "callbacks", "listener"] = "no"
    states: tuple[StateSpec, ...]
    transitions: tuple[TransitionSpec, ...]
    weighted: tuple[WeightedSpec, ...] = ()
    declared: tuple[EventSpec, ...] = ()
    events: tuple[str, ...] = ()
    fields: Mapping[str, int] = field(default_factory=dict)
    own: Mapping[str, int] = field(default_factory=dict)
    start: Mapping[str, int] = field(default_factory=dict)
    listens: bool = False
    strict: bool = False
    incomparable: tuple[str, ...] = ()

    @property
    def comparable_with_plain(self) -> bool:
        """Whether our engine must do exactly what the library's own does."""
        return not self.incomparable

    @property
    def reported(self) -> tuple[str, ...]:
        """The names of the model's fields that a trace ends with."""
        return (*self.fields, "notes")

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the attributes that the chart puts on itself."""
        return tuple(self.own)

    def walk(self) -> Iterator[StateSpec]:
        """All states of this chart, not those of its child charts, in document order."""
        for state in self.states:
            yield from state.walk()

    def child_charts(self) -> Iterator[ChartSpec]:
        """The charts that this chart's own states invoke."""
        for state in self.walk():
            for invoke in state.invokes:
                if invoke.child is not None:
                    yield invoke.child


class Subject(Protocol):
    """What a runner needs to know of a chart, generated or named."""

    @property
    def name(self) -> str:
        """A name for messages."""

    @property
    def fields(self) -> Mapping[str, int]:
        """The model's fields at the start."""

    @property
    def start(self) -> Mapping[str, int]:
        """Keyword arguments for the chart's constructor, the model apart."""

    @property
    def reported(self) -> tuple[str, ...]:
        """The names of the model's fields that a trace ends with."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the chart's own attributes that a trace ends with."""

    @property
    def comparable_with_plain(self) -> bool:
        """Whether our engine must do exactly what the library's own does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Send:
    """Send an event to the root chart and wait for its answer."""

    event: str
    args: tuple[int, ...] = ()
    kwargs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """Turn the clock on, firing each timer at its own due time on the way."""

    ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """Let outstanding invokes of the whole tree finish: the first, or all there are now.

    They finish one at a time in the order of ``tools.charts.trace.spawn_order``, and all
    charts come to rest before the next does. One that its chart cancels meanwhile never runs.
    """

    every: bool = False


Step = Send | Advance | Finish
