"""What a slice of a sweep costs: how long one deletion of old rows holds the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.boots import fill
from bench.raw import raw_upsert
from snapshots import SqliteSnapshotStore, limits, open_store
from snapshots.clock import SystemClock
from snapshots.testing import ManualClock

if TYPE_CHECKING:
    from bench.beside import Arm, Beside

pytest_plugins = ("bench.beside",)

ROUNDS = 60
LIVE = 10
WARM_UPS = 10
FINISHED = (ROUNDS + WARM_UPS) * limits.SWEEP_SLICE_ROWS
"""Enough for every round to have a whole slice."""


class Sweeps:
    """Deletes one slice of old rows after the other."""

    def __init__(self, store: SqliteSnapshotStore) -> None:
        self.name = "a slice of a sweep"
        self._store = store
        self._swept = 0

    def prepare(self) -> None:
        """Do nothing: there are enough rows."""

    def act(self) -> None:
        """Delete a slice."""
        self._swept += self._store.sweep()

    def check(self) -> None:
        """Assert that each slice had its rows, and that every live row is there."""
        assert self._swept > 0
        assert self._swept % limits.SWEEP_SLICE_ROWS == 0
        left = len(self._store.headers(status="live", limit=limits.HEADERS_ROWS_MAX))
        assert left == LIVE


@contextmanager
def sweeps(path: Path) -> Iterator[Sweeps]:
    """Yield the slices of a file whose finished rows are all old enough."""
    fill(path, live=LIVE, finished=FINISHED, parked=True)
    later = ManualClock(SystemClock().now_ms() + 2 * limits.RETENTION_MS)
    with open_store(path, clock=later) as store:
        assert isinstance(store, SqliteSnapshotStore)
        store.take_over("bench")
        yield Sweeps(store)


@pytest.mark.benchmark(group="sweep")
def test_a_slice_of_a_sweep(tmp_path: Path, beside: Beside) -> None:
    """A slice, beside a raw upsert of 1 KB."""
    with sweeps(tmp_path / "ours.db") as ours, raw_upsert(tmp_path / "raw.db", 1_000) as raw:
        beside(ours, raw, rounds=ROUNDS)


@pytest.mark.benchmark(group="sweep")
def test_slices_alone(tmp_path: Path, alone: Callable[[Arm, int], None]) -> None:
    """Slices, one directly after the other."""
    with sweeps(tmp_path / "ours.db") as ours:
        alone(ours, ROUNDS)
