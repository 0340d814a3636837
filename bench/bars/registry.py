"""All bars, in the order in which they are measured and shown."""

from __future__ import annotations

from typing import Final

from bench.bars import boot, logs, passes, saves, sends, tail
from bench.bars.values import Bar

BARS: Final[tuple[Bar, ...]] = (
    *saves.BARS,
    *logs.BARS,
    *tail.BARS,
    *sends.BARS,
    *passes.BARS,
    *boot.BARS,
)
