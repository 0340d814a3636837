"""The bars of the tail: saves beside checkpoints and beside a sweep, in a loop and at a rate."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.bars.values import Bar, Found
from bench.tails import closed_loop, open_loop

if TYPE_CHECKING:
    from bench.tails import Tail

MB: Final = 1_000_000
SAVES: Final = 40_000
_NS_PER_MS: Final = 1_000_000
_P999: Final = 0.999


def _ratio(ours: Tail, theirs: Tail, share: float) -> float:
    return ours.quantile_ns(share) / theirs.quantile_ns(share)


def in_a_loop(folder: Path) -> Found:
    """Save 40,000 times in a closed loop, beside the same with SQLite's own checkpoints."""
    ours, automatic = closed_loop(folder, saves=SAVES)
    return Found(
        values={
            "closed-p50": _ratio(ours, automatic, 0.5),
            "closed-p999": _ratio(ours, automatic, _P999),
            "closed-wal": ours.wal_bytes_max / MB,
        },
        notes=(str(ours), str(automatic)),
    )


def at_a_rate(folder: Path) -> Found:
    """Take saves that arrive at a fixed rate: alone, beside a sweep, with SQLite's checkpoints."""
    ours, sweeping, automatic = open_loop(folder)
    return Found(
        values={
            "rate-p999": _ratio(ours, automatic, _P999),
            "rate-longest": ours.quantile_ns(1.0) / _NS_PER_MS,
            "sweep-p999": _ratio(sweeping, ours, _P999),
            "sweep-rate": sweeping.swept_per_s,
        },
        notes=(str(ours), str(sweeping), str(automatic)),
    )


_LOOP: Final = "40,000 saves in a closed loop"
_RATE: Final = "saves at 3,000/s, from arrival"
_SWEEP: Final = "sweep of 100,000 rows beside saves at 3,000/s"
BARS: Final = (
    Bar(
        name="closed-p50",
        what=f"{_LOOP}, beside automatic checkpoints, p50",
        measure=in_a_loop,
        bar=1.3,
    ),
    Bar(
        name="closed-p999",
        what=f"{_LOOP}, beside automatic checkpoints, p99.9",
        measure=in_a_loop,
        bar=0.2,
    ),
    Bar(
        name="closed-wal",
        what=f"{_LOOP}, longest log",
        measure=in_a_loop,
        bar=20,
        unit="MB",
    ),
    Bar(
        name="rate-p999",
        what=f"{_RATE}, beside automatic checkpoints, p99.9",
        measure=at_a_rate,
        bar=0.5,
    ),
    Bar(
        name="rate-longest",
        what=f"{_RATE}, longest stall",
        measure=at_a_rate,
        bar=None,
        goal=10,
        unit="ms",
    ),
    Bar(
        name="sweep-p999",
        what=f"{_SWEEP}, beside the same without it, p99.9",
        measure=at_a_rate,
        bar=1.5,
    ),
    Bar(
        name="sweep-rate",
        what=f"{_SWEEP}, rows swept",
        measure=at_a_rate,
        bar=8_000,
        unit="rows/s",
        is_floor=True,
    ),
)
