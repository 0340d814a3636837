"""Scopes, and the range of texts that start with a prefix."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots import InvalidKeyError, InvalidTtlError, limits
from snapshots.storage import Scope
from snapshots.storage.scopes import BEHIND_ALL, check_fitting, check_text, end_of_prefix

texts = st.text(max_size=4) | st.text(alphabet="a\ud7ff\ue000\U0010ffff", max_size=4)


@given(prefix=texts, text=texts)
def test_a_prefix_is_a_range_of_texts(prefix: str, text: str) -> None:
    """A text starts with it exactly if it lies in the range, by code point and by byte."""
    end = end_of_prefix(prefix)
    assert text.startswith(prefix) == (prefix <= text < end)
    inside = prefix.encode() <= text.encode() < end.encode()
    assert text.startswith(prefix) == inside


@given(text=texts, prefix=texts)
def test_what_starts_with_a_prefix_lies_in_its_range(prefix: str, text: str) -> None:
    """Whatever follows it."""
    assert prefix <= prefix + text < end_of_prefix(prefix)


def test_every_key_lies_in_front_of_the_last_text() -> None:
    """The longest text of the greatest characters included; a surrogate never ends a range."""
    assert "\U0010ffff" * limits.KEY_CHARS_MAX < BEHIND_ALL
    assert end_of_prefix("") == end_of_prefix("\U0010ffff") == BEHIND_ALL
    assert end_of_prefix("a\ud7ff") == "a\ue000"
    assert end_of_prefix("a\U0010ffff") == "b"


def test_a_scope_is_local_unless_it_is_said() -> None:
    """Its three parts have names; equal ones are equal, and travel."""
    scope = Scope()
    assert (scope.tenant, scope.workspace, scope.workflow) == ("local", "default", "default")
    assert pickle.loads(pickle.dumps(scope)) == scope  # noqa: S301 - made one line above


@pytest.mark.parametrize("text", [None, 7, b"a", "", "a\x00", "\udc00", "a" * 201, "é" * 257])
def test_what_is_no_key_is_refused_with_a_reason(text: object) -> None:
    """The error shows it, shortened, and says what a key is."""
    with pytest.raises(InvalidKeyError, match="a key") as caught:
        check_text(text, "a key")  # type: ignore[arg-type]  # what must be refused
    assert len(caught.value.key) <= 300


def test_what_is_no_text_is_refused_by_its_type() -> None:
    """The key shown for 7 is that of a text "7", which would do."""
    with pytest.raises(InvalidKeyError, match="found int"):
        check_text(7, "a key")  # type: ignore[arg-type]  # what must be refused
    with pytest.raises(InvalidKeyError, match="found int"):
        check_fitting(7, "a prefix")  # type: ignore[arg-type]  # what must be refused


def test_a_refused_time_to_live_says_what_would_do() -> None:
    """The least that is allowed is a field, and in the message."""
    error = InvalidTtlError(9, 10)
    assert (error.ttl_ms, error.least_ms) == (9, 10)
    assert "a whole number from 10" in str(error)
    assert "leave it out" not in str(error)
    assert "leave it out" in str(InvalidTtlError(0))
