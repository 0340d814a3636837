"""When what failed is tried again: later each time, up to a bound, and never given up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection


class Patience:
    """The waits of what is looked at again and again, each under a key; times in seconds."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._waits: dict[str, tuple[float, float]] = {}
        """By key: when it is its turn again, and how long that wait was."""

    def is_over(self, key: str, now_s: float) -> bool:
        """Whether it is the turn of a key, as it always is for one that has not failed."""
        return now_s >= self._waits.get(key, (now_s, 0.0))[0]

    def failed(self, key: str, now_s: float, least_s: float) -> None:
        """Leave a key alone: for `least_s` at first, twice as long as before each further time."""
        before_s = self._waits.get(key, (0.0, 0.0))[1]
        wait_s = min(max(least_s, before_s * 2), self._most_s)
        self._waits[key] = (now_s + wait_s, wait_s)

    def forget(self, key: str) -> None:
        """Let a key have its turn at once, as if it had never failed."""
        self._waits.pop(key, None)

    def keep(self, keys: Collection[str]) -> None:
        """Forget all but these keys."""
        for key in self._waits.keys() - set(keys):
            del self._waits[key]
