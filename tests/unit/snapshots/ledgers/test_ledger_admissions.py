"""The ledger of admissions: one session for a key, offsets that only grow, a bound."""

from __future__ import annotations

import re
from typing import Any

import pytest

from snapshots.errors import InvalidKeyError, LimitError
from snapshots.ledgers.admissions import Admission, Admissions
from snapshots.limits import ADMISSIONS_OPEN_MAX, ADMISSIONS_SETTLED_MAX, LEDGER_KEY_CHARS_MAX


def refusal(text: str) -> Any:
    """Expect a refusal that says `text`."""
    return pytest.raises(InvalidKeyError, match=re.escape(text))


@pytest.fixture
def ledger() -> Admissions:
    """Return a ledger with one open admission, `job`, at offset 5."""
    made = Admissions()
    made.record("job", "handle-1", offset=5, at_ms=10)
    return made


def test_an_empty_ledger_holds_nothing() -> None:
    """Without an admission there is nothing to find, to list or to store."""
    ledger = Admissions()
    assert (len(ledger), ledger.get("job"), ledger.open(), ledger.as_value()) == (0, None, (), {})


def test_what_is_recorded_is_found_and_stored(ledger: Admissions) -> None:
    """A row has what was given, and what is empty takes no room in the blob."""
    expected = Admission(key="job", handle="handle-1", offset=5, at_ms=10)
    assert (ledger.get("job"), ledger.open()) == (expected, (expected,))
    assert ledger.as_value() == {"job": {"handle": "handle-1", "offset": 5, "at": 10}}


def test_a_ledger_comes_back_equal(ledger: Admissions) -> None:
    """What a blob holds makes the ledger that it was made of, order included."""
    ledger.record("talk", {"id": 2}, conversation="c", at_ms=11)
    ledger.settle("job")
    again = Admissions.of(ledger.as_value())
    assert list(again.as_value().items()) == list(ledger.as_value().items())
    assert again.get("talk") == ledger.get("talk")
    assert again.get("job") == Admission(
        key="job", handle="handle-1", offset=5, settled=True, at_ms=10
    )


def test_the_same_handle_is_the_same_session(ledger: Admissions) -> None:
    """Recorded again it keeps its time and the higher offset, and may get a conversation."""
    changes = ledger.changes
    assert ledger.record("job", "handle-1", at_ms=99).offset == 5
    assert ledger.changes == changes
    again = ledger.record("job", "handle-1", offset=8, conversation="c", at_ms=99)
    assert (again.offset, again.conversation, again.at_ms) == (8, "c", 10)
    assert ledger.record("job", "handle-1", at_ms=99).conversation == "c"


def test_another_handle_of_an_open_session_is_refused(ledger: Admissions) -> None:
    """A job that was posted twice is no accident to pass over: who means it says so."""
    with refusal("it is admitted as 'handle-1', which is not settled, and not as 'handle-2'"):
        ledger.record("job", "handle-2", at_ms=11)
    assert ledger.get("job") == Admission(key="job", handle="handle-1", offset=5, at_ms=10)


def test_a_job_that_had_to_be_posted_anew_replaces_the_other(ledger: Admissions) -> None:
    """With `replace` the new session begins at its own offset and time."""
    ledger.record("job", "handle-2", replace=True, at_ms=11)
    assert ledger.open() == (Admission(key="job", handle="handle-2", at_ms=11),)


def test_a_settled_key_is_free_for_another_session(ledger: Admissions) -> None:
    """After the outside said that a session is over, the next one needs no `replace`."""
    ledger.settle("job")
    assert ledger.record("job", "handle-2", at_ms=12).settled is False
    assert [row.handle for row in ledger.open()] == ["handle-2"]


def test_an_offset_moves_forward_only(ledger: Admissions) -> None:
    """Equal is no change, smaller is refused with both numbers."""
    assert ledger.advance("job", 7).offset == 7
    changes = ledger.changes
    assert ledger.advance("job", 7).offset == 7
    assert ledger.changes == changes
    with refusal("its offset is 7 and cannot go back to 6: only forward"):
        ledger.advance("job", 6)


@pytest.mark.parametrize("offset", [-1, True, 1.0, "1", None])
def test_an_offset_is_a_whole_number_from_zero_on(ledger: Admissions, offset: Any) -> None:
    """What is no such number is refused wherever an offset is given."""
    with refusal(f"its offset is {offset!r}"):
        ledger.record("other", 1, offset=offset, at_ms=1)
    with refusal(f"its offset is {offset!r}"):
        ledger.advance("job", offset)


def test_what_is_not_open_cannot_advance(ledger: Admissions) -> None:
    """The refusal says whether the session is over or was never there, and names those that are."""
    with refusal("no admission has it; record it first; open are: 'job'"):
        ledger.advance("jobs", 1)
    ledger.settle("job")
    with refusal("its admission is settled; record it first; open are: none"):
        ledger.advance("job", 9)


def test_settling_is_idempotent_and_needs_an_admission(ledger: Admissions) -> None:
    """Twice is harmless; a key that was never admitted is refused."""
    assert ledger.settle("job").settled
    changes = ledger.changes
    assert ledger.settle("job").settled
    assert ledger.changes == changes
    with refusal("no admission has it"):
        ledger.settle("talk")


def test_settled_ones_are_forgotten_beyond_the_bound() -> None:
    """Those that were settled first go first; those that are open stay, however old."""
    ledger = Admissions()
    keys = [f"job-{n}" for n in range(ADMISSIONS_SETTLED_MAX + 1)]
    for key in ["open", *keys]:
        ledger.record(key, key, at_ms=1)
    for key in reversed(keys[1:]):
        ledger.settle(key)
    assert len(ledger) == 2 + ADMISSIONS_SETTLED_MAX
    ledger.settle(keys[0])
    assert ledger.get(keys[-1]) is None
    assert ledger.get(keys[0]) is not None
    assert [row.key for row in ledger.open()] == ["open"]
    assert len(ledger) == 1 + ADMISSIONS_SETTLED_MAX


def test_open_ones_have_a_bound() -> None:
    """One past it is refused and says what to do; an open key can still be replaced."""
    ledger = Admissions()
    for n in range(ADMISSIONS_OPEN_MAX):
        ledger.record(f"job-{n}", n, at_ms=1)
    with pytest.raises(LimitError, match=r"settle those that are over.* is 1001, expected at most"):
        ledger.record("more", 1, at_ms=1)
    ledger.record("job-0", "anew", replace=True, at_ms=2)
    ledger.settle("job-1")
    ledger.record("more", 1, at_ms=1)
    assert len(ledger.open()) == ADMISSIONS_OPEN_MAX


@pytest.mark.parametrize("key", ["", "x" * (LEDGER_KEY_CHARS_MAX + 1), "a\nb", "\ud800", 7, None])
def test_a_key_is_a_printable_text(key: Any) -> None:
    """What no row could keep is refused, as the key and as the conversation."""
    with refusal("the key of an admission"):
        Admissions().record(key, 1, at_ms=1)
    if key is not None:
        with refusal("the conversation of an admission"):
            Admissions().record("job", 1, conversation=key, at_ms=1)


def test_the_longest_key_is_taken() -> None:
    """The bound itself is a key still."""
    key = "x" * LEDGER_KEY_CHARS_MAX
    assert Admissions().record(key, 1, at_ms=1).key == key


def test_a_change_can_be_taken_back(ledger: Admissions) -> None:
    """What `keep` returned puts everything back, and whoever keeps the JSON notices."""
    before, undo = ledger.as_value(), ledger.keep()
    ledger.advance("job", 9)
    ledger.settle("job")
    ledger.record("other", 1, at_ms=1)
    changes = ledger.changes
    undo()
    assert ledger.as_value() == before
    assert ledger.changes > changes
