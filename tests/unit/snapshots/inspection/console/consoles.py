"""A console in this process, and what its tests look for on a page."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Final

import httpx

from snapshots.inspection.console.app import Console
from snapshots.testing import ManualClock

TOKEN: Final = "not-a-token-to-guess-7c1e"  # noqa: S105 - it opens nothing but a test's console
ORIGIN: Final = "http://127.0.0.1:8321"


@asynccontextmanager
async def opened(path: Path, *, token: str | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """Open a console of a file, and a client of it that is a page of its own."""
    console = Console(path, token=token, clock=ManualClock())
    transport = httpx.ASGITransport(app=console.app)
    try:
        async with httpx.AsyncClient(transport=transport, base_url=ORIGIN) as client:
            yield client
    finally:
        await console.close()


class Page(HTMLParser):
    """The tags, the attributes and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str | None]] = []
        self.words: list[str] = []
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note a tag and its attributes."""
        self.tags.append(tag)
        self.attributes += [(tag, name, value) for name, value in attrs]

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.words.append(data)

    def values(self, tag: str, name: str) -> list[str]:
        """Return the values of an attribute of all tags of a name."""
        return [value or "" for at, named, value in self.attributes if (at, named) == (tag, name)]


async def page(client: httpx.AsyncClient, path: str, **params: Any) -> Page:
    """Return a page that is expected to be there."""
    answer = await client.get(path, params=params or None)
    assert answer.status_code == 200, answer.text
    return Page(answer.text)
