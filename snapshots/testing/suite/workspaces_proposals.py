"""What a workspace does with proposals: decided once, and then the artifact follows or does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from snapshots.testing.suite.acting import race, refused
from snapshots.testing.suite.workspaces import workspace_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage import Backend, Scope
    from snapshots.testing import ManualClock


class ProposalBehaviours:
    """Behaviours of proposals: decided once, and then the artifact follows or does not."""

    def test_a_proposal_changes_nothing_yet(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """It is there to be decided about, with the thread it came from."""
        workspace = workspace_of(backend, scope)
        workspace.open_thread("t")
        made = workspace.create("note", {"n": 1}, artifact="a")
        change = workspace.propose_change("a", {"n": 2}, expected_revision=1, thread="t")
        creation = workspace.propose_creation("task", {"m": 1}, artifact="b", version=2)
        assert workspace.artifact("a") == made
        assert workspace.artifact("b") is None
        assert [workspace.proposal(each.proposal) for each in (change, creation)] == [
            change,
            creation,
        ]
        assert (change.status, change.creates, change.thread) == ("open", False, "t")
        assert (change.patch, change.expected_revision, change.type) == ({"n": 2}, 1, "note")
        assert (creation.creates, creation.patch, creation.version) == (True, {"m": 1}, 2)
        assert (creation.created_ms, creation.settled_ms) == (clock.now_ms(), None)
        assert [entry.kind for entry in workspace.read(2)] == ["proposal.made"] * 2

    def test_an_accepted_proposal_is_done(
        self, backend: Backend, scope: Scope, clock: ManualClock
    ) -> None:
        """The artifact is changed, or created, in the same step as the decision is recorded."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {"n": 1}, artifact="a")
        change = workspace.propose_change("a", {"n": 2}, expected_revision=1)
        creation = workspace.propose_creation("task", {"m": 1}, artifact="b", version=2)
        clock.advance(9)
        changed = workspace.accept(change.proposal, reason="it is better")
        created = workspace.accept(creation.proposal)
        assert (workspace.artifact("a"), workspace.artifact("b")) == (changed, created)
        assert (changed.revision, changed.content) == (2, {"n": 2})
        assert (created.revision, created.content, created.version) == (1, {"m": 1}, 2)
        assert workspace.proposal(change.proposal) == replace(
            change, status="accepted", reason="it is better", settled_ms=clock.now_ms()
        )
        told = ["proposal.accepted", "artifact.changed", "proposal.accepted", "artifact.created"]
        assert [entry.kind for entry in workspace.read(3)] == told

    def test_a_rejected_proposal_leaves_the_artifact(self, backend: Backend, scope: Scope) -> None:
        """The decision and its reason are kept and told."""
        workspace = workspace_of(backend, scope)
        made = workspace.create("note", {"n": 1}, artifact="a")
        proposal = workspace.propose_change("a", {"n": 2}, expected_revision=1).proposal
        rejected = workspace.reject(proposal, reason="no")
        assert workspace.proposal(proposal) == rejected
        assert (rejected.status, rejected.reason) == ("rejected", "no")
        assert workspace.artifact("a") == made
        (entry,) = workspace.read(2)
        assert (entry.kind, entry.subject) == ("proposal.rejected", proposal)
        assert entry.data == {"artifact": "a", "reason": "no"}

    def test_a_proposal_is_decided_once(self, backend: Backend, scope: Scope) -> None:
        """Whatever the first decision was, both others are refused with it."""
        workspace = workspace_of(backend, scope)
        for decide, status in ((workspace.accept, "accepted"), (workspace.reject, "rejected")):
            proposal = workspace.propose_creation("note", {}).proposal
            decide(proposal)
            seq = workspace.seq()
            for again in (workspace.accept, workspace.reject):
                with refused("ProposalSettledError") as refusal:
                    again(proposal)
                assert refusal.field("status") == status
            assert workspace.seq() == seq
        with refused("EntityNotFoundError"):
            workspace.accept("never made")
        with refused("EntityNotFoundError"):
            workspace.reject("never made")

    def test_a_proposal_that_was_overtaken_stays_open(self, backend: Backend, scope: Scope) -> None:
        """Until somebody accepts it for what the artifact is now, or rejects it."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {"n": 1}, artifact="a")
        proposal = workspace.propose_change("a", {"m": 1}, expected_revision=1)
        workspace.change("a", {"n": 2}, expected_revision=1)
        with refused("RevisionConflictError") as refusal:
            workspace.accept(proposal.proposal)
        assert (refusal.field("expected"), refusal.field("actual")) == (1, 2)
        assert workspace.proposal(proposal.proposal) == proposal
        changed = workspace.accept(proposal.proposal, expected_revision=2)
        assert (changed.revision, changed.content) == (3, {"n": 2, "m": 1})

    def test_a_proposed_id_is_free_until_the_proposal_is_accepted(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Two may propose it; whoever is first has it, and the other proposal stays open."""
        workspace = workspace_of(backend, scope)
        first = workspace.propose_creation("note", {"n": 1}, artifact="a").proposal
        second = workspace.propose_creation("note", {"n": 2}, artifact="a").proposal
        workspace.accept(second)
        with refused("EntityExistsError"):
            workspace.accept(first)
        with refused("EntityExistsError"):
            workspace.propose_creation("note", {}, artifact="a")
        assert [each.proposal for each in workspace.proposals(status="open")] == [first]
        assert [each.proposal for each in workspace.proposals(status="accepted")] == [second]
        found = workspace.artifact("a")
        assert found is not None
        assert found.content == {"n": 2}

    def test_a_proposal_of_what_would_be_refused_is_refused(
        self, backend: Backend, scope: Scope
    ) -> None:
        """Over another revision, under an id in use, from a thread that is not there."""
        workspace = workspace_of(backend, scope)
        workspace.create("note", {}, artifact="a", version=2)
        with refused("RevisionConflictError"):
            workspace.propose_change("a", {}, expected_revision=2)
        with refused("RevisionConflictError"):
            workspace.propose_change("a", {}, expected_revision=1, version=1)
        with refused("EntityNotFoundError"):
            workspace.propose_change("a", {}, expected_revision=1, thread="never opened")
        workspace.propose_change("a", {}, expected_revision=1, proposal="p")
        with refused("EntityExistsError"):
            workspace.propose_creation("note", {}, proposal="p")
        assert workspace.seq() == 2

    def test_one_of_many_decides(
        self,
        backend: Backend,
        another: Callable[[], AbstractContextManager[Backend]],
        scope: Scope,
    ) -> None:
        """Sixteen threads accept and reject at once: one decision stands, and that one is told."""
        proposal = workspace_of(backend, scope).propose_creation("note", {}, artifact="a").proposal

        def contend(mine: Backend, number: int) -> str | None:
            workspace = workspace_of(mine, scope)
            try:
                if number % 2:
                    workspace.accept(proposal, reason=str(number))
                else:
                    workspace.reject(proposal, reason=str(number))
            except Exception as error:
                if type(error).__name__ != "ProposalSettledError":
                    raise
                return None
            return str(number)

        (winner,) = [answer for answer in race(another, contend) if answer is not None]
        workspace = workspace_of(backend, scope)
        found = workspace.proposal(proposal)
        assert found is not None
        assert found.reason == winner
        is_accepted = int(winner) % 2 == 1
        assert found.status == ("accepted" if is_accepted else "rejected")
        assert (workspace.artifact("a") is not None) is is_accepted
        assert workspace.seq() == (3 if is_accepted else 2)
