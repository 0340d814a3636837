"""The bytes of one blob, drawn over from save to save, so that what did not change stays in place.

SQLite logs the pages that a save changes: an update compares a row that keeps its length page by
page, and of a long one nothing is written but the stretches that were drawn over. So each part lies
in a stretch of its own with spaces behind it, which JSON allows, and stays there: what outgrows its
stretch moves to a free one, and only when none is left is the blob laid out anew, with a quarter of
each part's length to spare.

First comes what every save changes, as far as it fits into the page that holds the row's other
columns too; then the parts that change seldom, then the charts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.layout.joining import BEGIN
from snapshots.layout.places import BLANK, COMMA, OVERFLOW_BYTES, Place, Room, laid_out, roomy
from snapshots.limits import KIB, PAGE_BYTES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from snapshots.layout.places import Drawn

_HEAP_BYTES_MIN: Final = 64 * KIB
_LOCAL_BYTES_MAX: Final = PAGE_BYTES - 35
_LOCAL_BYTES: Final = _LOCAL_BYTES_MAX - 21
"""How much of a row shall lie in the page of its other columns: nearly all that can."""


class _Slot:
    """The stretch of a part that is one member of the blob."""

    __slots__ = ("size", "start", "text")

    def __init__(self, start: int, size: int, text: bytes) -> None:
        self.start = start
        self.size = size
        self.text = text


class Canvas:
    """One blob, and where everything lies in it.

    `besides` is how long the row's other columns are, in bytes. `draw` gives the blob; `undo`
    puts the bytes back as they were before that, if they were not saved after all.
    """

    def __init__(self, besides: int) -> None:
        self.blob = bytearray()
        self._hot_size = _LOCAL_BYTES - besides
        self._besides = besides
        self._is_laid_out = False
        self._is_pending = False
        """Whether what was drawn last is neither kept nor undone yet."""
        self._undo: list[tuple[int, bytes]] = []
        self._former: bytearray | None = None
        self._hot_text = b""
        self._cold: dict[str, _Slot] = {}
        self._cold_drawn: Mapping[str, bytes] = {}
        """What changes seldom, as it was given last: most saves give the same object again."""
        self._spare = Room(0, 0)
        self._root: Place | None = None
        """Where the charts lie, None where that is not known beyond their whole span."""
        self._span = self._former_span = (0, 0)
        self.draws = 0
        """How often it was drawn."""

    def draw(
        self,
        begin: bytes,
        hot: Mapping[str, bytes],
        cold: Mapping[str, bytes],
        root: Drawn | None,
        moved: Sequence[Drawn],
    ) -> bytearray:
        """Draw the blob as it is now and return it; it is drawn over by the next call.

        `begin` opens the object and holds its first members. `hot` and `cold` are members that
        change always, or seldom, in the order in which room is found for them; what is given as
        `cold` does not change any more. Without `root` the charts stay as they are drawn, else
        `moved` are those that changed since the call before this, or got others below them.
        """
        self.keep()
        self.draws += 1
        if not (self._is_laid_out and self._drawn_over(begin, hot, cold, root, moved)):
            self._lay_out(begin, hot, cold, root)
        self._is_pending = True
        return self.blob

    def undo(self) -> None:
        """Put the bytes back to before the last `draw`; the next one lays them out anew."""
        if self._former is not None:
            self.blob, self._former = self._former, None
        for start, text in reversed(self._undo):
            self.blob[start : start + len(text)] = text
        self._undo.clear()
        self._span, self._root, self._is_laid_out = self._former_span, None, False
        self._is_pending = False

    def keep(self) -> None:
        """Let go of what `undo` needs: what was drawn is saved, and a run may wait for months."""
        self._undo.clear()
        self._former, self._former_span = None, self._span
        self._is_pending = False

    @property
    def changed(self) -> list[tuple[int, int]] | None:
        """Where the last `draw` has drawn, from and to; None if it has laid out all anew.

        None as well once that is kept or undone: an empty list would say that nothing differs.
        """
        if self._former is not None or not self._is_pending:
            return None
        return [(start, start + len(text)) for start, text in self._undo]

    @property
    def charts(self) -> bytes:
        """The charts as they are drawn: a member of the blob, behind its comma."""
        start, size = self._span
        return bytes(self.blob[start : start + size])

    # -- over what is there ---------------------------------------------------------------------

    def _write(self, start: int, text: bytes) -> None:
        end = start + len(text)
        self._undo.append((start, bytes(self.blob[start:end])))
        self.blob[start:end] = text

    def _drawn_over(
        self,
        begin: bytes,
        hot: Mapping[str, bytes],
        cold: Mapping[str, bytes],
        root: Drawn | None,
        charts: Sequence[Drawn],
    ) -> bool:
        """Draw what changed in its place, or in a free one; whether that was possible."""
        slots, away = self._cold, {}
        parts = [begin]
        for name, part in hot.items():
            if name in slots:
                away[name] = part
            else:
                parts += (BEGIN[name], part)
        text = b"".join(parts)
        if len(text) > self._hot_size:
            return False
        if text != self._hot_text:
            self._write(0, text.ljust(max(len(text), len(self._hot_text))))
            self._hot_text = text
        if away or cold is not self._cold_drawn or len(cold) != len(slots):
            if not self._draw_cold({**away, **cold}):
                return False
            self._cold_drawn = cold
        if root is None:
            return True
        return self._root is not None and self._draw_moved(self._root, charts)

    def _draw_cold(self, wanted: Mapping[str, bytes]) -> bool:
        slots = self._cold
        for name in slots.keys() - wanted.keys():
            self._blank_slot(slots.pop(name))
        for name, text in wanted.items():
            slot = slots.get(name)
            if slot is not None:
                if slot.text == text:
                    continue
                whole = BEGIN[name] + text
                if len(whole) <= slot.size:
                    self._write(slot.start, whole.ljust(slot.size))
                    slot.text = text
                    continue
                self._blank_slot(slots.pop(name))
            whole = BEGIN[name] + text
            size = roomy(len(whole))
            start = self._spare.take(size)
            if start is None:
                return False
            self._write(start, whole.ljust(size))
            slots[name] = _Slot(start, size, text)
        return True

    def _blank_slot(self, slot: _Slot) -> None:
        self._write(slot.start, b" " * slot.size)
        self._spare.give(slot.start, slot.size)

    def _draw_moved(self, root: Place, charts: Sequence[Drawn]) -> bool:
        """Draw the charts that moved; whether there is room for all."""
        for chart in charts:
            place, above = root, None
            keys = chart.keys
            for key in keys:
                below = place.below.get(key)
                if below is None:
                    break  # it is new, and drawn with the one above it, which moved too
                above, place = place, below
            else:
                if self._draw_chart(place, chart):
                    continue
                if above is None or not self._move(above, keys[-1], chart):
                    return False
        return True

    def _draw_chart(self, place: Place, chart: Drawn) -> bool:
        """Draw a chart and those below it where it lies; whether it has room there."""
        if (place.room is None) != (not chart.children):
            return False
        fragment = chart.fragment
        if fragment is not place.own:
            assert fragment is not None, f"chart {place.key!r} moved and was not encoded"
            whole = place.name + (fragment if place.room is None else fragment[:-1])
            if len(whole) >= place.own_size:
                return False
            # Behind its comma, or its space: which of the two it has depends on its neighbours.
            self._write(place.start + 1, whole.ljust(max(len(whole), len(place.text))))
            place.own = fragment
        return place.below.keys() == chart.children.keys() or self._draw_others(place, chart)

    def _draw_others(self, place: Place, chart: Drawn) -> bool:
        """Draw the charts that came below one, and blank those that went; whether there is room.

        One that was replaced under its key has moved itself.
        """
        below = place.below
        for key in [key for key in below if key not in chart.children]:
            self._blank(place, key)
        for key, inner in chart.children.items():
            if key not in below and not self._settle(place, key, inner):
                return False
        self._lead(place)
        return True

    def _move(self, above: Place, key: str, chart: Drawn) -> bool:
        """Draw a chart elsewhere below the one above it; whether there is room."""
        self._blank(above, key)
        if not self._settle(above, key, chart):
            return False
        self._lead(above)
        return True

    def _settle(self, above: Place, key: str, chart: Drawn) -> bool:
        laid, text = laid_out(key, chart, 0, 0)
        start = above.room.take(laid.size) if above.room is not None else None
        if start is None:
            return False
        laid.shift(start)
        self._write(start, text)
        above.below[key] = laid
        return True

    def _blank(self, above: Place, key: str) -> None:
        place = above.below.pop(key)
        self._write(place.start, b" " * place.size)
        if above.room is not None:
            above.room.give(place.start, place.size)

    def _lead(self, place: Place) -> None:
        """See that all charts below one begin with a comma, but for the first."""
        first = min(place.below.values(), key=lambda there: there.start)
        former, place.first = place.first, first
        if former is first and self.blob[first.start : first.start + 1] == BLANK:
            return
        if former is not None and place.below.get(former.key) is former:
            self._write(former.start, COMMA)
        self._write(first.start, BLANK)

    # -- anew -----------------------------------------------------------------------------------

    def _lay_out(
        self,
        begin: bytes,
        hot: Mapping[str, bytes],
        cold: Mapping[str, bytes],
        root: Drawn | None,
    ) -> None:
        """Give everything a new place, and room to grow there."""
        members = {name: BEGIN[name] + text for name, text in hot.items()}
        there, fitting = len(begin), []
        for name, part in members.items():
            if there + roomy(len(part)) <= self._hot_size:
                fitting.append(name)
                there += roomy(len(part))
        self._hot_size = max(self._hot_size, there)
        self._hot_text = b"".join((begin, *(members[name] for name in fitting)))
        parts = [self._hot_text.ljust(self._hot_size)]
        at = self._lay_out_cold(
            parts, {name: text for name, text in {**hot, **cold}.items() if name not in fitting}
        )
        at += self._lay_out_charts(parts, at, root)
        # The last brace lies where the row's length puts most of it beside the other columns.
        over = (self._besides + at + 1 - _LOCAL_BYTES) % OVERFLOW_BYTES
        parts += (b" " * (OVERFLOW_BYTES - over), b"}")
        self._former = self.blob
        self.blob = bytearray().join(parts)
        _keep_heap(len(self.blob))
        self._cold_drawn = cold
        self._is_laid_out = True

    def _lay_out_cold(self, parts: list[bytes], members: Mapping[str, bytes]) -> int:
        """Add the members that change seldom, and room for more; return where that ends."""
        at = self._hot_size
        self._cold = {}
        for name, text in members.items():
            whole = BEGIN[name] + text
            size = roomy(len(whole))
            parts.append(whole.ljust(size))
            self._cold[name] = _Slot(at, size, text)
            at += size
        spare = roomy(at - self._hot_size)
        parts.append(b" " * spare)
        self._spare = Room(at, spare)
        return at + spare

    def _lay_out_charts(self, parts: list[bytes], at: int, root: Drawn | None) -> int:
        """Add the charts, as they are drawn if they shall stay so; return how long they are."""
        gap = 0
        if root is not None:
            self._root, text = laid_out("root", root, at, _LOCAL_BYTES - self._besides)
        else:
            text = self.charts
            # By whole pages, so that what lies in one still does.
            gap = (self._span[0] - at) % OVERFLOW_BYTES
            if self._root is not None:
                self._root.shift(at + gap - self._root.start)
        parts += (b" " * gap, text)
        self._span = at + gap, len(text)
        return gap + len(text)


def _keep_heap(size: int) -> None:
    """Have malloc keep what the statements of this process take for a blob, and give back again.

    By default glibc returns memory beyond twice the largest piece freed so far: what SQLite copies
    of a long blob that is written whole is just that, and faulting its pages in anew made such a
    save of 1 MB three times as long. Freeing a larger piece once moves that bound, up to 64 MiB.
    """
    if size > _HEAP_BYTES_MIN:
        bytearray(4 * size)
