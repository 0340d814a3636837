"""Where a chart lies in a blob: its own text, the charts below it, and room for both to grow."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from snapshots.layout.joining import quote
from snapshots.limits import PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

BELOW: Final = b',"children":{'
END: Final = b"}}"
COMMA: Final = b","
BLANK: Final = b" "
_AROUND_BYTES: Final = 4  # a comma, two quotes and a colon, about the key of a chart
_LINK_BYTES: Final = 4
OVERFLOW_BYTES: Final = PAGE_BYTES - _LINK_BYTES
"""What each page behind the first holds of a long row (SQLite's file format, 1.6)."""


class Drawn(Protocol):
    """A chart as it is drawn: its own JSON object, encoded already, and those below it by key."""

    @property
    def fragment(self) -> bytes | None:
        """The chart without those below it; the same object until it moves."""

    @property
    def children(self) -> Mapping[str, Drawn]:
        """The charts below it."""

    @property
    def keys(self) -> Sequence[str]:
        """What leads to it from the root, which has none; its own key is the last."""


def roomy(length: int) -> int:
    """Return how much is set aside for a text: a quarter more, so that it can grow where it is."""
    return length + length // 4 + 16


class Room:
    """Stretches of a blob that hold nothing but spaces: first fit, neighbours joined."""

    __slots__ = ("free",)

    def __init__(self, start: int, size: int) -> None:
        self.free = [(start, size)] if size else []

    def take(self, size: int) -> int | None:
        """Return where so many bytes are free, None if they are nowhere; they are taken now."""
        for index, (start, there) in enumerate(self.free):
            if there >= size:
                self.free[index : index + 1] = [(start + size, there - size)][: there > size]
                return start
        return None

    def give(self, start: int, size: int) -> None:
        """Take back bytes that were blanked."""
        joined: list[tuple[int, int]] = []
        for at, there in sorted([*self.free, (start, size)]):
            if joined and sum(joined[-1]) == at:
                joined[-1] = joined[-1][0], joined[-1][1] + there
            else:
                joined.append((at, there))
        self.free = joined

    def shift(self, by: int) -> None:
        """Follow the blob, whose parts have moved."""
        self.free = [(start + by, size) for start, size in self.free]


@dataclass(slots=True, eq=False)
class Place:
    """The stretch of one chart, which begins with a comma, or a space, and the chart's key."""

    key: str
    name: bytes
    start: int
    size: int
    """Of all of it; of a chart with others below it the own text has `own_size` of these."""
    own: bytes
    """The fragment that was drawn."""
    own_size: int
    below: dict[str, Place] = field(default_factory=dict)
    first: Place | None = None
    """The one of those below that has no comma before it."""
    room: Room | None = None
    """What is free among those below; None for a chart without any."""

    @property
    def text(self) -> bytes:
        """The own text as it is drawn, without what leads it; without its last brace, if open."""
        return self.name + (self.own if self.room is None else self.own[:-1])

    def shift(self, by: int) -> None:
        """Follow the blob, whose parts have moved."""
        for place in self.walk():
            place.start += by
            if place.room is not None:
                place.room.shift(by)

    def walk(self) -> Iterator[Place]:
        """Yield the place and all below it."""
        yield self
        for place in self.below.values():
            yield from place.walk()


def laid_out(key: str, chart: Drawn, start: int, edge: int) -> tuple[Place, bytes]:
    """Return a new place for a chart, and its bytes; they begin with a comma.

    A page ends at `edge`, and at each `OVERFLOW_BYTES` from there.
    """
    assert chart.fragment is not None, f"chart {key!r} moved and was not encoded"
    name = quote(key) + b":"
    place = Place(key, name, start, 0, chart.fragment, 0)
    if not chart.children:
        place.size = place.own_size = roomy(1 + len(name) + len(chart.fragment))
        return place, (COMMA + place.text).ljust(place.size)
    place.room = Room(0, 0)
    place.own_size = roomy(len(name) + len(chart.fragment))
    parts = [(COMMA + place.text).ljust(place.own_size), BELOW]
    at = start + place.own_size + len(BELOW)
    for below, inner in chart.children.items():
        if gap := _gap(below, inner, at, edge):
            place.room.give(at, gap)
            parts.append(b" " * gap)
            at += gap
        laid, text = laid_out(below, inner, at, edge)
        place.first = place.first or laid
        place.below[below] = laid
        parts.append(text if laid is not place.first else BLANK + text[1:])
        at += laid.size
    # One of them can move, whichever it is, and a few more can come. What lies below them has
    # its room there: counted again at each level above, it would multiply.
    sizes = [laid.own_size for laid in place.below.values()]
    spare = sum(sizes) // 8 + roomy(max(sizes))
    place.room.give(at, spare)
    parts += (b" " * spare, END)
    place.size = at + spare + len(END) - start
    return place, b"".join(parts)


def _gap(key: str, chart: Drawn, at: int, edge: int) -> int:
    """Return how far behind `at` a chart shall begin, so that its text lies in one page.

    A save then logs one page for it, not two. Not where it would be far for what it is.
    """
    length = len(key) + len(chart.fragment or b"") + _AROUND_BYTES
    left = (edge - at) % OVERFLOW_BYTES
    return left if left < length <= OVERFLOW_BYTES and left <= length // 2 else 0
