"""What a picture says at its parts: text out of a file, on one line, bounded and escaped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.inspection.diagram.palette import light
from snapshots.inspection.limits import PICTURE_NAME_CHARS_MAX
from snapshots.inspection.printable import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from snapshots.inspection.diagram.picture import Mark, Picture, PictureEdge, PictureState

_SMALL: Final = 9
_CELLS: Final = 'BORDER="0" CELLBORDER="0" CELLPADDING="3"'
_LEFT: Final = '<BR ALIGN="LEFT"/>'
_MARK_COLORS: Final = {"gate": "gate", "timer": "timer", "effect": "effect"}
_HISTORY: Final = {"history-shallow": "H", "history-deep": "H*"}
# A backslash is said twice: Graphviz puts the name of a node for "\\N", even in markup.
_ENTITIES: Final = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;", "\\": "\\\\"}
)


def shown(name: str) -> str:
    """Return a name out of a file on one line, short enough for a picture, and never empty."""
    return visible(name, chars_max=PICTURE_NAME_CHARS_MAX) if name.strip() else repr(name)


def markup(text: str) -> str:
    """Return text as DOT's HTML-like labels and XML hold it."""
    return text.translate(_ENTITIES)


def state_lines(state: PictureState) -> Iterator[str]:
    """Yield what stands below a state's name, without its marks."""
    if state.kind == "parallel":
        yield "parallel"
    if state.remembers:
        yield f"= {', '.join(map(shown, state.remembers))}"
    if state.note:
        yield state.note


def state_name(state: PictureState) -> str:
    """Return a state's name, with the sign of a history state before it."""
    sign = _HISTORY.get(state.kind)
    return shown(state.name) if sign is None else f"{sign} {shown(state.name)}"


def state_label(state: PictureState) -> str:
    """Return a state's label in DOT's markup: its name, what it holds, what stands open there."""
    name = markup(shown(state.name))
    sign = _HISTORY.get(state.kind)
    rows = [] if sign is None else [f"<B>{sign}</B>"]
    rows.append(f"<B>{name}</B>" if state.active else name)
    rows += (_small(line, state.change or "faint") for line in state_lines(state))
    rows += map(_mark, state.marks)
    return _rows(rows, is_left=bool(state.states))


def state_title(state: PictureState) -> str:
    """Return all that is known of a state, for those who point at it and those who hear it."""
    parts = [f"{visible(state.kind)} state {visible(state.name)}"]
    parts += ["active"] if state.active else ["visited"] if state.visited else []
    parts += [state.change] if state.change else []
    parts += [state.note] if state.note else []
    if state.remembers:
        parts.append(f"remembers {', '.join(map(visible, state.remembers))}")
    parts += [mark.detail or mark.text for mark in state.marks]
    return "; ".join(parts)


def edge_text(edge: PictureEdge) -> str:
    """Return what a transition is called; nothing where it has no event."""
    return ", ".join(map(shown, edge.events))


def edge_label(edge: PictureEdge) -> str:
    """Return a transition's label in DOT's markup, or nothing."""
    rows = [markup(shown(event)) for event in edge.events]
    rows += map(_mark, edge.marks)
    if not rows:
        return ""
    # The table keeps the text away from the line, and its second cell from the border of the state
    # around it, up to which Graphviz lets a label reach: markup has no margin of its own.
    cell = _rows(rows, is_left=True)[1:-1]
    return f"<<TABLE {_CELLS}><TR><TD>{cell}</TD><TD></TD></TR></TABLE>>"


def edge_title(edge: PictureEdge) -> str:
    """Return all that is known of a transition."""
    name = ", ".join(map(visible, edge.events)) or "without an event"
    to = ", ".join(map(visible, edge.targets)) or "nowhere"
    parts = [f"transition {name} from {visible(edge.source)} to {to}"]
    parts += ["internal"] if edge.internal else []
    parts += ["the last one taken"] if edge.is_last else []
    parts += [edge.change] if edge.change else []
    parts += [mark.detail or mark.text for mark in edge.marks]
    return "; ".join(parts)


def chart_label(picture: Picture) -> str:
    """Return a chart's label in DOT's markup."""
    rows = [f"<B>{markup(shown(picture.title))}</B>"]
    rows += (_small(line, "faint") for line in chart_lines(picture))
    return _rows(rows, is_left=True)


def chart_title(picture: Picture) -> str:
    """Return what a chart is, and which of its states are active."""
    at = f" at {visible(picture.path)}" if picture.path else ""
    active = [visible(state.name) for state in picture.every_state() if state.active]
    lit = f"; active: {', '.join(active)}" if active else ""
    return f"statechart {visible(picture.title)}{at}{lit}"


def chart_lines(picture: Picture) -> Iterator[str]:
    """Yield what stands below a chart's name."""
    for line in (picture.path, picture.status, picture.change):
        if line:
            yield shown(line)
    yield from picture.notes
    if picture.left_out:
        yield f"charts below it that are not drawn: {picture.left_out}"


def mark_text(mark: Mark) -> str:
    """Return a mark in a few words, an effect in doubt in loud ones."""
    if mark.status == "in doubt":
        return f"IN DOUBT: {mark.text.removesuffix(' in doubt')}"
    if mark.is_live and mark.kind in {"gate", "timer"}:
        return f"{mark.kind} {mark.text}"
    return mark.text


def _mark(mark: Mark) -> str:
    color = "doubt" if mark.is_urgent else _MARK_COLORS.get(mark.kind, "faint")
    text = _small(shown(mark_text(mark)), color if mark.is_live else "faint")
    return f"<B>{text}</B>" if mark.is_urgent else text


def _small(text: str, color: str) -> str:
    told = markup(visible(text))
    return f'<FONT POINT-SIZE="{_SMALL}" COLOR="{light(color)}">{told}</FONT>'


def _rows(rows: Iterable[str], *, is_left: bool) -> str:
    if is_left:
        return f"<{''.join(f'{row}{_LEFT}' for row in rows)}>"
    return f"<{'<BR/>'.join(rows)}>"
