"""What a transaction of a workspace does: all of it or nothing, alone in its workspace."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.storage.workspaces import Fact
from snapshots.testing.suite.acting import race, refused
from snapshots.testing.suite.workspaces import workspace_of
from snapshots.testing.suite.workspaces_log import StrayError, two_threads

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.testing import ManualClock

RIVALS: Final = 6
ROUNDS: Final = 5


class WorkspaceTransactionBehaviours:
    """Behaviours of a workspace's transactions."""

    def test_changes_of_a_block_are_stored_together(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """Each sees those before it; all of them carry one time."""
        workspace = workspace_of(backend, scope)
        two_threads(workspace)
        with workspace.transaction() as changes:
            now = changes.now_ms
            clock.advance(7)
            made = changes.create("note", {"n": 1}, artifact="a")
            assert changes.artifact("a") == made
            changed = changes.change("a", {"n": 2}, expected_revision=1)
            proposal = changes.propose_change("a", {"n": 3}, expected_revision=2)
            assert changes.proposal(proposal.proposal) == proposal
            accepted = changes.accept(proposal.proposal)
            entry = changes.record(Fact(thread="t", run="r", name="done"), history=b"1")
            assert changes.move_cursor("reader", entry.seq)
            assert changes.cursor("reader") == entry.seq
            assert (changed.revision, accepted.revision) == (2, 3)
        assert workspace.artifact("a") == accepted
        assert accepted.content == {"n": 3}
        assert [entry.kind for entry in workspace.read(2)] == [
            "artifact.created",
            "artifact.changed",
            "proposal.made",
            "proposal.accepted",
            "artifact.changed",
            "fact",
        ]
        assert {entry.at_ms for entry in workspace.read(2)} == {now}
        assert workspace.cursor("reader") == workspace.seq() == 8

    def test_a_block_that_raises_leaves_nothing(self, backend: Backend, scope: Scope) -> None:
        """Of entities, log, history and cursors, nor of keyed state that it has put."""
        workspace = workspace_of(backend, scope)
        two_threads(workspace)
        made = workspace.create("note", {"n": 1}, artifact="a")
        with refused("StrayError"), workspace.transaction() as changes:
            backend.keyed.put(scope, "key", b"1")
            changes.change("a", {"n": 2}, expected_revision=1)
            changes.create("note", {}, artifact="b")
            changes.propose_creation("note", {}, proposal="p")
            changes.open_thread("u")
            changes.record(Fact(thread="t", run="r", name="said"), history=b"1")
            changes.move_cursor("reader", 3)
            raise StrayError
        assert backend.keyed.get(scope, "key") is None
        assert (workspace.artifact("a"), workspace.artifact("b")) == (made, None)
        assert (workspace.proposal("p"), workspace.thread("u")) == (None, None)
        assert (workspace.seq(), workspace.cursor("reader")) == (3, 0)
        assert (workspace.history("t"), workspace.runs("t")) == ([], [])

    def test_keyed_state_takes_part(self, backend: Backend, scope: Scope) -> None:
        """What a block puts there is committed with what it changes here."""
        workspace = workspace_of(backend, scope)
        with workspace.transaction() as changes:
            changes.create("note", {}, artifact="a")
            backend.keyed.put(scope, "key", b"1")
        assert backend.keyed.get(scope, "key") == b"1"
        assert workspace.artifact("a") is not None

    def test_a_refused_change_that_was_expected_spoils_nothing(
        self, backend: Backend, scope: Scope
    ) -> None:
        """It has done nothing, what came before it stands, and the block goes on."""
        workspace = workspace_of(backend, scope)
        with workspace.transaction() as changes:
            changes.create("note", {"n": 1}, artifact="a")
            with refused("RevisionConflictError"):
                changes.change("a", {"n": 2}, expected_revision=5)
            with refused("EntityExistsError"):
                changes.create("note", {}, artifact="a")
            with refused("EncodeError"):
                changes.change("a", {"n": object()}, expected_revision=1)
            with refused("LeaseLostError"):
                changes.record(Fact(thread="t", run="r", name="said"))
            with refused("LimitError"):
                changes.change(
                    "a", {"n": "x" * limits.WORKSPACE_VALUE_BYTES_MAX}, expected_revision=1
                )
            changes.change("a", {"n": 3}, expected_revision=1)
        found = workspace.artifact("a")
        assert found is not None
        assert (found.revision, found.content, workspace.seq()) == (2, {"n": 3}, 2)

    def test_a_block_has_its_workspace_to_itself(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """What it reads stays so until it has written: threads that count up lose no count."""
        workspace_of(backend, scope).create("note", {"n": 0}, artifact="a")

        def count(mine: Backend, _: int) -> None:
            workspace = workspace_of(mine, scope)
            for _round in range(ROUNDS):
                with workspace.transaction() as changes:
                    found = changes.artifact("a")
                    assert found is not None
                    patch = {"n": found.content["n"] + 1}
                    changes.change("a", patch, expected_revision=found.revision)

        race(another, count, RIVALS)
        found = workspace_of(backend, scope).artifact("a")
        assert found is not None
        assert found.content == {"n": RIVALS * ROUNDS}
        assert found.revision == 1 + RIVALS * ROUNDS

    def test_a_transaction_has_bounds(self, backend: Backend, scope: Scope) -> None:
        """As many entries as the bound, and not one more; those before it are stored."""
        workspace = workspace_of(backend, scope)
        with workspace.transaction() as changes:
            for _ in range(limits.TRANSACTION_ENTRIES_MAX - 1):
                changes.create("note", {})
            proposal = changes.propose_creation("note", {}, artifact="a").proposal
            with refused("LimitError"):
                changes.create("note", {})
            with refused("LimitError"):
                changes.accept(proposal)
        assert workspace.seq() == limits.TRANSACTION_ENTRIES_MAX
        found = workspace.proposal(proposal)
        assert found is not None
        assert (found.status, workspace.artifact("a")) == ("open", None)

    def test_a_transaction_is_over_when_its_block_is(self, backend: Backend, scope: Scope) -> None:
        """Whether it was kept or not, neither a read nor a change goes through it any more."""
        workspace = workspace_of(backend, scope)
        with workspace.transaction() as kept:
            kept.create("note", {}, artifact="a")
        with refused("StrayError"), workspace.transaction() as undone:
            raise StrayError
        for changes in (kept, undone):
            with refused("StorageClosedError"):
                changes.artifact("a")
            with refused("StorageClosedError"):
                changes.create("note", {})
        assert workspace.seq() == 1

    def test_transactions_do_not_nest(self, backend: Backend, scope: Scope) -> None:
        """A second one inside the first is a mistake, and the first is rolled back with it."""
        workspace = workspace_of(backend, scope)
        other = workspace_of(backend, replace(scope, workspace="other"))
        for inner in (workspace, other):
            with refused("NestedTransactionError"), workspace.transaction() as changes:
                changes.create("note", {})
                inner.create("note", {})
        assert (workspace.seq(), other.seq()) == (0, 0)

    def test_no_entity_reaches_into_another_workspace(self, backend: Backend, scope: Scope) -> None:
        """One id in three workspaces is three artifacts, and each log has its own count."""
        workspace = workspace_of(backend, scope)
        mine = workspace.create("note", {"mine": True}, artifact="a")
        proposal = workspace.propose_change("a", {"n": 1}, expected_revision=1).proposal
        with workspace.subscribe() as subscription:
            assert len(subscription.take()) == 2
            for other in (
                replace(scope, tenant=f"{scope.tenant}-other"),
                replace(scope, workspace="other"),
            ):
                theirs = workspace_of(backend, other)
                assert (theirs.artifact("a"), theirs.artifacts(), theirs.proposals()) == (
                    None,
                    [],
                    [],
                )
                with refused("EntityNotFoundError"):
                    theirs.accept(proposal)
                with refused("EntityNotFoundError"):
                    theirs.change("a", {}, expected_revision=1)
                assert theirs.create("note", {}, artifact="a").revision == 1
                assert (theirs.seq(), theirs.cursor("reader")) == (1, 0)
            assert subscription.take() == []
        assert (workspace.artifact("a"), workspace.seq()) == (mine, 2)
