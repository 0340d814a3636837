"""Keyed state: the suite's behaviours, and any sequence of calls against a plain dict."""

from __future__ import annotations

from hypothesis import given

from snapshots.storage import Backend, Scope
from snapshots.testing import ManualClock, suite
from tests.behaviour.models import KeyedModel, Step, fresh, in_one_storage, keyed_steps


class TestKeyed(suite.KeyedBehaviours):
    """Keys that are there, expire, are won by one."""


class TestKeys(suite.KeyBehaviours):
    """Which texts are keys, and in which order they come."""


class TestTransactions(suite.TransactionBehaviours):
    """All of a block, or nothing."""


@in_one_storage
@given(steps=keyed_steps)
def test_keyed_state_is_a_dict_whose_entries_may_expire(
    backend: Backend, scope: Scope, clock: ManualClock, steps: list[Step]
) -> None:
    """Whatever the sequence of calls, each answers as a dict with times would."""
    model = KeyedModel(backend=backend, scope=fresh(scope), clock=clock)
    for step in steps:
        model.step(*step)
