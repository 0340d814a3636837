"""Saves of a run as its engine makes them at the end of a macrostep, as an arm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from statemachine import StateChart

from bench.payloads import RUN_VALUES, records
from machines import Machine
from machines.opening import InlineWorker
from machines.run.run import Run
from snapshots import open_store
from snapshots.clock import SystemClock
from snapshots.codec import dump, load
from snapshots.heads import pack_head, packed
from snapshots.identifiers import new_run_id
from snapshots.store.saving import SAVE_IN_TERM

KB: Final = 1_000
SMALL_BYTES: Final = 1 * KB
LARGE_BYTES: Final = 100 * KB
HUGE_BYTES: Final = 1_000 * KB


class Saves:
    """Saves a run again and again, as its engine does at the end of a macrostep.

    Before each save one of its charts gets values that are all new, and counts as moved.
    """

    def __init__(self, run: Run, name: str, values: int) -> None:
        self.name = name
        self.run = run
        root = run.tree.root
        assert root is not None
        self.charts = list(root.children.values()) or [root]
        self._values = records(values)
        self.expected: list[dict[str, Any]] = [{} for _ in self.charts]
        self._places = self.turns()
        self.fill()
        self.prepare()
        self.act()

    def turns(self) -> Iterator[int]:
        """Yield the place of the chart whose turn it is, without end."""
        return cycle(range(len(self.charts)))

    def fill(self) -> None:
        """Give all charts values."""
        for _ in self.charts:
            self.prepare()

    def prepare(self) -> None:
        """Change all values of the chart whose turn it is."""
        place = next(self._places)
        self._moved = self.charts[place]
        self.expected[place] = values = next(self._values)
        vars(self._moved.chart.model).update(values)
        self._moved.mark_moved()

    def act(self) -> None:
        """Reach the boundary: the run is saved."""
        self.run.tree.boundary(self._moved)

    def check(self) -> None:
        """Assert that the row decodes to the values that the charts have."""
        stored = self.run.store.load(self.run.run_id)
        root = self.run.machine.codec.decode(stored.blob)["root"]
        below = root.get("children", {})
        nodes = [below[node.path] if node.path else root for node in self.charts]
        assert [node["context"] for node in nodes] == self.expected

    def leaves(self, *, nested: bool = False) -> int:
        """Return how many values the first chart holds, or how many of them are nested."""
        values = self.expected[0].values()
        inner = sum(len(line) for value in values if isinstance(value, list) for line in value)
        return inner if nested else inner + sum(not isinstance(value, list) for value in values)

    @property
    def content_bytes(self) -> int:
        """The length of what is stored, without white space: room to grow is not content."""
        return len(dump(load(self.run.store.load(self.run.run_id).blob)))


class Floor:
    """What no save in Python does without: an encoding that checks types, and a guarded update.

    Nothing decides what is to be saved, and nothing is kept of it: the row holds a model's values.
    """

    def __init__(self, run: Run, values: int) -> None:
        self.name = "encoding and guarded update alone"
        header = run.header
        assert header is not None
        self._header, self._term = header, run.store.term
        self._revision = header.revision
        self._values = records(values)
        self._encode = run.machine.codec.encode
        self._run = run
        self._execute = run.store.database.run  # type: ignore[attr-defined]  # the one on SQLite
        self.prepare()

    def prepare(self) -> None:
        """Take the next values."""
        self._value = next(self._values)

    def act(self) -> None:
        """Encode them, and write them over the row."""
        header, revision = self._header, self._revision
        self._blob = self._encode(self._value)
        guard = (header.row, packed(revision), header.run_id, self._term)
        head = pack_head(revision + 1, header.updated_ms, header.due_ms, parked=False)
        self._execute(SAVE_IN_TERM, (head, self._blob, *guard))
        self._revision = revision + 1

    def check(self) -> None:
        """Assert that the row holds what was written last."""
        stored = self._run.store.load(self._header.run_id)
        assert (stored.blob, stored.header.revision) == (self._blob, self._revision)


@contextmanager
def saves(
    path: Path, chart: type[StateChart[Any]], name: str, values: int = RUN_VALUES
) -> Iterator[Saves]:
    """Start a run in a file, and yield its saves."""
    with started(path, chart) as run:
        yield Saves(run, name, values)


@contextmanager
def started(path: Path, chart: type[StateChart[Any]]) -> Iterator[Run]:
    """Start a run in a file; its writes carry the owner's term as those of a host do."""
    clock = SystemClock()
    with open_store(path) as store:
        store.take_over("bench")
        run = Run(store, Machine(chart), new_run_id(clock), {}, InlineWorker(), clock=clock)
        run.begin()
        run.wake()
        yield run
