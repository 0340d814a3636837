"""This project: an event to a run of a `Host`, until its answer says that it is saved.

Measured: `await host.send(…)` to a chart of four states in a ring, whose callback takes the values;
for a run of many charts `await host.answer(…)` to one of them, through its gate, which takes them
without leaving its state. Macrostep, capture, encoding, the guarded update and the answer are in.
One task drives the events of a turn, as an application's request handlers would.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter_ns
from typing import Any

from statemachine import State, StateChart
from statemachine.model import Model

from bench.peers.protocol import Step, Values, serve
from machines import Host, child, gate
from snapshots.codec import load


class Ring(StateChart[Model]):
    """Four states in a ring, and the values that it was told last."""

    packing = State(initial=True)
    packed = State()
    shipped = State()
    returned = State()

    go = packing.to(packed) | packed.to(shipped) | shipped.to(returned) | returned.to(packing)

    def on_go(self, values: Values) -> None:
        """Keep the values."""
        vars(self.model)["values"] = values


class Worker(StateChart[Model]):
    """One of many charts: it keeps what it is told through its gate."""

    working = State(initial=True, invoke=gate("tell"))
    over = State(final=True)

    tell = working.to(None, on="keep")
    end = working.to(over)

    def keep(self, values: Values) -> None:
        """Keep the values."""
        vars(self.model)["values"] = values


def pool(count: int) -> type[StateChart[Any]]:
    """Return a chart with so many workers."""
    workers = [child(Worker, id=f"worker{number:02}") for number in range(count)]

    class Workers(StateChart[Model]):
        working = State(initial=True, invoke=workers)
        closed = State(final=True)

        close = working.to(closed)

    return Workers


class Ours:
    """One run of a host, on a loop that runs while it is measured."""

    def __init__(self, folder: Path, charts: Sequence[Values]) -> None:
        self._loop = asyncio.new_event_loop()
        self._many = len(charts) > 1
        chart = pool(len(charts)) if self._many else Ring
        host = Host(folder / "ours.db", [chart])
        self._host = self._loop.run_until_complete(host.__aenter__())
        self._run = self._loop.run_until_complete(self._host.start(chart))
        gates = self._loop.run_until_complete(self._host.gates(self._run))
        self._gates = [gate.key for gate in gates]
        self.measure(list(enumerate(charts)))

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Send the events, one after the other, from one task."""
        return self._loop.run_until_complete(
            self._answer(steps) if self._many else self._send(steps)
        )

    async def _send(self, steps: Sequence[Step]) -> list[int]:
        took_ns: list[int] = []
        for _, values in steps:
            start_ns = perf_counter_ns()
            await self._host.send(self._run, "go", values=values)
            took_ns.append(perf_counter_ns() - start_ns)
        return took_ns

    async def _answer(self, steps: Sequence[Step]) -> list[int]:
        took_ns: list[int] = []
        for place, values in steps:
            start_ns = perf_counter_ns()
            await self._host.answer(self._run, self._gates[place], "tell", values=values)
            took_ns.append(perf_counter_ns() - start_ns)
        return took_ns

    def stored(self) -> list[Values]:
        """Return the values that the row holds."""
        root = load(self._host.store.load(self._run).blob)["root"]
        # The order in which a blob has them is that of their moves.
        below = [node for _, node in sorted(root["children"].items())] if self._many else []
        nodes = below or [root]
        return [node["context"]["values"] for node in nodes]

    def close(self) -> None:
        """Stop the host."""
        self._loop.run_until_complete(self._host.stop())
        self._loop.close()


if __name__ == "__main__":
    names = ("machine-snapshots", "python-statemachine", "apsw")
    serve("ours", {name: version(name) for name in names}, Ours)
