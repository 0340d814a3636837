"""A process that wants a file which others want too: it does what it is told, at a word.

    python -m tests.crash.contenders

Each word is a line: `do` says what, `file` where, `name` under which name. Each answer is a line
too: `done`, or `refused` with the type and the text of the error. Any other error ends the process,
and its parent sees that.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import closing, suppress
from typing import Any

import apsw
from statemachine import State, StateChart

from machines import Host, effect, gate, open_run
from machines.demo.lines import listen, tell
from machines.errors import HostStoppedError, MachinesError
from machines.lock import FileLock
from snapshots import open_storage, open_store
from snapshots.errors import FencedError, SnapshotsError
from snapshots.storage import Scope
from snapshots.storage.state import StateStore

SCOPE = Scope(workflow="contenders")
PAUSE_S = 0.004


class Notes(StateChart):
    """Keeps what it is told, in its order."""

    only = State(initial=True)
    over = State(final=True)
    note = only.to.itself(internal=True, on="keep")
    finish = only.to(over)

    def keep(self, text: str) -> None:
        self.model.notes = [*getattr(self.model, "notes", []), text]


async def hang_up() -> None:
    """Fail as a connection does that breaks: nobody knows what became of the call."""
    raise ConnectionError


class Asks(StateChart):
    """Waits for an answer, and then for somebody who knows what became of its call."""

    asking = State(initial=True, invoke=gate("approve"))
    paying = State(invoke=effect(hang_up))
    paid = State(final=True)
    approve = asking.to(paying)
    done_invoke_paying = paying.to(paid)


CHARTS = (Notes, Asks)


class Contender:
    """What one process does, and what it holds meanwhile."""

    def __init__(self) -> None:
        self._host: Host | None = None
        self._work: asyncio.Task[None] | None = None
        self._pin: apsw.Connection | None = None

    async def obey(self, word: dict[str, Any]) -> dict[str, Any]:
        """Do what a word says, and return what is answered."""
        verbs: dict[str, Callable[[str, str], Awaitable[dict[str, Any] | None]]] = {
            "store": self.store,
            "storage": self.storage,
            "run": self.run,
            "host": self.host,
            "own": self.own,
            "queue": self.queue,
            "take": self.take,
            "leave": self.leave,
            "pin": self.pin,
            "release": self.release,
        }
        answer = {"at": "done", "pid": os.getpid()}
        try:
            return answer | (await verbs[word["do"]](word["file"], word["name"]) or {})
        except (SnapshotsError, MachinesError) as error:
            return {**answer, "at": "refused", "error": type(error).__name__, "text": str(error)}

    # -- ways to make a file ----------------------------------------------------------------------

    async def store(self, file: str, name: str) -> None:
        """Store a row."""
        with open_store(file) as store:
            store.create(run_id=name, machine="m", digest="d", shape=b"{}", blob=b"{}")

    async def storage(self, file: str, name: str) -> None:
        """Put a value beside the runs."""
        with open_storage(file) as backend:
            StateStore(backend.keyed, backend.leases, SCOPE).put(name, name)

    async def run(self, file: str, name: str) -> None:
        """Begin a run without a host, and tell it something."""
        with open_store(file) as store, open_run(store, Notes, name) as chart:
            chart.send("note", text=name)

    async def host(self, file: str, name: str) -> None:
        """Begin a run on a host that is gone then."""
        async with Host(file, CHARTS) as host:
            await host.start(Notes, run_id=name)

    # -- who owns it ------------------------------------------------------------------------------

    async def own(self, file: str, name: str) -> dict[str, Any]:
        """Open the file with a host and keep it, busy with a run of that name."""
        return await self._keep(Host(file, CHARTS), name)

    async def queue(self, file: str, name: str) -> dict[str, Any]:
        """The same of a file that somebody has: it is tried once before, and that is told."""
        assert not FileLock(file).try_take()
        tell({"at": "waiting"})
        return await self.own(file, name)

    async def take(self, file: str, name: str) -> dict[str, Any]:
        """The same, whoever has it."""
        return await self._keep(Host(file, CHARTS, take_over=True), name)

    async def _keep(self, host: Host, name: str) -> dict[str, Any]:
        await host.__aenter__()
        self._host, term = host, host.store.term
        self._work = asyncio.create_task(self._begin_runs(host, f"{term:04}-{name}"))
        return {"term": term}

    async def _begin_runs(self, host: Host, name: str) -> None:
        """Begin runs and tell of each, until somebody else owns the file."""
        number = 0
        try:
            while True:
                number += 1
                run = await host.start(Notes, run_id=f"{name}-{number}")
                tell({"at": "started", "run": run})
                await host.send(run, "note", text=name)
                await host.send(run, "finish")
                await asyncio.sleep(PAUSE_S)
        except (FencedError, HostStoppedError) as error:
            tell({"at": "ended", "error": type(error).__name__})

    async def leave(self, file: str, name: str) -> None:
        """Give the file back, if it is had."""
        del file, name
        if self._work is not None:
            self._work.cancel()
            with suppress(asyncio.CancelledError):
                await self._work
        if self._host is not None:
            host, self._host, self._work = self._host, None, None
            await host.stop()

    # -- who reads --------------------------------------------------------------------------------

    async def pin(self, file: str, name: str) -> None:
        """Hold what is in the file now, until told to release it."""
        del name
        assert self._pin is None
        self._pin = apsw.Connection(file, flags=apsw.SQLITE_OPEN_READONLY)
        self._pin.execute("begin")
        self._pin.execute("select count(*) from runs").fetchall()

    async def release(self, file: str, name: str) -> None:
        """Hold it no more."""
        del file, name
        assert self._pin is not None
        with closing(self._pin) as connection:
            connection.execute("rollback")
        self._pin = None


async def main() -> None:
    """Obey until the parent goes."""
    words: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    loop, contender = asyncio.get_running_loop(), Contender()
    listen(lambda line: loop.call_soon_threadsafe(words.put_nowait, line))
    tell({"at": "ready"})
    while True:
        tell(await contender.obey(await words.get()))


if __name__ == "__main__":
    asyncio.run(main())
