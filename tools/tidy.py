"""Finds debris that no other check sees: `python -m tools.tidy` prints a line for each piece.

Every rule is a function from a file to the lines that break it, so that a test can show its teeth.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("snapshots", "machines")
TEXT_SUFFIXES = frozenset({".cfg", ".html", ".ini", ".md", ".py", ".toml", ".yaml", ".yml"})
# Golden blobs and foreign documents are kept byte for byte, whatever they look like.
KEPT_AS_IT_IS = ("tests/data",)
MADE_BY_TOOLS = frozenset({"__pycache__", "build", "dist", "node_modules", "venv"})

# Brackets keep these patterns from finding themselves.
DEFERRED = re.compile(r"\b(T[O]DO|F[I]XME|X[X]X|H[A]CK)\b")
CONFLICT = re.compile(r"^(<{7}|>{7}) ")
BARE_EXCUSE = re.compile(
    r"#\s*(?:n[o]qa:\s*[A-Z]+\d+(?:\s*,\s*[A-Z]+\d+)*|t[y]pe:\s*ignore\[[\w, -]+\])\s*$"
)

Rule = Callable[[str], Iterator[tuple[int, str]]]


def deferred_work(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that put work off: it is done now, or it is an entry in the tracker."""
    for number, line in enumerate(text.splitlines(), start=1):
        if DEFERRED.search(line):
            yield number, "work put off in a comment"


def ragged_text(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines with blanks at their end or a merge's marker, and a missing last line end."""
    lines = text.splitlines()
    for number, line in enumerate(lines, start=1):
        if line != line.rstrip():
            yield number, "blanks at the end of the line"
        if CONFLICT.match(line):
            yield number, "marker of an unfinished merge"
    if text and not text.endswith("\n"):
        yield len(lines), "no line end at the end of the file"


def unexplained_exceptions(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines that switch a check off without a reason behind it on the same line."""
    for number, line in enumerate(text.splitlines(), start=1):
        if BARE_EXCUSE.search(line):
            yield number, "a check switched off without a reason on the same line"


def printing(text: str) -> Iterator[tuple[int, str]]:
    """Yield the calls of `print`: a package returns what it knows, its CLI shows it."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print":
            yield node.lineno, "print in a package"


def rules_for(path: Path) -> list[Rule]:
    """Return the rules that a file, named from the root of the checkout, has to keep."""
    rules: list[Rule] = [deferred_work, ragged_text]
    if path.suffix == ".py":
        rules.append(unexplained_exceptions)
        if path.parts[0] in PACKAGES:
            rules.append(printing)
    return rules


def is_kept_out(path: Path) -> bool:
    """Whether a path, named from the root, is a tool's product or is kept as it is."""
    made = any(part in MADE_BY_TOOLS or part.endswith(".egg-info") for part in path.parts)
    hidden = any(part.startswith(".") and part != ".ci" for part in path.parts)
    return made or hidden or path.as_posix().startswith(KEPT_AS_IT_IS)


def find_debris(root: Path) -> Iterator[str]:
    """Yield one line per piece of debris under `root`: file, line number, what is wrong."""
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if is_kept_out(relative):
            continue
        if path.is_dir():
            if all(is_kept_out(child.relative_to(root)) for child in path.iterdir()):
                yield f"{relative}/: empty folder"
        elif path.suffix in TEXT_SUFFIXES:
            text = path.read_text(encoding="utf-8")
            for rule in rules_for(relative):
                for number, complaint in rule(text):
                    yield f"{relative}:{number}: {complaint}"


def main() -> int:
    """Print the debris of the checkout; return 1 if there is any."""
    lines = list(find_debris(ROOT))
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return 1 if lines else 0


if __name__ == "__main__":
    raise SystemExit(main())
