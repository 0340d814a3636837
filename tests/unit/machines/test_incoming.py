"""What comes with an event from outside is its own, whether or not it had to be copied for that."""

from __future__ import annotations

from typing import Any

import pytest

from machines.run.inbox import are_constants
from snapshots import Codec
from snapshots.errors import EncodeError

CONSTANTS: list[Any] = [None, True, 0, -(2**63), 2**63 - 1, 0.5, -0.0, 1e308, "", "text", "\x00"]
OF_STR: Any = type("Text", (str,), {})
OTHERS: list[Any] = [2**63, float("nan"), float("inf"), "ü", [], {}, (), b"", OF_STR("text")]


@pytest.mark.parametrize("value", CONSTANTS, ids=repr)
def test_a_constant_is_what_a_copy_of_it_would_be(value: Any) -> None:
    """Stored and read back it is equal and of the same type, so that it need not be copied."""
    data = {"name": value}
    assert are_constants(data)
    copy = Codec().decode(Codec().encode(data))
    assert (copy, type(copy["name"]), repr(copy)) == (data, type(value), repr(data))


@pytest.mark.parametrize("value", OTHERS, ids=repr)
def test_what_can_be_changed_or_refused_is_no_constant(value: Any) -> None:
    """Containers, and what a walk has to look at, are copied or refused."""
    assert not are_constants({"other": 1, "name": value})


def test_a_name_that_cannot_be_stored_is_no_constant() -> None:
    """Half a surrogate pair is refused in a name as in a value."""
    data = {"\ud800": 1}
    assert not are_constants(data)
    with pytest.raises(EncodeError):
        Codec().encode(data)
