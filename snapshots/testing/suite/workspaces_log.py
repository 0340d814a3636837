"""What a workspace's log does: no hole, windows of it, cursors that move forward."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from snapshots import limits
from snapshots.storage.workspaces import Fact, delivered_to
from snapshots.testing.suite.acting import race, refused
from snapshots.testing.suite.workspaces import workspace_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.storage.workspaces import Workspace

RIVALS: Final = 6
ROUNDS: Final = 5
TTL_MS: Final = 1_000
# Longer than any behaviour takes: what comes earlier came by a hint.
WAIT_S_MAX: Final = 20


class StrayError(Exception):
    """What a block raises that has nothing to do with storage."""


def seqs(workspace: Workspace, **window: Any) -> list[int]:
    """Return the places of what a read returns."""
    return [entry.seq for entry in workspace.read(**window)]


def fill(workspace: Workspace, entries: int) -> None:
    """Write so many entries that belong to no thread, in one transaction."""
    with workspace.transaction() as changes:
        for _ in range(entries):
            changes.create("note", {})


def two_threads(workspace: Workspace) -> None:
    """Open threads `s` and `t`, and claim each for its run `r`."""
    for thread in ("s", "t"):
        workspace.open_thread(thread)
        assert workspace.claim_thread(thread, "r", ttl_ms=TTL_MS) is not None


class LogBehaviours:
    """Behaviours of the log, of those who read it and of their cursors."""

    def test_the_log_counts_from_1_without_holes(self, backend: Backend, scope: Scope) -> None:
        """What was refused, or taken back, has no place in it."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {}, artifact="a")
        with refused("EntityExistsError"):
            workspace.create("note", {}, artifact="a")
        with refused("StrayError"), workspace.transaction() as changes:
            changes.create("note", {})
            assert changes.seq == 2
            raise StrayError
        with workspace.transaction() as changes:
            assert changes.seq == 1
        with workspace.transaction() as changes:
            changes.create("note", {})
            changes.propose_creation("note", {})
        assert (workspace.seq(), seqs(workspace)) == (3, [1, 2, 3])

    def test_many_writers_leave_no_hole(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """Each entry has one place, whoever wrote it, and a writer's own are in its order."""

        def write(mine: Backend, number: int) -> list[int]:
            workspace = workspace_of(mine, scope)
            for turn in range(ROUNDS):
                workspace.create("note", {"turn": turn}, artifact=f"{number}-{turn}")
            return []

        race(another, write, RIVALS)
        entries = workspace_of(backend, scope).read()
        assert [entry.seq for entry in entries] == list(range(1, RIVALS * ROUNDS + 1))
        for number in range(RIVALS):
            theirs = [entry for entry in entries if entry.subject.startswith(f"{number}-")]
            turns = [entry.data["content"]["turn"] for entry in theirs]
            assert turns == list(range(ROUNDS))

    def test_the_log_is_read_in_windows(self, backend: Backend, scope: Scope) -> None:
        """From behind a place and up to a limit, or the newest ones, always in order."""
        workspace = workspace_of(backend, scope)
        fill(workspace, 7)
        assert seqs(workspace) == [1, 2, 3, 4, 5, 6, 7]
        assert seqs(workspace, after_seq=2, limit=3) == [3, 4, 5]
        assert seqs(workspace, after_seq=6) == [7]
        assert seqs(workspace, after_seq=7) == seqs(workspace, after_seq=70) == []
        assert seqs(workspace, limit=0) == seqs(workspace, last=0) == []
        assert seqs(workspace, last=2) == [6, 7]
        assert seqs(workspace, last=9) == [1, 2, 3, 4, 5, 6, 7]
        assert seqs(workspace, last=9, after_seq=5) == [6, 7]
        assert seqs(workspace, last=9, after_seq=70) == []

    def test_a_window_has_bounds(self, backend: Backend, scope: Scope) -> None:
        """As many as the bound, and not one more; no place before the first."""
        workspace = workspace_of(backend, scope)
        fill(workspace, limits.TRANSACTION_ENTRIES_MAX)
        fill(workspace, 1)
        assert seqs(workspace, limit=limits.LOG_ROWS_MAX) == list(range(1, limits.LOG_ROWS_MAX + 1))
        newest = seqs(workspace, last=limits.LOG_ROWS_MAX)
        assert newest == list(range(2, limits.LOG_ROWS_MAX + 2))
        for window in ({"limit": limits.LOG_ROWS_MAX + 1}, {"last": limits.LOG_ROWS_MAX + 1}):
            with refused("LimitError"):
                seqs(workspace, **window)
        for window in ({"after_seq": -1}, {"limit": -1}, {"last": -1}):
            with refused("ValueError"):
                seqs(workspace, **window)
        strange: Any = "3"
        for window in ({"after_seq": strange}, {"limit": strange}, {"last": strange}):
            with refused("TypeError") as refusal:
                seqs(workspace, **window)
            assert "'3': expected a whole number" in str(refusal.error)

    def test_a_thread_is_given_what_is_for_it(self, backend: Backend, scope: Scope) -> None:
        """Its own opening and facts, and what happens to artifacts, wherever that came from."""
        workspace = workspace_of(backend, scope)
        two_threads(workspace)
        workspace.create("note", {}, artifact="a", thread="s")
        for thread in ("s", "t"):
            workspace.record(Fact(thread=thread, run="r", name="said"))
        workspace.propose_change("a", {}, expected_revision=1, thread="s", proposal="p")
        workspace.reject("p")
        assert [entry.seq for entry in workspace.read(thread="s")] == [1, 3, 4, 6, 7]
        assert [entry.seq for entry in workspace.read(thread="t")] == [2, 3, 5, 6, 7]
        assert [entry.seq for entry in workspace.read(thread="new")] == [3, 6, 7]
        assert [entry.seq for entry in workspace.read(3, 2, thread="t")] == [5, 6]
        assert [entry.seq for entry in workspace.read(thread="t", last=4)] == [3, 5, 6, 7]
        assert [entry.seq for entry in workspace.read(3, thread="t", last=9)] == [5, 6, 7]
        for thread in ("s", "t", "new"):
            kept = [entry for entry in workspace.read() if delivered_to(entry, thread)]
            assert workspace.read(thread=thread) == kept
            for count in range(len(kept) + 2):
                assert workspace.read(0, count, thread=thread) == kept[:count]
                newest = workspace.read(thread=thread, last=count)
                assert newest == kept[max(len(kept) - count, 0) :]
        with refused("InvalidKeyError"):
            workspace.read(thread="")

    def test_a_thread_is_found_in_a_long_log(self, backend: Backend, scope: Scope) -> None:
        """However much lies between its entries, forwards, backwards and by who follows."""
        workspace = workspace_of(backend, scope)
        two_threads(workspace)
        for turn in range(3):
            workspace.record(Fact(thread="s", run="r", name="said", data=turn))
            with workspace.transaction() as changes:
                for _ in range(2 * limits.LOG_SLICE_ROWS + 1):
                    changes.record(Fact(thread="t", run="r", name="said"))
        found = workspace.read(2, thread="s")
        assert [entry.data for entry in found] == [0, 1, 2]
        assert workspace.read(2, 2, thread="s") == found[:2]
        assert workspace.read(thread="s", last=2) == found[1:]
        with workspace.subscribe(2, thread="s") as subscription:
            assert subscription.take() == found
            assert subscription.seq == workspace.seq()

    def test_a_cursor_moves_forward_only(self, backend: Backend, scope: Scope) -> None:
        """To a place that the log has reached; back, or where it stands, it does not move."""
        workspace = workspace_of(backend, scope)
        fill(workspace, 5)
        assert workspace.cursor("reader") == 0
        assert not workspace.move_cursor("reader", 0)
        assert workspace.move_cursor("reader", 3)
        for seq in (3, 2, 0, -1):
            assert not workspace.move_cursor("reader", seq)
        assert workspace.move_cursor("reader", 5)
        with refused("LimitError"):
            workspace.move_cursor("reader", 6)
        assert (workspace.cursor("reader"), workspace.cursor("other")) == (5, 0)
        assert workspace.seq() == 5

    def test_many_who_move_a_cursor_leave_it_at_the_furthest(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """Whoever comes last, and each place is reached by one at most."""
        workspace = workspace_of(backend, scope)
        fill(workspace, 4)

        def move(mine: Backend, number: int) -> tuple[int, bool]:
            seq = 1 + number % 4
            return seq, workspace_of(mine, scope).move_cursor("reader", seq)

        moved = [seq for seq, has_moved in race(another, move) if has_moved]
        assert workspace.cursor("reader") == 4
        assert len(set(moved)) == len(moved)
        assert 4 in moved
