"""What a save costs: capture, typed walk, encoding and guarded update, beside ready bytes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.charts import WORKERS, Holder, Pool
from bench.payloads import RUN_VALUES, WORKER_VALUES
from bench.raw import raw_upsert
from bench.saving import LARGE_BYTES, SMALL_BYTES, saves

if TYPE_CHECKING:
    from bench.beside import Arm, Beside

pytest_plugins = ("bench.beside",)


@pytest.mark.benchmark(group="save, 1 KB")
def test_save_of_a_run_of_1_kb(tmp_path: Path, beside: Beside) -> None:
    """A save of 60 values, 12 of them nested, all of them new."""
    with (
        saves(tmp_path / "ours.db", Holder, "save of a run of 1 KB") as ours,
        raw_upsert(tmp_path / "raw.db", ours.content_bytes) as raw,
    ):
        assert ours.content_bytes == pytest.approx(SMALL_BYTES, rel=0.15)
        assert (ours.leaves(), ours.leaves(nested=True)) == (RUN_VALUES, 12)
        beside(ours, raw, rounds=3_000)


@pytest.mark.benchmark(group="save, 1 KB")
def test_raw_upsert_of_1_kb(tmp_path: Path, alone: Callable[[Arm, int], None]) -> None:
    """An upsert of 1 KB of ready bytes."""
    with raw_upsert(tmp_path / "raw.db", SMALL_BYTES) as raw:
        alone(raw, 3_000)


@pytest.mark.benchmark(group="save, 100 KB")
def test_save_of_a_pool_of_40_with_one_changed(tmp_path: Path, beside: Beside) -> None:
    """A save of a run of 100 KB with 40 child charts, one of which has all values new."""
    with (
        saves(tmp_path / "ours.db", Pool, "save of a pool of 40, one moved", WORKER_VALUES) as ours,
        raw_upsert(tmp_path / "raw.db", ours.content_bytes) as raw,
    ):
        assert len(ours.expected) == WORKERS
        assert ours.content_bytes == pytest.approx(LARGE_BYTES, rel=0.1)
        beside(ours, raw, rounds=1_500)


@pytest.mark.benchmark(group="save, 100 KB")
def test_raw_upsert_of_100_kb(tmp_path: Path, alone: Callable[[Arm, int], None]) -> None:
    """An upsert of 100 KB of ready bytes."""
    with raw_upsert(tmp_path / "raw.db", LARGE_BYTES) as raw:
        alone(raw, 1_500)
