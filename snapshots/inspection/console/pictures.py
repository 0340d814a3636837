"""Statecharts for pages: drawn once for what they show, or told in words why they are not drawn."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from threading import Lock
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from snapshots.errors import ExtraNotInstalledError
from snapshots.inspection.diagram import DrawingError, to_dot, to_svg
from snapshots.inspection.limits import (
    CONSOLE_PICTURE_EDGES_MAX,
    CONSOLE_PICTURE_STATES_MAX,
    CONSOLE_PICTURES_MAX,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.inspection.diagram import Picture, PictureState

_TOO_LARGE: Final = "it has too many states and transitions to be drawn here; the list has them all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawing:
    """One chart for a page: its `svg`, or None and the `reason` why there is none."""

    picture: Picture
    svg: Markup | None
    reason: str = ""


class Drawings:
    """Draws charts, and keeps the latest drawings: most looks see what was seen before."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: OrderedDict[tuple[str, str], Markup] = OrderedDict()
        self._lock = Lock()

    def draw(self, picture: Picture, *, prefix: str) -> Drawing:
        """Draw one chart without those below it; the ids in it begin with `prefix`.

        Takes up to a second for a chart that was not drawn before: call it in a thread.
        """
        if _is_large(picture):
            return Drawing(picture=picture, svg=None, reason=_TOO_LARGE)
        alone = replace(picture, children=())
        key = (prefix, to_dot(alone))
        with self._lock:
            svg = self._kept.get(key)
            if svg is not None:
                self._kept.move_to_end(key)
        if svg is None:
            try:
                text = to_svg(alone, with_children=False, prefix=prefix, styled=False)
            except (ExtraNotInstalledError, DrawingError) as error:
                return Drawing(picture=picture, svg=None, reason=str(error))
            # Made of elements and attributes by a serializer that escapes what is in them.
            svg = Markup(text)  # noqa: S704 - what a file holds is text in it  # nosec B704
            self._keep(key, svg)
        return Drawing(picture=picture, svg=svg)

    def _keep(self, key: tuple[str, str], svg: Markup) -> None:
        with self._lock:
            self._kept[key] = svg
            while len(self._kept) > CONSOLE_PICTURES_MAX:
                self._kept.popitem(last=False)


def _is_large(picture: Picture) -> bool:
    states = sum(1 for _ in picture.every_state())
    return states > CONSOLE_PICTURE_STATES_MAX or len(picture.edges) > CONSOLE_PICTURE_EDGES_MAX


def one_side(compared: Picture, left_out: str) -> Picture:
    """Return a comparison without the parts that only the other side has ("new" or "gone")."""
    return replace(
        compared,
        states=tuple(_kept_states(compared.states, left_out)),
        edges=tuple(edge for edge in compared.edges if edge.change != left_out),
        children=tuple(
            one_side(child, left_out) for child in compared.children if child.change != left_out
        ),
    )


def _kept_states(states: tuple[PictureState, ...], left_out: str) -> Iterator[PictureState]:
    for state in states:
        if state.change == left_out:
            # What it holds may have moved there and belong to this side.
            yield from _kept_states(state.states, left_out)
        else:
            yield replace(state, states=tuple(_kept_states(state.states, left_out)))


def differences(compared: Picture) -> list[tuple[str, str]]:
    """Return what differs between two shapes, each as its change and a sentence part."""
    return [each for picture in compared.every_picture() for each in _differences(picture)]


def _differences(picture: Picture) -> Iterator[tuple[str, str]]:
    where = f" (in {picture.title})" if picture.path else ""
    if picture.change:
        yield picture.change, f"chart {picture.title}"
    for state in picture.every_state():
        if state.change:
            note = f": {state.note}" if state.note else ""
            yield state.change, f"state {state.name}{where}{note}"
    for edge in picture.edges:
        if edge.change:
            events = ", ".join(edge.events) or "without an event"
            yield edge.change, f"{edge.source} → {', '.join(edge.targets)} on {events}{where}"
