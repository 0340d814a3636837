"""What really happened, in memory and in an append-only log, and how each request is treated."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from machines.demo.lines import encoded

if TYPE_CHECKING:
    from snapshots.clock import Clock

ONCE: Final = frozenset({"charge", "print_label", "hand_over", "work", "sign"})
"""What happens again whenever it is asked for again. For all else, a key happens once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How one request is treated; times in seconds."""

    name: str
    before_s: float = 0.0
    """From its arrival to its acceptance."""
    after_s: float = 0.0
    """From its acceptance to its answer."""
    answers: bool = True


def manner_of(seed: str, what: str, subject: str, nth: int) -> Manner:
    """Return how the n-th request for one thing is treated: the same for the same seed."""
    dice = random.Random(f"{seed} {what} {subject} {nth}")  # noqa: S311 - it guards nothing
    choice = dice.random()
    if choice < 0.35:  # noqa: PLR2004 - shares of one; their sum is seen best where it is made
        return Manner(name="at once")
    if choice < 0.50:  # noqa: PLR2004 - as above
        return Manner(name="slow to accept", before_s=dice.uniform(0.005, 0.04))
    if choice < 0.70:  # noqa: PLR2004 - as above
        return Manner(name="slow to answer", after_s=dice.uniform(0.01, 0.06))
    if choice < 0.90:  # noqa: PLR2004 - as above
        return Manner(name="hangs", after_s=dice.uniform(0.25, 0.4))
    return Manner(name="never answers", after_s=dice.uniform(0.0, 0.02), answers=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request to do something."""

    what: str
    subject: str
    key: str
    manner: Manner
    details: dict[str, Any]
    """What else it said."""

    def notice(self, at: str) -> dict[str, Any]:
        """Return what is told of it."""
        return {
            "at": at,
            "what": self.what,
            "subject": self.subject,
            "key": self.key,
            "manner": self.manner.name,
        }


class Book:
    """What happened, in memory and in the log. One lock orders accepting and looking up."""

    def __init__(self, path: str, seed: str, clock: Clock) -> None:
        self.seed = seed
        self.lock = threading.RLock()
        self._clock = clock
        self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._asked: Counter[tuple[str, str]] = Counter()
        self._references: dict[tuple[str, str], str] = {}
        self._entries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._log)

    def arrive(self, what: str, key: str, *, subject: str, **details: Any) -> Asked:
        """Take note of a request that has arrived whole."""
        with self.lock:
            self._asked[what, subject] += 1
            nth = self._asked[what, subject]
        manner = manner_of(self.seed, what, subject, nth)
        return Asked(what=what, subject=subject, key=key, manner=manner, details=details)

    def accept(self, asked: Asked, sender: socket.socket) -> str | None:
        """Do it and log it; return the reference, or None if its sender is gone: then it is not.

        A look-up that says "never" is therefore final for every sender that ended before it.
        """
        with self.lock:
            if is_gone(sender):
                return None
            place = asked.what, asked.key
            repeats = place in self._references and asked.what not in ONCE
            if not repeats:
                self._references[place] = f"{asked.what}-{self._entries + 1:04}"
            reference = self._references[place]
            self.write(
                what=asked.what,
                subject=asked.subject,
                key=asked.key,
                reference=reference,
                happened=not repeats,
                details=asked.details,
            )
            if not repeats:
                self.happen(asked, reference)
            return reference

    def happen(self, asked: Asked, reference: str) -> None:
        """Do what follows from something that happened; here nothing does."""

    def find(self, what: str, key: str) -> str | None:
        """Return the reference under which something was done for a key."""
        with self.lock:
            return self._references.get((what, key))

    def look_up(self, what: str, query: dict[str, str]) -> dict[str, Any] | None:
        """Answer a question; None says that there is nothing of that name any more."""
        return {"reference": self.find(what, query["key"])}

    def write(self, **fields: Any) -> None:
        """Add an entry to the log; it is there before anybody is told."""
        with self.lock:
            self._entries += 1
            entry = {"entry": self._entries, "at_ms": self._clock.now_ms(), **fields}
            os.write(self._log, encoded(entry))


def is_gone(sender: socket.socket) -> bool:
    """Whether the other side has closed the connection."""
    try:
        return sender.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
