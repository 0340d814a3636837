"""Ids of runs, time-ordered UUIDs by default, and the keys that rows of ledgers have."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING

from snapshots.errors import InvalidKeyError
from snapshots.limits import LEDGER_KEY_CHARS_MAX, RUN_ID_CHARS_MAX

if TYPE_CHECKING:
    from snapshots.clock import Clock


def new_run_id(clock: Clock) -> str:
    """Return a UUID of version 7 (RFC 9562, section 5.7): it sorts by its time in ms."""
    random = int.from_bytes(os.urandom(10), "big")
    value = (clock.now_ms() & (1 << 48) - 1) << 80 | random
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return str(uuid.UUID(int=value))


def check_run_id(run_id: str) -> str:
    """Return a chosen id, or raise InvalidKeyError if it is no id for a run.

    A slash would be taken for a part of an effect's id.
    """
    if not isinstance(run_id, str) or not run_id or len(run_id) > RUN_ID_CHARS_MAX:
        reason = f"a run id is a text of 1 to {RUN_ID_CHARS_MAX} characters"
        raise InvalidKeyError(str(run_id)[:RUN_ID_CHARS_MAX], reason)
    if "/" in run_id or not run_id.isprintable():
        raise InvalidKeyError(run_id, "a run id holds no slash and no control character")
    return run_id


def check_row_id(run_id: str) -> str:
    """Return an id that a row of runs may have, or raise InvalidKeyError.

    Those that `check_run_id` lets pass are among them.
    """
    if not isinstance(run_id, str) or not 0 < len(run_id) <= RUN_ID_CHARS_MAX:
        found = len(run_id) if isinstance(run_id, str) else type(run_id).__name__
        reason = f"expected 1 to {RUN_ID_CHARS_MAX} characters, found {found}"
        raise InvalidKeyError(str(run_id), reason)
    # False for control characters and for lone surrogates.
    if not run_id.isprintable():
        raise InvalidKeyError(run_id, "expected printable characters only")
    return run_id


def check_storable(text: str, what: str) -> str:
    """Return a name that has a form in UTF-8, or raise InvalidKeyError; `what` is its own name."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidKeyError(text, f"{what} holds no lone surrogate") from None
    return text


def readable(reason: str) -> str:
    """Return what people are to read in a form that UTF-8 has: lone surrogates become escapes.

    The name of a file that is no UTF-8 has such, and comes in with an error's message.
    """
    return reason.encode("utf-8", "backslashreplace").decode()


def check_key(key: str, what: str) -> str:
    """Return a key that a row of a ledger may have, or raise InvalidKeyError.

    `what` says what it is a key of, as the error shall name it: "the key of an admission".
    """
    if not isinstance(key, str) or not 0 < len(key) <= LEDGER_KEY_CHARS_MAX:
        reason = f"{what} is a text of 1 to {LEDGER_KEY_CHARS_MAX} characters"
        raise InvalidKeyError(str(key)[:LEDGER_KEY_CHARS_MAX], reason)
    if not key.isprintable():
        raise InvalidKeyError(key, f"{what} has printable characters only")
    return key
