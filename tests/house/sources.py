"""Where the project's sources lie, for the tests that read them."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("snapshots", "machines")


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
