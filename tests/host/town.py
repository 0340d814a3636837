"""An outside that outlives hosts: an HTTP service that does each thing once per key, and counts."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Answer = Callable[[dict[str, str]], dict[str, Any]]


class Town:
    """What was asked of it, and what it tells."""

    def __init__(self) -> None:
        self.done: dict[tuple[str, str], dict[str, Any]] = {}
        """What was done, by its kind and its key: once each."""
        self.tells: dict[str, Answer] = {}
        """What answers a question, by what is asked for."""
        self.address = ""

    def things(self, what: str) -> list[dict[str, Any]]:
        """Return what was done of a kind, in order."""
        return [details for (kind, _), details in self.done.items() if kind == what]

    def subjects(self, what: str) -> list[str]:
        """Return what things of a kind were about, in order."""
        return [details["subject"] for details in self.things(what)]


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        town, what = self.server.town, self.path.strip("/")
        details = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = what, self.headers["Idempotency-Key"]
        town.done.setdefault(key, details)
        self._answer({"reference": f"{what}-{list(town.done).index(key) + 1}"})

    def do_GET(self) -> None:
        target = urlsplit(self.path)
        query = dict(parse_qsl(target.query))
        self._answer(self.server.town.tells[target.path.strip("/")](query))

    def _answer(self, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        try:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            self.close_connection = True  # who asked was killed meanwhile

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - http.server's name
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, town: Town) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.town = town

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Pass over a sender that was killed while it was sending."""


@contextmanager
def town() -> Iterator[Town]:
    """Let a town be there for the block."""
    made = Town()
    server = _Server(made)
    made.address = f"127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="town")
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
