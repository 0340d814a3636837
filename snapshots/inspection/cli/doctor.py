"""The command that looks at a file of runs for what is amiss with it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from snapshots.clock import SystemClock
from snapshots.inspection.cli.meter import Meter
from snapshots.inspection.cli.options import EXIT_NO, EXIT_OK, AsJson, File, place_of
from snapshots.inspection.doctor import Examination, Finding, examine
from snapshots.inspection.doctor.limits import ITEMS_SHOWN_MAX
from snapshots.inspection.printable import visible
from snapshots.inspection.text.documents import written
from snapshots.inspection.text.screen import rendered, screen_of, tell, write
from snapshots.inspection.text.typeset import INDENT, ledger

if TYPE_CHECKING:
    from rich.console import RenderableType

    from snapshots.codec import Plain
    from snapshots.inspection.text.screen import Screen

_STYLES: Final = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(
    file: File = None,
    deep: Annotated[
        bool,
        typer.Option("--deep", help="Take as long as it takes, and read finished runs too."),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Look for what is amiss with a file of runs, and say what to do; change nothing.

    Exit code 0 says that all is well, warnings allowed; 1 that there is a problem; 2 that the
    file could not be looked at at all. As JSON: path, verdict, deep, copy, checks (each with
    check, verdict, told, remedy, items, count).
    """
    with Meter("runs read") as meter:
        found = examine(
            place_of(file), is_deep=deep, now_ms=SystemClock().now_ms(), progress=meter.show
        )
    if found.is_copy:
        tell("the file cannot be opened where it lies: a copy of it and its -wal was looked at")
    if as_json:
        write(written(_document(found)), sys.stdout)
    else:
        screen = screen_of(sys.stdout, os.environ)
        write(rendered(_text(found, screen), screen), sys.stdout)
    return EXIT_NO if found.verdict == "problem" else EXIT_OK


COMMANDS: Final = (doctor,)


def _text(found: Examination, screen: Screen) -> RenderableType:
    parts: list[RenderableType] = [Text(visible(found.path, chars_max=len(found.path)) + "\n")]
    rows = [
        (
            Text(finding.verdict, style=_STYLES[finding.verdict]),
            finding.check,
            f"{finding.told}. {_sentence(finding.remedy)}" if finding.remedy else finding.told,
        )
        for finding in found.findings
    ]
    parts.append(ledger(("VERDICT", "CHECK", "FOUND"), rows, screen))
    for finding in found.findings:
        if finding.items:
            parts += _items(finding)
    counts = dict.fromkeys(_STYLES, 0)
    for finding in found.findings:
        counts[finding.verdict] += 1
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    parts.append(Text(f"\n{told}", style=_STYLES[found.verdict]))
    return Group(*parts)


def _items(finding: Finding) -> list[RenderableType]:
    shown = finding.items[:ITEMS_SHOWN_MAX]
    lines: list[RenderableType] = [Text(f"\n{finding.check}", style="bold")]
    lines += [Padding.indent(Text(item), INDENT) for item in shown]
    if finding.count > len(shown):
        more = f"and {finding.count - len(shown)} more; --json names up to {len(finding.items)}"
        lines.append(Padding.indent(Text(more, style="dim"), INDENT))
    return lines


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}"


def _document(found: Examination) -> Plain:
    """Return `{"path", "verdict", "deep", "copy", "checks": [{"check", "verdict", …}]}`."""
    return {
        "path": found.path,
        "verdict": found.verdict,
        "deep": found.is_deep,
        "copy": found.is_copy,
        "checks": [
            {
                "check": finding.check,
                "verdict": finding.verdict,
                "told": finding.told,
                "remedy": finding.remedy or None,
                "items": list(finding.items),
                "count": finding.count,
            }
            for finding in found.findings
        ],
    }
