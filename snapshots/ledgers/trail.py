"""The ledger of the last transitions: for who asks how a run got where it is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from snapshots.limits import TRAIL_ENTRIES_MAX


class Trail:
    """The newest transitions of one run, oldest first."""

    def __init__(self, entries: Iterable[list[Any]] = ()) -> None:
        self._entries: deque[list[Any]] = deque(entries, TRAIL_ENTRIES_MAX)

    def add(self, at_ms: int, path: str, event: str, was: list[str], now: list[str]) -> None:
        """Note that a chart went from one configuration to another at an event."""
        self._entries.append([at_ms, path, event, was, now])

    def as_value(self) -> list[list[Any]]:
        """Return `[at_ms, path, event, from, to]` for each transition, oldest first."""
        return list(self._entries)
