"""Which entries of a file's mailbox a host knows of, and in which order it looks for more."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from machines.limits import MAIL_HELD_MAX
from snapshots.limits import MAILBOX_SLICE_ROWS

if TYPE_CHECKING:
    from snapshots.records import PendingEntry


class Boxes:
    """Which entries a host knows of, by run, the oldest first.

    The file is read page by page, from its oldest entry to its newest and over again. Of one run
    no more than a bound is known, and nothing behind what was passed over: its order stands.
    """

    def __init__(self) -> None:
        self.after = 0
        """Where the next page begins."""
        self._boxes: dict[str, deque[int]] = {}
        self._known: set[int] = set()
        self._passed_over: set[str] = set()
        self._resting: dict[str, float] = {}
        """Runs that could not be taken up → when they are looked at again, by the loop's time."""

    def __len__(self) -> int:
        return len(self._known)

    def take(self, page: list[PendingEntry], now_s: float = 0.0) -> list[str]:
        """Take a page in, and return the runs of which nothing was known before."""
        self._resting = {run: until_s for run, until_s in self._resting.items() if until_s > now_s}
        begun = [found.run_id for found in page if self._take(found)]
        self.after = page[-1].entry if len(page) == MAILBOX_SLICE_ROWS else 0
        if self.after == 0:
            self._passed_over.clear()
        return begun

    def _take(self, found: PendingEntry) -> bool:
        if found.entry in self._known or found.run_id in self._passed_over:
            return False
        if found.run_id in self._resting:
            return False
        box = self._boxes.setdefault(found.run_id, deque())
        if len(box) >= MAIL_HELD_MAX:
            self._passed_over.add(found.run_id)
            return False
        box.append(found.entry)
        self._known.add(found.entry)
        return len(box) == 1

    def first(self, run_id: str) -> int | None:
        """Return the oldest entry of a run, None if there is none."""
        box = self._boxes.get(run_id)
        return box[0] if box else None

    def settled(self, run_id: str) -> None:
        """Forget the oldest entry of a run."""
        box = self._boxes[run_id]
        self._known.discard(box.popleft())
        if not box:
            del self._boxes[run_id]

    def rest(self, run_id: str, until_s: float) -> None:
        """Forget a run's entries for a while, so that those of others find room."""
        self._known.difference_update(self._boxes.pop(run_id, ()))
        self._resting[run_id] = until_s
