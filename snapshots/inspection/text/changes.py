"""Changes of runs for who watches: a line of text each, a JSON object each, or a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from snapshots.inspection.limits import REASON_CHARS_MAX
from snapshots.inspection.printable import moment, relative, visible
from snapshots.inspection.text.ledgers import EFFECT_WORDS, below_run
from snapshots.inspection.text.reports import STATUS_STYLES
from snapshots.inspection.text.typeset import NOTHING, Cell, ledger

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rich.console import RenderableType

    from snapshots.codec import Plain
    from snapshots.inspection.queries.following import Change, ChangeKind
    from snapshots.inspection.text.screen import Screen

_STYLES: Final = {**STATUS_STYLES, "unknown": "bold red"}

FIELDS: Final[Mapping[ChangeKind, Mapping[str, str]]] = {
    "now": {"status": "status", "reason": "reason", "states": "states"},
    "start": {"status": "status"},
    "step": {"chart": "name", "event": "event", "from": "was", "to": "states"},
    "effect": {"effect": "name", "status": "status", "attempt": "count"},
    "gate": {"gate": "name", "status": "status", "events": "states"},
    "status": {"status": "status", "reason": "reason"},
    "saved": {"saves": "count"},
    "unreadable": {"reason": "reason"},
}
"""What a JSON object of each kind has beside kind, at_ms, run and machine."""


def change_line(change: Change, *, is_of_one: bool) -> Text:
    """Return a change on a line; where one run is watched, it is not named again."""
    line = Text(moment(change.at_ms), style="dim")
    if not is_of_one:
        line.append(f"  {visible(change.run)}", style="default not dim")
        line.append(f"  {visible(change.machine)}")
    return line.append("  ").append_text(told(change))


def told(change: Change) -> Text:
    """Return what a change says, without when and whose it is."""
    text = Text(_said(change), style="not dim")
    style = _STYLES.get(change.status) if change.kind in ("status", "effect") else None
    if style is not None:
        text.stylize(style)
    return text


def _said(change: Change) -> str:
    return _SAID[change.kind](change)


def _said_now(change: Change) -> str:
    return f"{visible(change.status)}, in {_names(change.states)}{_reason(change)}"


def _said_step(change: Change) -> str:
    where = f" (chart {visible(change.name)})" if change.name else ""
    event = visible(change.event) if change.event else NOTHING
    return f"{event}: {_names(change.was)} -> {_names(change.states)}{where}"


def _said_effect(change: Change) -> str:
    word = EFFECT_WORDS[change.status]
    return f"effect {below_run(change.run, change.name)}: {word}, call {change.count}"


def _said_gate(change: Change) -> str:
    takes = f", takes {_names(change.states)}" if change.status == "open" else ""
    return f"gate {visible(change.name)}: {change.status}{takes}"


_SAID: Final[Mapping[ChangeKind, Callable[[Change], str]]] = {
    "now": _said_now,
    "start": lambda _: "started",
    "step": _said_step,
    "effect": _said_effect,
    "gate": _said_gate,
    "status": lambda change: f"{visible(change.status)}{_reason(change)}",
    "saved": lambda change: f"saved, {change.count} times in all",
    "unreadable": lambda change: f"unreadable{_reason(change)}",
}


def change_document(change: Change) -> Plain:
    """Return a change as an object; `kind`, `at_ms`, `run` and `machine` are in each."""
    whose = {"kind": change.kind, "at_ms": change.at_ms}
    return whose | {"run": change.run, "machine": change.machine} | _fields(change)


def _fields(change: Change) -> dict[str, Plain]:
    """Return the fields of a change's kind, by the names that are promised."""
    return {name: _listed(getattr(change, field)) for name, field in FIELDS[change.kind].items()}


def _listed(value: object) -> Plain:
    return list(value) if isinstance(value, tuple) else value


def watch_table(
    rows: Sequence[tuple[str, str, str, Change | None]], *, now_ms: int, screen: Screen
) -> RenderableType:
    """Return runs as a table: id, status and machine of each, and what became of it last."""
    names = ("RUN", "STATUS", "MACHINE", "LAST")
    cells: list[Sequence[Cell]] = [
        (
            visible(run),
            Text(visible(status), _STYLES.get(status, "")),
            visible(machine),
            Text(NOTHING) if change is None else _last(change, now_ms),
        )
        for run, status, machine, change in rows
    ]
    return ledger(names, cells, screen)


def _last(change: Change, now_ms: int) -> Text:
    ago = relative(min(change.at_ms - now_ms, 0))
    return told(change).append(f" ({ago})", style="dim")


def _names(names: Sequence[str]) -> str:
    return ", ".join(map(visible, names)) or NOTHING


def _reason(change: Change) -> str:
    if change.reason is None:
        return ""
    return f": {visible(change.reason, chars_max=REASON_CHARS_MAX)}"
