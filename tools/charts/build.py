"""Turns a specification into a StateChart class, through the library's public interface.

Build a class anew for every run, and for every restart that stands for a new process: handlers,
weighted transitions and guard logs belong to the class.
"""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from types import new_class
from typing import TYPE_CHECKING, Any, cast

from statemachine import Event, HistoryState, State, StateChart, StateMachine
from statemachine.contrib.weighted import weighted_transitions

from tools.charts import acts
from tools.charts.acts import AwaitingWatcher, GuardLog, Watcher
from tools.charts.handlers import invoked
from tools.charts.trace import TraceModel

if TYPE_CHECKING:
    from tools.charts.spec import Act, ChartSpec, StateSpec, Subject, TransitionSpec

Grade = Enum("Grade", [f"G{number}" for number in range(60)], module=__name__)  # type: ignore[misc] # mypy wants a literal
"""State values that are members of an enumeration."""

TYPES: tuple[type, ...] = (TraceModel, Grade)
"""The classes that a codec must know to store what these charts hold."""


def model(subject: Subject) -> TraceModel:
    """A fresh model for a chart, generated or named."""
    return TraceModel(**subject.fields)


def guard_log(cls: type[StateChart[Any]]) -> GuardLog:
    """Where the guards of a class note how they were evaluated; empty for charts without."""
    log: GuardLog = getattr(cls, "_guard_log", [])
    return log


def chart_class(spec: ChartSpec) -> type[StateChart[Any]]:
    """A new class that behaves as the specification says."""
    building = _Building(spec)
    states = {state.id: building.state(state) for state in spec.states}
    for transition in spec.transitions:
        building.transition(transition)
    # Declared on the class as well: an event that no transition names would have no flags.
    body = {**building.events, **states, **building.weighted(), **_settings(spec)}
    body |= _callbacks(spec)
    body["_guard_log"] = building.log
    body["__init__"] = _constructor(spec)
    base = StateMachine if spec.flavour.startswith("machine") else StateChart
    made = new_class(spec.name, (base,), {}, lambda namespace: namespace.update(body))
    return cast("type[StateChart[Any]]", made)


def _settings(spec: ChartSpec) -> dict[str, Any]:
    # Random graphs have states that nothing leads to, or that lead to no final state.
    settings: dict[str, Any] = {
        "validate_disconnected_states": False,
        "validate_trap_states": False,
        "validate_final_reachability": False,
        "allow_event_without_transition": not spec.strict,
    }
    if spec.listens:
        awaits = spec.asynchronous != "no"
        settings["listeners"] = [AwaitingWatcher if awaits else Watcher]
    return settings


def _callbacks(spec: ChartSpec) -> dict[str, Any]:
    if spec.asynchronous == "callbacks":
        return {name: acts.awaited(traced, name) for name, traced in acts.BY_NAME.items()}
    return dict(acts.BY_NAME)


def _constructor(spec: ChartSpec) -> Any:
    base = StateMachine if spec.flavour.startswith("machine") else StateChart

    def __init__(  # noqa: N807 - it becomes the method of that name
        self: Any, model: Any = None, *, limit: int | None = None, n: int | None = None
    ) -> None:
        for name, value in spec.own.items():
            setattr(self, name, value)
        given = {"limit": limit, "n": n}
        start: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
        own_model = TraceModel(**spec.fields) if model is None else model
        base.__init__(self, own_model, **start)

    return __init__


class _Building:
    """The parts of one class while it is put together."""

    def __init__(self, spec: ChartSpec) -> None:
        self.spec = spec
        self.awaits = spec.asynchronous == "callbacks"
        self.states: dict[str, State] = {}
        self.log: GuardLog = []
        self.events = {
            event.name: Event(
                id=event.name,
                delay=event.delay_ms,
                internal=event.internal,
            )
            for event in spec.declared
        }
        self._numbers: defaultdict[str, int] = defaultdict(int)

    def state(self, spec: StateSpec) -> State:
        """The state, with all that is nested in it."""
        made = self.states[spec.id] = self._make(spec)
        return made

    def _make(self, spec: StateSpec) -> State:
        value = Grade[spec.grade] if spec.grade is not None else spec.value
        if spec.is_history:
            return HistoryState(value=value, type=spec.kind.removeprefix("history-"))
        options: dict[str, Any] = {
            "value": value,
            "initial": spec.initial,
            "enter": self._slot("enter", spec.id, spec.enter),
            "exit": self._slot("exit", spec.id, spec.exit),
            "invoke": [invoked(invoke, chart_class) for invoke in spec.invokes] or None,
        }
        if spec.children:
            nested = {child.id: self.state(child) for child in spec.children}
            base = State.Parallel if spec.kind == "parallel" else State.Compound
            made = new_class(spec.id, (base,), options, lambda body: body.update(nested))
            return cast("State", cast("object", made))
        if spec.donedata:
            options["donedata"] = acts.donedata(spec.donedata, awaits=self.awaits)
        return State(final=spec.kind == "final", **options)

    def _slot(self, slot: str, label: str, what: tuple[Act, ...]) -> list[Any] | None:
        if not what:
            return None
        self._numbers[label] += 1
        # Where only a listener is asynchronous, whatever sends must still be awaited.
        sends = any(act.verb in acts.SENDING for act in what)
        awaits = self.awaits or (sends and self.spec.asynchronous == "listener")
        name = f"{label}.{self._numbers[label]}"
        return [acts.perform(what, slot, name, awaits=awaits)]

    def transition(self, spec: TransitionSpec) -> None:
        """Add a transition to its source."""
        label = f"{spec.source}>{spec.target or ''}"
        options: dict[str, Any] = {
            slot: self._slot(slot, label, what)
            for slot, what in (("before", spec.before), ("on", spec.on), ("after", spec.after))
        }
        for negated, key in ((False, "cond"), (True, "unless")):
            chosen = [guard for guard in spec.guards if guard.negated is negated]
            options[key] = [
                acts.condition(guard, f"{label} {guard.kind}", self.log, awaits=self.awaits)
                for guard in chosen
            ] or None
        if spec.events:
            options["event"] = [self.events.get(name, name) for name in spec.events]
        source, target = self.states[spec.source], self._target(spec.target)
        source.to(target, internal=spec.internal, **options)

    def _target(self, name: str | None) -> State | None:
        return None if name is None else self.states[name]

    def weighted(self) -> dict[str, Any]:
        """Attributes of the class whose names are the events of weighted transitions."""
        made: dict[str, Any] = {}
        for group in self.spec.weighted:
            choices = [(self.states[target], weight) for target, weight in group.choices]
            group_made = weighted_transitions(self.states[group.source], *choices, seed=group.seed)
            known = made.get(group.event)
            made[group.event] = group_made if known is None else known | group_made
        return made
