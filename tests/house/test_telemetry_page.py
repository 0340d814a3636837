"""The page about telemetry names what the code tells, and nothing else."""

from __future__ import annotations

import logging

from machines.telemetry import KINDS
from machines.telemetry.metering import COUNTERS, HISTOGRAMS
from machines.telemetry.tracing import SPANS
from tests.house.pages import DOCS
from tests.house.sources import ROOT

PAGE = DOCS / "telemetry.md"


def rows(heading: str) -> list[tuple[str, ...]]:
    """Return the rows of the table under a heading of the page, its own head left out."""
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line.strip("| ") for line in text.splitlines() if line.startswith("|")]
    return [tuple(cell.strip() for cell in line.split(" | ")) for line in lines[2:]]


def test_the_page_has_a_row_for_each_kind() -> None:
    """Name, level, logger, fields and meaning are those of the table in the code."""
    expected = [
        (
            f"`{name}`",
            logging.getLevelName(kind.level).lower(),
            f"`{kind.logger}`",
            ", ".join(f"`{field}`" for field in kind.fields) or "-",
            kind.says,
        )
        for name, kind in KINDS.items()
    ]
    assert rows("What is told") == expected


def test_the_page_has_a_row_for_each_instrument() -> None:
    """Name, kind, unit and meaning."""
    expected = [
        (f"`{name}`", "counter", f"`{unit}`", says) for name, (unit, says) in COUNTERS.items()
    ]
    expected += [
        (f"`{name}`", "histogram", f"`{unit}`", says)
        for name, (unit, says, _) in HISTOGRAMS.items()
    ]
    assert rows("Metrics") == expected


def test_the_page_has_a_row_for_each_span() -> None:
    """Name and meaning."""
    assert rows("Spans") == [(f"`{name}`", says) for name, says in SPANS.items()]


def test_everything_that_is_told_has_a_kind() -> None:
    """No name of a kind stands in the code that the table does not have."""
    groups = {kind.partition(".")[0] for kind in KINDS}
    told: set[str] = set()
    for path in (ROOT / "machines").rglob("*.py"):
        for word in path.read_text(encoding="utf-8").split('"')[1::2]:
            group, dot, rest = word.partition(".")
            if dot and group in groups and rest.replace("-", "").isalpha():
                told.add(word)
    assert told - {"run.wake"} <= KINDS.keys()
    unused = KINDS.keys() - told - {"sweep", "run.drifted", "run.lost", "run.unresumed"}
    assert unused == set()
