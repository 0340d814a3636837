"""Carry state: the suite's behaviours, and any sequence of calls against a plain dict."""

from __future__ import annotations

from hypothesis import given

from snapshots.storage import Backend, Scope
from snapshots.testing import suite
from tests.behaviour.models import CarryModel, Step, carry_steps, fresh, in_one_storage


class TestCarry(suite.CarryBehaviours):
    """Each save over the revision that its author has seen."""


@in_one_storage
@given(steps=carry_steps)
def test_carry_state_is_a_dict_of_revisions(
    backend: Backend, scope: Scope, steps: list[Step]
) -> None:
    """Whatever the sequence of calls, a save counts if its author has seen the last one."""
    model = CarryModel(backend=backend, scope=fresh(scope))
    for step in steps:
        model.step(*step)
