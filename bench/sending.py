"""Events that lead the small chart round, through a host and through the library, as arms."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import Final

from bench.charts import ROUND, Parcel, Small
from machines import Host

SENDS: Final = len(ROUND)
"""Events of one batch, which ends where it began. They share the entering of the loop; a longer
batch would rarely run without losing the processor to other programs.
"""


class HostSends:
    """Leads a run round and round through `host.send`, one event after the other, in one task."""

    def __init__(self, loop: asyncio.AbstractEventLoop, host: Host) -> None:
        self.name = "host.send of the small chart"
        self._loop = loop
        self._host = host
        self._run = loop.run_until_complete(host.start(Small))
        self._trips = 0

    def prepare(self) -> None:
        """Do nothing: a batch ends where it began."""

    def act(self) -> None:
        """Send a batch."""
        self._loop.run_until_complete(self._send())
        self._trips += 1

    async def _send(self) -> None:
        for event, data in ROUND:
            await self._host.send(self._run, event, **data)

    async def turn(self, batches: int) -> list[int]:
        """Send batches within the task that is running; return the ns of each event."""
        took_ns: list[int] = []
        for _ in range(batches):
            for event, data in ROUND:
                start_ns = perf_counter_ns()
                await self._host.send(self._run, event, **data)
                took_ns.append(perf_counter_ns() - start_ns)
            self._trips += 1
        return took_ns

    def check(self) -> None:
        """Assert that the row holds the state and the model that the events lead to."""
        view = self._loop.run_until_complete(self._host.read(self._run))
        assert view.configuration == ("packing",)
        assert view.context == {"boxes": 3, "carrier": "north", "trips": self._trips}
        assert self._loop.run_until_complete(self._host.send(self._run, "pack", boxes=7)) == 7
        view = self._loop.run_until_complete(self._host.read(self._run))
        assert view.configuration == ("packed",)


class PlainSends:
    """Leads the same chart round and round through the library's `send`, in one task."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.name = "plain send of the same chart"
        self._loop = loop
        self._parcel = Parcel()
        self._chart = Small(self._parcel)
        self._trips = 0

    def prepare(self) -> None:
        """Do nothing: a batch ends where it began."""

    def act(self) -> None:
        """Send a batch."""
        self._loop.run_until_complete(self._send())
        self._trips += 1

    async def _send(self) -> None:
        for event, data in ROUND:
            self._chart.send(event, **data)

    async def turn(self, batches: int) -> list[int]:
        """Send batches within the task that is running; return the ns of each event."""
        took_ns: list[int] = []
        for _ in range(batches):
            for event, data in ROUND:
                start_ns = perf_counter_ns()
                self._chart.send(event, **data)
                took_ns.append(perf_counter_ns() - start_ns)
            self._trips += 1
        return took_ns

    def check(self) -> None:
        """Assert that the chart is where the events lead to."""
        assert [state.id for state in self._chart.configuration] == ["packing"]
        assert (self._parcel.boxes, self._parcel.carrier) == (3, "north")
        assert self._parcel.trips == self._trips
        assert self._chart.send("pack", boxes=7) == 7


@contextmanager
def hosting(path: Path) -> Iterator[tuple[asyncio.AbstractEventLoop, Host]]:
    """Open a host on a loop that only runs when it is driven."""
    loop = asyncio.new_event_loop()
    try:
        host = loop.run_until_complete(Host(path, [Small]).__aenter__())
        try:
            yield loop, host
        finally:
            loop.run_until_complete(host.stop())
    finally:
        loop.close()
