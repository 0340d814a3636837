"""What a save adds to the write-ahead log, counted at each commit, while timers come and go."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import apsw
from statemachine import StateChart

from bench.payloads import records
from bench.saving import started
from machines.run.inbox import Incoming, take_in
from machines.run.run import Run
from snapshots.layout import unfold_blob

if TYPE_CHECKING:
    from snapshots import SqliteSnapshotStore

FRAME_HEADER_BYTES: Final = 24
"""What precedes each page in the log (https://sqlite.org/fileformat2.html#walformat)."""


class Log:
    """Counts the bytes that each commit of a store adds; its log is never copied back meanwhile."""

    def __init__(self, store: SqliteSnapshotStore) -> None:
        database = store.database
        assert database.checkpoints is not None
        database.checkpoints.close()
        database.checkpoints = None
        connection = database.connection
        self._frame_bytes = connection.pragma("page_size") + FRAME_HEADER_BYTES
        self._pages = 0
        self.commits_bytes: list[int] = []
        connection.wal_autocheckpoint(0)
        connection.set_wal_hook(self._committed)

    def _committed(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self.commits_bytes.append((pages - self._pages) * self._frame_bytes)
        self._pages = pages
        return apsw.SQLITE_OK


class Steps:
    """Tells workers of a run in no order: each time one of them sets its timer, or drops it."""

    def __init__(self, run: Run, values: int) -> None:
        self._run = run
        root = run.tree.root
        assert root is not None
        self._workers = list(root.children.values())
        self._random = Random(4)
        self._records = records(values)
        self._told: dict[int, dict[str, Any]] = {}

    def fill(self) -> None:
        """Give all workers values, and every other one a timer."""
        for place, worker in enumerate(self._workers):
            self._told[place] = values = next(self._records)
            vars(worker.chart.model).update(values)
            worker.mark_moved()
        for place in range(0, len(self._workers), 2):
            self._tell(place)

    def __call__(self, count: int) -> None:
        """Tell so many, one after the other."""
        for _ in range(count):
            self._tell(self._random.randrange(len(self._workers)))

    def _tell(self, place: int) -> None:
        worker = self._workers[place]
        values = self._told[place] = next(self._records)
        (state,) = worker.chart.configuration
        event = "wait" if state.id == "resting" else "go_on"
        given = Incoming(event=event, data={"values": values}, path=worker.path)
        take_in(self._run, worker, given)
        self._run.wake()

    def log(self) -> Log:
        """Count from now on what each save logs."""
        store: Any = self._run.store
        return Log(store)

    def check(self) -> None:
        """Assert that the row holds what each worker was told, and a timer for each that waits."""
        stored = self._run.store.load(self._run.run_id)
        value = unfold_blob(self._run.machine.codec.decode(stored.blob), self._run.run_id)
        nodes = value["root"]["children"]
        for place, values in self._told.items():
            assert nodes[self._workers[place].path]["context"] == values
        waiting = [node for node in nodes.values() if node["configuration"] == ["waiting"]]
        assert len(value.get("timers", ())) == len(waiting)


@contextmanager
def steps(path: Path, chart: type[StateChart[Any]], values: int) -> Iterator[Steps]:
    """Start a run in a new file, fill it, and yield what goes on with it."""
    with started(path, chart) as run:
        tell = Steps(run, values)
        tell.fill()
        yield tell
