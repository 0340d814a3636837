"""One file, one host and one outside, in which an operation is disturbed."""

from __future__ import annotations

import asyncio
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import apsw

from machines import Host, Machine
from snapshots.codec import load
from snapshots.layout import unfold_blob
from snapshots.storage import Scope
from snapshots.storage.state import StateStore
from snapshots.testing import ManualClock
from tools.disk.charts import Outside, charts
from tools.disk.history import picture_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tools.disk.history import History, Picture

PATIENCE_S: Final = 10.0
_BLOB: Final = "select blob from runs where run_id = ?"


class BrokenError(Exception):
    """What must not be."""


class Scene:
    """What an operation works in; it outlives its hosts."""

    def __init__(self, path: Path, clock: ManualClock | None = None) -> None:
        self.path = path
        self.clock = clock or ManualClock()
        self.outside = Outside()
        self.outside.on_call = self._called
        self.vfs = "unix"
        """The one that nobody watches."""
        self.history: History | None = None
        self.run = ""
        self.entry = 0
        self.errors: dict[str, list[Exception]] = {}
        """What the next calls of a kind get, instead of an answer."""
        desk, floor = charts(self.outside)
        self.desk, self.floor = Machine(desk, name="desk"), Machine(floor, name="floor")
        self.machines = {machine.name: machine for machine in (self.desk, self.floor)}
        self._host: Host | None = None

    @property
    def host(self) -> Host:
        """The host that is open."""
        assert self._host is not None, "no host is open"
        return self._host

    @property
    def has_host(self) -> bool:
        """Whether one is."""
        return self._host is not None

    @property
    def state(self) -> StateStore:
        """Keyed state, through the host's own connection."""
        storage = self.host.storage
        return StateStore(storage.keyed, storage.leases, Scope(workflow="tool"))

    async def open(self) -> None:
        """Open a host on the file."""
        machines = self.machines.values()
        host = Host(self.path, machines, clock=self.clock, verify=True, grace_s=1)
        await host.__aenter__()
        self._host = host

    async def close(self) -> None:
        """Close the host, if one is open; it is gone whatever comes of that."""
        host, self._host = self._host, None
        if host is not None:
            await host.stop()

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait for something to come about; BrokenError if it never does."""
        give_up_s = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > give_up_s:
                message = f"stuck: {what} does not come about"
                raise BrokenError(message)
            await asyncio.sleep(0.001)

    async def at_rest(self) -> None:
        """Wait until no run does anything, or waits to be saved."""
        host = self.host
        await self.until(
            lambda: (
                all(run.at_rest for run in host._resident.values())  # noqa: SLF001 - looked into
                and not host._mailbox.pending()  # noqa: SLF001 - as above
            ),
            "rest",
        )

    async def view(self, run: str = "") -> Any:
        """Return how a run is."""
        return await self.host.read(run or self.run)

    @contextmanager
    def unwatched(self) -> Iterator[apsw.Connection]:
        """Connect past the disk that fails."""
        connection = apsw.Connection(str(self.path), vfs=self.vfs)
        try:
            yield connection
        finally:
            connection.close()

    def picture(self) -> Picture:
        """Return what is in the file now."""
        with self.unwatched() as connection:
            return picture_of(connection)

    def sound(self, path: Path) -> str:
        """Return what SQLite's own check says of a file: `ok`, or what is wrong."""
        connection = apsw.Connection(str(path), vfs=self.vfs)
        try:
            return str(connection.execute("pragma integrity_check").get)
        finally:
            connection.close()

    def stored(self, run_id: str) -> dict[str, Any]:
        """Return what a run's row holds, as plain JSON."""
        with self.unwatched() as connection:
            blob = connection.execute(_BLOB, (run_id,)).get
        return unfold_blob(load(bytes(blob)), run_id)

    def _called(self, kind: str, key: str) -> None:
        """Look whether the row of an effect says that it is being called: before it is."""
        run_id = key.partition("/")[0]
        rows = {row["id"]: row["status"] for row in self.stored(run_id).get("effects", [])}
        if rows.get(key) != "calling":
            self.outside.calls.append(("early", key))
        if self.errors.get(kind):
            raise self.errors[kind].pop(0)
