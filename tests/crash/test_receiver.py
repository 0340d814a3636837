"""The receiver keeps the truth: what it accepted is in its log, what it did not accept never is."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from machines.demo.outside.book import Book, manner_of
from snapshots.testing import ManualClock


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Return a sender's end of a connection and the receiver's."""
    sender, receiver = socket.socketpair()
    with sender, receiver:
        yield sender, receiver


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the log lies."""
    return tmp_path / "log"


@pytest.fixture
def book(path: Path) -> Iterator[Book]:
    """Return a book that is new."""
    with Book(str(path), "1", ManualClock(now_ms=7)) as opened:
        yield opened


def happened(path: Path) -> list[bool]:
    """Return for each entry of the log whether anything happened."""
    return [json.loads(line)["happened"] for line in path.read_text().splitlines()]


Pair = tuple[socket.socket, socket.socket]


def test_what_is_asked_for_twice_happens_twice(book: Book, path: Path, pair: Pair) -> None:
    """A charge is no mail: the same key does not keep it from happening again."""
    for _ in range(2):
        assert book.accept(book.arrive("charge", "key", subject="order"), pair[1]) is not None
    assert happened(path) == [True, True]


def test_a_mail_happens_once_per_key(book: Book, path: Path, pair: Pair) -> None:
    """A repeat is written down as one, and answered as the first was."""
    first = book.accept(book.arrive("mail", "key", subject="order"), pair[1])
    assert book.accept(book.arrive("mail", "key", subject="order"), pair[1]) == first
    assert book.accept(book.arrive("mail", "other", subject="order"), pair[1]) != first
    assert happened(path) == [True, False, True]


def test_nothing_happens_for_a_sender_that_is_gone(book: Book, path: Path, pair: Pair) -> None:
    """A look-up that finds nothing stays true of every sender that was gone before it."""
    asked = book.arrive("charge", "key", subject="order")
    pair[0].close()
    assert book.accept(asked, pair[1]) is None
    assert book.find("charge", "key") is None
    assert path.read_text() == ""


def test_the_seed_decides_how_a_request_is_treated() -> None:
    """The same for the same seed, and of every sort for many requests."""
    drawn = [manner_of("1", "charge", f"order-{n}", 1) for n in range(100)]
    assert drawn == [manner_of("1", "charge", f"order-{n}", 1) for n in range(100)]
    assert drawn != [manner_of("2", "charge", f"order-{n}", 1) for n in range(100)]
    assert len({manner.name for manner in drawn}) == 5
