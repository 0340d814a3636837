"""Processes with a host that live on one file, one after the other, until they are killed."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from machines import Host
from tests.host import life
from tests.host.world import World

ROOT = Path(__file__).resolve().parents[2]


class Lives:
    """Processes on one file, one after the other, and the log that outlives them."""

    def __init__(self, world: World, log: Path) -> None:
        self.world = world
        self.log = life.Log()
        self.log.path = str(log)

    def _start(self, scenario: str) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-m", "tests.host.life", scenario]
        return subprocess.Popen(
            [*arguments, str(self.world.path), self.log.path],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def die(self, scenario: str, at: str) -> None:
        """Live until the line that the moment is named by, and be killed there."""
        with self._start(f"{scenario}@{at}") as process:
            output, _ = process.communicate(timeout=20)
        assert process.returncode == -signal.SIGKILL, output.decode()

    def live(self, scenario: str) -> None:
        """Live to a good end."""
        with self._start(scenario) as process:
            output, _ = process.communicate(timeout=20)
        assert process.returncode == 0, output.decode()

    def kill_after(self, scenario: str, lines: int) -> None:
        """Live until the log has grown by so many lines, and be killed at some moment then."""
        begun = len(self.log.lines())
        with self._start(scenario) as process:
            while len(self.log.lines()) < begun + lines:
                assert process.poll() is None, process.communicate()[0].decode()
                time.sleep(0.001)
            process.kill()
            process.communicate()

    def host(self) -> Host:
        """Return the next host, in this process."""
        return self.world.host(*life.CHARTS)
