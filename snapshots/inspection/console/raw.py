"""A JSON document as lines that a person reads: indented, bounded, each printable."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots.inspection.text.documents import written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.codec import Plain

_STEP = "  "


def lines_of(document: Plain, *, lines_max: int) -> tuple[list[str], bool]:
    """Return the first `lines_max` lines of a document, and whether there are more."""
    lines: list[str] = []
    for line in _value(document, "", "", ""):
        if len(lines) == lines_max:
            return lines, True
        lines.append(line)
    return lines, False


def _value(value: Plain, indent: str, lead: str, end: str) -> Iterator[str]:
    """Yield the lines of a value: `lead` stands before the first, `end` behind the last."""
    if isinstance(value, dict) and value:
        inner = [(f"{_scalar(key)}: ", part) for key, part in value.items()]
        yield from _all(inner, indent, (f"{lead}{{", f"}}{end}"))
    elif isinstance(value, list) and value:
        yield from _all([("", part) for part in value], indent, (f"{lead}[", f"]{end}"))
    else:
        yield f"{indent}{lead}{_scalar(value)}{end}"


def _all(parts: list[tuple[str, Plain]], indent: str, brackets: tuple[str, str]) -> Iterator[str]:
    yield f"{indent}{brackets[0]}"
    for place, (lead, part) in enumerate(parts, start=1):
        yield from _value(part, indent + _STEP, lead, "" if place == len(parts) else ",")
    yield f"{indent}{brackets[1]}"


def _scalar(value: Plain) -> str:
    return written(value).rstrip("\n")
