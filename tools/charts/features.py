"""Names what a chart has and what a run of it showed, to count what random charts cover."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from tools.charts.children import finishes_at_once

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.charts.spec import Act, ChartSpec, Guard, InvokeSpec, StateSpec, TransitionSpec
    from tools.charts.trace import Trace

DECLARED = frozenset({
    "flavour chart", "flavour chart-async", "flavour machine", "flavour machine-async",
    "strict", "asynchronous callbacks", "asynchronous listener", "listener", "start arguments",
    "state atomic", "state compound", "state parallel", "state final", "state history-shallow",
    "state history-deep", "nested parallel", "parallel root", "value int", "value str",
    "value enum", "donedata fields", "donedata value", "eventless", "targetless", "self",
    "internal", "several events", "to history", "done.state", "done.invoke", "done.invoke by id",
    "error.execution", "guard field", "guard expression", "guard attribute", "guard level",
    "guard fuel", "guard budget", "guard failing", "unless", "verb raise", "verb send",
    "verb later", "verb cancel", "verb fail", "verb toggle", "verb level", "send id",
    "event with delay", "event internal", "invoke call", "invoke coroutine", "invoke class",
    "invoke instance", "invoke async-instance", "invoke group", "invoke timeout",
    "invoke child", "timeout with event", "timeout without event", "several invokes",
    "failing invoke", "child at once", "child that goes on", "two levels of children",
    "three levels of children", "weighted", "comparable", "comparable with a child",
})  # fmt: skip
"""What `declared` finds; every one of these must turn up among random charts."""

SHOWN = frozenset({
    "terminated", "ended by a parallel root", "final child", "done.state", "done.invoke",
    "second invocation of a state", "invoke with data of its state", "timeout", "timeout's event",
    "error.execution", "delayed event", "declared delay", "internal event", "eventless",
    "history entered again", "refused event", "result", "child's trace", "child's child's trace",
    "cancelled", "weighted",
})  # fmt: skip
"""What `shown` finds; every one of these must turn up among the library's runs of random charts.

It does not get far below a child: it calls the child done once that is made, and most parents
then leave the state and stop it.
"""


def declared(spec: ChartSpec) -> frozenset[str]:
    """The features that a specification has, of those in `DECLARED`."""
    found = {f"flavour {spec.flavour}", f"asynchronous {spec.asynchronous}"}
    found |= set(_of_chart(spec))
    for state in spec.walk():
        found |= set(_of_state(state))
        for invoke in state.invokes:
            found |= set(_of_invoke(invoke))
    for transition in spec.transitions:
        found |= set(_of_transition(spec, transition))
    return frozenset(found) & DECLARED


def _of_chart(spec: ChartSpec) -> Iterator[str]:
    yield from _when(
        ("strict", spec.strict),
        ("listener", spec.listens),
        ("start arguments", bool(spec.start)),
        ("weighted", bool(spec.weighted)),
        ("parallel root", len(spec.states) == 1 and spec.states[0].kind == "parallel"),
        ("event with delay", any(event.delay_ms for event in spec.declared)),
        ("event internal", any(event.internal for event in spec.declared)),
        ("comparable", spec.comparable_with_plain),
        ("comparable with a child", spec.comparable_with_plain and any(spec.child_charts())),
    )


def _when(*features: tuple[str, bool]) -> Iterator[str]:
    return (name for name, there in features if there)


def _of_state(state: StateSpec) -> Iterator[str]:
    yield f"state {state.kind}"
    yield f"donedata {state.donedata}"
    yield f"value {type(state.value).__name__}"
    parallel = state.kind == "parallel"
    yield from _when(
        ("value enum", state.grade is not None),
        ("several invokes", len(state.invokes) > 1),
        ("nested parallel", parallel and sum(s.kind == "parallel" for s in state.walk()) > 1),
    )
    yield from _of_acts(state.enter + state.exit)


def _of_acts(acts: tuple[Act, ...]) -> Iterator[str]:
    for act in acts:
        yield f"verb {act.verb}"
        if act.verb == "later" and act.send_id is not None:
            yield "send id"


def _of_invoke(invoke: InvokeSpec) -> Iterator[str]:
    yield f"invoke {invoke.kind}"
    if invoke.kind == "timeout":
        yield "timeout with event" if invoke.on is not None else "timeout without event"
    if invoke.fails:
        yield "failing invoke"
    if invoke.child is not None:
        levels = depth(invoke.child)
        yield "child at once" if finishes_at_once(invoke.child) else "child that goes on"
        yield from _when(
            ("two levels of children", levels >= 2), ("three levels of children", levels >= 3)
        )


def depth(spec: ChartSpec) -> int:
    """How many charts deep a chart is, itself included."""
    return 1 + max((depth(child) for child in spec.child_charts()), default=0)


def _of_transition(spec: ChartSpec, made: TransitionSpec) -> Iterator[str]:
    histories = {state.id for state in spec.walk() if state.is_history}
    by_id = any(name.startswith("done.invoke.") and name.count(".") > 2 for name in made.events)
    default = made.source in histories
    yield from _when(
        ("eventless", not made.events and not default),
        ("targetless", made.target is None),
        ("self", made.target == made.source and not made.internal),
        ("internal", made.internal),
        ("several events", len(made.events) > 1),
        ("to history", made.target in histories),
        ("done.state", any(name.startswith("done.state") for name in made.events)),
        ("done.invoke", any(name.startswith("done.invoke") for name in made.events)),
        ("done.invoke by id", by_id),
        ("error.execution", "error.execution" in made.events),
    )
    yield from _of_acts(made.before + made.on + made.after)
    yield from _of_guards(made.guards)


def _of_guards(guards: tuple[Guard, ...]) -> Iterator[str]:
    for guard in guards:
        yield f"guard {guard.kind}"
        if guard.negated:
            yield "unless"


def shown(spec: ChartSpec, trace: Trace) -> frozenset[str]:
    """The features that a run had, of those in `SHOWN`."""
    taken = [detail for kind, detail in trace.entries if kind == "before"]
    entered = [detail.split()[0] for kind, detail in trace.entries if kind == "enter"]
    events = [detail.split()[1] for detail in taken]
    kinds = {state.id: state.kind for state in spec.walk()}
    top = {state.id for state in spec.states}
    ended_in_final = any(kinds.get(name) == "final" and name in top for name in entered)
    levels = max((path.count("/") + 1 for path, seen in trace.children if seen), default=0)
    found = _when(
        ("terminated", trace.is_terminated),
        ("ended by a parallel root", trace.is_terminated and not ended_in_final),
        ("final child", any(kinds.get(s) == "final" and s not in top for s in entered)),
        ("done.state", any(name.startswith("done.state") for name in events)),
        ("done.invoke", any(name.startswith("done.invoke") for name in events)),
        ("second invocation of a state", _is_repeated(events)),
        (
            "invoke with data of its state",
            any("'n': " in d and "'n': None" not in d for d in taken),
        ),
        ("timeout", any(_is_timeout(spec, name) for name in events)),
        ("timeout's event", bool({"x0", "x1"} & set(events))),
        ("error.execution", "error.execution" in events),
        ("delayed event", _waits(spec) and any(name in spec.events for name in events)),
        ("declared delay", "d0" in events),
        ("internal event", bool({"i0", "i1", "r0"} & set(events))),
        ("eventless", "-" in events),
        ("history entered again", _returned(trace)),
        ("refused event", "raises TransitionNotAllowed" in trace.results),
        ("result", any(":" in result for result in trace.results)),
        ("child's trace", levels >= 1),
        ("child's child's trace", levels >= 2),
        ("cancelled", any(_cancels(spec, detail) for detail in taken)),
        ("weighted", "w0" in events),
    )
    return frozenset(found) & SHOWN


def _is_repeated(events: list[str]) -> bool:
    """Whether work of two invocations of one state came to its end."""
    ended = {name for name in events if name.startswith("done.invoke.")}
    return max(Counter(name.rpartition(".")[0] for name in ended).values(), default=0) > 1


def _is_timeout(spec: ChartSpec, event: str) -> bool:
    state = event.removeprefix("done.invoke.").rpartition(".")[0]
    return any(
        state == found.id and [invoke.kind for invoke in found.invokes] == ["timeout"]
        for found in spec.walk()
    )


def _waits(spec: ChartSpec) -> bool:
    return any(act.verb == "later" for state in spec.walk() for act in state.enter)


def _cancels(spec: ChartSpec, detail: str) -> bool:
    source, _, target = detail.partition(" ")[0].partition("->")
    return any(
        act.verb == "cancel"
        for made in spec.transitions
        if made.source == source and made.target == target
        for act in made.on
    )


def _returned(trace: Trace) -> bool:
    """Whether a history state was gone to after its parent had been left at least once."""
    left = False
    for kind, detail in trace.entries:
        if kind == "exit":
            left = True
        elif kind == "on" and left and "->h" in detail:
            return True
    return False
