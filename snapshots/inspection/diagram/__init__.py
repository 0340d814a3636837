"""Pictures of charts, from what is stored: DOT, SVG, PNG, Mermaid, and a tree for a terminal."""

from snapshots.inspection.diagram.comparing import compare
from snapshots.inspection.diagram.dot import to_dot
from snapshots.inspection.diagram.drawing import picture_of, picture_of_shape
from snapshots.inspection.diagram.mermaid import to_mermaid
from snapshots.inspection.diagram.palette import style_sheet
from snapshots.inspection.diagram.picture import Mark, Picture, PictureEdge, PictureState
from snapshots.inspection.diagram.rendering import DrawingError
from snapshots.inspection.diagram.svg import to_png, to_svg
from snapshots.inspection.diagram.tree import TreeRow, to_tree

__all__ = [
    "DrawingError",
    "Mark",
    "Picture",
    "PictureEdge",
    "PictureState",
    "TreeRow",
    "compare",
    "picture_of",
    "picture_of_shape",
    "style_sheet",
    "to_dot",
    "to_mermaid",
    "to_png",
    "to_svg",
    "to_tree",
]
