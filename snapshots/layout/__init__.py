"""Where the parts of a blob lie in it, so that a save costs what changed."""

from snapshots.layout.canvas import Canvas
from snapshots.layout.folding import fold, unfold, unfold_blob
from snapshots.layout.joining import array, join, mapping, member, quote
from snapshots.layout.rows import Rows

__all__ = [
    "Canvas",
    "Rows",
    "array",
    "fold",
    "join",
    "mapping",
    "member",
    "quote",
    "unfold",
    "unfold_blob",
]
