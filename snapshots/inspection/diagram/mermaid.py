"""A picture as Mermaid text, a `stateDiagram-v2`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.inspection.diagram.labels import (
    chart_lines,
    edge_text,
    mark_text,
    shown,
    state_lines,
    state_name,
)
from snapshots.inspection.diagram.palette import light
from snapshots.inspection.printable import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from snapshots.inspection.diagram.picture import Picture, PictureEdge, PictureState

# Class → fill, border. Mermaid has no colors that follow the page, so the text's is given too.
_INK: Final = f"color:{light('ink')}"
_CLASSES: Final = {
    "active": ("active", "lit"),
    "visited": ("visited2", "line"),
    "urgent": ("alarm", "doubt"),
    "gone": ("goneback", "gone"),
    "new": ("newback", "new"),
    "changed": ("changedback", "changed"),
}
# All else is written as its number: a colon, a quote, a bracket or a dash may mean something.
_PLAIN: Final = frozenset(" _.,=()*")
_COMMA: Final = ", "
_LINE: Final = "<br/>"

_Ids = dict[tuple[str, str], str]


def to_mermaid(picture: Picture, *, with_children: bool = True) -> str:
    """Return the picture as Mermaid text; charts below it are composite states beside it.

    A history state is drawn as a state with "H" or "H*" before its name: Mermaid has none.
    """
    drawn = list(picture.every_picture()) if with_children else [picture]
    frames = {id(chart): f"c{place}" for place, chart in enumerate(drawn)}
    ids = {
        (frame, state.name): f"{frame}s{place}"
        for frame, chart in zip(frames.values(), drawn, strict=True)
        for place, state in enumerate(chart.every_state())
    }
    lines = ["stateDiagram-v2", *_states(picture.states, ids, "c0", 1)]
    for chart in drawn[1:]:
        lines += _framed(chart, ids, frames[id(chart)])
    for chart in drawn:
        lines += _edges(chart, ids, frames[id(chart)])
        lines += (
            f"  {tail} --> {frames[id(child)]} : invokes"
            for child in chart.children
            if with_children
            if (tail := ids.get((frames[id(chart)], child.state or ""))) is not None
        )
    for name, (fill, line) in _CLASSES.items():
        lines.append(f"  classDef {name} fill:{light(fill)},stroke:{light(line)},{_INK}")
    for chart in drawn:
        for state in chart.every_state():
            if chosen := _class(state):
                lines.append(f"  class {ids[frames[id(chart)], state.name]} {chosen}")
    return "".join(f"{line}\n" for line in lines)


def _framed(chart: Picture, ids: _Ids, frame: str) -> Iterator[str]:
    yield f'  state "{_label((shown(chart.title), *chart_lines(chart)))}" as {frame}'
    if chart.states:
        yield f"  state {frame} {{"
        yield from _states(chart.states, ids, frame, 2)
        yield "  }"


def _states(
    states: Sequence[PictureState], ids: _Ids, frame: str, depth: int, *, is_parallel: bool = False
) -> Iterator[str]:
    pad = "  " * depth
    for place, state in enumerate(states):
        if is_parallel and place:
            yield f"{pad}--"
        name = ids[frame, state.name]
        told = (state_name(state), *state_lines(state), *map(mark_text, state.marks))
        # The title of a composite state has room for one line.
        label = _label(told, _COMMA if state.states else _LINE)
        yield f'{pad}state "{label}" as {name}'
        if state.states:
            yield f"{pad}state {name} {{"
            inner = state.kind == "parallel"
            yield from _states(state.states, ids, frame, depth + 1, is_parallel=inner)
            yield f"{pad}}}"
        if state.initial and not is_parallel:
            yield f"{pad}[*] --> {name}"
        if state.kind == "final":
            yield f"{pad}{name} --> [*]"


def _edges(chart: Picture, ids: _Ids, frame: str) -> Iterator[str]:
    """Yield the transitions as arrows, and those between a state and one around it as notes.

    Mermaid draws an arrow from a composite state to what is in it badly, and often not at all.
    """
    within = {state.name: frozenset(_names(state)) for state in chart.every_state()}
    notes: dict[str, list[str]] = {}
    for edge in chart.edges:
        # An initial transition is the arrow that the initial state is drawn with.
        if edge.initial or edge.source not in within:
            continue
        words = _label(_edge_words(edge))
        for target in edge.targets or (edge.source,):
            if target == edge.source or not _is_inward(edge.source, target, within):
                if target in within:
                    tail, head = ids[frame, edge.source], ids[frame, target]
                    yield f"  {tail} --> {head}" + (f" : {words}" if words else "")
            elif target in within[edge.source]:
                notes.setdefault(target, []).append(f"{words} from {_escaped(shown(edge.source))}")
            else:
                notes.setdefault(edge.source, []).append(f"{words} to {_escaped(shown(target))}")
    for name, told in notes.items():
        yield f"  note right of {ids[frame, name]} : {_LINE.join(map(str.strip, told))}"


def _names(state: PictureState) -> Iterator[str]:
    yield state.name
    for inner in state.states:
        yield from _names(inner)


def _is_inward(source: str, target: str, within: Mapping[str, frozenset[str]]) -> bool:
    return target in within[source] or source in within.get(target, ())


def _edge_words(edge: PictureEdge) -> Iterator[str]:
    if edge.change:
        yield edge.change
    if edge.events:
        yield edge_text(edge)
    yield from map(mark_text, edge.marks)
    if edge.is_last:
        yield "(last)"


def _class(state: PictureState) -> str:
    if state.is_urgent:
        return "urgent"
    return state.change or ("active" if state.active else "visited" if state.visited else "")


def _label(lines: Iterable[str], between: str = _COMMA) -> str:
    return between.join(map(_escaped, lines))


def _escaped(text: str) -> str:
    """Return text in which Mermaid sees text alone."""
    return "".join(
        char if char.isalnum() or char in _PLAIN else f"#{ord(char)};" for char in visible(text)
    )
