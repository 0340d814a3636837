"""The loop's tail: saves beside checkpoints and beside a sweep, in turns with SQLite's own way.

A closed loop hides a stall, since nobody arrives while it lasts. So saves also arrive at a fixed
rate, on one event loop, and each is measured from its arrival: one that is late counts its waiting.

"Automatic" is the same store with `wal_autocheckpoint` at SQLite's default and no thread.
"""

from __future__ import annotations

import asyncio
import gc
import os
import selectors
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from random import Random
from time import perf_counter_ns
from typing import TYPE_CHECKING, Final

import apsw

from bench.payloads import blobs
from machines.host.sweeping import in_slices
from snapshots import limits, open_store
from snapshots.clock import SystemClock
from snapshots.heads import pack_head
from snapshots.identifiers import new_run_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from snapshots import RunHeader, SqliteSnapshotStore

RUN_BYTES: Final = 1_000
FINISHED_BYTES: Final = 420
"""What a run of the small chart takes, of which the other measurements with old rows are made."""
LIVE: Final = 1_000
"""Live runs that take turns at being saved: what a checkpoint copies is many pages, not one."""
FINISHED: Final = 100_000
AUTOMATIC_ROUNDS: Final = 3
"""SQLite's own checkpoints are measured in one of so many rounds."""
RATE_PER_S: Final = 3_000
AUTOMATIC_PAGES: Final = 1_000
"""SQLite's default (https://sqlite.org/pragma.html#pragma_wal_autocheckpoint)."""
WAL_LOOKS: Final = 16
"""After so many saves the length of the log is read; it only grows in between."""
SHUFFLED_ROWS: Final = 60
"""Over so many rows the order of ends differs from that of beginnings."""
_LATENCY_FILE: Final = "/dev/cpu_dma_latency"
_NS_PER_S: Final = 1_000_000_000
_MS_PER_S: Final = 1_000
_OLD_MS: Final = 2 * limits.RETENTION_MS
_INSERT: Final = """
insert into runs (run_id, machine, digest, status, reason, created_ms, ended_ms, head, blob)
values (?, 'm', 'd', ?, null, ?, ?, ?, ?)"""


@contextmanager
def undisturbed() -> Iterator[bool]:
    """Run before everything else on the machine, if that is allowed: yields whether it is.

    A tail is a matter of milliseconds, for which any other process can take the processor, and the
    collector of garbage too, which is off. A virtual processor that has gone to sleep may wake
    some milliseconds late, so none does. Threads that are started inside inherit the priority,
    and both arms of a comparison have it.
    """
    gc.collect()
    gc.disable()
    try:
        with _awake(), _before_others() as is_first:
            yield is_first
    finally:
        gc.enable()


@contextmanager
def _awake() -> Iterator[None]:
    """Ask Linux to let no processor sleep, if that is allowed: a request lasts as long as its file.

    See https://docs.kernel.org/power/pm_qos_interface.html.
    """
    try:
        request = os.open(_LATENCY_FILE, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        yield
        return
    try:
        os.write(request, bytes(4))  # no microsecond of latency, as 32 bits
        yield
    finally:
        os.close(request)


@contextmanager
def _before_others() -> Iterator[bool]:
    if not hasattr(os, "sched_setscheduler"):
        yield False
        return
    policy, parameters = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except PermissionError:
        yield False
        return
    try:
        yield True
    finally:
        os.sched_setscheduler(0, policy, parameters)


@dataclass(slots=True, kw_only=True)
class Tail:
    """What one arm has shown."""

    name: str
    latencies_ns: list[int] = field(default_factory=list)
    """Of each save: from its arrival if there is one, else from its call."""
    wal_bytes_max: int = 0
    swept_rows: int = 0
    sweeping_ns: int = 0

    def quantile_ns(self, share: float) -> int:
        """Return the latency that this share of the saves did not exceed, 1.0 for the longest."""
        ordered = sorted(self.latencies_ns)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]

    @property
    def swept_per_s(self) -> float:
        """Rows a second, while there was a sweep."""
        return self.swept_rows * _NS_PER_S / max(1, self.sweeping_ns)

    def __str__(self) -> str:
        """Return a line for people, in ms."""
        shares = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "longest": 1.0}
        shown = "  ".join(
            f"{name} {self.quantile_ns(share) / 1e6:.3f}" for name, share in shares.items()
        )
        wal = f"WAL {self.wal_bytes_max / limits.MIB:.1f} MiB"
        swept = f"  {self.swept_per_s:,.0f} rows/s" if self.sweeping_ns else ""
        return f"{self.name:<30} {shown}  ({len(self.latencies_ns):,} saves, {wal}){swept}"


class Saver:
    """Saves runs of one file in turns, each time with bytes that are all new."""

    def __init__(self, store: SqliteSnapshotStore, headers: list[RunHeader], tail: Tail) -> None:
        self.store = store
        self.tail = tail
        self.headers = headers
        # In no order of the file, as events come.
        self._turns = cycle(Random(1).sample(range(len(headers)), len(headers)))
        self._blobs = blobs(RUN_BYTES)
        self._wal = f"{store.path}-wal"
        self._saves = 0

    def save(self) -> None:
        """Save the run whose turn it is."""
        turn = next(self._turns)
        self.headers[turn] = self.store.save(self.headers[turn], next(self._blobs))

    def look(self) -> None:
        """Look at the log now and then; not timed."""
        self._saves += 1
        if self._saves % WAL_LOOKS == 0:
            self.tail.wal_bytes_max = max(self.tail.wal_bytes_max, os.stat(self._wal).st_size)  # noqa: PTH116 - a Path would cost as much as a save

    def closed(self, saves: int) -> None:
        """Save one after the other."""
        for _ in range(saves):
            start_ns = perf_counter_ns()
            self.save()
            self.tail.latencies_ns.append(perf_counter_ns() - start_ns)
            self.look()

    async def arriving(self, saves: int, rate_per_s: int = RATE_PER_S) -> None:
        """Save what arrives at a fixed rate, each in a callback of its own."""
        loop = asyncio.get_running_loop()
        is_done = loop.create_future()
        wanted = len(self.tail.latencies_ns) + saves

        def save(due_s: float) -> None:
            self.save()
            self.tail.latencies_ns.append(int((loop.time() - due_s) * _NS_PER_S))
            self.look()
            if len(self.tail.latencies_ns) == wanted:
                is_done.set_result(None)

        start_s = loop.time() + 0.001
        for number in range(saves):
            due_s = start_s + number / rate_per_s
            loop.call_at(due_s, save, due_s)
        await is_done

    async def sweeping(self) -> None:
        """Sweep as a host does, until nothing is left or the task is cancelled."""
        start_ns = perf_counter_ns()

        async def delete() -> int:
            rows = self.store.sweep()
            self.tail.swept_rows += rows
            return rows

        try:
            await in_slices(delete)
        finally:
            self.tail.sweeping_ns += perf_counter_ns() - start_ns


def closed_loop(folder: Path, *, saves: int = 40_000, rounds: int = 8) -> tuple[Tail, Tail]:
    """Return the tails of so many saves in a closed loop, each arm: ours, automatic."""
    with undisturbed(), ExitStack() as opened:
        ours = _opened(opened, folder / "closed-ours.db", Tail(name="closed loop"))
        automatic = _opened(
            opened, folder / "closed-automatic.db", Tail(name="closed loop, automatic")
        )
        _leave_to_sqlite(automatic.store)
        for number in range(rounds):
            for arm in _in_turns((ours, automatic), number):
                arm.closed(saves // rounds)
    return ours.tail, automatic.tail


def open_loop(
    folder: Path, *, saves: int = 29_400, rounds: int = 42, finished: int = FINISHED
) -> tuple[Tail, Tail, Tail]:
    """Return the tails of so many saves at the fixed rate: ours, beside a sweep, automatic.

    The first two share a file: of its `finished` old rows as many are swept as its rounds leave
    time for. The third takes part in every third round, since its p99.9 is nowhere near the bar.
    """
    with undisturbed(), ExitStack() as opened:
        ours = _opened(opened, folder / "open-ours.db", Tail(name="fixed rate"), finished)
        beside = Saver(ours.store, ours.headers, Tail(name="fixed rate, beside a sweep"))
        automatic = _opened(
            opened, folder / "open-automatic.db", Tail(name="fixed rate, automatic")
        )
        _leave_to_sqlite(automatic.store)
        for number in range(rounds):
            arms = (ours, beside) if number % AUTOMATIC_ROUNDS else (ours, beside, automatic)
            for arm in _in_turns(arms, number):
                with asyncio.Runner(loop_factory=_loop) as runner:
                    runner.run(_round(arm, saves // rounds, sweeps=arm is beside))
    return ours.tail, beside.tail, automatic.tail


def _loop() -> asyncio.AbstractEventLoop:
    """Return a loop that wakes on time: the default one counts its sleep in whole milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())


async def _round(arm: Saver, saves: int, *, sweeps: bool) -> None:
    if not sweeps:
        await arm.arriving(saves)
        return
    sweep = asyncio.create_task(arm.sweeping())
    await asyncio.sleep(0)
    await arm.arriving(saves)
    sweep.cancel()
    await asyncio.gather(sweep, return_exceptions=True)


def _in_turns(arms: Iterable[Saver], number: int) -> list[Saver]:
    """Return the arms in an order of this round's own: none always follows the same other one."""
    ordered = list(arms)
    turn = number % len(ordered)
    return ordered[turn:] + ordered[:turn]


def _opened(opened: ExitStack, path: Path, tail: Tail, finished: int = 0) -> Saver:
    """Open a file with live runs, evenly among finished ones that are old enough to be swept."""
    open_store(path).close()
    _fill(path, finished)
    store = opened.enter_context(open_store(path))
    store.take_over("bench")
    return Saver(store, store.headers(status="live", limit=LIVE), tail)


def _fill(path: Path, finished: int) -> None:
    """Write the rows past the store, which would take a multiple of the time, and sync them."""
    connection = apsw.Connection(str(path))
    try:
        connection.pragma("synchronous", "off")
        connection.pragma("journal_mode", "memory")
        with connection:
            connection.executemany(_INSERT, _rows(finished))
        connection.pragma("journal_mode", "wal")
    finally:
        connection.close()
    descriptor = os.open(path, os.O_RDWR)  # every connection of the process on it is closed
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rows(finished: int) -> Iterator[tuple[object, ...]]:
    clock, random = SystemClock(), Random(3)
    payloads, old_payloads = blobs(RUN_BYTES), blobs(FINISHED_BYTES)
    old_ms = clock.now_ms() - _OLD_MS
    rows = finished + LIVE
    for number in range(rows):
        created_ms = old_ms + number
        # Runs do not end in the order in which they began.
        is_live = number * LIVE % rows < LIVE  # evenly, and so many of them
        ended_ms = None if is_live else created_ms + random.randrange(SHUFFLED_ROWS)
        status = "live" if is_live else "done"
        head = pack_head(limits.REVISION_FIRST, created_ms, limits.NO_TIMER_MS, parked=True)
        blob = next(payloads if is_live else old_payloads)
        yield (new_run_id(clock), status, created_ms, ended_ms, head, blob)


def _leave_to_sqlite(store: SqliteSnapshotStore) -> None:
    """Stop the thread, and have commits checkpoint as they do by default."""
    database = store.database
    assert database.checkpoints is not None
    database.checkpoints.close()
    database.checkpoints = None
    database.connection.wal_autocheckpoint(AUTOMATIC_PAGES)  # takes the place of the store's hook
