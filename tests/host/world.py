"""A file, a clock and an outside: what a host lives in, and what remains when it dies."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from machines import Host
from machines.run.run import Run
from snapshots import SnapshotStore, open_store
from snapshots.layout import unfold_blob
from snapshots.records import StoredRun
from snapshots.testing import ManualClock

SPINS = 50
"""How often the loop is given a chance before anything else gets one."""
PATIENCE_S = 5.0
STEP_S = 0.002


async def until(
    holds: Callable[[], Any], what: str = "what was waited for", *, patience_s: float = PATIENCE_S
) -> None:
    """Let the loop and its threads run until something holds; fail if it never does."""
    for _ in range(SPINS):
        if holds():
            return
        await asyncio.sleep(0)
    for _ in range(int(patience_s / STEP_S)):
        if holds():
            return
        await asyncio.sleep(STEP_S)
    pytest.fail(f"{what} did not come about")


async def settled() -> None:
    """Let everything run that can run by itself on this loop, threads apart."""
    for _ in range(SPINS):
        await asyncio.sleep(0)


class Outside:
    """The world that runs call: it counts what reaches it, and answers as it is told.

    It outlives hosts: what a dead host's call left here is what really happened.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.notes: list[Any] = []
        self._held: dict[str, asyncio.Event] = {}
        self._answers: dict[str, deque[Any]] = {}

    def count(self, name: str) -> int:
        """Return how often a call of this name came here."""
        return sum(1 for called, _ in self.calls if called == name)

    def keys(self, name: str) -> list[str]:
        """Return the idempotency keys that came with the calls of this name."""
        return [key for called, key in self.calls if called == name]

    def hold(self, name: str) -> asyncio.Event:
        """Keep calls of this name without an answer until the event is set."""
        return self._held.setdefault(name, asyncio.Event())

    def answers(self, name: str, *answers: Any) -> None:
        """Say what the next calls of this name get: a value, or an exception to be raised."""
        self._answers.setdefault(name, deque()).extend(answers)

    def take(self, name: str, key: str) -> Any:
        """Take a call and give its answer at once; threads may come here."""
        self.calls.append((name, key))
        waiting = self._answers.get(name)
        answer = waiting.popleft() if waiting else f"{name} done"
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def service(self, name: str) -> Callable[..., Any]:
        """Return a coroutine function that an effect can call here."""

        async def call(key: str) -> Any:
            self.calls.append((name, key))
            if name in self._held:
                await self._held[name].wait()
            waiting = self._answers.get(name)
            answer = waiting.popleft() if waiting else f"{name} done"
            if isinstance(answer, BaseException):
                raise answer
            return answer

        call.__name__ = name
        return call

    def blocking(self, name: str) -> Callable[..., Any]:
        """Return a plain function that an effect can call here, in a thread."""

        def call(key: str) -> Any:
            return self.take(name, key)

        call.__name__ = name
        return call


class World:
    """Where hosts live: make several on one file, one after the other or against each other."""

    def __init__(self, path: Path, clock: ManualClock, outside: Outside) -> None:
        self.path = path
        self.clock = clock
        self.outside = outside
        self._copies = 0

    def host(self, *machines: Any, **options: Any) -> Host:
        """Return a host on the file, with every save compared with a full capture."""
        return Host(self.path, machines, clock=self.clock, verify=True, **options)

    def after_kill(self) -> World:
        """Return the world as a kill at this moment would leave it.

        The file and its log are copied by another process: closing a descriptor in this one would
        drop the locks of whoever still has the file open.
        """
        self._copies += 1
        copy = self.path.with_name(f"{self.path.stem}-{self._copies}.db")
        for suffix in ("", "-wal"):
            if Path(f"{self.path}{suffix}").exists():
                subprocess.run(["/bin/cp", f"{self.path}{suffix}", f"{copy}{suffix}"], check=True)
        return World(copy, self.clock, self.outside)

    @contextmanager
    def opened(self, *, read_only: bool = True) -> Iterator[SnapshotStore]:
        """Open a second connection on the file, read-only unless told otherwise."""
        with open_store(self.path, clock=self.clock, read_only=read_only) as store:
            yield store

    def stored(self, run_id: str) -> StoredRun:
        """Return a run as its row holds it, seen by another connection."""
        with self.opened() as store:
            return store.load(run_id)

    def status(self, run_id: str) -> str:
        """Return the status that a run has on disk."""
        return self.stored(run_id).header.status

    def blob(self, run_id: str) -> dict[str, Any]:
        """Return what a run's row holds, as plain JSON."""
        return unfold_blob(json.loads(self.stored(run_id).blob), run_id)

    def effects(self, run_id: str) -> list[str]:
        """Return the statuses of a run's effects on disk, in order."""
        return [row["status"] for row in self.blob(run_id).get("effects", [])]

    def configuration(self, run_id: str) -> list[str]:
        """Return the active states of a run's root chart on disk."""
        found: list[str] = self.blob(run_id)["root"]["configuration"]
        return found

    def saves(self, run_id: str) -> int:
        """Return how often a run was written."""
        return self.stored(run_id).header.revision - 2**33 + 1

    def ids(self) -> list[str]:
        """Return the ids of all runs, oldest first."""
        with self.opened() as store:
            return [header.run_id for header in reversed(store.headers())]

    def overwrite(self, run_id: str, blob: bytes) -> None:
        """Write bytes over a run's blob, as a fault of the disk or of a program would."""
        with self.opened(read_only=False) as store:
            database = store.database
            with database.transaction("damage"):
                database.run("update runs set blob = ? where run_id = ?", (blob, run_id))

    def multiply(self, run_id: str, times: int) -> dict[str, bytes]:
        """Store copies of a run under other ids; return the blob of each."""
        with self.opened(read_only=False) as store:
            stored = store.load(run_id)
            header, shape = stored.header, store.shape(stored.header.digest)
            copies: dict[str, bytes] = {}
            with store.transaction():
                for number in range(times):
                    copied = f"copy-{number}"
                    blob = bytes(stored.blob).replace(run_id.encode(), copied.encode())
                    store.create(
                        run_id=copied,
                        machine=header.machine,
                        digest=header.digest,
                        shape=shape or b"{}",
                        blob=blob,
                        due_ms=header.due_ms,
                        parked=header.parked,
                    )
                    copies[copied] = blob
        return copies

    def overwrite_all(self, blobs: dict[str, bytes]) -> None:
        """Write bytes over the blobs of many runs."""
        with self.opened(read_only=False) as store, store.transaction():
            for run_id, blob in blobs.items():
                store.database.run("update runs set blob = ? where run_id = ?", (blob, run_id))


def resident(host: Host, run_id: str) -> Run:
    """Return a run that is in a host's memory."""
    return host._resident[run_id]


def statuses(host: Host, run_id: str) -> list[str]:
    """Return the statuses of a resident run's effects, as they are in memory."""
    return [row.status for row in resident(host, run_id).ledgers.effects]


async def at_rest(host: Host, run_id: str) -> None:
    """Wait until a run does nothing more by itself."""
    await until(
        lambda: (
            run_id not in host._resident
            or (resident(host, run_id).at_rest and not host._shop.busy(resident(host, run_id)))
        ),
        f"rest of run {run_id!r}",
    )


async def ended(host: Host, run_id: str) -> None:
    """Wait until a run that the host took up is not live any more."""
    assert run_id not in host.report.unresumed, str(host.report)
    await until(
        lambda: run_id not in host._resident and run_id not in host.waiting,
        f"the end of run {run_id!r}",
    )


def ring(host: Host) -> None:
    """Have the alarm look at the clock."""
    host._alarm.ring_due()


class Disk:
    """Has a host's disk refuse writes, as SQLite itself does it: with an error of its own.

    `fails` says of the n-th write from now on whether it is refused.
    """

    def __init__(self, host: Host) -> None:
        self.writes = 0
        self.fails: Callable[[int], bool] = lambda _: False
        self._store: Any = host.store
        for verb in ("save", "create", "mark", "sweep"):
            setattr(self._store, verb, self._counting(getattr(self._store, verb)))

    def _counting(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.writes += 1
            connection = self._store.database.connection
            connection.pragma("query_only", self.fails(self.writes))
            try:
                return write(*args, **options)
            finally:
                connection.pragma("query_only", False)

        return counted

    def fail_always(self) -> None:
        """Refuse every write from now on."""
        self.fails = lambda _: True

    def fail_once(self) -> None:
        """Refuse the next write."""
        next_one = self.writes + 1
        self.fails = lambda write: write == next_one

    def heal(self) -> None:
        """Take writes again."""
        self.fails = lambda _: False


class Barrier:
    """Lets a thread of a test wait for the test, and the test for the thread."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.released = threading.Event()

    def wait(self) -> None:
        """Say that the thread is here, and wait to be let on."""
        self.reached.set()
        assert self.released.wait(PATIENCE_S), "nobody let the thread on"
