"""Callbacks of generated charts: what they trace, what they change, what they send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import isawaitable
from typing import Any

from tools.charts.spec import Act, Guard
from tools.charts.trace import TraceModel

FIELD_VALUES = 7
"""Fields count modulo this, so that a guard on one changes its mind again and again."""

Callback = Callable[..., Any]
Verb = Callable[[Act, Any, TraceModel], Any]


class ChartError(Exception):
    """Raised by the callbacks and the invokes that are meant to fail."""


def describe(event: object, args: Sequence[object], kwargs: dict[str, Any]) -> str:
    """An event as a trace shows it: its name, its arguments, and its ``n`` and ``data``."""
    parts = [str(event) if event else "-", *(repr(arg) for arg in args)]
    parts += [f"{key}={kwargs[key]!r}" for key in ("n", "data") if kwargs.get(key) is not None]
    return " ".join(parts)


def _add(act: Act, _chart: Any, model: TraceModel) -> None:
    setattr(model, act.name, (getattr(model, act.name) + act.amount) % FIELD_VALUES)


def _note(act: Act, _chart: Any, model: TraceModel) -> None:
    model.notes[act.name] = model.notes.get(act.name, 0) + act.amount


def _level(act: Act, chart: Any, _model: TraceModel) -> None:
    chart.level = (chart.level + act.amount) % FIELD_VALUES


def _toggle(_act: Act, chart: Any, _model: TraceModel) -> None:
    chart.armed = 1 - chart.armed


def _spend(act: Act, _chart: Any, model: TraceModel) -> None:
    setattr(model, act.name, max(0, getattr(model, act.name) - 1))


def _refill(act: Act, _chart: Any, model: TraceModel) -> None:
    setattr(model, act.name, min(FIELD_VALUES, getattr(model, act.name) + act.amount))


def _afford(model: TraceModel) -> bool:
    """Take one from the budget that everything pays from which could otherwise go on for ever."""
    budget: int = vars(model)["budget"]
    vars(model)["budget"] = max(0, budget - 1)
    return budget > 0


def _raise(act: Act, chart: Any, model: TraceModel) -> Any:
    return chart.raise_(act.name, n=act.amount) if _afford(model) else None


def _send(act: Act, chart: Any, model: TraceModel) -> Any:
    return chart.send(act.name, n=act.amount) if _afford(model) else None


def _later(act: Act, chart: Any, model: TraceModel) -> Any:
    if not _afford(model):
        return None
    return chart.send(act.name, delay=act.delay_ms, send_id=act.send_id, n=act.amount)


def _cancel(act: Act, chart: Any, _model: TraceModel) -> None:
    chart.cancel_event(act.send_id)


def _fail(act: Act, _chart: Any, model: TraceModel) -> None:
    count = getattr(model, act.name) + 1
    setattr(model, act.name, count % FIELD_VALUES)
    if count % 3 == act.amount:
        raise ChartError(act.name)


VERBS: dict[str, Verb] = {
    "add": _add,
    "note": _note,
    "level": _level,
    "toggle": _toggle,
    "spend": _spend,
    "refill": _refill,
    "raise": _raise,
    "send": _send,
    "later": _later,
    "cancel": _cancel,
    "fail": _fail,
}

SENDING = frozenset({"raise", "send", "later"})
"""Verbs whose result has to be awaited where the engine is asynchronous."""


def perform(acts: Sequence[Act], slot: str, label: str, *, awaits: bool) -> Callback:
    """A callback that traces itself and does the acts; its result names it if it is asked for.

    Two functions of one name would share an entry of the library's signature cache, which says
    whether a callback is a coroutine function; hence the two names.
    """
    answers = slot in ("before", "on")

    def acted(*args: Any, machine: Any, model: Any, event: Any = None, **kwargs: Any) -> Any:
        model.happened("act", f"{slot} {label} {describe(event, args, kwargs)}")
        for act in acts:
            VERBS[act.verb](act, machine, model)
        return f"{label}:{len(model.trace)}" if answers else None

    async def acted_and_awaited(
        *args: Any, machine: Any, model: Any, event: Any = None, **kwargs: Any
    ) -> Any:
        model.happened("act", f"{slot} {label} {describe(event, args, kwargs)}")
        for act in acts:
            done = VERBS[act.verb](act, machine, model)
            if isawaitable(done):
                await done
        return f"{label}:{len(model.trace)}" if answers else None

    return acted_and_awaited if awaits else acted


def donedata(kind: str, *, awaits: bool) -> Callback:
    """A callback of a final state that gives the data of its done event."""

    def give(model: Any) -> Any:
        return {"n": model.f0} if kind == "fields" else model.f0 + 1

    async def give_awaited(model: Any) -> Any:
        return give(model)

    return give_awaited if awaits else give


GuardLog = list[tuple[str, bool]]

_HOLDS: dict[str, Callable[[Guard, Any, Any], bool]] = {
    "field": lambda guard, _chart, model: getattr(model, guard.name) % 3 != guard.amount,
    "level": lambda guard, chart, _model: chart.level >= guard.amount,
    "fuel": lambda guard, _chart, model: getattr(model, guard.name) > 0,
    "budget": lambda _guard, _chart, model: model.budget > 0,
}


def condition(guard: Guard, label: str, log: GuardLog, *, awaits: bool) -> Callback | str:
    """A guard as the library takes it: a name, an expression, or a function that logs itself."""
    if guard.kind == "attribute":
        return guard.name
    if guard.kind == "expression":
        return f"{guard.name} >= {guard.amount}"

    def holds(machine: Any, model: Any) -> bool:
        if guard.kind == "failing" and getattr(model, guard.name) == guard.amount:
            log.append((label, False))
            raise ChartError(guard.name)
        value = guard.kind == "failing" or _HOLDS[guard.kind](guard, machine, model)
        log.append((label, value))
        return value

    async def holds_awaited(machine: Any, model: Any) -> bool:
        return holds(machine, model)

    return holds_awaited if awaits else holds


def on_enter_state(
    self: Any, *args: Any, state: Any, model: Any, event: Any = None, **kwargs: Any
) -> None:
    """Trace that a state is entered."""
    del self
    model.happened("enter", f"{state.id} {describe(event, args, kwargs)}")


def on_exit_state(
    self: Any, *args: Any, state: Any, model: Any, event: Any = None, **kwargs: Any
) -> None:
    """Trace that a state is left."""
    del self
    model.happened("exit", f"{state.id} {describe(event, args, kwargs)}")


def _transition_tracer(kind: str) -> Callback:
    def traced(
        self: Any,
        *args: Any,
        source: Any,
        target: Any,
        model: Any,
        event: Any = None,
        **kwargs: Any,
    ) -> None:
        del self
        goal = target.id if target is not None else "nowhere"
        model.happened(kind, f"{source.id}->{goal} {describe(event, args, kwargs)}")

    return traced


BY_NAME: dict[str, Callback] = {
    "on_enter_state": on_enter_state,
    "on_exit_state": on_exit_state,
    "before_transition": _transition_tracer("before"),
    "on_transition": _transition_tracer("on"),
    "after_transition": _transition_tracer("after"),
}


def awaited(callback: Callback, name: str) -> Callback:
    """A coroutine function that does what the callback does, under a name of its own."""

    async def traced_and_awaited(self: Any, *args: Any, **kwargs: Any) -> Any:
        return callback(self, *args, **kwargs)

    traced_and_awaited.__name__ = name
    traced_and_awaited.__qualname__ = f"awaited.{name}"
    return traced_and_awaited


class Watcher:
    """A listener of the class: it is told the constructor's arguments, and traces with them."""

    limit = 0

    def setup(self, machine: Any, limit: int = 1, **_others: Any) -> None:
        """Keep what the chart was made with."""
        del machine
        self.limit = limit

    def on_enter_state(self, state: Any, model: Any) -> None:
        """Trace that a state is entered."""
        model.happened("listen", f"{state.id} limit={self.limit}")


class AwaitingWatcher(Watcher):
    """The same with a coroutine function, which makes the library choose its other engine."""

    async def after_transition(self, source: Any, model: Any) -> None:
        """Trace that a transition was taken."""
        model.happened("listen", f"after {source.id} limit={self.limit}")
