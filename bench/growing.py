"""What a save costs and logs by the size of its run, and by the rows that lie beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.boots import fill
from bench.charts import Holder, pool_of
from bench.figures import Figures
from bench.logged import Log
from bench.payloads import RUN_VALUES, WORKER_VALUES, records
from bench.raw import raw_upsert
from bench.saving import Saves, started
from bench.turns import rotate, turn_of

SIZES_BYTES: Final = (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
ROWS: Final = (1, 100, 1_000, 10_000, 100_000)
WORKER_BYTES: Final = 2_500
WORKERS_MAX: Final = 400
ACTS: Final = 5
LOGGED: Final = 10
"""Saves whose bytes in the log are counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a save of ours, and a raw upsert of as much content, came to."""

    at: int
    """Bytes of the run, or rows beside it."""
    ours: Figures
    raw: Figures
    logged_bytes: float
    """What a save adds to the write-ahead log, the median."""


class Moves(Saves):
    """Saves of a run of many charts, of which the first one alone moves."""

    def __init__(self, run: Any, name: str, values: int, others: int) -> None:
        self._others = others
        super().__init__(run, name, values)

    def fill(self) -> None:
        """Give the others their values, which stay."""
        still = records(self._others)
        for place, node in enumerate(self.charts[1:], start=1):
            self.expected[place] = next(still)
            vars(node.chart.model).update(self.expected[place])
            node.mark_moved()

    def turns(self) -> Iterator[int]:
        """Yield the first place, again and again."""
        while True:
            yield 0


@contextmanager
def of_size(path: Path, size_bytes: int) -> Iterator[Saves]:
    """Yield the saves of a run of about a size: of one chart, or of up to 400."""
    workers = min(WORKERS_MAX, size_bytes // WORKER_BYTES)
    chart = pool_of(Holder, workers) if workers > 1 else Holder
    values = WORKER_VALUES if workers > 1 else RUN_VALUES
    others = round(size_bytes / max(1, workers) / WORKER_BYTES * WORKER_VALUES)
    with started(path, chart) as run:
        yield Moves(run, f"save of {size_bytes:,} bytes", values, others)


def by_size(folder: Path, size_bytes: int, rounds: int) -> Point:
    """Return what saves of a run of a size come to, in turns with raw upserts of its content."""
    own = folder / f"size-{size_bytes}"
    own.mkdir()
    with of_size(own / "ours.db", size_bytes) as ours:
        return _point(size_bytes, ours, own, rounds)


def by_rows(folder: Path, *, live: int, finished: int, rounds: int) -> Point:
    """Return what saves of a run of 1 KB come to in a file with so many other rows."""
    own = folder / f"rows-{live}-{finished}"
    own.mkdir()
    fill(own / "ours.db", live=live, finished=finished, parked=True)
    with started(own / "ours.db", Holder) as run:
        return _point(live + finished, Saves(run, "save of 1 KB", RUN_VALUES), own, rounds)


def _point(at: int, ours: Saves, folder: Path, rounds: int) -> Point:
    with raw_upsert(folder / "raw.db", ours.content_bytes) as raw:
        both = rotate([turn_of(ours, ACTS), turn_of(raw, ACTS)], rounds=rounds)
        figures = [Figures.of(ns for turn in arm for ns in turn) for arm in both]
    store: Any = ours.run.store
    log = Log(store)
    turn_of(ours, LOGGED)()
    ours.check()
    logged = median(log.commits_bytes)
    return Point(at=at, ours=figures[0], raw=figures[1], logged_bytes=logged)
