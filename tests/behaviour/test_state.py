"""The state store: the suite's behaviours, on every backend."""

from __future__ import annotations

from snapshots.testing import suite


class TestState(suite.StateBehaviours):
    """Once, first, seen, open, held, and only forward."""
