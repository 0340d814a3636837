"""Tables for a terminal, and the same ones as Markdown."""

from __future__ import annotations

from collections.abc import Sequence

Rows = Sequence[Sequence[str]]


def as_text(headings: Sequence[str], rows: Rows) -> str:
    """Return columns: the first one begins at its left edge, the others end at their right."""
    widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in (headings, *rows)
    )


def as_markdown(headings: Sequence[str], rows: Rows) -> str:
    """Return the lines of a Markdown table, aligned likewise."""
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in (headings, rule, *rows))


def number(value: float) -> str:
    """Return a number for people: more digits the smaller it is."""
    if value < 10:
        return f"{value:.2f}"
    return f"{value:,.1f}" if value < 1_000 else f"{value:,.0f}"
