"""Reports as rich renderables: nothing out of a file is shown but as printable, bounded text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from rich.console import Group
from rich.text import Text

from snapshots.inspection.diagram.drawing import picture_of
from snapshots.inspection.limits import LEDGER_ROWS_SHOWN_MAX, LIST_COLUMNS_MIN, REASON_CHARS_MAX
from snapshots.inspection.printable import left, moment, visible
from snapshots.inspection.reports.derived import saves_of, updated_of
from snapshots.inspection.reports.values import readable
from snapshots.inspection.text.charts import ROOT_CHART, charts_text, timeline_text
from snapshots.inspection.text.ledgers import EFFECT_WORDS, when
from snapshots.inspection.text.typeset import NOTHING, Cell, facts, ledger, section
from snapshots.limits import NO_TIMER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from snapshots.inspection.diagram.picture import Picture
    from snapshots.inspection.reports.records import (
        EffectReport,
        QueuedEvent,
        RunReport,
        TimerReport,
        WaitReport,
    )
    from snapshots.inspection.text.screen import Screen
    from snapshots.records import RunHeader

T = TypeVar("T")

STATUS_STYLES: Final = {
    "live": "green",
    "failed": "red",
    "error": "bold red",
    "lost": "yellow",
    "drifted": "yellow",
}
_NOT_KNOWN: Final = "not known"
_EFFECT_WAITS: Final = {
    "unknown": "in doubt: whether its call arrived is not known; a person or a probe settles it",
    "calling": "called, its outcome is not recorded",
    "intent": "recorded, not called yet",
}


def runs_text(headers: Sequence[RunHeader], *, now_ms: int, screen: Screen) -> RenderableType:
    """List runs, one below the other."""
    updated = [_updated(header, now_ms) for header in headers]
    notes = [_note(header, now_ms) for header in headers]
    names = ["RUN", "STATUS", "MACHINE"]
    rows: list[list[Cell]] = [[*_identity(header)] for header in headers]
    if screen.columns >= LIST_COLUMNS_MIN:
        names += ["SAVES", "UPDATED", "NOTE"]
        for row, header, moved, note in zip(rows, headers, updated, notes, strict=True):
            row += [_saves(header), moved, note]
    else:
        names += ["UPDATED"]
        for row, moved, note in zip(rows, updated, notes, strict=True):
            row += [f"{moved}, {note}" if note else moved]
    return ledger(names, rows, screen)


def run_text(
    report: RunReport, *, screen: Screen, picture: Picture | None = None
) -> RenderableType:
    """Show all that a report says of a run; a long ledger is shown by its end.

    `picture` is the run's, drawn with its shape; without one the report's own states are shown.
    """
    root = report.root
    drawn = picture_of(report, None) if picture is None else picture
    return Group(
        facts((*_header_facts(report.header, report.now_ms), *_run_facts(report))),
        section("Chart", charts_text(drawn, screen)),
        *_waits(report, screen),
        *_values("Context", root.context),
        *_values("Attributes", root.attributes),
        *_effects(report, screen),
        *_timers(report, screen),
        *_queue(report, screen),
        *_mail(report, screen),
        *_children(report, screen),
        *_ledgers(report),
        *_trail(report, screen),
    )


def unreadable_text(header: RunHeader, reason: str, *, now_ms: int) -> RenderableType:
    """Show a run of which only the header can be read."""
    told = Text("unreadable: ", style="bold red").append(
        visible(reason, chars_max=REASON_CHARS_MAX)
    )
    return facts((*_header_facts(header, now_ms), ("content", told)))


def _identity(header: RunHeader) -> tuple[Cell, Cell, Cell]:
    return visible(header.run_id), _status(header.status), visible(header.machine)


def _status(status: str) -> Text:
    return Text(visible(status), style=STATUS_STYLES.get(status, ""))


def _updated(header: RunHeader, now_ms: int) -> str:
    at_ms = updated_of(header)
    return _NOT_KNOWN if at_ms is None else when(at_ms, now_ms)


def _saves(header: RunHeader) -> str:
    saves = saves_of(header)
    return _NOT_KNOWN if saves is None else str(saves)


def _note(header: RunHeader, now_ms: int) -> str:
    if header.reason is not None:
        return visible(header.reason, chars_max=REASON_CHARS_MAX)
    if header.status != "live":
        return ""
    parts = ["only waits"] if header.parked else []
    if updated_of(header) is None:
        parts.append("its head is damaged")
    if header.due_ms != NO_TIMER_MS:
        parts.append(f"timer {left(header.due_ms - now_ms)}")
    return ", ".join(parts)


def _header_facts(header: RunHeader, now_ms: int) -> Iterator[tuple[str, Cell]]:
    yield "run", visible(header.run_id)
    yield "machine", f"{visible(header.machine)} (shape {visible(header.digest)})"
    yield "status", _status(header.status)
    if header.reason is not None:
        yield "reason", visible(header.reason, chars_max=REASON_CHARS_MAX)
    yield "created", when(header.created_ms, now_ms)
    yield "updated", f"{_updated(header, now_ms)}, saves: {_saves(header)}"
    if header.ended_ms is not None:
        yield "ended", when(header.ended_ms, now_ms)


def _run_facts(report: RunReport) -> Iterator[tuple[str, Cell]]:
    if report.step is not None:
        yield "step", str(report.step)
    for name, value in (
        ("input", report.input),
        ("output", report.root.output),
        ("error", report.error or report.root.error),
    ):
        if value not in (None, {}, []):
            yield name, readable(value)
    # Alone, the root has every turn: nothing is told by that.
    if set(report.turn) - {""}:
        yield "turn", ", ".join(_at(path) for path in report.turn)
    if report.deliveries:
        yield "deliveries", f"{len(report.deliveries)} remembered"


def _waits(report: RunReport, screen: Screen) -> Iterator[RenderableType]:
    if report.header.status != "live":
        return
    if not report.waits:
        yield section("Waits for", Text("an event: nothing is open, in flight or timed"))
        return
    # What needs a person comes first; the rest keeps its order.
    waits = sorted(report.waits, key=lambda wait: wait.status != "unknown")
    rows = [(wait.kind, _below(report, wait.id), _at(wait.node), _wait(wait)) for wait in waits]
    yield section("Waits for", ledger(("WHAT", "ID", "CHART", "DETAIL"), rows, screen))


def _wait(wait: WaitReport) -> Cell:
    if wait.kind == "effect":
        style = "bold red" if wait.status == "unknown" else ""
        return Text(_EFFECT_WAITS[wait.status or "intent"], style=style)
    if wait.kind == "timer":
        return f"{left(wait.left_ms or 0)} ({moment(wait.due_ms or 0)}), sends {_events(wait)}"
    if wait.kind == "invoke":
        doing = "to be started" if wait.status == "starting" else "running, or started again"
        return f"{doing}, for state {_name(wait.state)}"
    parts = [f"accepts {_events(wait)}"]
    if wait.key is not None:
        parts.append(f"key {visible(wait.key)}")
    if wait.meta is not None:
        parts.append(f"meta {readable(wait.meta)}")
    return ", ".join(parts)


def _events(wait: WaitReport) -> str:
    events = (visible(e) if isinstance(e, str) else readable(e) for e in wait.events)
    return ", ".join(events) or "its end"


def _values(title: str, value: object) -> Iterator[RenderableType]:
    if isinstance(value, dict) and "$" not in value:
        if value:
            yield section(title, facts((visible(key), readable(value[key])) for key in value))
    elif value is not None:
        yield section(title, Text(readable(value)))


def _effects(report: RunReport, screen: Screen) -> Iterator[RenderableType]:
    if not report.effects:
        return
    waiting = [effect for effect in report.effects if effect.status in _EFFECT_WAITS]
    settled = [effect for effect in report.effects if effect.status not in _EFFECT_WAITS]
    shown, note = _newest(settled)
    rows = [
        (
            Text(EFFECT_WORDS[effect.status], "bold red" if effect.status == "unknown" else ""),
            visible(effect.kind) or NOTHING,
            _below(report, effect.id),
            str(effect.attempt),
            _effect(effect, report.now_ms),
        )
        for effect in (*waiting, *shown)
    ]
    names = ("STATUS", "KIND", "ID", "CALLS", "DETAIL")
    yield section("Effects", ledger(names, rows, screen), note)


def _effect(effect: EffectReport, now_ms: int) -> str:
    parts = [] if effect.at_ms is None else [when(effect.at_ms, now_ms)]
    if effect.idempotent:
        parts.append("idempotent")
    if effect.key not in (None, effect.id):
        parts.append(f"key {_name(effect.key)}")
    parts += [
        f"{name} {readable(value)}"
        for name, value in (("result", effect.tail), ("error", effect.error))
        if value is not None
    ]
    return ", ".join(parts)


def _timers(report: RunReport, screen: Screen) -> Iterator[RenderableType]:
    if report.timers:
        shown, note = _first(report.timers)
        rows = [
            (left(t.left_ms), moment(t.due_ms), _at(t.node), _name(t.id), _timer(t)) for t in shown
        ]
        names = ("DUE", "AT", "CHART", "ID", "DETAIL")
        yield section("Timers", ledger(names, rows, screen), note)


def _timer(timer: TimerReport) -> str:
    sends = "ends" if timer.event is None else f"sends {visible(timer.event)}"
    what = f"{sends} {_name(timer.invoke)}" if timer.invoke is not None else sends
    return f"{what}, policy {visible(timer.policy)}{_arguments(timer)}"


def _queue(report: RunReport, screen: Screen) -> Iterator[RenderableType]:
    if report.queue:
        shown, note = _first(report.queue)
        rows = [
            (
                _name(event.event),
                _at(event.node),
                NOTHING if event.at_ms is None else moment(event.at_ms),
                _queued(event),
            )
            for event in shown
        ]
        yield section("Queue", ledger(("EVENT", "CHART", "SINCE", "DETAIL"), rows, screen), note)


def _queued(event: QueuedEvent) -> str:
    return ("internal" if event.internal else "external") + _arguments(event)


def _mail(report: RunReport, screen: Screen) -> Iterator[RenderableType]:
    if report.mail:
        shown, note = _first(report.mail)
        rows = [
            (
                str(mail.entry),
                visible(mail.kind),
                when(mail.created_ms, report.now_ms),
                "waits for its host"
                if mail.outcome is None
                else visible(mail.outcome, chars_max=REASON_CHARS_MAX),
            )
            for mail in shown
        ]
        yield section("Mail", ledger(("ENTRY", "KIND", "SINCE", "OUTCOME"), rows, screen), note)


def _children(report: RunReport, screen: Screen) -> Iterator[RenderableType]:
    if report.children:
        shown, note = _first(report.children)
        rows = [
            (
                _name(child.path),
                _name(child.name),
                visible(child.status),
                ", ".join(map(visible, child.configuration)),
                NOTHING if child.context in (None, {}) else readable(child.context),
            )
            for child in shown
        ]
        names = ("CHART", "CLASS", "STATUS", "STATES", "CONTEXT")
        yield section("Child charts", ledger(names, rows, screen), note)


def _ledgers(report: RunReport) -> Iterator[RenderableType]:
    for name, entries in report.ledgers.items():
        shown, note = _newest(list(entries.items()))
        told = facts((visible(key), readable(value)) for key, value in shown)
        yield section(visible(name).capitalize(), told, note)


def _trail(report: RunReport, screen: Screen) -> Iterator[RenderableType]:
    if report.trail:
        shown, note = _newest(report.trail)
        yield section("Trail", timeline_text(shown, screen), note)


def _first(rows: Sequence[T]) -> tuple[Sequence[T], str]:
    rest = len(rows) - LEDGER_ROWS_SHOWN_MAX
    return rows[:LEDGER_ROWS_SHOWN_MAX], f"and {rest} more: --json shows all" if rest > 0 else ""


def _newest(rows: Sequence[T]) -> tuple[Sequence[T], str]:
    rest = len(rows) - LEDGER_ROWS_SHOWN_MAX
    return rows[max(rest, 0) :], f"and {rest} earlier: --json shows all" if rest > 0 else ""


def _arguments(sent: TimerReport | QueuedEvent) -> str:
    parts = [readable(value) for value in (sent.args, sent.kwargs) if value not in (None, [], {})]
    return f", with {' '.join(parts)}" if parts else ""


def _below(report: RunReport, found: str | None) -> str:
    """Return an id without the run's own, with which those of effects begin: it stands above."""
    return NOTHING if found is None else visible(found.removeprefix(f"{report.header.run_id}/"))


def _at(path: str) -> str:
    return visible(path) or ROOT_CHART


def _name(name: str | None) -> str:
    return visible(name) if name else NOTHING
