"""What the soak measures once a second, and what of it is judged."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from snapshots import limits
from tools.soaking.judging import HALF, Allowance, Series, quantile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tools.soaking.judging import Point

MB: Final = 1_000_000
US_PER_MS: Final = 1_000
WINDOW_S: Final = 5.0
"""Sends of so long are one window; it needs `SENDS_MIN` to be a point."""
SENDS_MIN: Final = 100
PINNED_AFTER_S: Final = 4.0
"""After a reader has left, the log may be long for so long: the next checkpoint starts it anew."""
WARM_S: Final = 8.0
"""At this age the memories of two hosts are compared."""
RESIDENT: Final = "VmRSS:"
KIB: Final = 1_024

MEMORY: Final = Allowance(share=0.05, amount=2.0)
FILES: Final = Allowance(share=0.0, amount=4.0)
"""Copies and calls come and go; what is not closed again adds up, and takes little memory."""
BIRTHS: Final = Allowance(share=0.05, amount=3.0)
FILE: Final = Allowance(share=0.15, amount=1.0)
LOG: Final = Allowance(share=0.25, amount=4.0, free=limits.WAL_BYTES_MAX / MB)
"""Its file keeps the length that it had under a reader, up to its cap, until nobody writes."""
P50: Final = Allowance(share=0.4, amount=0.5)
P99: Final = Allowance(share=0.6, amount=8.0)
P999: Final = Allowance(share=0.8, amount=25.0)
ROWS: Final = Allowance(share=0.2, amount=10.0)
BIRTHS_MIN: Final = 6
CRESTS: Final = 0.9
"""The log rises and is started anew: what is compared is near its longest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One moment. `life` counts the hosts, `age_s` is how long this one has had the file open.

    `host_bytes` is its resident memory, None while no host has the file; rows as a reader saw them
    last, None before it did.
    """

    at_s: float
    life: int
    age_s: float
    host_bytes: int | None
    host_files: int | None
    """How many files and sockets the host has open, None while no host has the file."""
    file_bytes: int
    log_bytes: int
    live: int | None
    ended: int | None
    is_pinned: bool
    """Whether a reader holds the log, or has just left it."""


@dataclass(slots=True)
class Samples:
    """Everything that was measured, in its order; times in seconds since the load began."""

    samples: list[Sample] = field(default_factory=list)
    windows: list[tuple[float, list[float]]] = field(default_factory=list)
    """By the time at which they were told, how long sends took, in milliseconds."""
    stall_ms: float = 0.0
    """The longest wait of a save for a checkpoint, in any host's life."""

    def take_window(self, at_s: float, took_us: list[int]) -> None:
        """Add what a host told of its last second; windows are as long as `WINDOW_S` or longer."""
        took = [us / US_PER_MS for us in took_us]
        if self.windows and at_s - self.windows[-1][0] < WINDOW_S:
            self.windows[-1][1].extend(took)
        else:
            self.windows.append((at_s, took))

    def latencies(self, share: float) -> list[Point]:
        """Return one quantile of each window that has enough sends."""
        enough = [(at_s, took) for at_s, took in self.windows if len(took) >= SENDS_MIN]
        return [(at_s, quantile(took, share)) for at_s, took in enough]


def resident_bytes(pid: int) -> int | None:
    """Return how much memory a process has resident, None if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text("utf-8").splitlines()
    except OSError:
        return None
    words = next((line.split() for line in lines if line.startswith(RESIDENT)), None)
    return None if words is None else int(words[1]) * KIB


def open_files(pid: int) -> int | None:
    """Return how many files and sockets a process has open, None if it is gone."""
    try:
        return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    except OSError:
        return None


def size_bytes(path: Path) -> int:
    """Return how long a file is, 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def longest_life(samples: Iterable[Sample]) -> list[Sample]:
    """Return the samples of the host that had the file for longest."""
    lives: dict[int, list[Sample]] = {}
    for sample in samples:
        if sample.host_bytes is not None:
            lives.setdefault(sample.life, []).append(sample)
    return max(lives.values(), key=lambda life: life[-1].at_s - life[0].at_s, default=[])


def births(samples: Iterable[Sample]) -> list[Point]:
    """Return the memory of each host at the same age, of those that came to it."""
    found: dict[int, Point] = {}
    for sample in samples:
        if sample.host_bytes is not None and sample.age_s >= WARM_S:
            found.setdefault(sample.life, (sample.at_s, sample.host_bytes / MB))
    return list(found.values())


def to_judge(measured: Samples) -> list[Series]:
    """Return what has to stay flat."""
    samples = measured.samples
    life = longest_life(samples)
    memory = [(s.at_s, s.host_bytes / MB) for s in life if s.host_bytes is not None]
    files = [(s.at_s, float(s.host_files)) for s in life if s.host_files is not None]
    file = [(s.at_s, s.file_bytes / MB) for s in samples]
    log = [(s.at_s, s.log_bytes / MB) for s in samples]
    ended = [(s.at_s, float(s.ended)) for s in samples if s.ended is not None]

    def series(
        name: str, unit: str, points: list[Point], allowance: Allowance, share: float = HALF
    ) -> Series:
        return Series(name=name, unit=unit, points=points, allowance=allowance, quantile=share)

    return [
        series("memory of the host, longest life", "MB", memory, MEMORY),
        series("files the host has open, same life", "files", files, FILES),
        series("file", "MB", file, FILE),
        series("log, near its crests", "MB", log, LOG, CRESTS),
        series("send, p50 of a window", "ms", measured.latencies(0.5), P50),
        series("send, p99 of a window", "ms", measured.latencies(0.99), P99),
        series("send, p99.9 of a window", "ms", measured.latencies(0.999), P999),
        series("finished rows", "rows", ended, ROWS),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """What may never be more than a limit, however short the time."""

    name: str
    unit: str
    found: float
    most: float

    @property
    def holds(self) -> bool:
        """Whether it never was."""
        return self.found <= self.most


def bounds(measured: Samples, live_max: int) -> list[Bound]:
    """Return what has to stay below a limit at every single moment."""
    samples = measured.samples
    free = [s.log_bytes for s in samples if not s.is_pinned and s.host_bytes is not None]
    live = [s.live for s in samples if s.live is not None]
    young = births(samples)
    return [
        Bound(
            name="log while no reader pins it",
            unit="MB",
            found=max(free, default=0) / MB,
            most=limits.WAL_BYTES_MAX / MB,
        ),
        Bound(name="live rows", unit="rows", found=max(live, default=0), most=live_max),
        *([later_births(young)] if len(young) >= BIRTHS_MIN else []),
    ]


def later_births(young: list[Point]) -> Bound:
    """Return whether later hosts begin with more than earlier ones did."""
    third = len(young) // 3
    first, last = ([mb for _, mb in some] for some in (young[:third], young[-third:]))
    return Bound(
        name="memory of later hosts at the same age",
        unit="MB",
        found=quantile(last, HALF),
        most=BIRTHS.most(quantile(first, HALF)),
    )
