"""SQL stands beside the functions that run it, and nowhere that people talk to."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.house.sources import modules, parse

FACES = ("snapshots/inspection/cli", "snapshots/inspection/console")
# We write SQL in small letters, and begin no sentence with one.
STATEMENT = re.compile(
    r"\s*(select\b.+|insert\s+into|update\s+\w+\s+set|delete\s+from|pragma\s+\w+"
    r"|(create|drop|alter)\s+(table|index)|begin\s+immediate)\b",
    re.DOTALL,
)


def statements(tree: ast.Module) -> list[str]:
    """Return the texts in a module that are SQL."""
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return [text for text in texts if STATEMENT.match(text)]


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('A = """\nselect run_id from runs"""', 1),
        ('execute("pragma data_version")', 1),
        ('f"delete from {table}"', 1),
        ('"""Select a run from the list."""', 0),
        ('help="a run, selected from the list"', 0),
        ('"update"', 0),
    ],
)
def test_sql_is_told_from_prose(code: str, count: int) -> None:
    """The check below knows SQL when it sees it."""
    assert len(statements(ast.parse(code))) == count


@pytest.mark.parametrize("module", modules(*FACES), ids=str)
def test_what_people_talk_to_holds_no_sql(module: Path) -> None:
    """The command line and the console ask `queries`, which know the bounds of a question."""
    assert statements(parse(module)) == []


def test_both_are_there_to_be_looked_at() -> None:
    """The check above looks at something."""
    assert all(modules(face) for face in FACES)
