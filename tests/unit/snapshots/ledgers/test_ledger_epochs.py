"""The ledger of epochs: a conversation is at 0, a fault bumps it, and old answers are known."""

from __future__ import annotations

from typing import Any

import pytest

from snapshots.errors import InvalidKeyError, LimitError
from snapshots.ledgers.epochs import Epochs
from snapshots.limits import CONVERSATIONS_MAX, EPOCH_DIGITS_MAX, LEDGER_KEY_CHARS_MAX


def test_an_unknown_conversation_is_at_zero() -> None:
    """Nothing is stored for it, and what is minted for it is current."""
    ledger = Epochs()
    assert (ledger.current("c"), ledger.mint("c"), len(ledger), ledger.as_value()) == (
        0,
        "c/0",
        0,
        {},
    )
    assert ledger.is_current("c/0")
    assert not ledger.is_current("c/1")


def test_a_bump_makes_what_was_minted_stale() -> None:
    """The answer to an older epoch is no longer current, that to the new one is."""
    ledger = Epochs()
    minted = ledger.mint("c")
    assert (ledger.bump("c"), ledger.bump("c"), ledger.current("c")) == (1, 2, 2)
    assert [ledger.is_current(each) for each in (minted, "c/1", "c/2", "c/3")] == [
        False,
        False,
        True,
        False,
    ]
    assert ledger.is_current("other/0")


def test_a_conversation_may_have_slashes() -> None:
    """The epoch is what stands behind the last one."""
    ledger = Epochs()
    ledger.bump("team/42")
    assert ledger.mint("team/42") == "team/42/1"
    assert ledger.is_current("team/42/1")
    assert ledger.current("team") == 0


@pytest.mark.parametrize(
    "minted",
    [
        *("", "c", "c/", "/1", "c/x", "c/-1", "c/1.0", "c/01", "c/1 ", "c/\u0661", "c/\u00b2"),
        *(7, None),
        pytest.param("c/" + "9" * (EPOCH_DIGITS_MAX + 1), id="one digit too many"),
        pytest.param("c/" + "9" * 10_000, id="more digits than Python reads"),
    ],
)
def test_what_nothing_minted_is_refused(minted: Any) -> None:
    """A text without `/<number>` as it is minted is no answer to anything."""
    expected = "nothing minted it, expected '<conversation>/<epoch>'"
    with pytest.raises(InvalidKeyError, match=expected) as refused:
        Epochs().is_current(minted)
    assert len(refused.value.key) <= LEDGER_KEY_CHARS_MAX


@pytest.mark.parametrize("conversation", ["", "a\tb", 3])
def test_a_conversation_is_a_printable_text(conversation: Any) -> None:
    """What no row could keep is refused where an epoch is bumped or minted."""
    for act in (Epochs().bump, Epochs().mint):
        with pytest.raises(InvalidKeyError, match="the id of a conversation"):
            act(conversation)


def test_conversations_have_a_bound() -> None:
    """One past it is refused, and those that are known go on."""
    ledger = Epochs.of({f"c{n}": 1 for n in range(CONVERSATIONS_MAX)})
    with pytest.raises(LimitError, match="is 10001, expected at most 10000"):
        ledger.bump("more")
    assert ledger.bump("c0") == 2
    assert ledger.current("more") == 0


def test_a_ledger_comes_back_equal_and_a_change_can_be_taken_back() -> None:
    """A blob's ledger has the same epochs in the same order, and `keep` puts them back."""
    ledger = Epochs()
    for conversation in ("b", "a", "b"):
        ledger.bump(conversation)
    assert list(Epochs.of(ledger.as_value()).as_value().items()) == [("b", 2), ("a", 1)]
    undo, changes = ledger.keep(), ledger.changes
    ledger.bump("c")
    ledger.bump("a")
    undo()
    assert ledger.as_value() == {"b": 2, "a": 1}
    assert ledger.changes > changes + 1
