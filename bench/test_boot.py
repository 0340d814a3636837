"""What a boot costs: from a file to a host that takes events, with and without finished rows."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench.boots import boot_ns, fill, select_ns, waiting_bytes
from bench.charts import ROUND, Small
from machines import Host

if TYPE_CHECKING:
    from bench.beside import Beside

pytest_plugins = ("bench.beside",)

LIVE = 1_000
BUILT = 200
WAITING = 10_000
FINISHED = 10_000


class Boots:
    """Opens a host on a file again and again."""

    def __init__(self, loop: asyncio.AbstractEventLoop, path: Path, live: int, name: str) -> None:
        self.name = name
        self._loop = loop
        self._path = path
        self._live = live
        self._host: Host | None = None

    def prepare(self) -> None:
        """Stop the host that was opened last."""
        if self._host is not None:
            self._loop.run_until_complete(self._host.stop())
            self._host = None

    def act(self) -> None:
        """Open the file and restore its live runs."""
        self._host = self._loop.run_until_complete(Host(self._path, [Small]).__aenter__())

    def check(self) -> None:
        """Assert that the live runs were resumed, no other one, and that the last one goes on."""
        assert self._host is not None
        report = self._host.report
        assert len(set(report.resumed)) == self._live
        assert {**report.unresumed, **report.lost, **report.drifted} == {}
        event, data = ROUND[0]
        sent = self._host.send(report.resumed[-1], event, **data)
        assert self._loop.run_until_complete(sent) == data["boxes"]


class Selects:
    """Selects the rows of the live runs of a file, without the blobs, again and again."""

    def __init__(self, path: Path, live: int) -> None:
        self.name = f"select of {live:,} rows without blobs"
        self._path = path
        self._live = live

    def prepare(self) -> None:
        """Do nothing: each act opens the file anew."""

    def act(self) -> None:
        """Select the rows."""
        select_ns(self._path, self._live)

    def check(self) -> None:
        """Do nothing: each act has counted its rows."""


@contextmanager
def boots(
    folder: Path, *, live: int, finished: int, parked: bool = True
) -> Iterator[tuple[Boots, Boots]]:
    """Yield the boots of a file with finished rows, and of one without."""
    kind = "that wait" if parked else "that are built"
    among, only = folder / "among.db", folder / "only.db"
    fill(among, live=live, finished=finished, parked=parked)
    fill(only, live=live, finished=0, parked=parked)
    loop = asyncio.new_event_loop()
    opened = (
        Boots(loop, among, live, f"boot of {live:,} runs {kind}, among {finished:,} finished"),
        Boots(loop, only, live, "the same without finished rows"),
    )
    try:
        yield opened
    finally:
        for each in opened:
            each.prepare()
        loop.close()


@pytest.mark.benchmark(group="boot")
def test_boot_of_runs_that_wait(tmp_path: Path, beside: Beside) -> None:
    """1,000 live runs that only wait, among 10,000 finished rows, beside none finished."""
    with boots(tmp_path, live=LIVE, finished=FINISHED) as (among, only):
        beside(among, only, rounds=60, turn=5)


@pytest.mark.benchmark(group="boot")
def test_boot_of_runs_that_are_built(tmp_path: Path, beside: Beside) -> None:
    """200 live runs with something in flight, whose charts are built, among 10,000 finished."""
    with boots(tmp_path, live=BUILT, finished=FINISHED, parked=False) as (among, only):
        beside(among, only, rounds=25, turn=5)


@pytest.mark.benchmark(group="boot")
def test_boot_beside_a_select(tmp_path: Path, beside: Beside) -> None:
    """10,000 live runs that only wait, beside a select of their rows without the blobs."""
    path = tmp_path / "state.db"
    fill(path, live=WAITING, finished=0, parked=True)
    loop = asyncio.new_event_loop()
    ours = Boots(loop, path, WAITING, f"boot of {WAITING:,} runs that wait")
    try:
        beside(ours, Selects(path, WAITING), rounds=30, turn=5)
    finally:
        ours.prepare()
        loop.close()


def test_the_arms_boot_what_they_say(tmp_path: Path) -> None:
    """Both arms count what they found, and a run that waits is held at all."""
    path = tmp_path / "state.db"
    fill(path, live=20, finished=50, parked=True)
    loop = asyncio.new_event_loop()
    try:
        assert boot_ns(loop, path, 20) > 0
    finally:
        loop.close()
    assert select_ns(path, 20) > 0
    assert waiting_bytes(tmp_path, waiting=20) > 0
