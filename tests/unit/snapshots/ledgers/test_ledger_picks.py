"""The ledger of picks: a chain is held with every reply since, until its last pick is answered."""

from __future__ import annotations

import re
from typing import Any

import pytest

from snapshots.errors import InvalidKeyError, LimitError
from snapshots.ledgers.picks import Pick, Picks
from snapshots.limits import PICKS_MAX


@pytest.fixture
def ledger() -> Picks:
    """Return a ledger with two picks of one chain: the second is two replies younger."""
    made = Picks()
    made.pick("p1", "chain", ["a", "b"], at_ms=1)
    made.reply("chain", "r1")
    made.reply("chain", "r2")
    made.pick("p2", "chain", ["c"], at_ms=2)
    made.reply("chain", "r3")
    return made


def test_an_empty_ledger_holds_no_chain() -> None:
    """Without a pick nothing is outstanding, and a reply is not kept."""
    ledger = Picks()
    assert ledger.reply("chain", "r") is False
    assert (len(ledger), ledger.outstanding(), ledger.as_value(), ledger.changes) == (0, (), [], 0)


def test_a_hold_keeps_every_reply_since_the_pick_whole(ledger: Picks) -> None:
    """Each pick has the replies since it; those of another chain are not among them."""
    assert ledger.reply("other", "r4") is False
    assert (ledger.replies("p1"), ledger.replies("p2")) == (("r1", "r2", "r3"), ("r3",))
    assert ledger.as_value() == [
        {
            "chain": "chain",
            "picks": [
                {"id": "p1", "offer": ["a", "b"], "at": 1, "since": 0},
                {"id": "p2", "offer": ["c"], "at": 2, "since": 2},
            ],
            "replies": ["r1", "r2", "r3"],
        }
    ]


def test_an_answer_drops_the_pick_and_replies_that_nobody_needs(ledger: Picks) -> None:
    """Replies before the earliest pick that is left go; the chain goes with its last pick."""
    assert ledger.answer("p1") == ("r1", "r2", "r3")
    assert ledger.as_value() == [
        {
            "chain": "chain",
            "picks": [{"id": "p2", "offer": ["c"], "at": 2, "since": 0}],
            "replies": ["r3"],
        }
    ]
    assert ledger.answer("p2") == ("r3",)
    assert (len(ledger), ledger.as_value()) == (0, [])
    assert ledger.reply("chain", "r4") is False


def test_answering_a_later_pick_first_keeps_what_the_earlier_needs(ledger: Picks) -> None:
    """The older pick has every reply still."""
    assert ledger.answer("p2") == ("r3",)
    assert ledger.replies("p1") == ("r1", "r2", "r3")


def test_outstanding_picks_are_listed_by_chain(ledger: Picks) -> None:
    """Of one chain, of all, and of one that is not held."""
    ledger.pick("p3", "other", None, at_ms=3)
    assert [pick.id for pick in ledger.outstanding()] == ["p1", "p2", "p3"]
    assert ledger.outstanding("other") == (Pick(id="p3", chain="other", offer=None, at_ms=3),)
    assert ledger.outstanding("nothing") == ()


def test_an_unknown_pick_is_refused_with_those_that_are_outstanding(ledger: Picks) -> None:
    """Who asks for a pick that was answered is told which are there."""
    for act in (ledger.answer, ledger.replies):
        expected = "'p9' is refused: no such pick is outstanding; outstanding are: 'p1', 'p2'"
        with pytest.raises(InvalidKeyError, match=re.escape(expected)):
            act("p9")
    with pytest.raises(InvalidKeyError, match="outstanding are: none"):
        Picks().answer("p1")


def test_an_outstanding_pick_is_not_offered_again(ledger: Picks) -> None:
    """Its id is free once it is answered, in any chain."""
    with pytest.raises(InvalidKeyError, match="this pick of chain 'chain' is outstanding"):
        ledger.pick("p1", "other", None, at_ms=3)
    ledger.answer("p1")
    assert ledger.pick("p1", "chain", None, at_ms=3).since == 1


@pytest.mark.parametrize("key", ["", "a\nb", 3])
def test_names_are_printable_texts(key: Any) -> None:
    """What no row could keep is refused."""
    with pytest.raises(InvalidKeyError, match="the id of a pick"):
        Picks().pick(key, "chain", None, at_ms=1)
    with pytest.raises(InvalidKeyError, match="the chain of a pick"):
        Picks().pick("p", key, None, at_ms=1)


def test_outstanding_picks_have_a_bound() -> None:
    """One past it is refused, over all chains, and says what to do."""
    ledger = Picks()
    for n in range(PICKS_MAX):
        ledger.pick(f"p{n}", f"c{n % 3}", n, at_ms=1)
    with pytest.raises(LimitError, match=r"answer those that are decided.* is 1001"):
        ledger.pick("more", "c", 1, at_ms=1)
    ledger.answer("p0")
    ledger.pick("more", "c", 1, at_ms=1)


def test_a_ledger_comes_back_equal_and_a_change_can_be_taken_back(ledger: Picks) -> None:
    """A blob makes the same holds, and `keep` puts them back, replies included."""
    ledger.pick("p3", "other", None, at_ms=3)
    before = ledger.as_value()
    assert Picks.of(before).as_value() == before
    undo, changes = ledger.keep(), ledger.changes
    ledger.answer("p1")
    ledger.reply("chain", "r4")
    ledger.answer("p3")
    undo()
    assert ledger.as_value() == before
    assert ledger.changes > changes + 3
