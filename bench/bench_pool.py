"""What a worker's step costs within a pool of 40, beside the same step of the worker alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from statemachine import State, StateChart

from bench.charts import WORKERS
from bench.payloads import WORKER_VALUES, records
from machines import Host, gate
from machines.charts.pool import pool
from snapshots.codec import dump, load

if TYPE_CHECKING:
    from bench.beside import Beside

pytest_plugins = ("bench.beside",)

LARGE_BYTES = 100_000


class Talk(StateChart[Any]):
    """Holds the values that it was told last."""

    talking = State(initial=True, invoke=gate("tell"))
    over = State(final=True)

    tell = talking.to(None, on="note")
    end = talking.to(over)

    def note(self, values: dict[str, Any]) -> None:
        """Keep what it is told."""
        self.model.values = values


def next_item(active: tuple[str, ...]) -> int | None:
    """Return as many items as may be worked at a time."""
    return len(active) if len(active) < WORKERS else None


Talks = pool(Talk, next_item, cap=WORKERS, name="Talks")


class Steps:
    """Tells the charts of a run something new, one after the other."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, host: Host, chart: type[StateChart[Any]], name: str
    ) -> None:
        self.name = name
        self._loop = loop
        self._host = host
        self._run = loop.run_until_complete(host.start(chart))
        loop.run_until_complete(host.settled(self._run))
        gates = [one.key for one in loop.run_until_complete(host.gates(self._run))]
        self._gates = cycle(gates)
        self._records = records(WORKER_VALUES)
        self.told: dict[str, dict[str, Any]] = {}
        for _ in gates:
            self.prepare()
            self.act()

    def prepare(self) -> None:
        """Take the next chart, and values that are all new."""
        self._gate = next(self._gates)
        self.told[self._gate] = next(self._records)

    def act(self) -> None:
        """Tell it, and have that saved."""
        values = self.told[self._gate]
        self._loop.run_until_complete(
            self._host.answer(self._run, self._gate, "tell", values=values)
        )

    def check(self) -> None:
        """Assert that the row holds what each chart was told."""
        root = load(self._host.store.load(self._run).blob)["root"]
        charts = list(root.get("children", {}).values()) or [root]
        # In no order: a blob may have them in that of their moves.
        found = [chart["context"]["values"] for chart in charts]
        assert sorted(found, key=str) == sorted(self.told.values(), key=str)

    @property
    def content_bytes(self) -> int:
        """The length of what is stored, without room to grow."""
        return len(dump(load(self._host.store.load(self._run).blob)))


@contextmanager
def hosting(path: Path) -> Iterator[tuple[asyncio.AbstractEventLoop, Host]]:
    """Open a host on a loop that only runs when it is driven."""
    loop = asyncio.new_event_loop()
    try:
        host = loop.run_until_complete(Host(path, [Talk, Talks]).__aenter__())
        try:
            yield loop, host
        finally:
            loop.run_until_complete(host.stop())
    finally:
        loop.close()


@pytest.mark.benchmark(group="a worker's step")
def test_step_of_a_worker_in_a_pool_of_40(tmp_path: Path, beside: Beside) -> None:
    """One of 40 workers, in a row of 100 KB, gets values that are all new."""
    with hosting(tmp_path / "state.db") as (loop, host):
        within = Steps(loop, host, Talks, "a worker's step within a pool of 40 (100 KB)")
        alone = Steps(loop, host, Talk, "the same step of a run of its own")
        assert len(within.told) == WORKERS
        assert within.content_bytes == pytest.approx(LARGE_BYTES, rel=0.2)
        beside(within, alone, rounds=1_000)
