"""Two shapes in one picture: what is only in the old one is gone, only in the new one is new."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from snapshots.inspection.diagram.drawing import picture_of_shape
from snapshots.inspection.printable import visible

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from snapshots.inspection.diagram.picture import Picture, PictureEdge, PictureState


def compare(old: bytes | Picture, new: bytes | Picture) -> Picture:
    """Return the new chart with what is gone put back into it, and every difference marked.

    Both are shapes as the `shapes` table holds them, or pictures. A state that lies elsewhere, is
    of another kind or value, or invokes something else is "changed", and its note says how. What
    the old picture lights, tints and marks is kept: that is where the run stands. Raises
    `DecodeError` for bytes that are no shape.
    """
    before = picture_of_shape(old) if isinstance(old, bytes) else old
    after = picture_of_shape(new) if isinstance(new, bytes) else new
    return _compared(before, after)


def _compared(before: Picture, after: Picture) -> Picture:
    return replace(
        after,
        path=before.path,
        state=before.state,
        status=before.status,
        notes=before.notes,
        left_out=before.left_out,
        states=_States(dict(_placed(before)), dict(_placed(after))).below(None),
        edges=_edges(before, after),
        children=_children(before, after),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    """A state and the name of the one that it lies in."""

    parent: str | None
    state: PictureState


class _States:
    """Lays the states of both charts into one tree; where they differ, the new one decides."""

    def __init__(self, old: Mapping[str, _Placed], new: Mapping[str, _Placed]) -> None:
        self.old, self.new = old, new
        self.inside: dict[str | None, list[str]] = {}
        for name, placed in (dict(old) | dict(new)).items():
            self.inside.setdefault(placed.parent, []).append(name)

    def below(self, parent: str | None) -> tuple[PictureState, ...]:
        return tuple(map(self._merged, self.inside.get(parent, ())))

    def _merged(self, name: str) -> PictureState:
        old, new, states = self.old.get(name), self.new.get(name), self.below(name)
        if new is None:
            assert old is not None, f"{name!r} is of one of both"
            return replace(old.state, change="gone", states=states)
        if old is None:
            return replace(new.state, change="new", states=states)
        note = "; ".join(_differences(old, new))
        return replace(
            new.state,
            active=old.state.active,
            heat=old.state.heat,
            remembers=old.state.remembers,
            marks=old.state.marks,
            change="changed" if note else "",
            note=note,
            states=states,
        )


def _placed(picture: Picture) -> Iterator[tuple[str, _Placed]]:
    for state in picture.states:
        yield state.name, _Placed(parent=None, state=state)
    for state in picture.every_state():
        for inner in state.states:
            yield inner.name, _Placed(parent=state.name, state=inner)


def _differences(old: _Placed, new: _Placed) -> Iterator[str]:
    was, now = old.state, new.state
    if was.kind != now.kind:
        yield f"was {visible(was.kind)}"
    if old.parent != new.parent:
        yield f"lay in {visible(old.parent)}" if old.parent is not None else "lay at the root"
    if was.value != now.value:
        yield f"had the value {visible(was.value)}"
    if was.initial != now.initial:
        yield "was initial" if was.initial else "was not initial"
    if was.invokes != now.invokes:
        yield f"invoked {', '.join(map(visible, was.invokes)) or 'nothing'}"


def _edges(before: Picture, after: Picture) -> tuple[PictureEdge, ...]:
    """Return the transitions of both; one that both have is as the old picture marks it."""
    old = Counter(map(_key, before.edges))
    new = Counter(map(_key, after.edges))
    gone, added = old - new, new - old
    found = [replace(edge, change="gone") if _takes(gone, edge) else edge for edge in before.edges]
    found += [replace(edge, change="new") for edge in after.edges if _takes(added, edge)]
    return tuple(found)


def _takes(left: Counter[object], edge: PictureEdge) -> bool:
    key = _key(edge)
    found = left[key] > 0
    left[key] -= found
    return found


def _key(edge: PictureEdge) -> object:
    return edge.source, edge.events, edge.targets, edge.internal, edge.initial


def _children(before: Picture, after: Picture) -> tuple[Picture, ...]:
    """Pair the charts below by the state that invokes them and their class.

    A run names a chart below it by the invoke, a shape by the state and its place: both say the
    state. A chart of today's that the run does not have open is left out, unless neither picture
    is of a run.
    """
    new = {(child.state, child.title): child for child in after.children}
    used = {(child.state, child.title) for child in before.children}
    found = [
        replace(child, change="gone") if today is None else _compared(child, today)
        for child in before.children
        for today in (new.get((child.state, child.title)),)
    ]
    if not before.status:
        found += [replace(child, change="new") for key, child in new.items() if key not in used]
    return tuple(found)
