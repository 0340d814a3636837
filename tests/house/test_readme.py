"""README and docs do what they say: each Python block runs on its own, in an empty folder.

A block fenced `python` runs. One fenced `python fragment` shows a piece that cannot stand alone:
it only has to be Python, and the README's first example is never one.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.house.sources import ROOT

README = ROOT / "README.md"
FENCE = re.compile(
    r"^(?P<indent> *)```python(?P<mark>[^\n]*)\n(?P<code>.*?)^(?P=indent)```\s*$",
    re.MULTILINE | re.DOTALL,
)
FRAGMENT = "fragment"
MARKS = frozenset({"", FRAGMENT})
COMMANDS = ('pip install ".[cli]" && snapshots demo', 'pip install -e ".[test]" && pytest')


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One fenced block: the page and line where it starts, the word behind `python`, its code."""

    page: str
    line: int
    mark: str
    code: str

    def __str__(self) -> str:
        """Name the block as an editor would."""
        return f"{self.page}:{self.line}"


def find_blocks(page: str, text: str) -> list[Block]:
    """Return the Python blocks of a page in Markdown, those within a list included."""
    return [
        Block(
            page=page,
            line=text.count("\n", 0, match.start()) + 1,
            mark=match["mark"].strip(),
            code=textwrap.dedent(match["code"]),
        )
        for match in FENCE.finditer(text)
    ]


def all_blocks() -> list[Block]:
    """Return the blocks of the README, if it is there, and of every page of the docs."""
    pages = [README, *sorted((ROOT / "docs").rglob("*.md"))]
    return [
        block
        for page in pages
        if page.is_file()
        for block in find_blocks(str(page.relative_to(ROOT)), page.read_text(encoding="utf-8"))
    ]


def run_block(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one block as a script of its own in `folder`, with warnings as errors."""
    script = folder / "example.py"
    script.write_text(code, encoding="utf-8")
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        (sys.executable, "-W", "error", script.name),
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


BLOCKS = all_blocks()


def test_there_is_a_readme() -> None:
    """The project has a README."""
    assert README.is_file()


def test_the_readme_has_an_example_that_runs() -> None:
    """The README shows at least one example, and the first one is run by the tests."""
    own = [block for block in BLOCKS if block.page == README.name]
    assert own
    assert own[0].mark == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_the_two_commands_word_for_word(command: str) -> None:
    """A reader can copy the command for the demo and the command for the tests."""
    assert command in README.read_text(encoding="utf-8")


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_says_only_what_is_understood(block: Block) -> None:
    """A block is marked as a fragment or not at all, and is Python in either case."""
    assert block.mark in MARKS
    ast.parse(block.code)


@pytest.mark.parametrize("block", [each for each in BLOCKS if each.mark != FRAGMENT], ids=str)
def test_a_block_runs_alone_in_an_empty_folder(block: Block, tmp_path: Path) -> None:
    """An example works for a reader who has copied nothing else."""
    finished = run_block(block.code, tmp_path)
    assert finished.returncode == 0, f"{block} failed:\n{finished.stdout}{finished.stderr}"


def test_blocks_are_found_with_their_lines_and_marks() -> None:
    """A page's Python blocks are found, in a list too, and blocks of other languages are not."""
    page = textwrap.dedent(
        """\
        # A page

        ```python
        one = 1
        ```

        - in a list:

          ```python fragment
          two = one
          ```

        ```sh
        three
        ```
        """
    )
    assert find_blocks("page.md", page) == [
        Block(page="page.md", line=3, mark="", code="one = 1\n"),
        Block(page="page.md", line=9, mark="fragment", code="two = one\n"),
    ]


@pytest.mark.parametrize(
    "code",
    ["raise SystemExit(1)", "import warnings\nwarnings.warn('old')", "undefined_name"],
)
def test_a_block_that_fails_or_warns_is_noticed(code: str, tmp_path: Path) -> None:
    """An example that raises, warns or gives up makes its test fail."""
    assert run_block(code, tmp_path).returncode != 0


def test_a_block_can_import_both_packages(tmp_path: Path) -> None:
    """An example finds the packages of this checkout, installed or not."""
    finished = run_block("import machines, snapshots\nprint(snapshots.__file__)", tmp_path)
    assert Path(finished.stdout.strip()).is_relative_to(ROOT), finished.stderr


def test_every_link_of_the_readme_leads_somewhere() -> None:
    """A promise links to its tests, and they are there."""
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text(encoding="utf-8"))
    assert len(links) > 12
    assert [link for link in links if not (ROOT / link).exists()] == []
