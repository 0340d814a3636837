"""A picture as SVG and PNG: Graphviz's drawing, made to stand alone and to be read aloud."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree as ET  # it reads our own drawings alone  # nosec B405

from snapshots.inspection.diagram.dot import PREFIX, drawing_of
from snapshots.inspection.diagram.metrics import width_of
from snapshots.inspection.diagram.palette import COLORS, style_sheet
from snapshots.inspection.diagram.rendering import graphviz

if TYPE_CHECKING:
    from collections.abc import Mapping

    from snapshots.inspection.diagram.picture import Picture

_NAMESPACE: Final = "http://www.w3.org/2000/svg"
# Those that are as wide as the first, for which there is room, before any other.
_FONTS: Final = "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', Arimo, sans-serif"
_COLOR_NAMES: Final = {both[0]: name for name, both in COLORS.items()}


def to_svg(
    picture: Picture, *, with_children: bool = True, prefix: str = PREFIX, styled: bool = True
) -> str:
    """Return the picture as one SVG element that refers to nothing outside it and runs nothing.

    It is light or dark as its reader prefers. Element ids begin with `prefix`, a word of letters,
    digits and underscores, so that several pictures fit on one page; `styled=False` leaves out
    the style sheet, for a page that has `style_sheet()` already.

    Raises `ExtraNotInstalledError` where no Graphviz is found, `DrawingError` where it fails.
    """
    assert prefix.isidentifier(), f"{prefix!r} names elements, expected letters and digits"
    drawing = drawing_of(picture, with_children=with_children, prefix=prefix)
    drawn = graphviz(drawing.text, "svg")
    root = ET.fromstring(drawn)  # noqa: S314 - Graphviz made it of our own DOT  # nosec B314
    for element in root.iter():
        _settle(element, drawing.titles)
    root.set("xmlns", _NAMESPACE)
    root.set("class", "picture")
    root.set("role", "img")
    told = [("title", drawing.titles[f"{prefix}0"])]
    told += [("style", style_sheet())] if styled else []
    for place, (tag, text) in enumerate(told):
        element = ET.Element(tag)
        element.text = text
        root.insert(place, element)
    return f"{ET.tostring(root, encoding='unicode')}\n"


def to_png(picture: Picture, *, with_children: bool = True) -> bytes:
    """Return the picture as PNG, in light colors.

    Raises `ExtraNotInstalledError` where no Graphviz is found, `DrawingError` where it fails.
    """
    return graphviz(drawing_of(picture, with_children=with_children).text, "png")


def _settle(element: ET.Element, titles: Mapping[str, str]) -> None:
    """Name an element's colors by classes, and give it the title that belongs to it."""
    element.tag = element.tag.rpartition("}")[2]
    classes = element.get("class", "").split()
    for attribute, letter in (("fill", "f"), ("stroke", "s")):
        name = _COLOR_NAMES.get(element.get(attribute, ""))
        if name is not None:
            classes.append(f"{letter}-{name}")
    if element.tag == "text":
        _fit(element)
    if classes:
        element.set("class", " ".join(classes))
    for child in element.findall(f"{{{_NAMESPACE}}}title"):
        told = titles.get(element.get("id", ""))
        if told is None:
            element.remove(child)
        else:
            child.text = told


def _fit(element: ET.Element) -> None:
    """Have a text take the room that it was given, whatever font its reader has instead."""
    element.set("font-family", _FONTS)
    size, is_bold = float(element.get("font-size", "0")), element.get("font-weight") == "bold"
    width = width_of(element.text or "", size, is_bold=is_bold)
    if width:
        element.set("textLength", f"{width:.1f}")
        element.set("lengthAdjust", "spacingAndGlyphs")
