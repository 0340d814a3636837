"""Whose rows are meant, and which texts may name them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from snapshots import limits
from snapshots.errors import InvalidKeyError

_CODE_POINT_LAST: Final = 0x10FFFF
_SURROGATE_FIRST: Final = 0xD800
_SURROGATE_LAST: Final = 0xDFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whose rows a call means: nothing of another scope is seen or touched.

    A workspace of a tenant is what is serialised and what PostgreSQL guards by row-level
    security; a workflow divides its keys further. Each is a text as `check_text` allows it.
    """

    tenant: str = "local"
    workspace: str = "default"
    workflow: str = "default"

    def __post_init__(self) -> None:
        check_text(self.tenant, "a tenant")
        check_text(self.workspace, "a workspace")
        check_text(self.workflow, "a workflow")


def check_text(text: str, what: str) -> str:
    """Return a text that every backend can store as a key, or raise `InvalidKeyError`.

    1 to `KEY_CHARS_MAX` characters and at most `KEY_BYTES_MAX` bytes of UTF-8: four of them make
    one index entry, which PostgreSQL bounds at a third of a page. No NUL, which PostgreSQL has no
    text for, and no lone surrogate, which UTF-8 has no bytes for; every other character is
    allowed. `what` is how the error names it: "a key".
    """
    if not isinstance(text, str) or not text:
        shown = text if isinstance(text, str) else repr(text)[: limits.KEY_CHARS_MAX]
        reason = f"{what} is a text of 1 to {limits.KEY_CHARS_MAX} characters"
        raise InvalidKeyError(shown, reason + _found(text))
    return check_fitting(text, what)


def check_fitting(text: str, what: str) -> str:
    """Return a text that is empty or else as `check_text` wants it, or raise `InvalidKeyError`."""
    if not isinstance(text, str) or len(text) > limits.KEY_CHARS_MAX:
        shown = (text if isinstance(text, str) else repr(text))[: limits.KEY_CHARS_MAX]
        reason = f"{what} is a text of at most {limits.KEY_CHARS_MAX} characters"
        raise InvalidKeyError(shown, reason + _found(text))
    if "\x00" in text:
        raise InvalidKeyError(text, f"{what} holds no NUL character")
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise InvalidKeyError(text, f"{what} holds no lone surrogate") from None
    if size > limits.KEY_BYTES_MAX:
        reason = f"{what} has at most {limits.KEY_BYTES_MAX} bytes of UTF-8, found {size}"
        raise InvalidKeyError(text, reason)
    return text


def _found(text: object) -> str:
    """Return how a refusal goes on for what is no text at all: its type, which shows nowhere."""
    return "" if isinstance(text, str) else f", found {type(text).__name__}"


# Behind every text that `check_text` lets pass: longer than any of them, of the last character.
BEHIND_ALL: Final = chr(_CODE_POINT_LAST) * (limits.KEY_CHARS_MAX + 1)


def end_of_prefix(prefix: str) -> str:
    """Return the first text, by code point, that lies behind all that start with `prefix`.

    Texts t with `prefix <= t < end_of_prefix(prefix)` are those that start with it. UTF-8 keeps
    the order of code points, so that it holds of bytes as well.
    """
    head = prefix.rstrip(chr(_CODE_POINT_LAST))
    if not head:
        return BEHIND_ALL
    following = ord(head[-1]) + 1
    if _SURROGATE_FIRST <= following <= _SURROGATE_LAST:
        following = _SURROGATE_LAST + 1
    return head[:-1] + chr(following)
