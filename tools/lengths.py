"""Short rows saved as long ones are: what would take runs of 64 KB is seen in small ones."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from snapshots import limits

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def as_long_rows(*, if_so: bool = True) -> Iterator[None]:
    """Have room in every blob, and every save write over what changed of its row."""
    bounds = vars(limits)
    names = ("CANVAS_BYTES_MIN", "OVERWRITTEN_BYTES_MIN")
    before = {name: bounds[name] for name in names}
    if if_so:
        bounds.update(dict.fromkeys(names, 0))
    try:
        yield
    finally:
        bounds.update(before)
