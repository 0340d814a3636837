"""The ledger of the last transitions: for who asks how a run got where it is."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from snapshots.codec import dump, load
from snapshots.limits import TRAIL_BYTES_MAX, TRAIL_ENTRIES_MAX, TRAIL_EVENT_CHARS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Trail:
    """The newest transitions of one run, oldest first: so many, and so many bytes of JSON.

    The bytes are bounded because every save writes them: they fit into the page that it changes
    anyway. The newest transition is kept however long it is.

    An entry never changes, so it is kept as the JSON that it is saved as: to encode a full trail
    anew would be a quarter of all that a host does for an event. So is the whole array.
    """

    def __init__(self, entries: Iterable[list[Any]] = ()) -> None:
        self._entries: deque[bytes] = deque(map(dump, entries), TRAIL_ENTRIES_MAX)
        self._bytes = sum(map(len, self._entries))
        self.json = b"[%b]" % b",".join(self._entries) if self._entries else b""
        """`[at_ms, path, event, from, to]` for each transition, oldest first; empty without one."""

    def add(
        self, at_ms: int, path: str, event: str, was: list[str], now: list[str]
    ) -> Callable[[], None]:
        """Note that a chart went from one configuration to another at an event, cut to a bound.

        Returns what takes the note back, while no other was added behind it.
        """
        entries, size, former = self._entries, self._bytes, self.json
        added = dump([at_ms, path, event[:TRAIL_EVENT_CHARS_MAX], was, now])
        forgotten: list[bytes] = []
        self._bytes += len(added)
        while entries and (self._bytes > TRAIL_BYTES_MAX or len(entries) == TRAIL_ENTRIES_MAX):
            forgotten.append(entries.popleft())
            self._bytes -= len(forgotten[-1])
        # It grows at one end and shrinks at the other: what stays is copied, not joined anew.
        cut = size + len(added) - self._bytes + len(forgotten)
        self.json = b"[%b,%b]" % (former[1 + cut : -1], added) if entries else b"[%b]" % added
        entries.append(added)

        def undo() -> None:
            entries.pop()
            entries.extendleft(reversed(forgotten))
            self._bytes, self.json = size, former

        return undo

    def as_value(self) -> list[Any]:
        """Return the entries as JSON values."""
        return [load(entry) for entry in self._entries]

    def __len__(self) -> int:
        return len(self._entries)
