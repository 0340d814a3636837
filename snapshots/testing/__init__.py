"""What a test of code on top of this package needs: a clock that is turned by hand."""

from __future__ import annotations

from typing import Final

# 2026-01-01T00:00Z: thirteen digits, as real times have.
START_MS: Final = 1_767_225_600_000


class ManualClock:
    """A `Clock` that moves only when it is told to."""

    __slots__ = ("_now_ms",)

    def __init__(self, now_ms: int = START_MS) -> None:
        """Start at `now_ms`, Unix milliseconds."""
        self._now_ms = now_ms

    def __repr__(self) -> str:
        return f"ManualClock(now_ms={self._now_ms})"

    def now_ms(self) -> int:
        """Unix milliseconds, the same until `advance` or `set`."""
        return self._now_ms

    def advance(self, ms: int) -> None:
        """Go forward by `ms`, or back by a negative one."""
        self._now_ms += ms

    def set(self, now_ms: int) -> None:
        """Step to `now_ms`, Unix milliseconds, whether later or earlier."""
        self._now_ms = now_ms


__all__ = ["START_MS", "ManualClock"]
