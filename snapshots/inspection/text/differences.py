"""The differences of two runs in words, and as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.text import Text

from snapshots.inspection.limits import DIFFERENCES_SHOWN_MAX, REASON_CHARS_MAX
from snapshots.inspection.printable import visible
from snapshots.inspection.reports.values import readable
from snapshots.inspection.text.typeset import ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from snapshots.codec import Plain
    from snapshots.inspection.reports.differences import Difference
    from snapshots.inspection.text.screen import Screen
    from snapshots.inspection.text.typeset import Cell

_STYLES: Final = {"changed": "yellow", "added": "green", "removed": "red"}


def differences_text(
    first: str, second: str, found: Sequence[Difference], *, screen: Screen
) -> RenderableType:
    """List differences, one a line: what a side has that the other has not, or both values."""
    rows: list[list[Cell]] = [
        [
            Text(difference.kind, style=_STYLES[difference.kind]),
            visible(difference.part),
            visible(difference.where) or "-",
            _said(difference),
        ]
        for difference in found[:DIFFERENCES_SHOWN_MAX]
    ]
    count = "1 difference" if len(found) == 1 else f"{len(found)} differences"
    lines: list[RenderableType] = [
        Text(f"{count} from {visible(first)} to {visible(second)}\n"),
        ledger(("WHAT", "PART", "WHERE", "VALUE"), rows, screen),
    ]
    if len(found) > DIFFERENCES_SHOWN_MAX:
        left = len(found) - DIFFERENCES_SHOWN_MAX
        lines.append(Text(f"\n{left} more are not shown: --json has them all"))
    return Group(*lines)


def _said(difference: Difference) -> str:
    say = _step if difference.part == "trail" else _value
    first, second = say(difference.first), say(difference.second)
    if difference.kind == "changed":
        return f"{first} -> {second}"
    return second if difference.kind == "added" else first


def _value(value: object) -> str:
    return readable(value, chars_max=REASON_CHARS_MAX)


def _step(step: object) -> str:
    """Return a step of a trail in words."""
    if not isinstance(step, list):
        return "its end"
    path, event, sources, targets = step
    chart = f"{visible(path)}: " if path else ""
    before, after = (", ".join(map(visible, names)) or "-" for names in (sources, targets))
    return f"{chart}{visible(event) or 'begun'}, {before} -> {after}"


def differences_document(first: str, second: str, found: Sequence[Difference]) -> Plain:
    """Return `{"first", "second", "equal", "differences": [{"part", "where", "kind", …}]}`.

    `first` and `second` of a difference are raw JSON values, null on a side that has none.
    """
    return {
        "first": first,
        "second": second,
        "equal": not found,
        "differences": [
            {
                "part": difference.part,
                "where": difference.where,
                "kind": difference.kind,
                "first": difference.first,
                "second": difference.second,
            }
            for difference in found
        ],
    }
