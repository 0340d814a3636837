"""Passes of a run that goes through one effect again and again, from any pass on, as an arm."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from statemachine import StateChart

from bench.charts import Looper
from machines import Machine, open_run
from machines.shape import shape_bytes
from snapshots import SnapshotStore, open_store
from snapshots.codec import dump, load
from snapshots.layout import unfold_blob
from snapshots.store.seam import Blob

RUN: Final = "loop-{:010}"
"""Ids of one length, whichever the pass."""
_FIRST: Final = 3
"""Passes that are really taken, before rows are made after the last of them."""


class Passes:
    """Begins one pass after the other; each is over, and saved, before the next one."""

    def __init__(self, store: SnapshotStore, run_id: str, chart: StateChart[Any], at: int) -> None:
        self.name = f"pass {at:,} of a looping effect"
        self._store = store
        self._run_id = run_id
        self._chart = chart
        self.taken = self._rows()

    def prepare(self) -> None:
        """Do nothing: a pass ends where it began."""

    def act(self) -> None:
        """Take a pass."""
        self._chart.send("call")
        self.taken += 1

    def check(self) -> None:
        """Assert that the row holds every pass, each of them done."""
        assert self._rows() == self.taken

    def _rows(self) -> int:
        rows = effects(self._store.load(self._run_id).blob)
        assert all(row["status"] == "done" for row in rows)
        return len(rows)


def effects(blob: Blob) -> list[dict[str, Any]]:
    """Return all rows of a run's effects, whichever form the blob has them in."""
    value = load(bytes(blob))
    rows: list[dict[str, Any]] = unfold_blob(value, value["run"])["effects"]
    return rows


def later(blob: Blob, run_id: str, passes: int) -> bytes:
    """Return what a run has after so many passes, made of the blob of an earlier one.

    All rows are written out; the run's next save brings them into the form that it has them in.
    """
    value = load(bytes(blob))
    pattern, *_, last = effects(blob)
    spawned = value["root"]["spawned"]
    assert last["id"] == f"{value['run']}/calling.{spawned}", "rows are named by their pass"
    assert "tail" not in pattern, "only the last outcome goes with the next save"
    rows = [
        {**pattern, "id": f"{run_id}/calling.{number}", "at": pattern["at"] + number}
        for number in range(1, passes + 1)
    ]
    value["root"]["spawned"] = passes
    value.pop("settled", None)
    return dump({**value, "run": run_id, "effects": rows})


@contextmanager
def passes(path: Path, at: int) -> Iterator[Passes]:
    """Yield a run in a new file that has had so many passes, without taking them all."""
    machine, run_id = Machine(Looper), RUN.format(at)
    with open_store(path) as store:
        first = RUN.format(0)
        with open_run(store, Looper, first) as chart:
            for _ in range(_FIRST):
                chart.send("call")
        stored = store.load(first)
        store.create(
            run_id=run_id,
            machine=machine.name,
            digest=machine.digest,
            shape=shape_bytes(Looper),
            blob=later(stored.blob, run_id, at),
            parked=stored.header.parked,
        )
        with open_run(store, Looper, run_id) as chart:
            yield Passes(store, run_id, chart, at)
