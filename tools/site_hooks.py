"""What mkdocs calls as it builds the site, so that pages are written for GitHub and for tests."""

from __future__ import annotations

import posixpath
import re
from typing import Any

# What a fence says to the tests: whether it runs, and how it ends.
_MARK = re.compile(r'^( *```\w+[^\n`]*?) (?:unrun="[^"]*"|exits=\d+)', re.MULTILINE)
_LINK = re.compile(r"\[([^\[\]]*(?:\[[^\[\]]*\][^\[\]]*)*)\]\(([^)\s]+)\)")
_FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Take off the fences their marks for the tests, and the links that the site cannot follow."""
    return _MARK.sub(r"\1", inward(markdown, posixpath.dirname(page.file.src_uri)))


def inward(markdown: str, folder: str) -> str:
    """Return a page without the links that lead out of the docs: their text is left.

    `folder` is where the page lies below the docs. Blocks of code are left as they are.
    """

    def text_of(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        return match[1] if target.startswith("../") else match[0]

    parts: list[str] = []
    end = 0
    for fence in _FENCED.finditer(markdown):
        parts += [_LINK.sub(text_of, markdown[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join((*parts, _LINK.sub(text_of, markdown[end:])))
