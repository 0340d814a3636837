"""A measured program as the runner sees it: a process that answers questions, a line each."""

from __future__ import annotations

import json
import os
import select
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Final, NoReturn, Self

from bench.peers.protocol import Step, Values

ROOT: Final = Path(__file__).resolve().parent.parent.parent
START_S_MAX: Final = 60
ANSWER_S_MAX: Final = 120
END_S_MAX: Final = 20
_CHUNK_BYTES: Final = 65_536
_SAID_BYTES_MAX: Final = 2_000


class PeerError(Exception):
    """A measured program did not start, did not answer, or answered that it could not."""

    def __init__(self, peer: str, what: str, said: str = "") -> None:
        self.peer = peer
        self.what = what
        self.said = said
        super().__init__(f"{peer}: {what}" + (f"; it said: {said}" if said else ""))

    def __reduce__(self) -> tuple[type[PeerError], tuple[str, str, str]]:
        return type(self), (self.peer, self.what, self.said)


class PeerProcess:
    """One program, from its start to its end: a context manager.

    Entering waits until it is ready. Raises PeerError.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, environment: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.versions: dict[str, str] = {}
        self._command = tuple(command)
        self._environment = dict(environment or {})
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def __enter__(self) -> Self:
        self._said = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                env={**os.environ, **self._environment},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._said,
            )
            ready = self._read(START_S_MAX)
            if "ready" not in ready:
                self._fail(f"began with {ready!r}")
            self.versions = ready["versions"]
        except OSError as error:
            self.__exit__(None, None, None)
            raise PeerError(self.name, f"cannot be started ({error})") from error
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """End the program: it stops by itself when there is nothing more to read."""
        process, self._process = self._process, None
        if process is not None:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):  # it has ended already
                process.stdin.close()
            try:
                process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
        self._said.close()

    def open(self, run: str, folder: Path, charts: Sequence[Values]) -> None:
        """Have it start a run in an empty folder."""
        self._ask({"do": "open", "run": run, "folder": str(folder), "charts": charts}, "opened")

    def measure(self, run: str, steps: Sequence[Step]) -> list[int]:
        """Have it do the steps; return the ns that each took."""
        found: list[int] = self._ask({"do": "measure", "run": run, "steps": steps}, "ns")
        if len(found) != len(steps):
            self._fail(f"measured {len(found)} of {len(steps)} steps")
        return found

    def read(self, run: str) -> list[Values] | None:
        """Return the values of all charts as it has them on disk, None if it has only bytes."""
        stored: list[Values] | None = self._ask({"do": "read", "run": run}, "stored")
        return stored

    def _ask(self, question: Mapping[str, Any], expected: str) -> Any:
        assert self._process is not None, "it is not running"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(question).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            self._fail("has ended", error)
        answer = self._read(ANSWER_S_MAX)
        if expected not in answer:
            self._fail(f"answered {answer!r} when told to {question['do']} {question['run']}")
        return answer[expected]

    def _read(self, patience_s: float) -> dict[str, Any]:
        """Return its next line."""
        assert self._process is not None
        assert self._process.stdout is not None
        descriptor, until = self._process.stdout.fileno(), monotonic() + patience_s
        parts = [self._rest]
        while b"\n" not in parts[-1]:
            ready, _, _ = select.select([descriptor], [], [], max(0.0, until - monotonic()))
            if not ready:
                self._fail(f"did not answer within {patience_s:g} s")
            part = os.read(descriptor, _CHUNK_BYTES)
            if not part:
                self._fail("has ended without an answer")
            parts.append(part)
        line, _, self._rest = b"".join(parts).partition(b"\n")
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError as error:
            self._fail(f"answered {line[:100]!r}, which is no JSON", error)
        return answer

    def _fail(self, what: str, cause: Exception | None = None) -> NoReturn:
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(0, size - _SAID_BYTES_MAX))
        said = self._said.read().decode(errors="replace").strip()
        raise PeerError(self.name, what, said) from cause
