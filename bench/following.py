"""How long a commit takes to reach who follows the log of a workspace, here or in a process."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from random import Random
from time import perf_counter_ns, sleep
from typing import Any, Final

from bench.payloads import records
from machines import AsyncSubscription, AsyncWorkspace, Offload
from snapshots import limits, open_storage
from snapshots.storage import Backend, Scope, Workspace, Workspaces

_NS_PER_US: Final = 1_000
_MS_PER_S: Final = 1_000
_ANSWER_S_MAX: Final = 20


class Latencies:
    """Times from the return of a commit, in its own thread, to the entry in a follower's hands."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._random = Random(3)
        self._contents = records()
        self._sent = self._seen = 0
        self.us: list[float] = []

    def _commit(self) -> tuple[int, int]:
        """Return the seq of a new entry, and when its commit had returned."""
        with self._workspace.transaction() as changes:
            changes.create("note", next(self._contents))
            seq = changes.seq
        return seq, perf_counter_ns()

    def _note(self, committed: tuple[int, int], came: tuple[int, int]) -> None:
        (self._sent, committed_ns), (self._seen, came_ns) = committed, came
        self.us.append((came_ns - committed_ns) / _NS_PER_US)

    def prepare(self) -> None:
        """Let any part of a poll pass, so that commits fall at no moment in particular."""
        sleep(self._random.uniform(0, limits.LOG_POLL_MS / _MS_PER_S))

    def check(self) -> None:
        """Assert that the entry which came was the one that was committed."""
        assert self._sent == self._seen > 0


class FollowedHere(Latencies):
    """A task commits, another one of the same loop follows."""

    def __init__(
        self,
        runner: asyncio.Runner,
        offload: Offload,
        log: AsyncSubscription,
        workspace: Workspace,
    ) -> None:
        super().__init__(workspace)
        self._runner = runner
        self._offload = offload
        self._log = log

    def act(self) -> None:
        """Commit, and wait until the follower has the entry."""
        self._runner.run(self._commit_and_wait())

    async def _commit_and_wait(self) -> None:
        following = asyncio.create_task(self._follow())
        # So that it has found nothing by then, and waits.
        await asyncio.sleep(limits.LOG_POLL_MS / _MS_PER_S / 2)
        committed = await self._offload.call(self._commit)
        self._note(committed, await following)

    async def _follow(self) -> tuple[int, int]:
        entry = await anext(self._log)
        return entry.seq, perf_counter_ns()


class FollowedThere(Latencies):
    """This process commits, another one follows; both have one monotonic clock."""

    def __init__(self, answers: Connection, workspace: Workspace) -> None:
        super().__init__(workspace)
        self._answers = answers

    def act(self) -> None:
        """Commit, and wait until the follower says when it had the entry."""
        committed = self._commit()
        assert self._answers.poll(_ANSWER_S_MAX)
        self._note(committed, self._answers.recv())


@contextmanager
def followed_here(backend: Backend, scope: Scope) -> Iterator[FollowedHere]:
    """Follow a workspace from an event loop of this process."""
    workspace = Workspaces(backend.workspaces).open(scope.workspace, tenant=scope.tenant)
    with asyncio.Runner() as runner:
        offload = Offload(backend)

        async def subscribe() -> AsyncSubscription:
            return AsyncWorkspace(offload, workspace).subscribe()

        log = runner.run(subscribe())
        try:
            yield FollowedHere(runner, offload, log, workspace)
        finally:
            log.stop()
            runner.run(offload.close())


@contextmanager
def followed_there(backend: Backend, place: str, scope: Scope) -> Iterator[FollowedThere]:
    """Follow a workspace from a process that opens the storage at `place` itself."""
    spawn = multiprocessing.get_context("spawn")
    answers, told = spawn.Pipe()
    process = spawn.Process(target=follow, args=(place, scope, told), daemon=True)
    process.start()
    told.close()
    try:
        assert answers.poll(_ANSWER_S_MAX)
        assert answers.recv() == "ready"
        workspace = Workspaces(backend.workspaces).open(scope.workspace, tenant=scope.tenant)
        yield FollowedThere(answers, workspace)
    finally:
        process.kill()
        process.join()
        process.close()
        answers.close()


def follow(place: str, scope: Scope, told: Any) -> None:
    """Say of each entry of a workspace's log when it came; until the process is killed."""
    with open_storage(place) as backend:
        workspace = Workspaces(backend.workspaces).open(scope.workspace, tenant=scope.tenant)
        with workspace.subscribe() as log:
            told.send("ready")
            for entry in log:
                told.send((entry.seq, perf_counter_ns()))
