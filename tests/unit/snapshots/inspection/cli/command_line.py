"""Ways to run the command `snapshots` in a process of its own, as its users do."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[5]
COMMAND: Final = (sys.executable, "-m", "snapshots.inspection.cli")
_CHOSEN: Final = ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "SNAPSHOTS_FILE", "SNAPSHOTS_TRACEBACK")
_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")
_CHUNK_BYTES: Final = 65_536
_NOBODY: Final = 65_534
_AS_NOBODY: Final = """
import os, sys
from snapshots.inspection.cli import run
warm, *arguments = sys.argv[1:]
# Modules are loaded before the rights are dropped, which may hide where they are installed.
assert run(["runs", warm]) == 0
print("----", flush=True)
if os.getuid() == 0:
    os.setgid(int(arguments[0]))
    os.setuid(int(arguments[0]))
sys.exit(run(arguments[1:]))
"""


def environment(**chosen: str) -> dict[str, str]:
    """Return this process's environment without what decides how the command prints."""
    kept = {name: value for name, value in os.environ.items() if name not in _CHOSEN}
    paths = (chosen.pop("PYTHONPATH", ""), str(ROOT), kept.get("PYTHONPATH", ""))
    path = os.pathsep.join(filter(None, paths))
    return kept | {"TERM": "xterm-256color", "PYTHONPATH": path} | chosen


def command(
    *arguments: str | Path, cwd: Path | None = None, **chosen: str
) -> subprocess.CompletedProcess[str]:
    """Run the command with its output piped, and return what became of it."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        check=False,
        cwd=cwd,
        encoding="utf-8",
        env=environment(**chosen),
        timeout=25,
    )


def on_terminal(*arguments: str | Path, columns: int, **chosen: str) -> str:
    """Run the command on a terminal of so many columns, and return what it was sent."""
    controller, terminal = pty.openpty()
    try:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        with subprocess.Popen(
            [*COMMAND, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=terminal,
            stderr=subprocess.PIPE,
            env=environment(**chosen),
        ):
            os.close(terminal)
            received = b""
            while chunk := _read(controller):
                received += chunk
    finally:
        os.close(controller)
    return received.decode().replace("\r\n", "\n")


def without_styles(text: str) -> str:
    """Return what a terminal shows once it has taken its colors."""
    return _STYLE.sub("", text)


def _read(controller: int) -> bytes:
    try:
        return os.read(controller, _CHUNK_BYTES)
    except OSError:  # Linux says so when the other end is closed
        return b""


def as_nobody(warm: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command as a user without rights; `warm` is a file to load all modules with."""
    return subprocess.run(
        [COMMAND[0], "-c", _AS_NOBODY, warm, str(_NOBODY), *map(str, arguments)],
        capture_output=True,
        check=False,
        encoding="utf-8",
        env=environment(),
        timeout=25,
    )
