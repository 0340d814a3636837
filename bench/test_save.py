"""What a save costs: capture, typed walk, encoding and guarded update, beside ready bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from statemachine import StateChart

from bench.charts import WORKERS, Holder, Pool
from bench.payloads import RUN_VALUES, WORKER_VALUES, records
from bench.raw import raw_upsert
from machines import Machine
from machines.opening import InlineWorker
from machines.run.run import Run
from snapshots import open_store
from snapshots.clock import SystemClock
from snapshots.identifiers import new_run_id

if TYPE_CHECKING:
    from bench.beside import Arm, Beside

pytest_plugins = ("bench.beside",)

KB = 1_000
SMALL_BYTES = 1 * KB
LARGE_BYTES = 100 * KB


class Saves:
    """Saves a run again and again, as its engine does at the end of a macrostep.

    Before each save one of its charts gets values that are all new, and counts as moved.
    """

    def __init__(self, run: Run, name: str, values: int) -> None:
        self.name = name
        self.run = run
        root = run.tree.root
        assert root is not None
        self._charts = list(root.children.values()) or [root]
        self._values = records(values)
        self.expected: list[dict[str, Any]] = [{} for _ in self._charts]
        self._places = cycle(range(len(self._charts)))
        for _ in self._charts:
            self.prepare()
        self.act()

    def prepare(self) -> None:
        """Change all values of the chart whose turn it is."""
        place = next(self._places)
        self._moved = self._charts[place]
        self.expected[place] = values = next(self._values)
        vars(self._moved.chart.model).update(values)
        self._moved.fragment = None

    def act(self) -> None:
        """Reach the boundary: the run is saved."""
        self.run.tree.boundary(self._moved)

    def check(self) -> None:
        """Assert that the row decodes to the values that the charts have."""
        stored = self.run.store.load(self.run.run_id)
        root = self.run.machine.codec.decode(stored.blob)["root"]
        nodes = list(root.get("children", {}).values()) or [root]
        assert [node["context"] for node in nodes] == self.expected

    def leaves(self, *, nested: bool = False) -> int:
        """Return how many values the first chart holds, or how many of them are nested."""
        values = self.expected[0].values()
        inner = sum(len(line) for value in values if isinstance(value, list) for line in value)
        return inner if nested else inner + sum(not isinstance(value, list) for value in values)

    @property
    def blob_bytes(self) -> int:
        """The length of the stored blob."""
        return len(self.run.store.load(self.run.run_id).blob)


@contextmanager
def saves(
    path: Path, chart: type[StateChart[Any]], name: str, values: int = RUN_VALUES
) -> Iterator[Saves]:
    """Start a run in a new file, whose writes carry the owner's term as those of a host do."""
    clock = SystemClock()
    with open_store(path) as store:
        store.take_over("bench")
        run = Run(store, Machine(chart), new_run_id(clock), {}, InlineWorker(), clock=clock)
        run.begin()
        run.wake()
        yield Saves(run, name, values)


@pytest.mark.benchmark(group="save, 1 KB")
def test_save_of_a_run_of_1_kb(tmp_path: Path, beside: Beside) -> None:
    """A save of 60 values, 12 of them nested, all of them new."""
    with (
        saves(tmp_path / "ours.db", Holder, "save of a run of 1 KB") as ours,
        raw_upsert(tmp_path / "raw.db", ours.blob_bytes) as raw,
    ):
        assert ours.blob_bytes == pytest.approx(SMALL_BYTES, rel=0.15)
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
        raw_upsert(tmp_path / "raw.db", ours.blob_bytes) as raw,
    ):
        assert len(ours.expected) == WORKERS
        assert ours.blob_bytes == pytest.approx(LARGE_BYTES, rel=0.1)
        beside(ours, raw, rounds=1_500)


@pytest.mark.benchmark(group="save, 100 KB")
def test_raw_upsert_of_100_kb(tmp_path: Path, alone: Callable[[Arm, int], None]) -> None:
    """An upsert of 100 KB of ready bytes."""
    with raw_upsert(tmp_path / "raw.db", LARGE_BYTES) as raw:
        alone(raw, 1_500)
