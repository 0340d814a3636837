"""Clocks: the machine's own, and one that a test turns."""

from __future__ import annotations

import time

from snapshots import Clock, SystemClock
from snapshots.testing import START_MS, ManualClock


def test_the_system_clock_counts_milliseconds_of_unix_time() -> None:
    """It lies between two readings of the machine's clock, rounded down."""
    clock: Clock = SystemClock()
    before = time.time_ns() // 1_000_000
    assert before <= clock.now_ms() <= time.time_ns() // 1_000_000


def test_a_manual_clock_moves_only_when_it_is_turned() -> None:
    """Forward, back, and to any time; never by itself."""
    clock = ManualClock()
    assert [clock.now_ms(), clock.now_ms()] == [START_MS, START_MS]
    clock.advance(250)
    assert clock.now_ms() == START_MS + 250
    clock.advance(-500)
    assert clock.now_ms() == START_MS - 250
    clock.set(7)
    assert clock.now_ms() == 7
    assert repr(clock) == "ManualClock(now_ms=7)"
