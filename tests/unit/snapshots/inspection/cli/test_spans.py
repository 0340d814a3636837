"""Moments and lengths of time as people write them on a command line."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.inspection.spans import moment_ms, span_ms

NOW = 1_800_000_000_000


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("0s", 0),
        ("250ms", 250),
        ("90s", 90_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("3d", 259_200_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        ("1d1ms", 86_400_001),
    ],
)
def test_a_length_of_time_has_a_unit(text: str, length: int) -> None:
    """Each unit, and several behind each other."""
    assert span_ms(text) == length
    assert moment_ms(text, now_ms=NOW) == NOW - length


@pytest.mark.parametrize(
    "text",
    ["", "5", "m", "-5m", "5 m", "5m ", "5M", "1.5h", "5mm", "\u0665m", "9999999999s", "5m x"],
)
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    """The error says what is expected."""
    with pytest.raises(ValueError, match="expected a number and a unit"):
        span_ms(text)


@pytest.mark.parametrize(
    ("text", "at_ms"),
    [
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:01", 1_000),
        ("1970-01-01T00:00:01.5Z", 1_500),
        ("1970-01-01T02:00+02:00", 0),
        ("1969-12-31T23:59:59", -1_000),
    ],
)
def test_a_moment_may_be_a_date_and_time(text: str, at_ms: int) -> None:
    """ISO 8601; without a zone it is in UTC, wherever the command runs."""
    assert moment_ms(text, now_ms=NOW) == at_ms


@given(st.text(max_size=40))
def test_any_other_text_is_refused_in_words(text: str) -> None:
    """Nothing but a number or a `ValueError` comes out."""
    with suppress(ValueError):
        assert isinstance(moment_ms(text, now_ms=NOW), int)
