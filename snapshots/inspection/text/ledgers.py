"""Effects, timers and gates of one run or of many as text, a line or two for each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from snapshots.inspection.printable import left, moment, relative, visible
from snapshots.inspection.reports.derived import address
from snapshots.inspection.reports.values import readable
from snapshots.inspection.text.typeset import NOTHING, Cell, ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from snapshots.inspection.queries.surveying import Row
    from snapshots.inspection.reports.records import EffectReport, TimerReport, WaitReport
    from snapshots.inspection.text.screen import Screen

EFFECT_WORDS: Final = {
    "unknown": "in doubt",
    "calling": "calling",
    "intent": "to call",
    "failed": "failed",
    "done": "done",
}
_EFFECT_STYLES: Final = {"unknown": "bold red", "calling": "yellow", "failed": "red"}


def effects_text(
    rows: Sequence[Row[EffectReport]], *, now_ms: int, screen: Screen
) -> RenderableType:
    """List effects, in the order that they are given in."""
    names = ("RUN", "STATUS", "EFFECT", "DETAIL")
    cells: list[Sequence[Cell]] = [
        (
            visible(row.run.run_id),
            Text(EFFECT_WORDS[row.item.status], _EFFECT_STYLES.get(row.item.status, "")),
            below_run(row.run.run_id, row.item.id),
            _effect(row.item, now_ms),
        )
        for row in rows
    ]
    return ledger(names, cells, screen)


def timers_text(rows: Sequence[Row[TimerReport]], screen: Screen) -> RenderableType:
    """List timers, in the order that they are given in."""
    names = ("RUN", "DUE", "EVENT", "DETAIL")
    cells: list[Sequence[Cell]] = [
        (
            visible(row.run.run_id),
            Text(left(row.item.left_ms), "bold red" if row.item.left_ms < 0 else ""),
            visible(row.item.event) if row.item.event else NOTHING,
            _timer(row.item),
        )
        for row in rows
    ]
    return ledger(names, cells, screen)


def gates_text(rows: Sequence[Row[WaitReport]], screen: Screen) -> RenderableType:
    """List open gates, in the order that they are given in."""
    names = ("RUN", "GATE", "ACCEPTS", "DETAIL")
    cells: list[Sequence[Cell]] = [
        (
            visible(row.run.run_id),
            visible(address(row.item)) or NOTHING,
            ", ".join(_event(event) for event in row.item.events) or NOTHING,
            _gate(row.item),
        )
        for row in rows
    ]
    return ledger(names, cells, screen)


def below_run(run_id: str, found: str) -> str:
    """Return an effect's id without its run's, with which it begins."""
    return visible(found.removeprefix(f"{run_id}/")) or NOTHING


def when(at_ms: int, now_ms: int) -> str:
    """Return a moment, and how long ago or how far ahead it is."""
    return f"{moment(at_ms)} ({relative(at_ms - now_ms)})"


def _effect(effect: EffectReport, now_ms: int) -> str:
    parts = [visible(effect.kind)] if effect.kind else []
    parts.append("not called yet" if effect.attempt == 0 else f"call {effect.attempt}")
    if effect.at_ms is not None:
        parts.append(when(effect.at_ms, now_ms))
    if effect.idempotent:
        parts.append("idempotent")
    if effect.key not in (None, effect.id):
        parts.append(f"key {visible(effect.key or '')}")
    for name, value in (("result", effect.tail), ("error", effect.error)):
        if value is not None:
            parts.append(f"{name} {readable(value)}")
    return ", ".join(parts)


def _timer(timer: TimerReport) -> str:
    parts = [moment(timer.due_ms)]
    if timer.invoke is not None:
        parts.append(f"of {visible(timer.invoke)}")
    if timer.node:
        parts.append(f"in chart {visible(timer.node)}")
    parts.append(f"policy {visible(timer.policy)}")
    values = [
        readable(value) for value in (timer.args, timer.kwargs) if value not in (None, [], {})
    ]
    if values:
        parts.append(f"with {' '.join(values)}")
    return ", ".join(parts)


def _gate(gate: WaitReport) -> str:
    parts = [f"state {visible(gate.state)}"] if gate.state else []
    if gate.node:
        parts.append(f"chart {visible(gate.node)}")
    if gate.key is not None and gate.key != address(gate):
        parts.append(f"key {visible(gate.key)}")
    if gate.meta is not None:
        parts.append(f"meta {readable(gate.meta)}")
    return ", ".join(parts)


def _event(event: object) -> str:
    return visible(event) if isinstance(event, str) else readable(event)
