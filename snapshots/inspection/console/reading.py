"""Reads of the file for the console: in a few threads, a few at a time, each short."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Final, TypeVar

from snapshots.errors import StorageError
from snapshots.inspection.console.errors import CrowdedError
from snapshots.inspection.limits import (
    CONSOLE_READ_MS_MAX,
    CONSOLE_READERS_MAX,
    CONSOLE_WAITING_MAX,
)
from snapshots.inspection.queries.files import open_run_file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from snapshots.inspection.queries.files import RunFile

T = TypeVar("T")

_QUESTIONS: Final = "questions to the file"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Handle:
    """An open file, and which one it is: another may be put in its place."""

    file: RunFile
    identity: tuple[int, ...]


class Reader:
    """Asks a file in threads of its own; `close` ends them, and closes what they had open.

    A question has a handle for itself while it runs. Between questions handles are kept open: no
    statement is under way in them, so they hold nothing of the file back. A file that was put in
    the place of another is opened anew.
    """

    def __init__(self, path: Path) -> None:
        """Read the file at `path`, which is opened at the first question."""
        self.path = path
        self._threads = ThreadPoolExecutor(CONSOLE_READERS_MAX, "snapshots-console")
        self._lock = Lock()
        self._idle: list[_Handle] = []
        self._waiting = 0
        self._is_closed = False

    def close(self) -> None:
        """Wait for the questions under way, and close the file; a second time is harmless."""
        self._threads.shutdown()
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for handle in idle:
            handle.file.close()

    async def ask(self, question: Callable[[RunFile], T]) -> T:
        """Return what `question` makes of the open file, in a thread.

        Raises what it raises; `StorageError` if the file cannot be opened or read in time;
        `CrowdedError` if as many questions as may wait do so already.
        """
        return await self.work(lambda: self._answer(question))

    async def work(self, job: Callable[[], T]) -> T:
        """Return what `job`, which needs no open file, returns in one of the threads."""
        if self._waiting >= CONSOLE_WAITING_MAX:
            raise CrowdedError(_QUESTIONS, CONSOLE_WAITING_MAX)
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, job)
        finally:
            self._waiting -= 1

    def _answer(self, question: Callable[[RunFile], T]) -> T:
        handle = self._take()
        try:
            answer = question(handle.file)
        except StorageError:
            # Whatever is the matter with it, the next question shall not depend on it.
            handle.file.close()
            raise
        except BaseException:
            self._give_back(handle)
            raise
        self._give_back(handle)
        return answer

    def _take(self) -> _Handle:
        identity = identity_of(self.path)
        with self._lock:
            kept = [handle for handle in self._idle if handle.identity == identity]
            gone = [handle for handle in self._idle if handle.identity != identity]
            taken = kept.pop() if kept else None
            self._idle = kept
        for handle in gone:
            handle.file.close()
        if taken is not None:
            return taken
        return _Handle(
            file=open_run_file(self.path, read_ms_max=CONSOLE_READ_MS_MAX), identity=identity
        )

    def _give_back(self, handle: _Handle) -> None:
        with self._lock:
            is_kept = not self._is_closed and not handle.file.is_copy
            if is_kept:
                self._idle.append(handle)
        if not is_kept:
            handle.file.close()


def identity_of(path: Path) -> tuple[int, ...]:
    """Return what tells this file from another one in its place; nothing if there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116 - one word for what may raise
    except OSError:
        return ()
    return (found.st_dev, found.st_ino)
