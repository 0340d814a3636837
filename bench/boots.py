"""What a boot costs: the arms that are measured beside each other, one after the other in turns.

`among_finished` and `beside_select` return the times of both arms, round by round; what is given
for a file's size and for the rounds is the caller's. Nothing here asserts a time.
"""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path
from time import perf_counter_ns
from typing import Final

import apsw

from bench.charts import Small
from machines import Host, Machine, open_run
from machines.shape import shape_bytes
from snapshots import open_store
from snapshots.clock import SystemClock
from snapshots.identifiers import new_run_id
from snapshots.records import Status

SELECT: Final = """
select id, run_id, machine, digest, status, reason, created_ms, ended_ms, head
from runs indexed by runs_live where status = 'live' order by id"""
"""The rows of the live runs, all columns but the blobs."""

Times = tuple[list[int], list[int]]
"""Per round in ns: of what is measured, and of what it is measured beside."""


def fill(path: Path, *, live: int, finished: int, parked: bool) -> None:
    """Write a file with live runs of `Small`, and finished rows evenly among them.

    All have the blob of a run that was started, under their own id; one was.
    """
    clock, machine = SystemClock(), Machine(Small)
    with open_store(path) as store:
        first = new_run_id(clock)
        with open_run(store, Small, first):
            blob = bytes(store.load(first).blob)

        def write(status: Status, *, parked: bool = False) -> None:
            run_id = new_run_id(clock)
            store.create(
                run_id=run_id,
                machine=machine.name,
                digest=machine.digest,
                shape=shape_bytes(Small),
                blob=blob.replace(first.encode(), run_id.encode()),
                status=status,
                parked=parked,
            )

        with store.transaction():
            for _ in range(live - 1):
                for _ in range(finished // live):
                    write("done")
                write("live", parked=parked)
            for _ in range(finished - finished // live * (live - 1)):
                write("done")


def boot_ns(loop: asyncio.AbstractEventLoop, path: Path, live: int) -> int:
    """Return how long a host takes from its making until it takes events; it is stopped then."""
    gc.collect()
    start_ns = perf_counter_ns()
    host = loop.run_until_complete(Host(path, [Small]).__aenter__())
    took_ns = perf_counter_ns() - start_ns
    resumed = len(host.report.resumed)
    loop.run_until_complete(host.stop())
    assert resumed == live
    return took_ns


def select_ns(path: Path, live: int) -> int:
    """Return how long a connection of its own takes to select the live rows without blobs."""
    gc.collect()
    start_ns = perf_counter_ns()
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        rows = connection.execute(SELECT).fetchall()
        took_ns = perf_counter_ns() - start_ns
    finally:
        connection.close()
    assert len(rows) == live
    return took_ns


def among_finished(
    folder: Path, *, live: int, finished: int, rounds: int, parked: bool = True
) -> Times:
    """Boot live runs among finished rows, and beside it the same with no finished rows."""
    among, only = folder / "among.db", folder / "only.db"
    fill(among, live=live, finished=finished, parked=parked)
    fill(only, live=live, finished=0, parked=parked)
    loop = asyncio.new_event_loop()
    try:
        pairs = [(boot_ns(loop, among, live), boot_ns(loop, only, live)) for _ in range(rounds + 1)]
    finally:
        loop.close()
    return _apart(pairs)


def beside_select(folder: Path, *, waiting: int, rounds: int) -> Times:
    """Boot runs that only wait, and beside it select their rows without the blobs."""
    path = folder / "waiting.db"
    fill(path, live=waiting, finished=0, parked=True)
    loop = asyncio.new_event_loop()
    try:
        pairs = [
            (boot_ns(loop, path, waiting), select_ns(path, waiting)) for _ in range(rounds + 1)
        ]
    finally:
        loop.close()
    return _apart(pairs)


def waiting_bytes(folder: Path, *, waiting: int) -> float:
    """Return how many bytes a host holds for each run that only waits, by tracemalloc.

    The host's own are counted with them. What SQLite holds, the pages that it has read and keeps
    within a bound, is none of Python's and not counted.
    """
    path = folder / "held.db"
    fill(path, live=waiting, finished=0, parked=True)
    loop = asyncio.new_event_loop()
    try:
        boot_ns(loop, path, waiting)  # what is kept for each class is not a run's
        gc.collect()
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            host = loop.run_until_complete(Host(path, [Small]).__aenter__())
            gc.collect()
            held, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        loop.run_until_complete(host.stop())
    finally:
        loop.close()
    return (held - before) / waiting


def _apart(pairs: list[tuple[int, int]]) -> Times:
    """Return the times by arm, without those of the first round, which warms the caches."""
    return [ours for ours, _ in pairs[1:]], [theirs for _, theirs in pairs[1:]]
