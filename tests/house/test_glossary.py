"""One word for one thing: words the house does not use, and one that it leaves to SQLite."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.sources import PACKAGES, modules, parse, read

# They name no thing; what they hide has a name of its own.
EMPTY_WORDS = frozenset(
    {"manager", "managers", "helper", "helpers", "util", "utils", "common", "misc"}
)
# In a class name these tell how the class is built, not what it is.
EMPTY_CLASS_WORDS = EMPTY_WORDS | {"base", "impl", "abstract"}
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# A checkpoint copies SQLite's log into the database, and is nothing else here.
CHECKPOINT_MODULES = re.compile(r"snapshots/(database|checkpoints?)\b.*|snapshots/limits\.py")
# Elsewhere the word may only pass by: in numbers that are shown, or among SQLite's own terms.
NUMBERS = "Stats"
ABOUT_SQLITE = re.compile(
    r"checkpoint_stall|stats\.|snapshots\.(database|checkpoint)|limits\.\w*checkpoint"
    r"|\b(sqlite|wal|log|stall|passive|truncate)\b|_wal\b|\bwal_|\bcheckpoint(er|s)?\.",
    re.IGNORECASE,
)


def words(name: str) -> set[str]:
    """Return the words of a name in snake case or in capitals, in lower case."""
    return {word.lower() for word in WORD.findall(name)}


def lines_about_numbers(text: str) -> set[int]:
    """Return the lines of the records that hold a store's numbers."""
    return {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ClassDef) and node.name.endswith(NUMBERS)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


def stray_checkpoints(text: str) -> list[str]:
    """Return the lines that use SQLite's word for something that is not SQLite's."""
    exempt = lines_about_numbers(text)
    return [
        f"{number}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), start=1)
        if "checkpoint" in line.lower() and number not in exempt and not ABOUT_SQLITE.search(line)
    ]


def test_a_name_falls_into_its_words() -> None:
    """Both spellings of a name are taken apart, abbreviations included."""
    assert words("RunHTTPManager") == {"run", "http", "manager"}
    assert words("run_utils") == {"run", "utils"}
    assert words("command") == {"command"}


@pytest.mark.parametrize("module", modules(*PACKAGES), ids=str)
def test_no_module_is_named_by_an_empty_word(module: Path) -> None:
    """No module or folder is called manager, helper, utils or common."""
    assert not words(module.with_suffix("").as_posix()) & EMPTY_WORDS


@pytest.mark.parametrize("module", modules(*PACKAGES), ids=str)
def test_no_class_is_named_by_an_empty_word(module: Path) -> None:
    """A class is a plain noun: no Manager, Helper, Base, Impl or Abstract in its name."""
    classes = [node.name for node in ast.walk(parse(module)) if isinstance(node, ast.ClassDef)]
    assert [name for name in classes if words(name) & EMPTY_CLASS_WORDS] == []


@pytest.mark.parametrize(
    ("text", "is_stray"),
    [
        ("# Write a checkpoint of the run.", True),
        ("save_checkpoint(run)", True),
        ("class Run:\n    checkpoint: bytes", True),
        ("class StoreStats:\n    checkpoints: int", False),
        ("longest_checkpoint_stall_ms = 0", False),
        ("# The WAL is cut by a checkpoint at close.", False),
        ("from snapshots.checkpoints import Checkpoints", False),
    ],
)
def test_a_checkpoint_of_a_run_is_told_from_one_of_the_log(text: str, *, is_stray: bool) -> None:
    """The check below knows SQLite's checkpoint from a snapshot under a wrong name."""
    assert bool(stray_checkpoints(text)) is is_stray


@pytest.mark.parametrize("module", modules(*PACKAGES), ids=str)
def test_checkpoint_is_sqlites_word(module: Path) -> None:
    """What we write is a snapshot; a checkpoint is what SQLite does with its log."""
    if not CHECKPOINT_MODULES.fullmatch(module.as_posix()):
        assert stray_checkpoints(read(module)) == []
