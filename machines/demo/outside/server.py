"""An HTTP server around a book: it writes down what really happened before it answers.

It says its port on standard output, and then each request three times: when it has arrived, when it
is accepted (that is: done, and in the log), and when it was answered. The seed makes it slow before
or after it accepts, makes it hang, and makes it close the connection without an answer. A request
whose sender is gone before it is accepted is dropped, as if it had never been sent.
"""

from __future__ import annotations

import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

from machines.charts.service import KEY_HEADER
from machines.demo.lines import listen, tell
from snapshots.clock import SystemClock
from snapshots.codec import dump, load

if TYPE_CHECKING:
    from machines.demo.outside.book import Book

OK = 200
GONE = 410
"""The class of client errors: whoever asks again is told the same."""


class Handler(BaseHTTPRequestHandler):
    """One request. The server has the book."""

    server: Server

    def do_POST(self) -> None:
        """Do something, in the manner that the seed chose for it."""
        book = self.server.book
        fields: dict[str, Any] = load(self.rfile.read(int(self.headers["Content-Length"])))
        asked = book.arrive(self.path.strip("/"), self.headers[KEY_HEADER], **fields)
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
        """Answer a question at once: asking changes nothing."""
        target = urlsplit(self.path)
        query = dict(parse_qsl(target.query))
        self._answer(self.server.book.look_up(target.path.strip("/"), query))

    def _answer(self, value: dict[str, Any] | None) -> None:
        body = dump(value)
        try:
            self.send_response(GONE if value is None else OK)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            # Who asked was killed meanwhile: that is what this server is for.
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server uses
        """Say nothing on standard error: the log says it."""


class Server(ThreadingHTTPServer):
    """Listens on 127.0.0.1, on a port that is free."""

    daemon_threads = True

    def __init__(self, book: Book) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.book = book

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a sender that was killed while it was sending; anything else is a fault."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def serve(book: type[Book], arguments: list[str]) -> None:
    """Serve until the parent goes; the arguments are the log's path and the seed."""
    path, seed = arguments
    with book(path, seed, SystemClock()) as opened, Server(opened) as server:
        listen(lambda _: None)
        tell({"at": "listening", "port": server.server_address[1]})
        server.serve_forever()
