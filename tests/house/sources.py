"""Where the project's sources lie, for the tests that read them."""

from __future__ import annotations

import ast
import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("snapshots", "machines")
SUITE = Path("snapshots/testing/suite")
NAMED_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
_DEFINED_TEST = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)


def modules(*folders: str) -> list[Path]:
    """Return the modules below the given folders of the checkout, named from its root."""
    return sorted(
        path.relative_to(ROOT) for folder in folders for path in (ROOT / folder).rglob("*.py")
    )


def read(module: Path) -> str:
    """Return the text of a module that `modules` named."""
    return (ROOT / module).read_text(encoding="utf-8")


def parse(module: Path) -> ast.Module:
    """Return the syntax tree of a module that `modules` named."""
    return ast.parse(read(module), filename=str(module))


def configuration() -> dict[str, Any]:
    """Return `pyproject.toml` as it is."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


@cache
def defined_tests() -> dict[str, set[str]]:
    """Return the names of the tests in each module, named from `tests/` on.

    The behaviour suite, which runs on all backends, is `suite/`.
    """
    found = {
        module.relative_to("tests").as_posix(): set(_DEFINED_TEST.findall(read(module)))
        for module in modules("tests")
    }
    for module in modules(SUITE.as_posix()):
        found[f"suite/{module.name}"] = set(_DEFINED_TEST.findall(read(module)))
    return found


def rows_of(page: Path) -> dict[str, list[str]]:
    """Return the rows of a page's tables, by the heading above them."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in read(page).splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| what "):
            found.setdefault(heading, []).append(line)
    return found


def untested(row: str) -> list[str]:
    """Return what is wrong with the tests that a row names: none are, or they are not there."""
    named = NAMED_TEST.findall(row)
    if not named:
        return [f"no test is named in: {row}"]
    known = defined_tests()
    return [f"{of}::{test}" for of, test in named if test not in known.get(of, ())]
