"""What a subscription to a workspace's log does: replay and follow, without a gap."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.testing.suite.acting import race, refused
from snapshots.testing.suite.workspaces import workspace_of
from snapshots.testing.suite.workspaces_log import fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope

RIVALS: Final = 6
ROUNDS: Final = 5
_WAIT_S_MAX: Final = 20


class SubscriptionBehaviours:
    """Behaviours of subscriptions."""

    def test_a_subscription_replays_and_then_follows(self, backend: Backend, scope: Scope) -> None:
        """On one iterator: what was there, then what comes, each entry once."""
        workspace = workspace_of(backend, scope)
        fill(workspace, limits.LOG_SLICE_ROWS + 1)
        start = limits.LOG_SLICE_ROWS - 2
        with workspace.subscribe(start) as subscription:
            seen = [next(subscription).seq for _ in range(2)]
            fill(workspace, 2)
            seen += [next(subscription).seq for _ in range(3)]
            assert subscription.take() == []
            assert subscription.seq == workspace.seq()
            fill(workspace, 1)
            seen += [entry.seq for entry in subscription.take()]
        assert seen == list(range(start + 1, start + 7))

    def test_a_subscription_goes_on_where_another_ended(
        self, backend: Backend, scope: Scope
    ) -> None:
        """What was read ahead and not handed out is not lost with its reader."""
        workspace = workspace_of(backend, scope)
        fill(workspace, 5)
        with workspace.subscribe() as first:
            seen = [next(first).seq, next(first).seq]
        with workspace.subscribe(first.seq) as second:
            seen += [entry.seq for entry in second.take()]
        assert seen == [1, 2, 3, 4, 5]

    def test_a_subscription_may_begin_ahead_of_the_log(
        self, backend: Backend, scope: Scope
    ) -> None:
        """It is given what comes behind its place, and nothing before."""
        workspace = workspace_of(backend, scope)
        with workspace.subscribe(3) as subscription:
            fill(workspace, 3)
            assert subscription.take() == []
            fill(workspace, 1)
            assert [entry.seq for entry in subscription.take()] == [4]

    def test_a_stopped_subscription_ends(self, backend: Backend, scope: Scope) -> None:
        """Whatever is left in the log; stopping it twice is as once."""
        workspace = workspace_of(backend, scope)
        fill(workspace, 3)
        subscription = workspace.subscribe()
        assert next(subscription).seq == 1
        subscription.stop()
        subscription.stop()
        assert list(subscription) == []
        assert subscription.take() == []

    def test_who_waits_is_woken_and_can_be_stopped(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """A follower in another thread gets what is written while it waits, and ends when told."""
        workspace = workspace_of(backend, scope)
        told, stops = threading.Semaphore(0), []

        def follow() -> list[int]:
            seen: list[int] = []
            with another() as mine, workspace_of(mine, scope).subscribe(poll_ms=5) as subscription:
                stops.append(subscription.stop)
                told.release()
                for entry in subscription:
                    seen.append(entry.seq)
                    told.release()
            return seen

        with ThreadPoolExecutor(1) as threads:
            following = threads.submit(follow)
            try:
                for _ in range(3):
                    assert told.acquire(timeout=_WAIT_S_MAX)
                    fill(workspace, 1)
                assert told.acquire(timeout=_WAIT_S_MAX)
            finally:
                for stop in stops:
                    stop()
            assert following.result(_WAIT_S_MAX) == [1, 2, 3]

    def test_a_follower_sees_each_entry_once_while_many_write(
        self,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """In order and without a gap, however the writers meet."""
        total = RIVALS * ROUNDS

        def act(mine: Backend, number: int) -> list[int]:
            workspace = workspace_of(mine, scope)
            if number < RIVALS:
                for _ in range(ROUNDS):
                    fill(workspace, 1)
                return []
            with workspace.subscribe(poll_ms=5) as subscription:
                return [next(subscription).seq for _ in range(total)]

        *_, first, second = race(another, act, RIVALS + 2)
        assert first == second == list(range(1, total + 1))

    def test_a_subscription_has_bounds(self, backend: Backend, scope: Scope) -> None:
        """It looks neither without a pause nor almost never."""
        workspace = workspace_of(backend, scope)
        with refused("ValueError"):
            workspace.subscribe(poll_ms=0)
        with refused("ValueError"):
            workspace.subscribe(-1)
        with refused("LimitError"):
            workspace.subscribe(poll_ms=limits.LOG_POLL_MS_MAX + 1)

    def test_only_what_is_committed_is_read(self, backend: Backend, scope: Scope) -> None:
        """A read of the log inside a transaction could see what is taken back: it is refused."""
        workspace = workspace_of(backend, scope)
        fill(workspace, 1)
        with workspace.subscribe() as subscription:
            with refused("StorageError"), workspace.transaction() as changes:
                changes.create("note", {})
                subscription.take()
            assert [entry.seq for entry in subscription.take()] == [1]
