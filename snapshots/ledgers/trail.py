"""The ledger of the last transitions: for who asks how a run got where it is."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from snapshots.codec import dump, load
from snapshots.limits import TRAIL_BYTES_MAX, TRAIL_ENTRIES_MAX, TRAIL_EVENT_CHARS_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Trail:
    """The newest transitions of one run, oldest first: so many, and so many bytes of JSON.

    The bytes are bounded because every save writes them: they fit into the page that it changes
    anyway. The newest transition is kept however long it is.

    An entry never changes, so the trail is kept as the JSON that it is saved as: to encode a full
    one anew would be a quarter of all that a host does for an event.
    """

    def __init__(self, entries: Iterable[list[Any]] = ()) -> None:
        texts = [*map(dump, entries)][-TRAIL_ENTRIES_MAX:]
        self._sizes = tuple(map(len, texts))
        """How long the JSON of each entry is."""
        self.json = b"[%b]" % b",".join(texts) if texts else b""
        """`[at_ms, path, event, from, to]` for each transition, oldest first; empty without one."""

    def add(
        self, at_ms: int, path: str, event: str, was: list[str], now: list[str]
    ) -> Callable[[], None]:
        """Note that a chart went from one configuration to another at an event, cut to a bound.

        Returns what takes the note back, and all that were added behind it.
        """
        former, sizes = self.json, self._sizes
        added = dump([at_ms, path, event[:TRAIL_EVENT_CHARS_MAX], was, now])
        # It grows at one end and shrinks at the other: what stays is copied, not joined anew.
        stays, begin = len(sizes), 1
        total = len(former) - 1 - stays + len(added)  # without the brackets and commas
        while stays and (total > TRAIL_BYTES_MAX or stays == TRAIL_ENTRIES_MAX):
            size = sizes[-stays]
            total, begin, stays = total - size, begin + size + 1, stays - 1
        if stays:
            self.json = b"[%b,%b]" % (former[begin:-1], added)
            self._sizes = (*sizes[-stays:], len(added))
        else:
            self.json, self._sizes = b"[%b]" % added, (len(added),)
        return partial(self._put_back, former, sizes)

    def _put_back(self, json: bytes, sizes: tuple[int, ...]) -> None:
        self.json, self._sizes = json, sizes

    def as_value(self) -> list[Any]:
        """Return the entries as JSON values."""
        entries: list[Any] = load(self.json or b"[]")
        return entries

    def __len__(self) -> int:
        return len(self._sizes)
