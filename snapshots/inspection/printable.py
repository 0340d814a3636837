"""Names and times out of a file as text: printable, bounded, and equal on every machine."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from snapshots.inspection.limits import NAME_CHARS_MAX

CUT: Final = "..."

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS_MS: Final = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000))
_MS_PER_S: Final = 1_000
_UNIT_BITS: Final = 10
_SIZES: Final = ("KiB", "MiB", "GiB", "TiB")


def visible(text: str, *, chars_max: int = NAME_CHARS_MAX) -> str:
    r"""Return `text` on one line, with what a terminal would obey or hide written as an escape.

    Control characters, line ends, direction marks and the like appear as Python writes them
    (`\x1b`, `\u202e`); what is longer than `chars_max` characters is cut and ends in "...".
    """
    kept = text[:chars_max]
    shown = "".join(char if char.isprintable() else escape(char) for char in kept)
    return shown + CUT if len(text) > chars_max else shown


def escape(char: str) -> str:
    """Return one character as the escape by which Python's source names it."""
    return char.encode("unicode_escape", "surrogatepass").decode("ascii")


def moment(at_ms: int) -> str:
    """Return a time in Unix milliseconds as ISO 8601 in UTC, whatever the local time zone.

    A time that no calendar holds is written as its number.
    """
    try:
        at = _EPOCH + timedelta(milliseconds=at_ms)
    except OverflowError:
        return f"{at_ms} ms"
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def span(span_ms: int) -> str:
    """Return a length of time in its two largest units, like "4 m 10 s"; the sign is dropped."""
    left = abs(span_ms)
    if left < _MS_PER_S:
        return f"{left} ms"
    counts: list[tuple[int, str]] = []
    for unit, size_ms in _UNITS_MS:
        count, left = divmod(left, size_ms)
        if count or counts:
            counts.append((count, unit))
    return " ".join(f"{count} {unit}" for count, unit in counts[:2] if count)


def size(count: int) -> str:
    """Return a number of bytes in the largest unit that it fills, like "4.2 MiB"."""
    power = min((count.bit_length() - 1) // _UNIT_BITS, len(_SIZES))
    if power <= 0:
        return f"{count} bytes"
    return f"{count / 2 ** (_UNIT_BITS * power):.1f} {_SIZES[power - 1]}"


def relative(left_ms: int) -> str:
    """Return how far ahead a time is ("in 4 m 10 s"), or, where it is negative, how long ago."""
    if left_ms == 0:
        return "now"
    return f"in {span(left_ms)}" if left_ms > 0 else f"{span(left_ms)} ago"


def left(left_ms: int) -> str:
    """Return how far ahead a timer is, or, where it is negative, by how much it is overdue."""
    return relative(left_ms) if left_ms >= 0 else f"overdue by {span(left_ms)}"
