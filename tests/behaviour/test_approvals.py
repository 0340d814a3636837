"""Approvals: the suite's behaviours, on every backend."""

from __future__ import annotations

from snapshots.testing import suite


class TestApprovals(suite.ApprovalBehaviours):
    """One decision per opening."""
