"""Ways to run the demo and the crash tool as their users do, and to see what they leave behind."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.house.sources import ROOT, configuration
from tests.unit.snapshots.inspection.cli.command_line import COMMAND, environment

PROCESSES: Final = Path("/proc")
GONE_S_MAX: Final = 10


def install(folder: Path) -> Path:
    """Describe this project's commands in a folder, as its installation does; return the folder.

    The tests then find the command `demo` in a checkout that is not installed too.
    """
    described = folder / "machine_snapshots-0.0.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: machine-snapshots\nVersion: 0.0\n"
    )
    lines = [
        line
        for group, points in configuration()["project"]["entry-points"].items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (described / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return folder


def begin_demo(site: Path, *arguments: str, **chosen: str) -> subprocess.Popen[str]:
    """Start the demo with its output piped."""
    return subprocess.Popen(
        [*COMMAND, "demo", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        env=environment(PYTHONPATH=str(site), **chosen),
    )


def crash_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `tools/crash.py` to its end."""
    return subprocess.run(
        (sys.executable, str(ROOT / "tools" / "crash.py"), *arguments),
        capture_output=True,
        check=False,
        encoding="utf-8",
        timeout=28,
    )


def processes_with(argument: str) -> set[int]:
    """Return the ids of the processes, this one apart, that have `argument` in a command line.

    Empty where the system does not list its processes.
    """
    found: set[int] = set()
    for folder in PROCESSES.iterdir() if PROCESSES.is_dir() else ():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            words = (folder / "cmdline").read_bytes()
        except OSError:  # it has ended since the folder was listed
            continue
        if argument.encode() in words:
            found.add(int(folder.name))
    return found


def outlive(pids: set[int]) -> set[int]:
    """Wait until processes have ended; return those that do not."""
    left: set[int] = set()
    for pid in pids:
        try:
            handle = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            if not select.select([handle], [], [], GONE_S_MAX)[0]:
                left.add(pid)
        finally:
            os.close(handle)
    return left
