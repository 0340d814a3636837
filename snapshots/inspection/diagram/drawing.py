"""From a run's report and its stored shape to pictures: what is active, open, due, in doubt."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapshots.inspection.diagram.marks import declared, edge_marks, live_marks
from snapshots.inspection.diagram.outline import Outline, OutlineEdge, read_outline
from snapshots.inspection.diagram.picture import Picture, PictureEdge, PictureState
from snapshots.inspection.diagram.trail import steps_of
from snapshots.inspection.limits import PICTURE_CHARTS_MAX
from snapshots.inspection.reports.states import find_child, nest

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from snapshots.inspection.diagram.picture import Mark
    from snapshots.inspection.reports.records import NodeReport, RunReport
    from snapshots.inspection.reports.states import StateReport

_UNSHAPED = "the shape of this chart is not stored: only active states are shown"


def picture_of(view: RunReport, shape: bytes | None, *, now_ms: int | None = None) -> Picture:
    """Return the picture of a run: its root chart, and one picture for each chart below it.

    `shape` is what the `shapes` table holds for the run's digest; with None there are the states
    that the report has, and no transitions. `now_ms` is the time that timers count from, the
    report's own by default. Raises `DecodeError` for a shape that cannot be read.
    """
    outline = None if shape is None else read_outline(shape, view.header.run_id)
    artist = _Artist(view, view.now_ms if now_ms is None else now_ms)
    return artist.chart(view.root, None, (outline,) if outline else ())


def picture_of_shape(shape: bytes, *, active: Collection[str] = ()) -> Picture:
    """Return the picture of a chart without a run, and of the charts that it invokes.

    `active` names states to be lit. Raises `DecodeError` for bytes that are no shape.
    """
    return _bare(read_outline(shape), None, "", active)


def _bare(outline: Outline, state: str | None, path: str, active: Collection[str]) -> Picture:
    dresses = _Dresses(
        outline=outline,
        marks={name: declared(invokes) for name, invokes in outline.invokes.items()},
        heat={},
        history={},
    )
    below = f"{path}/" if path else ""
    return Picture(
        title=outline.name,
        path=path,
        state=state,
        states=tuple(map(dresses.dressed, nest(outline.shape, active))),
        edges=tuple(map(_edge, outline.edges)),
        children=tuple(
            _bare(child, key.rpartition(".")[0], f"{below}{key}", ())
            for key, child in outline.children.items()
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dresses:
    """What the states of one chart wear: marks, heat, memories."""

    outline: Outline | None
    marks: Mapping[str, tuple[Mark, ...]]
    heat: Mapping[str, int]
    history: Mapping[str, tuple[str, ...]]

    def dressed(self, state: StateReport) -> PictureState:
        name, outline = state.name, self.outline
        return PictureState(
            name=name,
            kind=state.kind,
            initial=state.initial,
            active=state.active,
            heat=self.heat.get(name, 0),
            remembers=self.history.get(name, ()),
            invokes=outline.invokes.get(name, ()) if outline else (),
            value=outline.values.get(name, "") if outline else "",
            marks=self.marks.get(name, ()),
            states=tuple(map(self.dressed, state.states)),
        )


class _Artist:
    """Draws the charts of one run; the charts that may still be drawn are counted down."""

    def __init__(self, view: RunReport, now_ms: int) -> None:
        self.view = view
        self.now_ms = now_ms
        self.doubts = {row.node for row in view.effects if row.status == "unknown"}
        self.charts_left = PICTURE_CHARTS_MAX

    def chart(
        self,
        node: NodeReport,
        state: str | None,
        lineage: tuple[Outline, ...],
        *,
        is_told: bool = False,
    ) -> Picture:
        """Draw a chart; `is_told` says that one above it has the note on its shape already."""
        self.charts_left -= 1
        outline = lineage[-1] if lineage else None
        heat = steps_of(self.view.trail, node.path).heat
        invokes = outline.invokes if outline else {}
        marks = {name: declared(words) for name, words in invokes.items()}
        marks |= live_marks(self.view, node, self.now_ms)
        dresses = _Dresses(outline=outline, marks=marks, heat=heat, history=node.history)
        children = self._children(node, lineage)
        return Picture(
            title=node.name,
            path=node.path,
            state=state,
            status=node.status if node.started or node.status != "active" else "not started",
            states=tuple(map(dresses.dressed, node.states)),
            edges=() if outline is None else self._edges(node, outline),
            notes=() if node.shaped or is_told else (_UNSHAPED,),
            children=children,
            left_out=len(node.children) - len(children),
        )

    def _children(self, node: NodeReport, lineage: tuple[Outline, ...]) -> tuple[Picture, ...]:
        places = {invoke.id: (invoke.state, invoke.index) for invoke in node.invokes}
        drawn: dict[int, Picture] = {}
        # Where not all are drawn, those that need a look are.
        order = sorted(enumerate(node.children), key=lambda entry: not self._is_urgent(entry[1]))
        for place, child in order:
            if self.charts_left <= 0:
                break
            state, index = places.get(child.path.rpartition("/")[2], (None, None))
            outline = find_child(lineage, child.name, state, index)
            below = (*lineage, outline) if outline is not None else ()
            drawn[place] = self.chart(child, state, below, is_told=not node.shaped)
        return tuple(drawn[place] for place in sorted(drawn))

    def _is_urgent(self, node: NodeReport) -> bool:
        """Whether an effect is in doubt in a chart, or in one below it."""
        return any(path == node.path or path.startswith(f"{node.path}/") for path in self.doubts)

    def _edges(self, node: NodeReport, outline: Outline) -> tuple[PictureEdge, ...]:
        steps = steps_of(self.view.trail, node.path)
        taken, last = steps.explained(outline.edges, outline.shape.parents)
        timed = edge_marks(self.view, node, self.now_ms)
        return tuple(
            _edge(
                edge,
                taken=taken[place],
                is_last=place in last,
                marks=_due(edge, timed) if edge.source in node.configuration else (),
            )
            for place, edge in enumerate(outline.edges)
        )


def _due(edge: OutlineEdge, timed: Mapping[str, tuple[Mark, ...]]) -> tuple[Mark, ...]:
    return tuple(mark for event in edge.events for mark in timed.get(event, ()))


def _edge(
    edge: OutlineEdge, *, taken: int = 0, is_last: bool = False, marks: tuple[Mark, ...] = ()
) -> PictureEdge:
    return PictureEdge(
        source=edge.source,
        targets=edge.targets,
        events=edge.events,
        internal=edge.internal,
        initial=edge.initial,
        taken=taken,
        is_last=is_last,
        marks=marks,
    )
