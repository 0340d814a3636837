"""How the parts of a picture look in DOT: colors, strokes and the classes that an SVG keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.inspection.diagram.palette import light

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.inspection.diagram.picture import Picture, PictureEdge, PictureState

Looks = dict[str, str]

_HISTORY: Final = ("history-shallow", "history-deep")
_KINDS: Final = frozenset({"atomic", "compound", "parallel", "final", *_HISTORY})
_CHANGED_FILLS: Final = {"gone": "goneback", "new": "newback", "changed": "changedback"}


def state_looks(state: PictureState, label: str, *, is_region: bool) -> Looks:
    """Return the attributes of a state; a region of a parallel state has a dashed border."""
    border = _border(state)
    styles = ["filled"] if state.kind in _HISTORY else ["rounded", "filled"]
    styles += ["dashed"] if is_region or state.change == "gone" else []
    looks = {
        "label": label,
        "style": ",".join(styles),
        "fillcolor": light(_fill(state)),
        "color": light(border),
        "penwidth": "1" if border == "line" else "2",
        "class": " ".join(_classes(state)),
    }
    if state.states:
        return looks | {"labeljust": "l", "margin": "10"}
    if state.kind == "final":
        looks["peripheries"] = "2"
    elif state.kind in _HISTORY:
        looks |= {"shape": "circle", "margin": "0.02"}
    return looks


def _border(state: PictureState) -> str:
    if state.is_urgent:
        return "doubt"
    return state.change or ("lit" if state.active else "line")


def _fill(state: PictureState) -> str:
    if state.is_urgent:
        return "alarm"
    if state.change:
        return _CHANGED_FILLS[state.change]
    if state.active:
        # What is around an active state is active too: the eye is to find the innermost.
        return "around" if state.states else "active"
    return f"visited{state.heat}" if state.heat else "paper"


def _classes(state: PictureState) -> Iterator[str]:
    """Yield words of our own alone: a kind comes out of a file."""
    yield "state"
    yield state.kind if state.kind in _KINDS else "unknown"
    if state.active:
        yield "active"
    if state.visited:
        yield f"visited visited{state.heat}"
    if state.change:
        yield state.change
    yield from dict.fromkeys(mark.kind for mark in state.marks if mark.is_live)
    if state.is_urgent:
        yield "urgent"


def edge_looks(edge: PictureEdge, label: str) -> Looks:
    """Return the attributes of a transition; an internal one is dotted, one that is gone dashed."""
    looks, classes = ({"label": label} if label else {}), ["transition"]
    if edge.internal:
        looks["style"] = "dotted"
    if edge.taken:
        classes.append("taken")
        looks["penwidth"] = "1.5"
    if edge.is_last:
        classes.append("last")
        looks |= {"color": light("last"), "penwidth": "2.5"}
    if edge.change:
        classes.append(edge.change)
        looks |= {"color": light(edge.change), "penwidth": "2"}
    if edge.change == "gone":
        looks["style"] = "dashed"
    return looks | {"class": " ".join(classes)}


def frame_looks(picture: Picture, label: str) -> Looks:
    """Return the attributes of the frame around a chart."""
    return {
        "label": label,
        "labeljust": "l",
        "style": "rounded,dashed" if picture.change == "gone" else "rounded",
        "color": light(picture.change or "line"),
        "margin": "12",
        "class": f"chart {picture.change}".rstrip(),
    }


def start_looks() -> Looks:
    """Return the attributes of the filled dot that an initial state is pointed at from."""
    return _point() | {"width": "0.12", "class": "initial"}


def port_looks() -> Looks:
    """Return the attributes of the dot that stands for its cluster where an edge ends inside it."""
    return _point() | {"width": "0.06", "class": "port"}


def _point() -> Looks:
    return {"shape": "point", "label": "", "color": light("line"), "fillcolor": light("line")}


def initial_looks() -> Looks:
    """Return the attributes of the arrow to an initial state."""
    return {"class": "initial"}


def link_looks() -> Looks:
    """Return the attributes of the line from a state to a chart that it invokes."""
    return {
        "style": "dashed",
        "arrowhead": "open",
        "color": light("faint"),
        "class": "invokes",
    }
