"""Every module can be taken in at once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.sources import PACKAGES, modules, parse, read

MODULE_LINES_MAX = 400
FOLDERS = (*PACKAGES, "tools", "bench")
SECOND_SENTENCE = re.compile(r"[.!?][\"'`)]*\s+[A-Z`]")


def is_one_sentence(paragraph: str) -> bool:
    """Whether a paragraph starts a sentence and ends with its end."""
    text = " ".join(paragraph.split())
    return text.endswith((".", "!", "?")) and SECOND_SENTENCE.search(text) is None


@pytest.mark.parametrize(
    ("paragraph", "expected"),
    [
        ("Keeps the rows.", True),
        ("Keeps the rows\nof one file, e.g. the runs.", True),
        ("Keeps the rows", False),
        ("Keeps the rows. Sweeps them too.", False),
        ("Keeps the `rows`. `sweep` deletes them.", False),
        ("", False),
    ],
)
def test_a_sentence_is_told_from_two_and_from_none(paragraph: str, *, expected: bool) -> None:
    """The check below knows one sentence when it sees it."""
    assert is_one_sentence(paragraph) is expected


@pytest.mark.parametrize("module", modules(*FOLDERS), ids=str)
def test_a_modules_docstring_starts_with_the_sentence_it_fits_in(module: Path) -> None:
    """The first paragraph of a module's docstring is one sentence."""
    docstring = ast.get_docstring(parse(module)) or ""
    assert is_one_sentence(docstring.partition("\n\n")[0])


@pytest.mark.parametrize("module", modules(*FOLDERS), ids=str)
def test_a_module_fits_in_400_lines(module: Path) -> None:
    """A module that grows beyond 400 lines is two modules."""
    assert len(read(module).splitlines()) <= MODULE_LINES_MAX


def test_both_packages_are_there_to_be_looked_at() -> None:
    """The checks above look at something: neither package is empty."""
    assert all(modules(package) for package in PACKAGES)
