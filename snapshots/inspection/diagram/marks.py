"""What stands at a state or a transition, in words: gates, timers, effects, invokes, children."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.inspection.diagram.picture import Mark
from snapshots.inspection.printable import left, moment, visible
from snapshots.inspection.reports.values import readable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from snapshots.inspection.diagram.picture import MarkKind
    from snapshots.inspection.reports.records import (
        EffectReport,
        InvokeReport,
        NodeReport,
        RunReport,
        TimerReport,
    )

_EFFECT_STATUSES: Final = {"unknown": "in doubt", "calling": "calling", "intent": "to call"}
_DECLARED: Final[dict[str, tuple[MarkKind, str]]] = {
    "effect": ("effect", "effect"),
    "gate": ("gate", "gate"),
    "timeout": ("timer", "timeout"),
    "child": ("child", "child chart"),
    "children": ("child", "child charts"),
    "document": ("child", "document"),
    "group": ("invoke", "group"),
    "call": ("invoke", "call"),
}
_WITH_EVENTS: Final = ("gate", "timeout")


def declared(invokes: Iterable[str]) -> tuple[Mark, ...]:
    """Return what a shape says that a state invokes, as marks without a run."""
    return tuple(map(_declared, invokes))


def _declared(word: str) -> Mark:
    kind, _, rest = word.partition(":")
    shown, text = _DECLARED.get(kind, ("invoke", visible(kind)))
    if rest and kind in _WITH_EVENTS:
        text = f"{text} {visible(', '.join(rest.split()))}"
    elif rest and kind == "group":
        text = f"{text} of {visible(rest)}"
    return Mark(kind=shown, status="declared", text=text, detail=f"invokes {visible(word)}")


def live_marks(view: RunReport, node: NodeReport, now_ms: int) -> dict[str, tuple[Mark, ...]]:
    """Return by state what is open, running, due or in doubt there in the chart `node`."""
    effects = {row.invoke: row for row in view.effects if row.node == node.path}
    timers = {row.invoke: row for row in view.timers if row.node == node.path and row.invoke}
    found: dict[str, tuple[Mark, ...]] = {}
    for invoke in node.invokes:
        if invoke.state is not None and invoke.outstanding:
            known = invoke.id or ""
            mark = _live(invoke, effects.get(known), timers.get(known), now_ms)
            found[invoke.state] = (*found.get(invoke.state, ()), mark)
    return found


def edge_marks(view: RunReport, node: NodeReport, now_ms: int) -> dict[str, tuple[Mark, ...]]:
    """Return by event the timers that will send it to the chart `node`."""
    found: dict[str, tuple[Mark, ...]] = {}
    for timer in view.timers:
        if timer.node == node.path and timer.event is not None:
            mark = _timer(timer.due_ms, now_ms, timer.event)
            found[timer.event] = (*found.get(timer.event, ()), mark)
    return found


def _live(
    invoke: InvokeReport, effect: EffectReport | None, timer: TimerReport | None, now_ms: int
) -> Mark:
    due_ms = timer.due_ms if timer is not None else invoke.due_ms
    if invoke.kind == "gate":
        return _gate(invoke)
    if invoke.kind == "effect":
        return _effect(invoke, effect)
    if invoke.kind == "timeout" and due_ms is not None:
        return _timer(due_ms, now_ms, None if timer is None else timer.event)
    kind: MarkKind = "child" if invoke.kind in {"child", "nursery"} else "invoke"
    status = "running" if invoke.started else "starting"
    text = f"{visible(invoke.kind)} {status}"
    return Mark(kind=kind, status=status, text=text, detail=_of(invoke, text))


def _gate(invoke: InvokeReport) -> Mark:
    events = ", ".join(visible(e) if isinstance(e, str) else readable(e) for e in invoke.events)
    text = f"accepts {events or 'its end'}"
    detail = [f"gate {text}"]
    if invoke.key is not None:
        detail.append(f"key {visible(invoke.key)}")
    if invoke.meta is not None:
        detail.append(f"meta {readable(invoke.meta)}")
    return Mark(kind="gate", status="open", text=text, detail=", ".join(detail))


def _effect(invoke: InvokeReport, effect: EffectReport | None) -> Mark:
    status = "to call" if effect is None else _EFFECT_STATUSES.get(effect.status, effect.status)
    name = visible(effect.kind) if effect is not None and effect.kind else "effect"
    text = f"{name} {status}"
    return Mark(kind="effect", status=status, text=text, detail=_of(invoke, text))


def _timer(due_ms: int, now_ms: int, event: str | None) -> Mark:
    left_ms = due_ms - now_ms
    text = left(left_ms)
    sends = "" if event is None else f", sends {visible(event)}"
    return Mark(
        kind="timer",
        status="waiting" if left_ms >= 0 else "overdue",
        text=text,
        detail=f"timer due {moment(due_ms)} ({text}){sends}",
    )


def _of(invoke: InvokeReport, text: str) -> str:
    attempt = f", attempt {invoke.attempt}" if invoke.attempt is not None else ""
    return f"{text} ({visible(invoke.id or 'no id yet')}{attempt})"
