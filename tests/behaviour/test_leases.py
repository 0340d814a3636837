"""Leases: the suite's behaviours, and any sequence of calls against a plain dict."""

from __future__ import annotations

from hypothesis import given

from snapshots.storage import Backend, Scope
from snapshots.testing import ManualClock, suite
from tests.behaviour.models import LeaseModel, Step, fresh, in_one_storage, lease_steps


class TestLeases(suite.LeaseBehaviours):
    """One holder at a time, until a moment."""


@in_one_storage
@given(steps=lease_steps)
def test_leases_are_a_dict_of_the_last_claims(
    backend: Backend, scope: Scope, clock: ManualClock, steps: list[Step]
) -> None:
    """Whatever the sequence of calls, a name is its last claim's until that claim ends."""
    model = LeaseModel(backend=backend, scope=fresh(scope), clock=clock)
    for step in steps:
        model.step(*step)
