"""A picture as the rows of a tree, for a terminal or any other list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapshots.inspection.diagram.picture import Picture, PictureState

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """One line of a tree: a chart or a state, `depth` levels below the root.

    `is_last` says that no row of the same parent follows.
    """

    depth: int
    is_last: bool
    item: Picture | PictureState


def to_tree(picture: Picture) -> list[TreeRow]:
    """Return a chart, its states and the charts that they invoke, each above what is in it."""
    return list(_chart(picture, 0, is_last=True))


def _chart(picture: Picture, depth: int, *, is_last: bool) -> Iterator[TreeRow]:
    yield TreeRow(depth=depth, is_last=is_last, item=picture)
    below: dict[str | None, list[Picture]] = {}
    known = {state.name for state in picture.every_state()}
    for child in picture.children:
        below.setdefault(child.state if child.state in known else None, []).append(child)
    stray = below.pop(None, [])
    yield from _rows([*picture.states, *stray], depth + 1, below)


def _rows(
    items: Sequence[Picture | PictureState], depth: int, below: dict[str | None, list[Picture]]
) -> Iterator[TreeRow]:
    for place, item in enumerate(items, start=1):
        is_last = place == len(items)
        if isinstance(item, Picture):
            yield from _chart(item, depth, is_last=is_last)
            continue
        yield TreeRow(depth=depth, is_last=is_last, item=item)
        yield from _rows([*item.states, *below.pop(item.name, [])], depth + 1, below)
