"""Carry state under contracts: the suite's behaviours, on every backend."""

from __future__ import annotations

from snapshots.testing import suite


class TestContracts(suite.ContractBehaviours):
    """Checked, migrated, and its own write known."""
