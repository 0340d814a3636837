"""The outside world: an HTTP server that writes down what really happened before it answers.

    python -m machines.demo.receiver LOG SEED

It says its port on standard output, and then each request three times: when it has arrived, when it
is accepted (that is: done, and in the log), and when it was answered. The seed makes it slow before
or after it accepts, makes it hang, and makes it close the connection without an answer. A request
whose sender is gone before it is accepted is dropped, as if it had never been sent.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs, urlsplit

from machines.charts.service import KEY_HEADER
from machines.demo.lines import encoded, listen, tell
from snapshots.clock import SystemClock
from snapshots.codec import dump, load

if TYPE_CHECKING:
    from snapshots.clock import Clock

ONCE: Final = frozenset({"charge", "print_label", "hand_over"})
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
        self._seed = seed
        self._clock = clock
        self._log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lock = threading.Lock()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._references: dict[tuple[str, str], str] = {}
        self._entries = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._log)

    def arrive(self, what: str, subject: str, key: str) -> Asked:
        """Take note of a request that has arrived whole."""
        with self._lock:
            self._asked[what, subject] += 1
            nth = self._asked[what, subject]
        return Asked(
            what=what, subject=subject, key=key, manner=manner_of(self._seed, what, subject, nth)
        )

    def accept(self, asked: Asked, sender: socket.socket) -> str | None:
        """Do it and log it; return the reference, or None if its sender is gone: then it is not.

        A look-up that says "never" is therefore final for every sender that ended before it.
        """
        with self._lock:
            if is_gone(sender):
                return None
            place = asked.what, asked.key
            repeats = place in self._references and asked.what not in ONCE
            self._entries += 1
            if not repeats:
                self._references[place] = f"{asked.what}-{self._entries:04}"
            reference = self._references[place]
            entry = {
                "entry": self._entries,
                "at_ms": self._clock.now_ms(),
                "what": asked.what,
                "subject": asked.subject,
                "key": asked.key,
                "reference": reference,
                "happened": not repeats,
            }
            os.write(self._log, encoded(entry))
            return reference

    def find(self, what: str, key: str) -> str | None:
        """Return the reference under which something was done for a key."""
        with self._lock:
            return self._references.get((what, key))


def is_gone(sender: socket.socket) -> bool:
    """Whether the other side has closed the connection."""
    try:
        return sender.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class Handler(BaseHTTPRequestHandler):
    """One request. The server has the book."""

    server: Receiver

    def do_POST(self) -> None:
        """Do something, in the manner that the seed chose for it."""
        book = self.server.book
        fields: dict[str, Any] = load(self.rfile.read(int(self.headers["Content-Length"])))
        asked = book.arrive(self.path.strip("/"), fields["subject"], self.headers[KEY_HEADER])
        tell(asked.notice("arrived"))
        time.sleep(asked.manner.before_s)
        reference = book.accept(asked, self.connection)
        if reference is None:
            return
        tell(asked.notice("accepted"))
        time.sleep(asked.manner.after_s)
        if asked.manner.answers:
            self._answer({"reference": reference})
            tell(asked.notice("answered"))

    def do_GET(self) -> None:
        """Say what became of an earlier request."""
        target = urlsplit(self.path)
        (key,) = parse_qs(target.query)["key"]
        self._answer({"reference": self.server.book.find(target.path.strip("/"), key)})

    def _answer(self, value: dict[str, Any]) -> None:
        body = dump(value)
        try:
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            # Who asked was killed meanwhile: that is what this server is for.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server uses
        """Say nothing on standard error: the log says it."""


class Receiver(ThreadingHTTPServer):
    """Listens on 127.0.0.1, on a port that is free."""

    daemon_threads = True

    def __init__(self, book: Book) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.book = book

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a sender that was killed while it was sending; anything else is a fault."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main(arguments: list[str]) -> None:
    """Serve until the parent goes."""
    path, seed = arguments
    with Book(path, seed, SystemClock()) as book, Receiver(book) as server:
        listen(lambda _: None)
        tell({"at": "listening", "port": server.server_address[1]})
        server.serve_forever()


if __name__ == "__main__":
    main(sys.argv[1:])
