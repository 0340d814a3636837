"""The ledger of deliveries: ids of the newest external events taken, so that a repeat is not run.

Beyond the bound a repeat runs again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots.codec import dump
from snapshots.limits import DELIVERIES_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable


class Deliveries:
    """The ids of the newest events that one run took, oldest first."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = dict.fromkeys(taken)
        self._json: bytes | None = None
        self.changes = 0
        """How often the ledger changed."""

    def __contains__(self, delivery: str) -> bool:
        return delivery in self._taken

    def __len__(self) -> int:
        return len(self._taken)

    def take(self, delivery: str) -> None:
        """Note an event as taken; the oldest is forgotten beyond the bound."""
        self._json = None
        self.changes += 1
        self._taken[delivery] = None
        while len(self._taken) > DELIVERIES_MAX:
            del self._taken[next(iter(self._taken))]

    def drop(self, delivery: str) -> None:
        """Forget an event whose macrostep was undone."""
        self._json = None
        self.changes += 1
        self._taken.pop(delivery, None)

    def as_json(self) -> bytes:
        """Return the ids, oldest first, as JSON."""
        if self._json is None:
            self._json = dump(list(self._taken))
        return self._json

    def as_value(self) -> list[str]:
        """Return the ids, oldest first."""
        return list(self._taken)
