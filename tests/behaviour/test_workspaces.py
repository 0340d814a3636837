"""Workspaces: the suite's behaviours, and any sequence of calls against plain dicts and lists."""

from __future__ import annotations

from hypothesis import given

from snapshots.storage import Backend, Scope
from snapshots.testing import ManualClock, suite
from tests.behaviour.models import Step, fresh, in_one_storage
from tests.behaviour.workspace_models import WorkspaceModel, workspace_steps


class TestArtifacts(suite.ArtifactBehaviours):
    """Documents with revisions, of types that the application uses."""


class TestProposals(suite.ProposalBehaviours):
    """Decided once, by one."""


class TestThreads(suite.ThreadBehaviours):
    """One run at a time."""


class TestFacts(suite.FactBehaviours):
    """Recorded under a claim, with the history that they end."""


class TestLog(suite.LogBehaviours):
    """No hole, any window."""


class TestSubscriptions(suite.SubscriptionBehaviours):
    """Each entry once, those before and those to come."""


class TestTransactions(suite.WorkspaceTransactionBehaviours):
    """All of a block, or nothing."""


@in_one_storage
@given(steps=workspace_steps)
def test_a_workspace_is_dicts_and_a_list(
    backend: Backend, scope: Scope, clock: ManualClock, steps: list[Step]
) -> None:
    """Whatever the sequence of calls, it holds what plain dicts and a list of its changes would."""
    model = WorkspaceModel(backend, fresh(scope), clock)
    for step in steps:
        model.step(*step)
