"""A process that stands still while another takes its file over, and wakes: it is fenced."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import Counter

import pytest

from machines import Host
from snapshots.errors import StorageBusyError
from tests.host import life
from tests.host.lives import Lives
from tests.host.world import statuses, until

PATIENCE_S = 20.0


def stall(process: subprocess.Popen[bytes]) -> None:
    """Have a process stand still, and return once it does."""
    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)


async def succeed(lives: Lives, process: subprocess.Popen[bytes]) -> Host:
    """Stall a process wherever it is, and return the open host that has taken its file over.

    Stalled in the middle of a write it holds the file's lock: then it is woken, and stalled again.
    """
    while True:
        stall(process)
        host = lives.world.host(*life.CHARTS, take_over=True)
        try:
            return await host.__aenter__()
        except StorageBusyError:
            process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("lines", [9, 30])
async def test_a_process_that_wakes_after_a_takeover_writes_nothing_and_ends(
    lives: Lives, lines: int
) -> None:
    """Stopped in the middle of its work: no row of it after that, no charge twice, and it stops."""
    with lives._start("busy") as process:
        end_s = time.monotonic() + PATIENCE_S
        while len(lives.log.lines()) < lines and time.monotonic() < end_s:
            assert process.poll() is None, process.communicate()[0].decode()
        host = await succeed(lives, process)
        acknowledged = lives.log.lines("started")
        await until(
            lambda: all(
                statuses(host, run)[0] in ("done", "unknown")
                for run in list(host._resident)
                if statuses(host, run)
            )
        )
        rows = {run: lives.world.stored(run) for run in lives.world.ids()}
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 1, output.decode()
        assert b"FencedError" in output or b"HostStoppedError" in output
        assert b"fenced" in output
        assert {run: lives.world.stored(run) for run in lives.world.ids()} == rows
        assert {line.split()[1] for line in acknowledged} <= rows.keys()
        # What it acknowledged before it knew, the successor has; what it did not, nobody has.
        started = {line.split()[1] for line in lives.log.lines("started")}
        assert started <= rows.keys()
        charges = Counter(lives.log.lines("charge"))
        assert set(charges.values()) <= {1}
        await host.start(life.Begins, run_id="the-successor-goes-on")
        await host.stop()
