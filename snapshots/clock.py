"""The one place that asks the machine what time it is."""

from __future__ import annotations

import time
from typing import Protocol

_NS_PER_MS = 1_000_000


class Clock(Protocol):
    """Where times come from: injected wherever one is needed."""

    def now_ms(self) -> int:
        """Wall-clock time in Unix milliseconds; it may step back or forward."""
        ...


class SystemClock:
    """The wall clock of this machine."""

    def now_ms(self) -> int:
        """Wall-clock time in Unix milliseconds; it may step back or forward."""
        return time.time_ns() // _NS_PER_MS
