"""The check that spares most values the walk: what passes it is written as the walk writes it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from snapshots.codec import dump
from snapshots.codec.plainness import is_plain
from snapshots.errors import EncodeError
from snapshots.limits import VALUE_DEPTH_MAX
from tests.unit.snapshots.codec import codec_samples as samples
from tests.unit.snapshots.codec.codec_samples import CODEC

KEYS = st.one_of(
    st.text(max_size=4),
    st.sampled_from(["$", "v", "\x00", "\ud800", samples.Word.YES, samples.Label("x")]),
    st.integers(0, 2),
    st.none(),
)
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.floats(),
    st.text(max_size=4),
    st.sampled_from([2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**53 + 1, -0.0]),
    st.sampled_from(["$", "\ud800", b"b", samples.Word.YES, samples.Level.LOW, samples.Amount(1)]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(max_size=4), inner, max_size=3),
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(inner, max_size=2).map(tuple),
    ),
    max_leaves=12,
)


def walked(value: object) -> bytes | None:
    """Return what the full walk makes of a value, None if it refuses it."""
    try:
        return dump(CODEC.to_plain(value))
    except EncodeError:
        return None


def encoded(value: object) -> bytes | None:
    """Return what the codec makes of a value, None if it refuses it."""
    try:
        return CODEC.encode(value)
    except EncodeError:
        return None


@settings(max_examples=500)
@given(value=VALUES)
@example(value={"a": {"$": 1}})
@example(value=["$", {"\ud800": 1}])
@example(value={samples.Word.YES: 1})
def test_the_short_way_says_what_the_walk_says(value: object) -> None:
    """Whatever the value: the same bytes, or the same refusal."""
    assert encoded(value) == walked(value)


@given(value=st.recursive(
    st.one_of(st.none(), st.booleans(), st.text(max_size=3), st.integers(-(2**63), 2**63 - 1)),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=12,
))  # fmt: skip
def test_what_json_says_by_itself_is_plain(value: object) -> None:
    """So that the short way is not one that nothing takes; a scalar alone takes the walk."""
    assert is_plain(value) is isinstance(value, dict | list)


def nested(levels: int, inmost: list[Any]) -> list[Any]:
    """Return a list in a list in a list, so many of them."""
    value = inmost
    for _ in range(levels - 1):
        value = [value]
    return value


@pytest.mark.parametrize("inmost", [[], [1], [{}]], ids=repr)
@pytest.mark.parametrize("over", [-1, 0, 1])
def test_both_nest_to_the_same_bound(inmost: list[Any], over: int) -> None:
    """At the bound, before it and one past it."""
    value = nested(VALUE_DEPTH_MAX + over, inmost)
    depth = VALUE_DEPTH_MAX + over + (inmost == [{}])
    assert is_plain(value) is (depth <= VALUE_DEPTH_MAX)
    assert encoded(value) == walked(value)
    assert (encoded(value) is None) is (depth > VALUE_DEPTH_MAX)


def test_an_object_that_lies_in_itself_is_not_followed_for_ever() -> None:
    """A cycle, and one list that is met a million times: the check says no, and soon."""
    cycle: list[Any] = []
    cycle.append(cycle)
    assert not is_plain(cycle)
    assert encoded(cycle) is None
    shared: list[Any] = [1]
    for _ in range(20):
        shared = [shared, shared]
    assert not is_plain(shared)
