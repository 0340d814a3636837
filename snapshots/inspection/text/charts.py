"""Charts and the way they went, for a terminal: the tree of states, and the trail as a timeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.text import Text

from snapshots.inspection.diagram.labels import chart_lines, mark_text, state_lines
from snapshots.inspection.diagram.picture import Picture
from snapshots.inspection.diagram.tree import to_tree
from snapshots.inspection.printable import moment, span, visible
from snapshots.inspection.reports.derived import moved
from snapshots.inspection.text.typeset import NOTHING, Branch, ledger, tree

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from snapshots.inspection.diagram.picture import Mark, PictureState
    from snapshots.inspection.diagram.tree import TreeRow
    from snapshots.inspection.reports.records import TransitionReport
    from snapshots.inspection.text.screen import Screen

ROOT_CHART: Final = "(root)"

_MARK_STYLES: Final = {"gate": "cyan", "timer": "magenta", "effect": "yellow"}
_CHANGE_STYLES: Final = {"gone": "red", "new": "green", "changed": "yellow"}
_UNTAKEN: Final = ", not taken: "
_PLAIN_KINDS: Final = ("atomic", "compound", "unknown")


def charts_text(picture: Picture, screen: Screen, *, is_declared: bool = False) -> RenderableType:
    """Draw a chart, its states and the charts that they invoke as one tree.

    Active states have a filled dot and what is open in them beside it; of the others those that
    the trail saw are brighter. `is_declared` shows what a shape declares, too.
    """
    branch, _ = _branch(to_tree(picture), 0, screen, is_declared=is_declared)
    return tree(branch, screen)


def _branch(
    rows: Sequence[TreeRow], place: int, screen: Screen, *, is_declared: bool
) -> tuple[Branch, int]:
    """Return the branch of the row at `place`, and the place of the row behind it."""
    row, below = rows[place], []
    at = place + 1
    while at < len(rows) and rows[at].depth > row.depth:
        branch, at = _branch(rows, at, screen, is_declared=is_declared)
        below.append(branch)
    item = row.item
    if isinstance(item, Picture):
        return Branch(line=_chart_line(item), branches=tuple(below)), at
    line = _state_line(item, screen)
    for mark in item.marks:
        if mark.is_live or is_declared:
            line.append("  ").append(mark_text(mark), style=_mark_style(mark))
    return Branch(line=line, branches=tuple(below)), at


def _chart_line(picture: Picture) -> Text:
    line = Text(visible(picture.title), style="bold")
    if picture.path:
        line.append(f" {visible(picture.path)}", style="dim")
    details = ", ".join(line for line in chart_lines(picture) if line != picture.path)
    return line.append(f" ({details})" if details else "", style="dim")


def _state_line(state: PictureState, screen: Screen) -> Text:
    marks = ("*", "-") if screen.is_ascii else ("●", "○")
    line = Text().append(f"{marks[not state.active]} {visible(state.name)}", style=_style(state))
    if state.kind not in _PLAIN_KINDS:
        line.append(f" ({visible(state.kind)})", style="dim")
    for text in (state.change, *state_lines(state)):
        if text and text != state.kind:
            line.append(f" {text}", style=_CHANGE_STYLES.get(state.change, "dim"))
    return line


def _style(state: PictureState) -> str:
    if state.change:
        return _CHANGE_STYLES[state.change]
    if state.active:
        return "bold green"
    return "" if state.visited else "dim"


def _mark_style(mark: Mark) -> str:
    return "bold red" if mark.is_urgent else _MARK_STYLES.get(mark.kind, "dim")


def timeline_text(trail: Sequence[TransitionReport], screen: Screen) -> RenderableType:
    """List macrosteps, the oldest first: when, how long after the one before, what it changed.

    Of the configurations only what differs is shown: the states left and the states entered.
    """
    rows = []
    before_ms = None
    for entry in trail:
        after = NOTHING if before_ms is None else f"+{span(max(entry.at_ms - before_ms, 0))}"
        before_ms = entry.at_ms
        chart = visible(entry.node) or ROOT_CHART
        # What an error says stands in the column that wraps: it would widen all rows here.
        event, untaken, error = (entry.event or "").partition(_UNTAKEN)
        ways = f"not taken: {visible(error)}; {_moved(entry)}" if untaken else _moved(entry)
        told = visible(event) if event else NOTHING
        rows.append((moment(entry.at_ms), after, chart, told, ways))
    return ledger(("AT", "AFTER", "CHART", "EVENT", "STATES"), rows, screen)


def _moved(entry: TransitionReport) -> str:
    gone, entered = moved(entry)
    if not gone and not entered:
        return f"stays in {_listed(entry.targets)}"
    return f"{_listed(gone)} -> {_listed(entered)}"


def _listed(states: Sequence[str]) -> str:
    return ", ".join(map(visible, states)) or NOTHING
