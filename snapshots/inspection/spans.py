"""Moments as people write them on a command line: so long ago, or a date and time."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)
_UNITS_MS: Final = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_DIGITS_MAX: Final = 9
_PART: Final = re.compile(rf"([0-9]{{1,{_DIGITS_MAX}}})(ms|[smhdw])")

SPAN_FORM: Final = "a number and a unit (ms, s, m, h, d, w), like 90s, 5m or 1h30m"
MOMENT_FORM: Final = f"{SPAN_FORM}, or a time like 2026-11-29T08:00, in UTC if it names no zone"


def span_ms(text: str) -> int:
    """Return a length of time, "90s" or "1h30m", in ms; raise `ValueError` for no such text."""
    parts = _PART.findall(text)
    if not parts or "".join(count + unit for count, unit in parts) != text:
        message = f"{text!r} is no length of time: expected {SPAN_FORM}"
        raise ValueError(message)
    return sum(int(count) * _UNITS_MS[unit] for count, unit in parts)


def moment_ms(text: str, *, now_ms: int) -> int:
    """Return the moment that `text` names: so long before `now_ms`, or an ISO 8601 date or time.

    In Unix milliseconds; a time without a zone is in UTC. Raises `ValueError` for no such text.
    """
    with suppress(ValueError):
        return now_ms - span_ms(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        message = f"{text!r} is no moment: expected {MOMENT_FORM}"
        raise ValueError(message) from None
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _MS
