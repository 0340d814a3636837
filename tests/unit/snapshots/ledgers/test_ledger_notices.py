"""The ledger of notices: raised once, reserved in memory, delivered with an admission."""

from __future__ import annotations

from typing import Any

import pytest

from snapshots.errors import InvalidKeyError, LimitError
from snapshots.ledgers.notices import Notice, Notices
from snapshots.limits import NOTICES_DELIVERED_MAX, NOTICES_OPEN_MAX


def sources(notices: tuple[Notice, ...]) -> list[str]:
    """Return what the notices are news of."""
    return [notice.source for notice in notices]


@pytest.fixture
def ledger() -> Notices:
    """Return a ledger with news for everybody and news of one scope."""
    made = Notices()
    made.raise_("disk", "the disk was full", at_ms=1)
    made.raise_("repo", ["moved"], "repo-1", at_ms=2)
    return made


def test_an_empty_ledger_has_no_news() -> None:
    """There is nothing to take, nothing to deliver and nothing to store."""
    ledger = Notices()
    assert (len(ledger), ledger.take("w"), ledger.deliver("w", "job"), ledger.as_value()) == (
        0,
        (),
        (),
        {},
    )


def test_a_source_is_raised_once(ledger: Notices) -> None:
    """Again is no news: not while it waits, not once it is delivered."""
    changes = ledger.changes
    assert ledger.raise_("disk", "another text", at_ms=9) is False
    ledger.take("w")
    ledger.deliver("w", "job")
    assert ledger.raise_("disk", "another text", at_ms=9) is False
    assert ledger.changes == changes + 1


def test_news_without_a_scope_is_for_everybody(ledger: Notices) -> None:
    """An admission carries the news of its scope and those without one, oldest first."""
    assert sources(ledger.take("a", "repo-1")) == ["disk", "repo"]
    ledger.release("a")
    assert sources(ledger.take("b", "repo-2")) == ["disk"]
    ledger.release("b")
    assert sources(ledger.take("c")) == ["disk"]


def test_what_is_taken_is_reserved(ledger: Notices) -> None:
    """Nobody else gets it; who has it gets it again; given back it is free."""
    assert sources(ledger.take("a")) == ["disk"]
    assert sources(ledger.take("b", "repo-1")) == ["repo"]
    assert sources(ledger.take("a")) == ["disk"]
    assert (sources(ledger.taken("a")), sources(ledger.taken("b"))) == (["disk"], ["repo"])
    ledger.release("a")
    ledger.release("nobody")
    assert sources(ledger.take("b")) == ["disk"]


def test_a_reservation_is_in_memory_only(ledger: Notices) -> None:
    """Taking changes nothing that is stored, and a restored ledger has everything to give."""
    before, changes = ledger.as_value(), ledger.changes
    ledger.take("a", "repo-1")
    assert (ledger.as_value(), ledger.changes) == (before, changes)
    assert sources(Notices.of(ledger.as_value()).take("b", "repo-1")) == ["disk", "repo"]


def test_delivery_drops_the_text_and_keeps_the_source(ledger: Notices) -> None:
    """What the taker has is delivered with the admission's key, and nothing else is."""
    ledger.take("a")
    assert ledger.deliver("a", "job-7") == ("disk",)
    assert ledger.as_value() == {
        "repo": {"text": ["moved"], "scope": "repo-1", "at": 2},
        "disk": {"delivered": "job-7", "at": 1},
    }
    assert (ledger.deliver("a", "job-8"), ledger.take("b")) == ((), ())
    assert sources(ledger.open()) == ["repo"]


def test_delivered_sources_are_forgotten_beyond_the_bound() -> None:
    """The one that was delivered first goes first, and could be raised again; open ones stay."""
    ledger = Notices()
    ledger.raise_("open", "x", "elsewhere", at_ms=0)
    for n in range(NOTICES_DELIVERED_MAX + 1):
        ledger.raise_(f"s{n}", n, at_ms=n)
        ledger.take("w")
        ledger.deliver("w", "job")
    assert ledger.get("s0") is None
    assert ledger.get("s1") is not None
    assert len(ledger) == NOTICES_DELIVERED_MAX + 1
    assert sources(ledger.open()) == ["open"]
    assert ledger.raise_("s0", "again", at_ms=1) is True


def test_what_nobody_carried_has_a_bound() -> None:
    """One past it is refused and says what to do; delivered ones do not count."""
    ledger = Notices()
    for n in range(NOTICES_OPEN_MAX):
        ledger.raise_(f"s{n}", n, at_ms=1)
    with pytest.raises(LimitError, match=r"deliver them.* is 1001, expected at most 1000"):
        ledger.raise_("more", 1, at_ms=1)
    assert ledger.raise_("s0", 1, at_ms=1) is False
    ledger.take("w")
    ledger.deliver("w", "job")
    assert ledger.raise_("more", 1, at_ms=1) is True


@pytest.mark.parametrize("key", ["", "a\x00b", 3])
def test_names_are_printable_texts(key: Any) -> None:
    """What no row could keep is refused; only a scope may be empty."""
    with pytest.raises(InvalidKeyError, match="the source of a notice"):
        Notices().raise_(key, "x", at_ms=1)
    if key != "":
        with pytest.raises(InvalidKeyError, match="the scope of a notice"):
            Notices().raise_("s", "x", key, at_ms=1)


def test_a_ledger_comes_back_equal(ledger: Notices) -> None:
    """What a blob holds makes the ledger again; a text may be None."""
    ledger.raise_("none", None, at_ms=3)
    ledger.take("a")
    ledger.deliver("a", "job")
    again = Notices.of(ledger.as_value())
    assert list(again.as_value().items()) == list(ledger.as_value().items())
    assert [again.get(s) for s in ("disk", "repo")] == [ledger.get(s) for s in ("disk", "repo")]


def test_a_delivery_that_was_not_saved_leaves_the_reservation(ledger: Notices) -> None:
    """Taken back, the news is there and still belongs to who took it."""
    ledger.take("a")
    before, undo = ledger.as_value(), ledger.keep()
    ledger.deliver("a", "job")
    ledger.take("b", "repo-1")
    undo()
    assert ledger.as_value() == before
    assert (sources(ledger.taken("a")), sources(ledger.taken("b"))) == (["disk"], ["repo"])
    assert ledger.deliver("a", "job") == ("disk",)
