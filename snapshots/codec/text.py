"""JSON text: the one place that knows the JSON library, which is orjson."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import orjson

from snapshots.errors import DecodeError, EncodeError

Plain: TypeAlias = Any
"""What JSON can say: None, bool, int, float, str, and lists and text-keyed dicts of these."""

Fragment = orjson.Fragment
"""`Fragment(data: bytes)`: JSON that is encoded already; `dump` copies it as it is, unchecked."""

# Only what is JSON by itself is written. These options leave orjson's own ideas about other types
# as few as it allows; enums, UUIDs, tuples and NaN it writes regardless.
_STRICT: Final = (
    orjson.OPT_PASSTHROUGH_DATACLASS
    | orjson.OPT_PASSTHROUGH_DATETIME
    | orjson.OPT_PASSTHROUGH_SUBCLASS
)


def dump(plain: Plain) -> bytes:
    """Return a JSON structure as UTF-8 text without white space, the order of keys kept.

    `plain` is what `Codec.to_plain` returned, or lists and dicts around such and around
    `Fragment`s; other types are no business of this function, and some are written without a
    trace of what they were.

    Raises:
        EncodeError: it holds what JSON cannot say, or is nested deeper than 254 levels.
    """
    try:
        # Joined to nothing, which copies: what orjson returns holds 4 KiB, however short it is.
        return b"".join((orjson.dumps(plain, None, _STRICT), b""))
    except TypeError as error:
        where = "value"
        raise EncodeError(where, type(plain).__qualname__, str(error)) from error


def load(data: bytes) -> Plain:
    """Return the structure that UTF-8 JSON text describes, the order of keys kept.

    Raises:
        DecodeError: it is not JSON by the letter (NaN, a byte order mark, broken UTF-8 and half a
            surrogate pair are not), or is nested deeper than 1,024 levels.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise DecodeError(None, f"not JSON: {error}") from error
