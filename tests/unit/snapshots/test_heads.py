"""Heads: four numbers of one width, in the order of their bytes, and harmless when damaged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.heads import HEAD_BYTES, NUMBER_MAX, is_sound, pack_head, packed, unpack_head
from snapshots.limits import NO_TIMER_MS, REVISION_FIRST

TIMES = st.integers(min_value=0, max_value=NUMBER_MAX)
REVISIONS = st.integers(min_value=REVISION_FIRST, max_value=2**47)


@given(REVISIONS, TIMES, TIMES, st.booleans())
def test_a_head_gives_back_what_was_packed(
    revision: int, updated_ms: int, due_ms: int, parked: bool
) -> None:
    """It has one width, so that the next one fits where it lies."""
    head = pack_head(revision, updated_ms, due_ms, parked=parked)
    assert len(head) == HEAD_BYTES
    assert unpack_head(head) == (revision, updated_ms, due_ms, parked)
    assert is_sound(head)


@given(TIMES, TIMES)
def test_numbers_stand_in_the_order_of_their_bytes(one: int, other: int) -> None:
    """SQL compares them as they lie there."""
    assert (packed(one) < packed(other)) is (one < other)
    head = pack_head(REVISION_FIRST, one, other, parked=False)
    assert (head[:16], head[17:33], head[34:50], head[51:]) == (
        packed(REVISION_FIRST),
        packed(one),
        packed(other),
        b"0",
    )


@pytest.mark.parametrize("far", [NUMBER_MAX + 1, 2**63, 10**40])
def test_a_time_that_is_too_wide_is_the_last_one_that_is_not(far: int) -> None:
    """A timer of a million years is due in three hundred thousand, and its run can be saved."""
    head = pack_head(REVISION_FIRST, 1, far, parked=True)
    assert unpack_head(head) == (REVISION_FIRST, 1, NUMBER_MAX, True)
    assert unpack_head(pack_head(REVISION_FIRST, -far, 1, parked=True))[1] < 0


@pytest.mark.parametrize(("revision", "parked"), [(10**16, True), (REVISION_FIRST, 10)])
def test_what_would_be_wider_than_a_head_is_never_packed(revision: int, parked: bool) -> None:
    """It would be written beyond the end of the one that is there."""
    with pytest.raises(AssertionError, match="parked"):
        pack_head(revision, 1, 1, parked=parked)


@pytest.mark.parametrize(
    "head",
    [b"", b"\x00" * HEAD_BYTES, b"1 2 3", b"x" * HEAD_BYTES, b"1 2 3 1 5", b"1 2 \xff 0"],
)
def test_a_damaged_head_is_of_no_revision(head: bytes) -> None:
    """It is read all the same: as of a run that no save finds, without a timer."""
    assert unpack_head(head) == (0, 0, NO_TIMER_MS, False)
    assert not is_sound(head)
