"""JSON out of fragments that are JSON already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.codec import dump

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class _Beginnings(dict[str, bytes]):
    """Keeps how the members of a blob begin, by their names, of which there are few."""

    __slots__ = ()

    def __missing__(self, name: str) -> bytes:
        begin = self[name] = b',"%b":' % name.encode()
        return begin


BEGIN: Final = _Beginnings()
"""Name → what stands before a member's value: a comma, and the name, which needs no escaping."""


def quote(text: str) -> bytes:
    """Return a text as a JSON string."""
    return dump(text)


def join(fields: Mapping[str, bytes]) -> bytes:
    """Return one JSON object out of its fields' JSON, in their order.

    The names of the fields are ours, and need no escaping.
    """
    return _enclosed(b"{}", [(b'"%b":' % key.encode(), part) for key, part in fields.items()])


def mapping(fields: Mapping[str, bytes]) -> bytes:
    """Return one JSON object out of its values' JSON, under keys that somebody else chose."""
    return _enclosed(b"{}", [(quote(key) + b":", part) for key, part in fields.items()])


def array(parts: Iterable[bytes]) -> bytes:
    """Return one JSON array out of its items' JSON."""
    return _enclosed(b"[]", [(b"", part) for part in parts])


def _enclosed(brackets: bytes, parts: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Join parts, each behind its name, with commas; the long ones are copied once only."""
    pieces = [brackets[:1]]
    for name, part in parts:
        pieces += (name, part, b",")
    pieces[-1 if len(pieces) > 1 else 1 :] = [brackets[1:]]
    return b"".join(pieces)
