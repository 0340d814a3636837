"""Where the parts of a blob lie in it, so that a save costs what changed."""

from snapshots.layout.canvas import Canvas
from snapshots.layout.folding import fold, unfold, unfold_blob
from snapshots.layout.joining import BEGIN, array, join, mapping, quote
from snapshots.layout.rows import Rows

__all__ = [
    "BEGIN",
    "Canvas",
    "Rows",
    "array",
    "fold",
    "join",
    "mapping",
    "quote",
    "unfold",
    "unfold_blob",
]
