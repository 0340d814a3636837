"""The bars of a save: beside a raw upsert of as much content, at three sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from statemachine import StateChart

from bench.bars.values import Bar, Found, Measure
from bench.charts import Holder, Pool, pool_of
from bench.payloads import RUN_VALUES, WORKER_VALUES
from bench.raw import raw_upsert
from bench.saving import HUGE_BYTES, LARGE_BYTES, SMALL_BYTES, Floor, saves, started
from bench.turns import Pair

HUGE_WORKERS: Final = 400
NESTED_VALUES: Final = 12
SAVES_BEFORE: Final = 50
"""Saves of the run of 1 MB before it is measured: its layout has settled by then."""
_TOLERANCE: Final = 0.15


def _beside_raw(
    name: str,
    chart: type[StateChart[Any]],
    size_bytes: int,
    values: int,
    *,
    rounds: int,
    acts: int = 10,
    before: int = 0,
) -> Measure:
    def measure(folder: Path) -> Found:
        with (
            saves(folder / "ours.db", chart, f"save of {size_bytes:,} bytes", values) as ours,
            raw_upsert(folder / "raw.db", ours.content_bytes) as raw,
        ):
            assert abs(ours.content_bytes / size_bytes - 1) < _TOLERANCE, ours.content_bytes
            if values == RUN_VALUES:
                assert (ours.leaves(), ours.leaves(nested=True)) == (RUN_VALUES, NESTED_VALUES)
            for _ in range(before):
                ours.prepare()
                ours.act()
            pair = Pair(ours, raw, rounds=rounds, acts=acts)
            return Found(values={name: pair.ratio}, notes=(str(pair),))

    return measure


def _small(folder: Path) -> Found:
    """Measure a save of 1 KB, and how near to raw a save in Python could come at all."""
    found = _beside_raw("save-1kb", Holder, SMALL_BYTES, RUN_VALUES, rounds=400)(folder)
    with (
        started(folder / "floor.db", Holder) as run,
        raw_upsert(folder / "beside.db", SMALL_BYTES) as raw,
    ):
        pair = Pair(Floor(run, RUN_VALUES), raw, rounds=200)
    return Found(values={**found.values, "save-floor": pair.ratio}, notes=(*found.notes, str(pair)))


BARS: Final = (
    Bar(
        name="save-1kb",
        what="save of a run of 1 KB, beside a raw upsert, p50",
        measure=_small,
        bar=2.3,
        goal=1.8,
    ),
    Bar(
        name="save-floor",
        what="encoding of 1 KB and the guarded update alone, beside a raw upsert, p50",
        measure=_small,
        bar=None,
    ),
    Bar(
        name="save-100kb",
        what="save of a pool of 40 (100 KB), one changed, beside a raw upsert of it, p50",
        measure=_beside_raw("save-100kb", Pool, LARGE_BYTES, WORKER_VALUES, rounds=120),
        bar=0.6,
        goal=0.3,
    ),
    Bar(
        name="save-1mb",
        what="save of a pool of 400 (1 MB), one changed, beside a raw upsert of it, p50",
        measure=_beside_raw(
            "save-1mb",
            pool_of(Holder, HUGE_WORKERS),
            HUGE_BYTES,
            WORKER_VALUES,
            rounds=40,
            acts=5,
            before=SAVES_BEFORE,
        ),
        bar=0.3,
        goal=0.1,
    ),
)
