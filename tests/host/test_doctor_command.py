"""`snapshots doctor` beside what lives: hosts, runs without one, readers, forks, the dead."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import gate, open_run
from snapshots import open_store
from snapshots.heads import pack_head
from snapshots.inspection.doctor import Finding, examine, system
from snapshots.inspection.doctor import identity as identifying
from snapshots.limits import REVISION_FIRST
from snapshots.testing import START_MS
from tests.host.world import World
from tests.unit.snapshots.inspection.cli.command_line import ROOT, command

HOSTED = """
import asyncio, sys
from statemachine import State, StateChart
from machines import Host, gate

class Order(StateChart):
    review = State(initial=True, invoke=gate("approve"))
    over = State(final=True)
    approve = review.to(over)

async def main():
    async with Host(sys.argv[1], machines=[Order]) as host:
        await host.start(Order, run_id="order-7")
        print("up", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""
READING = """
import sqlite3, sys
file = sqlite3.connect(sys.argv[1])
file.execute("begin")
file.execute("select count(*) from runs").fetchall()
print("up", flush=True)
sys.stdin.read()
"""
FORKING = """
import os, sys
from snapshots import open_store
store = open_store(sys.argv[1])
child = os.fork()
if child == 0:
    sys.stdin.read()
    os._exit(0)
print("up", flush=True)
sys.stdin.read()
os.waitpid(child, 0)
store.close()
"""


class Order(StateChart[Any]):
    """Waits for a person."""

    review = State(initial=True, invoke=gate("approve"))
    over = State(final=True)
    approve = review.to(over)


@contextmanager
def process(code: str, path: Path) -> Iterator[subprocess.Popen[str]]:
    """Run a program on a file until the block ends, from when it says that it is up."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", code, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    ) as running:
        assert running.stdout is not None
        try:
            assert running.stdout.readline() == "up\n"
            yield running
        finally:
            if code is HOSTED:
                running.kill()
            running.communicate()


def checks(path: Path | str, *, now_ms: int = START_MS) -> dict[str, Finding]:
    """Return what an examination finds, by check."""
    return {one.check: one for one in examine(Path(path), now_ms=now_ms).findings}


def amiss(found: dict[str, Finding]) -> dict[str, str]:
    """Return the verdicts that are not ok."""
    return {name: one.verdict for name, one in found.items() if one.verdict != "ok"}


def test_a_host_of_another_process_is_found_alive_and_then_dead(tmp_path: Path) -> None:
    """By its lock, which the kill gives back, and not by the name that it left in the file."""
    path = tmp_path / "state.db"
    with process(HOSTED, path) as hosted:
        done = command("doctor", path, "--json")
        found = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
        assert done.returncode == 0
        assert {check["verdict"] for check in found.values()} == {"ok"}
        assert f"a host is alive (process {hosted.pid})" in found["owner"]["told"]
        assert f"process {hosted.pid} on" in found["owner"]["told"]
        assert f"{hosted.pid} (python" in found["processes"]["told"]
        hosted.send_signal(signal.SIGKILL)
        hosted.wait()
    assert Path(f"{path}.lock").read_text().startswith(f"process {hosted.pid} on"), "it was left"
    dead = checks(path)
    assert "no host is alive" in dead["owner"].told
    assert amiss(dead) == {}


async def test_a_host_of_this_process_is_found_and_not_disturbed(world: World) -> None:
    """Its locks stay: a second host is still refused, and its saves go on."""
    async with world.host(Order) as host:
        run = await host.start(Order)
        found = checks(world.path)
        assert amiss(found) == {}
        assert f"a host is alive (process {os.getpid()})" in found["owner"].told
        await host.answer(run, "review", "approve")
        assert world.status(run) == "done"


def test_runs_without_a_host_are_told_from_one(world: World) -> None:
    """They share the lock: no host is alive, and none could begin."""
    with open_store(world.path) as store, open_run(store, Order, "a"):
        found = checks(world.path)
    assert "without a host have it open" in found["owner"].told
    assert amiss(found) == {}


async def test_a_lock_of_another_than_the_owner_is_a_warning(world: World) -> None:
    """One of the two took the file over, and the other does not know yet, or waits for it."""
    async with world.host(Order):
        with world.opened(read_only=False) as store:
            database = store.database
            with database.transaction("as another host"):
                database.run("update owner set holder = 'process 1 on the moon'")
        found = checks(world.path)
        assert amiss(found) == {"owner": "warning"}
        assert "process 1 on the moon" in found["owner"].told


def test_a_holder_that_cannot_be_seen_from_here_is_a_warning(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Of another container, say, or where the system does not list locks."""
    open_store(world.path).close()
    lock = Path(f"{world.path}.lock")
    lock.write_text("process 5 on another-container")
    assert amiss(checks(world.path)) == {"owner": "warning"}
    lock.write_text("")
    assert amiss(checks(world.path)) == {}
    lock.write_text(f"process 5 on {os.uname().nodename}")
    assert amiss(checks(world.path)) == {}
    monkeypatch.setattr(system, "PROC", tmp_path / "none")
    assert amiss(checks(world.path)) == {"owner": "warning"}


async def test_timers_and_mail_that_wait_beside_a_live_host_are_told(world: World) -> None:
    """An overdue timer is a problem: its host should have let it fire long ago."""
    async with world.host(Order) as host:
        run = await host.start(Order)
        with world.opened(read_only=False) as store:
            database = store.database
            with database.transaction("as a host that is stuck"):
                head = pack_head(REVISION_FIRST, START_MS, START_MS, parked=True)
                database.run("update runs set head = ? where run_id = ?", (head, run))
                database.run(
                    "insert into mailbox values (1, ?, 'nonsense', x'', null, ?, null, null)",
                    ("nobody", START_MS),
                )
            soon = checks(world.path, now_ms=START_MS + 30_000)
            assert soon["timers"].verdict == "ok"
            late = checks(world.path, now_ms=START_MS + 61_000)
            assert late["timers"].verdict == "problem"
            assert late["timers"].items == (f"{run}: due 1 m 1 s ago",)
            assert "host.report" in late["timers"].remedy
            assert soon["mailbox"].verdict == "ok"
            assert late["mailbox"].verdict == "warning"
            assert "does not take" in late["mailbox"].remedy


def test_a_reader_that_pins_a_long_log_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its process; while the log is short it is only mentioned."""
    path = tmp_path / "state.db"
    with open_store(path) as store, process(READING, path) as reader:
        found = checks(path)
        assert found["log"].verdict == "ok"
        assert f"process {reader.pid} (python" in found["log"].told
        monkeypatch.setattr(identifying, "WAL_RESTART_BYTES", 0)
        store.take_over("somebody")
        found = checks(path)
        assert amiss(found) == {"log": "warning"}
        assert "end that reader" in found["log"].remedy
    monkeypatch.setattr(identifying, "WAL_BYTES_MAX", -1)
    assert amiss(checks(path)) == {"log": "warning"}


def test_a_fork_that_inherited_the_file_is_named(tmp_path: Path) -> None:
    """It has the descriptors of its parent, and the same command line."""
    path = tmp_path / "state.db"
    with process(FORKING, path) as parent:
        found = checks(path)
        assert amiss(found) == {"processes": "warning"}
        assert f"a fork of {parent.pid}" in found["processes"].told
        assert "spawn" in found["processes"].remedy
    with process(READING, path), open_store(path):
        assert amiss(checks(path)) == {}, "two programs on one file are no fork"


def test_looking_takes_no_lock_that_a_host_could_miss(tmp_path: Path) -> None:
    """Hosts begin and end while the file is looked at again and again, and none is refused."""
    path = tmp_path / "state.db"
    open_store(path).close()
    code = (
        "import asyncio, pathlib, sys\n"
        "from machines import Host\n"
        f"sys.path.insert(0, {str(ROOT)!r})\n"
        "from tests.host.charts import Door\n"
        "async def main():\n"
        "    print('up', flush=True)\n"
        "    begun = 0\n"
        "    while begun < 10 or not pathlib.Path(sys.argv[1] + '.enough').exists():\n"
        "        async with Host(sys.argv[1], machines=[Door]):\n"
        "            begun += 1\n"
        "    print(begun, flush=True)\n"
        "asyncio.run(main())\n"
    )
    with process(code, path) as hosts:
        for _ in range(20):
            examine(path, now_ms=START_MS)
        Path(f"{path}.enough").touch()
        assert hosts.stdout is not None
        begun = int(hosts.stdout.readline())
        assert hosts.wait() == 0
    with closing(sqlite3.connect(path)) as other:
        assert other.execute("select term from owner").fetchone() == (begun,)
