"""How inspection lays out text: facts, ledgers and trees that lose nothing on a narrow screen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from snapshots.inspection.limits import LAST_COLUMN_CHARS_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from snapshots.inspection.text.screen import Screen

NOTHING: Final = "-"
INDENT: Final = 2
_GAP: Final = 2

Cell = str | Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A line of a tree and the branches below it."""

    line: Text
    branches: tuple[Branch, ...] = field(default=())


def facts(pairs: Iterable[tuple[str, Cell]]) -> RenderableType:
    """Lay out names and values in two columns."""
    grid = _grid(2)
    for name, value in pairs:
        grid.add_row(Text(name, style="dim"), _text(value))
    return grid


def ledger(names: Sequence[str], rows: Sequence[Sequence[Cell]], screen: Screen) -> RenderableType:
    """Lay out rows in columns, the last of which takes what is left and wraps.

    Where too little is left for it, the last cell stands on a line of its own below the others.
    """
    cells = [[Text(name, style="dim") for name in names]]
    cells += [[_text(cell) for cell in row] for row in rows]
    widths = [max(cell_len(cell.plain) for cell in column) for column in zip(*cells, strict=True)]
    left = screen.columns - INDENT - sum(widths[:-1]) - _GAP * (len(widths) - 1)
    if left >= min(widths[-1], LAST_COLUMN_CHARS_MIN):
        grid = _grid(len(names))
        for row in cells:
            grid.add_row(*row)
        return grid
    return Group(*(part for row in cells for part in _on_two_lines(row, widths)))


def section(title: str, body: RenderableType, note: str = "") -> RenderableType:
    """Put a title above an indented body, and a blank line above both."""
    lines: list[RenderableType] = [
        Text(f"\n{title}", style="bold"),
        Padding.indent(body, INDENT),
    ]
    if note:
        lines.append(Padding.indent(Text(note, style="dim"), INDENT))
    return Group(*lines)


def tree(root: Branch, screen: Screen) -> RenderableType:
    """Draw a branch and all below it, one line each."""
    guides = (
        ("|-- ", "`-- ", "|   ", "    ") if screen.is_ascii else ("├── ", "└── ", "│   ", "    ")
    )
    return Group(root.line, *_below(root, "", guides))


def _below(branch: Branch, lead: str, guides: tuple[str, str, str, str]) -> Iterable[Text]:
    inner, last, down, nothing = guides
    for place, child in enumerate(branch.branches, start=1):
        is_last = place == len(branch.branches)
        yield Text.assemble((f"{lead}{last if is_last else inner}", "dim"), child.line)
        yield from _below(child, f"{lead}{nothing if is_last else down}", guides)


def _grid(columns: int) -> Table:
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    for _ in range(columns - 1):
        grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    return grid


def _on_two_lines(row: Sequence[Text], widths: Sequence[int]) -> Iterable[RenderableType]:
    line = Text()
    for cell, width in zip(row[:-1], widths, strict=False):
        line.append_text(cell)
        line.append(" " * (width - cell_len(cell.plain) + _GAP))
    line.rstrip()
    yield line
    if row[-1].plain:
        yield Padding.indent(row[-1], 2 * INDENT)


def _text(cell: Cell) -> Text:
    return cell if isinstance(cell, Text) else Text(cell)
