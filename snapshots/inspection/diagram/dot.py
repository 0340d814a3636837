"""A picture as DOT, Graphviz's language: nested clusters, in the convention of statecharts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from snapshots.inspection.diagram.labels import (
    chart_label,
    chart_title,
    edge_label,
    edge_title,
    state_label,
    state_title,
)
from snapshots.inspection.diagram.looks import (
    edge_looks,
    frame_looks,
    initial_looks,
    link_looks,
    port_looks,
    start_looks,
    state_looks,
)
from snapshots.inspection.diagram.palette import light

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from snapshots.inspection.diagram.picture import Picture, PictureEdge, PictureState

# The name of a font whose widths Graphviz knows without having it.
FONT: Final = "Helvetica"
PREFIX: Final = "chart"

_DEFAULTS: Final = {
    "graph": {
        "compound": "true",
        "bgcolor": light("paper"),
        "color": light("line"),
        "fontcolor": light("ink"),
        "fontname": FONT,
        "fontsize": "12",
        "nodesep": "0.35",
        "ranksep": "0.4",
    },
    "node": {
        "shape": "box",
        "fontname": FONT,
        "fontsize": "12",
        "fontcolor": light("ink"),
        "height": "0.3",
        "margin": "0.12,0.07",
    },
    "edge": {
        "fontname": FONT,
        "fontsize": "10",
        "fontcolor": light("ink"),
        "color": light("line"),
        "arrowsize": "0.7",
    },
}


def to_dot(picture: Picture, *, with_children: bool = True) -> str:
    """Return the picture as DOT; charts below it stand beside it, each in a frame of its own."""
    return drawing_of(picture, with_children=with_children).text


@dataclass(frozen=True, slots=True, kw_only=True)
class DotDrawing:
    """DOT, and what it does not say: the titles of its elements by their ids."""

    text: str
    titles: Mapping[str, str]


def drawing_of(picture: Picture, *, with_children: bool = True, prefix: str = PREFIX) -> DotDrawing:
    """Return the picture as DOT, in which the id of every element begins with `prefix`."""
    pen = _Pen(prefix=prefix)
    pen.write(0, "digraph picture {")
    for what, defaults in _DEFAULTS.items():
        pen.write(1, f"{what} {_listed(defaults)}")
    _Chart(pen, picture).draw(with_children=with_children)
    pen.write(0, "}")
    return DotDrawing(text="".join(f"{line}\n" for line in pen.lines), titles=pen.titles)


@dataclass(slots=True, kw_only=True)
class _Pen:
    """Writes lines; keeps titles by the ids of what they belong to."""

    prefix: str
    lines: list[str] = field(default_factory=list)
    titles: dict[str, str] = field(default_factory=dict)
    charts: int = 0

    def write(self, depth: int, text: str) -> None:
        self.lines.append(f"{'  ' * depth}{text}")

    def element(
        self, depth: int, what: str, name: str, looks: Mapping[str, str], title: str = ""
    ) -> None:
        """Write a node, an edge or the attributes of a cluster, with the id `name`."""
        if title:
            self.titles[name] = title
        self.write(depth, f"{what} {_listed({'id': name, **looks})}")


class _Chart:
    """One chart while it is drawn.

    Graphviz draws edges between nodes alone: one that ends at a cluster ends at a node in it, and
    is cut off at the cluster's border if its other end lies outside; else it ends at a port.
    """

    def __init__(self, pen: _Pen, picture: Picture) -> None:
        self.pen, self.picture = pen, picture
        self.frame = f"{pen.prefix}{pen.charts}"
        pen.charts += 1
        states = list(picture.every_state())
        self.ids = {state.name: f"{self.frame}s{place}" for place, state in enumerate(states)}
        self.lasts = {state.name: _last(state) for state in states if state.states}
        self.within = {state.name: frozenset(_names(state)) for state in states}
        self.starts = {state.name for state in states if _initial(state)}
        self.initials = {s.name: {i.name for i in s.states if i.initial} for s in states}
        self.tops = {state.name: self._top(state) for state in states}
        self.edges = [edge for edge in picture.edges if self._is_drawn(edge)]
        self.ported = {
            name
            for edge in self.edges
            for target in _targets(edge)
            for name in (edge.source, target)
            if name in self.lasts and self._is_inward(edge.source, target)
        }

    def draw(self, *, with_children: bool) -> None:
        picture = self.picture
        self.pen.write(1, f"subgraph cluster_{self.frame} {{")
        looks = frame_looks(picture, chart_label(picture))
        self.pen.element(2, "graph", self.frame, looks, chart_title(picture))
        if not picture.states or any(state.initial for state in picture.states):
            looks = start_looks() if picture.states else port_looks()
            self.pen.element(2, f"{self.frame}i", f"{self.frame}i", looks)
        for state in picture.states:
            self._state(state, 2, is_region=False)
        for state in picture.states:
            if state.initial:
                self._start(f"{self.frame}i", state.name, 2)
        self.pen.write(1, "}")
        for place, edge in enumerate(self.edges):
            self._edge(edge, place)
        for child in picture.children if with_children else ():
            self._child(child)

    def _state(self, state: PictureState, depth: int, *, is_region: bool) -> None:
        name, title = self.ids[state.name], state_title(state)
        looks = state_looks(state, state_label(state), is_region=is_region)
        if not state.states:
            self.pen.element(depth, name, name, looks, title)
            return
        self.pen.write(depth, f"subgraph cluster_{name} {{")
        self.pen.element(depth + 1, "graph", name, looks, title)
        is_parallel = state.kind == "parallel"
        if state.name in self.starts:
            self.pen.element(depth + 1, f"{name}i", f"{name}i", start_looks())
        elif state.name in self.ported:
            self.pen.element(depth + 1, f"{name}i", f"{name}i", port_looks())
        for inner in state.states:
            self._state(inner, depth + 1, is_region=is_parallel)
        for inner in _initial(state):
            self._start(f"{name}i", inner.name, depth + 1)
        self.pen.write(depth, "}")

    def _start(self, dot: str, name: str, depth: int) -> None:
        head, cut = self._head(name)
        self.pen.element(depth, f"{dot} -> {head}", f"{dot}{self.ids[name]}", initial_looks() | cut)

    def _top(self, state: PictureState) -> str:
        """Return the node in a state that stands highest: edges to the state end at it."""
        if state.name in self.starts:
            return f"{self.ids[state.name]}i"
        return self._top(state.states[0]) if state.states else self.ids[state.name]

    def _head(self, name: str) -> tuple[str, dict[str, str]]:
        cut = {"lhead": f"cluster_{self.ids[name]}"} if name in self.lasts else {}
        return self.tops[name], cut

    def _tail(self, name: str) -> tuple[str, dict[str, str]]:
        if name not in self.lasts:
            return self.ids[name], {}
        # From the last of what is in it, so that what follows stands below and not beside it.
        return self.ids[self.lasts[name]], {"ltail": f"cluster_{self.ids[name]}"}

    def _is_inward(self, source: str, target: str) -> bool:
        inside, around = self.within.get(source, ()), self.within.get(target, ())
        return target in inside or source in around

    def _edge(self, edge: PictureEdge, place: int) -> None:
        label = edge_label(edge)
        for number, target in enumerate(name for name in _targets(edge) if name in self.ids):
            tail, head, cut = self._ends(edge.source, target)
            looks = edge_looks(edge, "" if number else label) | cut
            name = f"{self.frame}t{place}" + (f"n{number}" if number else "")
            self.pen.element(1, f"{tail} -> {head}", name, looks, edge_title(edge))

    def _is_drawn(self, edge: PictureEdge) -> bool:
        """Whether an edge begins here, and says more than the arrow to an initial state does."""
        if edge.source not in self.ids or not edge.initial:
            return edge.source in self.ids
        return not self.initials[edge.source].issuperset(edge.targets)

    def _ends(self, source: str, target: str) -> tuple[str, str, dict[str, str]]:
        if self._is_inward(source, target):
            ends = [
                f"{self.ids[name]}i" if name in self.lasts else self.ids[name]
                for name in (source, target)
            ]
            return ends[0], ends[1], {}
        (tail, tails), (head, heads) = self._tail(source), self._head(target)
        return tail, head, tails | heads

    def _child(self, child: Picture) -> None:
        chart = _Chart(self.pen, child)
        chart.draw(with_children=True)
        if child.state in self.ids:
            tail, cut = self._tail(child.state)
            head = chart.first_node()
            cut["lhead"] = f"cluster_{chart.frame}"
            self.pen.element(1, f"{tail} -> {head}", f"{chart.frame}c", link_looks() | cut)

    def first_node(self) -> str:
        """Return a node of this chart that an edge to its frame can end at."""
        states = self.picture.states
        if not states or any(state.initial for state in states):
            return f"{self.frame}i"
        return self.tops[states[0].name]


def _targets(edge: PictureEdge) -> tuple[str, ...]:
    return edge.targets or (edge.source,)


def _initial(state: PictureState) -> list[PictureState]:
    """Return the states in it that are initial; all regions of a parallel state are, unmarked."""
    if state.kind == "parallel":
        return []
    return [inner for inner in state.states if inner.initial]


def _last(state: PictureState) -> str:
    return _last(state.states[-1]) if state.states else state.name


def _names(state: PictureState) -> Iterator[str]:
    yield state.name
    for inner in state.states:
        yield from _names(inner)


def _listed(pairs: Mapping[str, str]) -> str:
    """Return attributes; a value that is no markup is one of ours, without quotes in it."""
    return "[" + ", ".join(f"{key}={_value(value)}" for key, value in pairs.items()) + "];"


def _value(value: str) -> str:
    return value if value.startswith("<") else f'"{value}"'
