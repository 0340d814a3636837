"""What the page on security says is protected has its tests, and its exceptions their reasons."""

from __future__ import annotations

from pathlib import Path

from tests.house.sources import configuration, read, rows_of, untested

PAGE = Path("docs/security.md")


def test_every_protection_names_tests_that_are_there() -> None:
    """A test that was renamed or removed is renamed or replaced on the page too."""
    rows = rows_of(PAGE)
    assert list(rows) == ["What is protected"]
    assert len(rows["What is protected"]) > 10
    assert [wrong for row in rows["What is protected"] for wrong in untested(row)] == []


def test_the_page_says_what_is_not_protected() -> None:
    """Else the table would be read as all that there is to know."""
    _, _, rest = read(PAGE).partition("## What is not protected")
    assert rest.count("\n- **") > 5


def test_every_rule_that_bandit_passes_over_has_its_reason() -> None:
    """A comment directly above it, as ruff's ignored rules have."""
    skipped = configuration()["tool"]["bandit"]["skips"]
    lines = [line.strip() for line in read(Path("pyproject.toml")).splitlines()]
    for rule in skipped:
        assert lines[lines.index(f'"{rule}",') - 1].startswith("# "), rule
