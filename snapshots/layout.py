"""A blob out of fragments that are JSON already, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots.codec import dump

if TYPE_CHECKING:
    from collections.abc import Mapping


def quote(text: str) -> bytes:
    """Return a text as a JSON string."""
    return dump(text)


def join(fields: Mapping[str, bytes]) -> bytes:
    """Return one JSON object out of its fields' JSON, in their order."""
    return b"{%b}" % b",".join(b'"%b":%b' % (key.encode(), part) for key, part in fields.items())
