"""How much one slice of a sweep takes: rows are counted, and so are the bytes that they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots import limits

if TYPE_CHECKING:
    from collections.abc import Iterable

    from snapshots.database.connection import Row


def fitting(lengths: Iterable[Row]) -> int:
    """Return how many of the first rows fit a slice: at least one, if there is any.

    `lengths` are rows of one number, the bytes of a row's content. SQLite tells that without
    reading the content, while a deletion follows it from page to page.
    """
    rows, size = 0, 0
    for (length,) in lengths:
        size += length
        if rows and size > limits.SWEEP_SLICE_BYTES:
            break
        rows += 1
    return rows
