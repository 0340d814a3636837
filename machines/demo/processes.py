"""Processes of the demo that it starts, talks to in lines, kills and buries, or waits for."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, Self

from machines.demo.errors import DemoError
from machines.demo.limits import LINE_BYTES_READ, LOOK_S, START_S_MAX, STOP_S_MAX
from machines.demo.lines import encoded
from snapshots.codec import load

if TYPE_CHECKING:
    from collections.abc import Sequence

HOME = str(Path(__file__).resolve().parents[2])
"""The folder that the packages lie in, installed or not."""
CLI: Final = "snapshots.inspection.cli"
WORDS_BYTES_MAX: Final = 400


class Process:
    """A Python module run as a process of its own; whoever makes it closes it.

    It is in a session of its own, so that Ctrl-C reaches the killer alone, and it ends with its
    standard input (see `machines.demo.lines`), so that it never outlives the killer.
    """

    def __init__(self, name: str, module: str, arguments: Sequence[str], errors: Path) -> None:
        """Start it; what it says on standard error is added to the file `errors`."""
        self.name = name
        self.has_ended = False
        """Whether it has said its last word."""
        self._errors = errors
        self._rest = b""
        with errors.open("ab") as stderr:
            self._popen = subprocess.Popen(  # noqa: S603 - this interpreter, with arguments made here
                (sys.executable, "-P", "-m", module, *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": _python_path()},
            )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._stdin, self._stdout = self._popen.stdin, self._popen.stdout
        os.set_blocking(self._stdout.fileno(), False)

    def __repr__(self) -> str:
        return f"Process({self.name!r}, pid={self.pid})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._popen.pid

    def fileno(self) -> int:
        """Return what to wait on for it to speak."""
        return self._stdout.fileno()

    def say(self, value: dict[str, Any]) -> None:
        """Say a line to it; a process that is gone does not hear it."""
        with suppress(BrokenPipeError):
            self._stdin.write(encoded(value))
            self._stdin.flush()

    def hear(self) -> list[dict[str, Any]]:
        """Return the lines that it has said; what it could not finish saying is not among them."""
        try:
            chunk = os.read(self._stdout.fileno(), LINE_BYTES_READ)
        except BlockingIOError:
            return []
        self.has_ended = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        return [load(line) for line in lines]

    def hear_out(self) -> list[dict[str, Any]]:
        """Return all that a process still says until it has ended."""
        lines: list[dict[str, Any]] = []
        deadline = time.monotonic() + STOP_S_MAX
        while not self.has_ended:
            if time.monotonic() > deadline:
                self.fail("does not end")
            select.select([self], [], [], LOOK_S)
            lines += self.hear()
        return lines

    def wait_for(self, at: str) -> dict[str, Any]:
        """Return its first line, which must be of that kind. Raises DemoError."""
        lines: list[dict[str, Any]] = []
        deadline = time.monotonic() + START_S_MAX
        while not lines:
            if self.has_ended:
                self.fail(f"ended with code {self._popen.wait()} before it was ready")
            if time.monotonic() > deadline:
                self.fail("does not get ready")
            select.select([self], [], [], LOOK_S)
            lines = self.hear()
        (line,) = lines
        assert line["at"] == at, f"{self.name} began with {line!r}"
        return line

    def fail(self, reason: str, cause: BaseException | None = None) -> NoReturn:
        """Raise DemoError: what is wrong with it, and the end of what it wrote on its way."""
        with self._errors.open("rb") as written:
            written.seek(max(0, self._errors.stat().st_size - WORDS_BYTES_MAX))
            words = written.read().decode("utf-8", "replace").split("\n")
        raise DemoError(self.name, reason, " | ".join(line for line in words if line)) from cause

    def kill(self) -> None:
        """Kill it with SIGKILL and wait until it is gone; what it said can still be heard once."""
        self._popen.kill()
        self._popen.wait()

    def wait(self) -> int:
        """Wait until it is gone; return its exit code. Raises DemoError if it takes too long."""
        try:
            return self._popen.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired as error:
            self.fail("does not end", error)

    def close(self) -> None:
        """Kill it if it still runs, and close the pipes; twice is harmless."""
        self.kill()
        with suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()


class Errand:
    """A command of the product's own, run as its users run it, and waited for now and then.

    What it was asked to do must end by itself: where its parent is killed, nobody ends it.
    """

    def __init__(self, arguments: Sequence[str], module: str = CLI) -> None:
        """Start `snapshots`, or another module, with these arguments."""
        self._popen = subprocess.Popen(  # noqa: S603 - this interpreter, with arguments made here
            (sys.executable, "-P", "-m", module, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": _python_path()},
        )

    def poll(self) -> int | None:
        """Return its exit code, None while it runs."""
        return self._popen.poll()

    def said(self) -> tuple[bytes, bytes]:
        """Return what it wrote on standard output and on standard error; to be asked once."""
        return self._popen.communicate()

    def close(self) -> None:
        """Kill it if it still runs, and close the pipes; twice is harmless."""
        self._popen.kill()
        self._popen.wait()
        for pipe in (self._popen.stdout, self._popen.stderr):
            assert pipe is not None
            pipe.close()


def _python_path() -> str:
    return os.pathsep.join(filter(None, (HOME, os.environ.get("PYTHONPATH"))))
