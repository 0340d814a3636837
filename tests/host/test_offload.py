"""The asynchronous face of a storage on a loop whose clock is turned: claims that are renewed."""

from __future__ import annotations

import asyncio
import math
import selectors
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from machines.offload import AsyncWorkspace, Offload
from snapshots import LeaseLostError, StorageClosedError, open_storage
from snapshots.storage import Backend
from snapshots.storage.workspaces import Fact, ThreadClaim, Workspace, Workspaces
from snapshots.testing import ManualClock

TTL_MS = 3_000
SCOPE = "home"


class TurnedSelector(selectors.DefaultSelector):
    """Where the loop would wait for a time, the clock is turned by it at once."""

    clock: ManualClock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return what is ready; time passes instead of being waited for."""
        if timeout:
            self.clock.advance(math.ceil(timeout * 1_000))
            timeout = 0
        return super().select(timeout)


class TurnedLoop(asyncio.SelectorEventLoop):
    """A loop that goes by the clock of the storage."""

    def __init__(self, clock: ManualClock) -> None:
        selector = TurnedSelector()
        selector.clock = clock
        self._clock = clock
        self._start_ms = clock.now_ms()
        super().__init__(selector)

    def time(self) -> float:
        """Seconds since the loop was made, by the clock."""
        return (self._clock.now_ms() - self._start_ms) / 1_000


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the storage and of the loop."""
    return ManualClock()


@pytest.fixture(params=["memory", "sqlite"])
def storage(request: pytest.FixtureRequest, clock: ManualClock, tmp_path: Any) -> Iterator[Backend]:
    """A storage whose calls are made in place."""
    place = "memory:" if request.param == "memory" else tmp_path / "state.db"
    with open_storage(place, clock=clock) as opened:
        yield opened


@pytest.fixture
def workspace(storage: Backend) -> Workspace:
    """A workspace in which the thread `t` is open."""
    found = Workspaces(storage.workspaces).open(SCOPE)
    found.open_thread("t")
    return found


Work = Callable[[AsyncWorkspace], Coroutine[Any, Any, Any]]
Run = Callable[[Work], Any]


@pytest.fixture
def run(storage: Backend, workspace: Workspace, clock: ManualClock) -> Run:
    """Runs a coroutine function, which is given the workspace's asynchronous face."""

    async def main(work: Work) -> Any:
        async with Offload(storage) as offload:
            answer = await work(AsyncWorkspace(offload, workspace))
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, "a task was left behind"
            return answer

    def run(work: Work) -> Any:
        with asyncio.Runner(loop_factory=lambda: TurnedLoop(clock)) as runner:
            return runner.run(main(work))

    return run


def held(claim: ThreadClaim | None) -> ThreadClaim:
    """Return a claim that must have been made."""
    assert claim is not None, "somebody else has the thread"
    return claim


def lapses_ms(workspace: Workspace) -> int:
    """When the claim of the thread `t` lapses if nobody renews it; 0 if nobody has it."""
    lease = workspace.claimed("t")
    return 0 if lease is None else lease.expires_ms


def test_a_claim_is_renewed_while_its_block_lasts(
    run: Run, workspace: Workspace, clock: ManualClock
) -> None:
    """For many times to live, never with less than half of one left; then it is given up."""

    async def work(face: AsyncWorkspace) -> None:
        async with face.claim_thread("t", "r", ttl_ms=TTL_MS) as claim:
            for _ in range(40):
                await asyncio.sleep(0.7)
                assert lapses_ms(workspace) - clock.now_ms() > TTL_MS / 2
            await face.record(Fact(thread="t", run="r", name="done"))
            assert held(claim).token == 1
        assert workspace.claimed("t") is None

    run(work)
    assert [entry.subject for entry in workspace.read(1)] == ["done"]


def test_a_thread_that_is_taken_gives_no_claim(run: Run, workspace: Workspace) -> None:
    """The block runs and is told so; it cancels nobody and releases nothing at its end."""
    theirs = held(workspace.claim_thread("t", "theirs", ttl_ms=100 * TTL_MS))

    async def work(face: AsyncWorkspace) -> bool:
        async with face.claim_thread("t", "r", ttl_ms=TTL_MS) as claim:
            await asyncio.sleep(2 * TTL_MS / 1_000)
            return claim is None

    assert run(work)
    assert theirs.release()


def test_a_claim_that_is_lost_stops_its_holder(
    run: Run, workspace: Workspace, storage: Backend, clock: ManualClock
) -> None:
    """At the next renewal: the block is cancelled where it waits, and raises LeaseLostError."""
    reached = []

    async def hold(face: AsyncWorkspace) -> None:
        async with face.claim_thread("t", "r", ttl_ms=TTL_MS) as claim:
            assert storage.workspaces.release_lease(held(claim).lease)
            successor = workspace.claim_thread("t", "successor", ttl_ms=10 * TTL_MS)
            assert held(successor).token == 2
            start_ms = clock.now_ms()
            try:
                await asyncio.sleep(60)
            finally:
                reached.append(clock.now_ms() - start_ms)

    async def work(face: AsyncWorkspace) -> None:
        with pytest.raises(LeaseLostError) as caught:
            await hold(face)
        assert caught.value.key == "t"
        assert asyncio.current_task().cancelling() == 0  # type: ignore[union-attr] # it runs
        # What belongs to the successor was not given up.
        assert lapses_ms(workspace) > clock.now_ms()
        await asyncio.sleep(60)

    run(work)
    assert reached
    assert reached[0] <= TTL_MS / 3 + 1


@pytest.mark.parametrize("renewals", [0, 4])
def test_a_holder_is_stopped_at_two_thirds_of_the_time_without_a_renewal(
    run: Run, storage: Backend, clock: ManualClock, renewals: int
) -> None:
    """A storage that fails is tried again until then, so that nobody works under a lapsed claim."""
    stopped = []

    async def work(face: AsyncWorkspace) -> None:
        async with face.claim_thread("t", "r", ttl_ms=TTL_MS):
            for _ in range(renewals):
                await asyncio.sleep(TTL_MS / 3_000)
            start_ms = clock.now_ms()
            storage.close()
            try:
                await asyncio.sleep(60)
            finally:
                stopped.append(clock.now_ms() - start_ms)

    with pytest.raises(LeaseLostError):
        run(work)
    # The last renewal was not more than a third before.
    assert TTL_MS / 3 <= stopped[0] <= TTL_MS * 2 / 3 + 2


def test_a_storage_that_works_again_in_time_keeps_the_claim(
    run: Run, workspace: Workspace, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A renewal that failed is made up for before anybody is stopped."""
    renew = ThreadClaim.renew
    failures = [True, True, False] * 20
    refusal = StorageClosedError("renew", "somewhere")

    def flaky(claim: ThreadClaim) -> None:
        if failures and failures.pop(0):
            raise refusal
        renew(claim)

    monkeypatch.setattr(ThreadClaim, "renew", flaky)

    async def work(face: AsyncWorkspace) -> None:
        async with face.claim_thread("t", "r", ttl_ms=TTL_MS):
            for _ in range(40):
                await asyncio.sleep(0.7)
                assert lapses_ms(workspace) > clock.now_ms()

    run(work)
    assert len(failures) < 20


def test_a_holder_that_swallows_its_cancellation_is_told_at_the_end(
    run: Run, storage: Backend, workspace: Workspace
) -> None:
    """Whatever it then does with the thread is refused by its token, and the block raises."""

    async def work(face: AsyncWorkspace) -> None:
        async with face.claim_thread("t", "r", ttl_ms=TTL_MS) as claim:
            storage.workspaces.release_lease(held(claim).lease)
            with pytest.raises(asyncio.CancelledError):
                await asyncio.sleep(60)
            with pytest.raises(LeaseLostError):
                await face.record(Fact(thread="t", run="r", name="late"))

    with pytest.raises(LeaseLostError):
        run(work)
    assert workspace.seq() == 1


def test_an_error_of_the_block_comes_out_as_it_is(
    run: Run, storage: Backend, workspace: Workspace
) -> None:
    """Whether the claim was held to the end or not; what is held is given up."""

    async def fail(face: AsyncWorkspace, *, is_lost: bool) -> None:
        async with face.claim_thread("t", "r", ttl_ms=TTL_MS) as claim:
            if is_lost:
                storage.workspaces.release_lease(held(claim).lease)
                with pytest.raises(asyncio.CancelledError):
                    await asyncio.sleep(60)
            raise KeyError

    for is_lost in (False, True):

        async def work(face: AsyncWorkspace, *, is_lost: bool = is_lost) -> None:
            await fail(face, is_lost=is_lost)

        with pytest.raises(KeyError):
            run(work)
        assert workspace.claimed("t") is None


def test_a_cancellation_from_outside_stays_one(run: Run, workspace: Workspace) -> None:
    """It is no LeaseLostError, a timeout around the block times out, and the claim is given up."""

    async def hold(face: AsyncWorkspace) -> None:
        async with face.claim_thread("t", "r", ttl_ms=TTL_MS):
            await asyncio.sleep(600)

    async def work(face: AsyncWorkspace) -> None:
        task = asyncio.create_task(hold(face))
        await asyncio.sleep(5)
        assert workspace.claimed("t") is not None
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert workspace.claimed("t") is None
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await hold(face)
        assert workspace.claimed("t") is None

    run(work)


def test_a_call_in_place_is_over_before_anything_else_runs(run: Run, workspace: Workspace) -> None:
    """No other task comes between the beginning of a transaction and its end."""
    order = []

    async def act(face: AsyncWorkspace, number: int) -> None:
        def change(changes: Any) -> None:
            order.append(number)
            changes.create("note", {}, artifact=str(number))
            order.append(number)

        await face.transact(change)

    async def work(face: AsyncWorkspace) -> None:
        await asyncio.gather(*(act(face, number) for number in range(5)))

    run(work)
    assert order == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert workspace.seq() == 6


def test_a_subscriber_looks_by_itself_where_no_hint_comes(
    run: Run, workspace: Workspace, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What another process has written is found after the time between two looks at the latest."""

    async def work(face: AsyncWorkspace) -> int:
        async with face.subscribe(workspace.seq(), poll_ms=500) as subscription:
            waiting = asyncio.ensure_future(anext(subscription))
            await asyncio.sleep(2)
            with monkeypatch.context() as patched:
                patched.setattr("snapshots.storage.workspaces.hints.Hints.ring", lambda *_: None)
                workspace.create("note", {})
            start_ms = clock.now_ms()
            assert (await waiting).seq == 2
            return clock.now_ms() - start_ms

    assert run(work) <= 501
