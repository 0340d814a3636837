"""The asynchronous face of a storage: the same on every backend, and what threads add to it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

from machines.offload import AsyncWorkspace, Offload
from snapshots import LeaseLostError, StorageClosedError, limits, open_storage
from snapshots.storage import Backend, Scope
from snapshots.storage.backends.postgres import PostgresBackend
from snapshots.storage.workspaces import Changes, Fact, Workspace, Workspaces
from tests.behaviour.servers import Server

LOCK = "select 1 from snapshots.workspaces where tenant = %s and workspace = %s for update"
WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'machine-snapshots'
  and wait_event_type = 'Lock'"""
NEVER_MS = limits.LOG_POLL_MS_MAX
WAIT_S_MAX = 20


@pytest.fixture
def workspace(backend: Backend, scope: Scope) -> Workspace:
    """The workspace of this test, in which the thread `t` is open."""
    found = Workspaces(backend.workspaces).open(scope.workspace, tenant=scope.tenant)
    found.open_thread("t")
    return found


@pytest.fixture
async def offload(backend: Backend) -> AsyncIterator[Offload]:
    """The asynchronous face of the storage under test."""
    async with Offload(backend) as opened:
        yield opened


@pytest.fixture
def face(offload: Offload, workspace: Workspace) -> AsyncWorkspace:
    """The asynchronous face of its workspace."""
    return AsyncWorkspace(offload, workspace)


class TestEveryBackend:
    """What a caller cannot tell the backend by."""

    async def test_a_transaction_is_one_plain_function(
        self, face: AsyncWorkspace, workspace: Workspace
    ) -> None:
        """What it returns is handed on, what it changed is stored; if it raises, nothing is."""

        def change(changes: Changes) -> int:
            changes.create("note", {"n": 1}, artifact="a")
            return changes.change("a", {"n": 2}, expected_revision=1).revision

        assert await face.transact(change) == 2

        def fail(changes: Changes) -> None:
            changes.change("a", {"n": 3}, expected_revision=2)
            raise KeyError

        with pytest.raises(KeyError):
            await face.transact(fail)
        found = await face.ask(lambda view: view.artifacts(type="note"))
        assert [(each.artifact, each.content) for each in found] == [("a", {"n": 2})]
        assert (
            [entry.seq for entry in await face.read()]
            == [1, 2, 3]
            == [entry.seq for entry in workspace.read()]
        )

    async def test_a_function_that_waits_is_refused(self, face: AsyncWorkspace) -> None:
        """A coroutine function would do its work behind the transaction: nothing is stored."""

        async def change(changes: Changes) -> None:
            changes.create("note", {})

        with pytest.raises(TypeError, match="plain function"):
            await face.transact(change)
        with pytest.raises(TypeError, match="plain function"):
            await face.ask(change)  # type: ignore[arg-type] # the wrong use, on purpose
        assert [entry.seq for entry in await face.read()] == [1]

    async def test_a_functions_own_stop_iteration_ends_nothing(self, offload: Offload) -> None:
        """It comes out as an error, as of a coroutine."""
        with pytest.raises(RuntimeError, match="StopIteration"):
            await offload.call(next, iter(()))

    async def test_other_capabilities_are_called_the_same_way(
        self, offload: Offload, backend: Backend, scope: Scope
    ) -> None:
        """Whatever plain function of the storage it is, with its arguments."""
        assert await offload.call(backend.keyed.put_if_absent, scope, "a", b"1", ttl_ms=1_000)
        assert await offload.call(backend.keyed.get, scope, "a") == b"1"

    async def test_a_subscription_replays_and_then_follows(
        self, face: AsyncWorkspace, workspace: Workspace
    ) -> None:
        """On one iterator; what comes later wakes it long before it would have looked."""
        async with face.subscribe(poll_ms=NEVER_MS) as subscription:
            seen = [(await anext(subscription)).seq]
            for _ in range(3):
                waiting = asyncio.ensure_future(anext(subscription))
                await asyncio.sleep(0)
                await face.transact(lambda changes: changes.create("note", {}))
                seen.append((await asyncio.wait_for(waiting, WAIT_S_MAX)).seq)
            assert subscription.seq == workspace.seq()
        assert seen == [1, 2, 3, 4]

    async def test_who_is_cancelled_while_waiting_misses_nothing(
        self, face: AsyncWorkspace, workspace: Workspace
    ) -> None:
        """Whenever that happens: the next one to ask is given the entry."""
        seen = []
        async with face.subscribe(poll_ms=5) as subscription:
            for turn in range(12):
                if turn % 2:
                    workspace.create("note", {})
                waiting = asyncio.ensure_future(anext(subscription))
                for _ in range(turn):
                    await asyncio.sleep(0)
                waiting.cancel()
                try:
                    seen.append((await waiting).seq)
                except asyncio.CancelledError:
                    continue
            while len(seen) < workspace.seq():
                seen.append((await anext(subscription)).seq)
        assert seen == list(range(1, 8))

    async def test_a_stopped_subscription_ends(self, face: AsyncWorkspace) -> None:
        """Also for who waits in it."""
        subscription = face.subscribe(poll_ms=NEVER_MS)
        async with subscription:
            seen = [entry.seq async for entry in Until(subscription, 1)]
            waiting = asyncio.ensure_future(anext(subscription, None))
            await asyncio.sleep(0)
            subscription.stop()
            assert await asyncio.wait_for(waiting, WAIT_S_MAX) is None
        assert seen == [1]
        assert [entry async for entry in subscription] == []

    async def test_a_thread_is_claimed_for_the_length_of_a_block(
        self, face: AsyncWorkspace, workspace: Workspace
    ) -> None:
        """Facts are recorded under it, another run waits, and at the end it is given up."""
        async with face.claim_thread("t", "r", holder="me") as claim:
            assert claim is not None
            async with face.claim_thread("t", "another") as second:
                assert second is None
            await face.record(Fact(thread="t", run="r", name="said"), history=b"1")
        assert workspace.claimed("t") is None
        (segment,) = await face.ask(lambda view: view.history("t"))
        assert segment.payload == b"1"
        with pytest.raises(LeaseLostError):
            await face.record(Fact(thread="t", run="r", name="said"))
        with pytest.raises(KeyError):
            async with face.claim_thread("t", "r"):
                raise KeyError
        assert workspace.claimed("t") is None

    async def test_many_tasks_change_one_after_the_other(
        self, face: AsyncWorkspace, workspace: Workspace
    ) -> None:
        """However many there are at once, each has the workspace to itself."""
        workspace.create("note", {"n": 0}, artifact="a")

        def count(changes: Changes) -> None:
            found = changes.artifact("a")
            assert found is not None
            patch = {"n": found.content["n"] + 1}
            changes.change("a", patch, expected_revision=found.revision)

        await asyncio.gather(*(face.transact(count) for _ in range(30)))
        found = workspace.artifact("a")
        assert found is not None
        assert found.content == {"n": 30}

    async def test_whoever_is_cancelled_at_whatever_moment_leaves_nothing_held(
        self, face: AsyncWorkspace, workspace: Workspace
    ) -> None:
        """Neither the thread nor the workspace; each transaction is there whole or not at all."""

        def change(changes: Changes) -> None:
            changes.create("note", {}, artifact=f"first of {changes.seq}")
            changes.create("note", {}, artifact=f"second of {changes.seq}")

        async def work() -> None:
            async with face.claim_thread("t", "r") as claim, face.subscribe() as subscription:
                assert claim is not None
                await anext(subscription)
                await face.transact(change)
                await face.record(Fact(thread="t", run="r", name="said"))
                async for _ in subscription:
                    pass

        for moment in range(40):
            task = asyncio.create_task(work())
            for _ in range(moment):
                await asyncio.sleep(0)
            if moment % 4 == 3:
                await asyncio.to_thread(threading.Event().wait, moment / 5_000)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert workspace.claimed("t") is None
            workspace.open_thread()
        entries = workspace.read(limit=limits.LOG_ROWS_MAX)
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        made = [entry.subject.partition(" ")[0] for entry in entries if "of" in entry.subject]
        assert made == ["first", "second"] * (len(made) // 2)
        assert made

    async def test_nothing_is_called_after_the_end(self, offload: Offload) -> None:
        """Closing it twice is as once."""
        await offload.close()
        await offload.close()
        with pytest.raises(StorageClosedError):
            await offload.call(int)


class Until:
    """The first entries of a subscription, so many of them."""

    def __init__(self, source: Any, count: int) -> None:
        self.source, self.count = source, count

    def __aiter__(self) -> Until:
        return self

    async def __anext__(self) -> Any:
        if not self.count:
            raise StopAsyncIteration
        self.count -= 1
        return await anext(self.source)


@pytest.fixture
def server_storage(postgres: Server) -> Iterator[PostgresBackend]:
    """A storage on a server, by its own clock."""
    with open_storage(postgres.user) as opened:
        assert isinstance(opened, PostgresBackend)
        yield opened


@pytest.fixture
def superuser(postgres: Server) -> Iterator[psycopg.Connection]:
    """A connection that may do anything to the others."""
    with closing(psycopg.connect(postgres.superuser, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def shared(server_storage: PostgresBackend, scope: Scope) -> Workspace:
    """A workspace on the server, in which the thread `t` is open."""
    found = Workspaces(server_storage.workspaces).open(scope.workspace, tenant=scope.tenant)
    found.open_thread("t")
    return found


async def until(is_so: Callable[[], bool]) -> None:
    """Let other tasks and threads go on until something is so."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not is_so():
            await asyncio.to_thread(threading.Event().wait, 0.002)


def idle(storage: PostgresBackend) -> bool:
    """Whether every connection of the pool is back in it."""
    stats = storage._connections._pool.get_stats()
    return stats.get("pool_size", 0) == stats.get("pool_available", 0)


class TestThreads:
    """What a cancelled caller leaves behind where calls are made in threads: nothing."""

    async def test_a_caller_that_is_cancelled_waits_for_its_statement(
        self, server_storage: PostgresBackend, shared: Workspace
    ) -> None:
        """However often it is cancelled: what was begun is done, lock and connection are free."""
        begun, go_on = threading.Event(), threading.Event()

        def change(changes: Changes) -> None:
            changes.create("note", {}, artifact="a")
            begun.set()
            assert go_on.wait(WAIT_S_MAX)

        async with Offload(server_storage) as offload:
            task = asyncio.create_task(AsyncWorkspace(offload, shared).transact(change))
            await until(begun.is_set)
            for _ in range(3):
                task.cancel()
                await asyncio.sleep(0)
                assert not task.done()
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert idle(server_storage)
            assert shared.artifact("a") is not None
            shared.create("note", {}, artifact="b")

    async def test_a_caller_that_is_cancelled_in_a_block_that_fails_leaves_nothing(
        self, server_storage: PostgresBackend, shared: Workspace
    ) -> None:
        """The transaction is rolled back by its own thread; nobody hears of its error."""
        begun, go_on = threading.Event(), threading.Event()

        def change(changes: Changes) -> None:
            changes.create("note", {}, artifact="a")
            begun.set()
            assert go_on.wait(WAIT_S_MAX)
            raise KeyError

        async with Offload(server_storage) as offload:
            task = asyncio.create_task(AsyncWorkspace(offload, shared).transact(change))
            await until(begun.is_set)
            task.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert idle(server_storage)
        assert (shared.artifact("a"), shared.seq()) == (None, 1)

    async def test_a_caller_that_is_cancelled_before_its_turn_has_done_nothing(
        self, server_storage: PostgresBackend, shared: Workspace
    ) -> None:
        """While every thread is taken, a call waits on the loop, and is never begun."""
        begun, go_on, called = threading.Event(), threading.Event(), []

        def block() -> None:
            begun.set()
            assert go_on.wait(WAIT_S_MAX)

        async with Offload(server_storage, threads=1) as offload:
            first = asyncio.create_task(offload.call(block))
            await until(begun.is_set)
            second = asyncio.create_task(offload.call(called.append, 1))
            await asyncio.sleep(0)
            second.cancel()
            with pytest.raises(asyncio.CancelledError):
                await second
            go_on.set()
            await first
            assert await offload.call(len, called) == 0
        assert shared.seq() == 1

    async def test_calls_are_made_by_a_bounded_number_of_threads(
        self, server_storage: PostgresBackend
    ) -> None:
        """More callers wait for their turn, and closing waits for all who have it."""
        running, most, lock = 0, 0, threading.Lock()
        together = threading.Barrier(3)

        def work() -> None:
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            together.wait(WAIT_S_MAX)
            with lock:
                running -= 1

        async with Offload(server_storage, threads=3) as offload:
            await asyncio.gather(*(offload.call(work) for _ in range(12)))
            last = [asyncio.create_task(offload.call(work)) for _ in range(3)]
            await asyncio.sleep(0)
            await offload.close()
            assert all(task.done() for task in last)
        assert (most, running) == (3, 0)

    async def test_a_claim_that_comes_too_late_is_given_up(
        self,
        server_storage: PostgresBackend,
        superuser: psycopg.Connection,
        shared: Workspace,
        scope: Scope,
    ) -> None:
        """A caller that is cancelled while it waits for a claim leaves the thread free."""

        async def claim(offload: Offload) -> None:
            async with AsyncWorkspace(offload, shared).claim_thread("t", "r"):
                raise AssertionError

        async with Offload(server_storage) as offload:
            with superuser.transaction():
                superuser.execute(LOCK, (scope.tenant, scope.workspace))
                task = asyncio.create_task(claim(offload))
                with closing(psycopg.connect(superuser.info.dsn, autocommit=True)) as other:
                    await until(lambda: other.execute(WAITING).fetchone() != (0,))
                task.cancel()
                await asyncio.sleep(0)
                assert not task.done()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert idle(server_storage)
        assert shared.claimed("t") is None
        again = shared.claim_thread("t", "r")
        assert again is not None
        assert again.token == 2

    async def test_a_renewal_that_hangs_stops_the_holder_before_the_claim_lapses(
        self,
        server_storage: PostgresBackend,
        superuser: psycopg.Connection,
        shared: Workspace,
        scope: Scope,
    ) -> None:
        """Its thread is stuck behind a lock; the holder is told at two thirds all the same."""
        ttl_ms, loop = 900, asyncio.get_running_loop()
        stopped_s = []

        async def hold(offload: Offload, locked: asyncio.Event) -> None:
            async with AsyncWorkspace(offload, shared).claim_thread("t", "r", ttl_ms=ttl_ms):
                start_s = loop.time()
                locked.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    stopped_s.append(loop.time() - start_s)
                    superuser.execute("rollback")

        async with Offload(server_storage) as offload:
            claimed = asyncio.Event()
            task = asyncio.create_task(hold(offload, claimed))
            await claimed.wait()
            superuser.execute("begin")
            superuser.execute(LOCK, (scope.tenant, scope.workspace))
            with pytest.raises(LeaseLostError):
                await task
        assert stopped_s[0] < ttl_ms / 1_000
        assert idle(server_storage)

    async def test_a_listener_that_is_killed_loses_nothing(
        self,
        server_storage: PostgresBackend,
        superuser: psycopg.Connection,
        shared: Workspace,
    ) -> None:
        """Who waits on the loop is woken once it listens again, and looks."""
        kill = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and application_name = 'machine-snapshots listener'"""
        async with (
            Offload(server_storage) as offload,
            AsyncWorkspace(offload, shared).subscribe(1, poll_ms=NEVER_MS) as subscription,
        ):
            for seq in (2, 3, 4):
                waiting = asyncio.ensure_future(anext(subscription))
                await until(lambda: superuser.execute(kill).fetchone() != (0,))
                shared.create("note", {})
                assert (await asyncio.wait_for(waiting, WAIT_S_MAX)).seq == seq
