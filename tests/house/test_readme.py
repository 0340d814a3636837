"""The README does what it says, from its top to its end."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.house.pages import (
    README,
    Block,
    Command,
    anchors_of,
    blocks_of,
    commands_of,
    faults_of,
    find_blocks,
    links_of,
    missing,
    run_page,
)
from tests.house.sources import ROOT

COMMANDS = ('pip install ".[cli]" && snapshots demo', 'pip install -e ".[test]" && pytest')


def page(text: str) -> list[Block]:
    """Return the blocks of a page, its margin taken off."""
    return find_blocks("page.md", textwrap.dedent(text))


@pytest.mark.parametrize("command", COMMANDS)
def test_the_readme_names_the_two_commands_word_for_word(command: str) -> None:
    """A reader can copy the command for the demo and the command for the tests."""
    assert command in README.read_text(encoding="utf-8")


def test_the_readmes_first_example_is_run() -> None:
    """The first Python that the README shows runs, and not as a part of something else."""
    first = next(block for block in blocks_of(README) if block.language == "python")
    assert first.is_run


def test_the_readme_does_what_it_says(tmp_path: Path) -> None:
    """From top to bottom, in one folder, each block does what the text says."""
    assert faults_of(blocks_of(README)) == []
    run_page(blocks_of(README), tmp_path)


def test_every_promise_links_to_what_keeps_it() -> None:
    """A promise links to its tests, and they are there."""
    text = README.read_text(encoding="utf-8").partition("## What it promises")[2]
    promises = text.partition("\n## ")[0].split("\n1. ")[-1]
    links = links_of(promises)
    assert len(links) > 12
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_blocks_are_found_with_their_lines_and_marks() -> None:
    """A page's blocks are found with what is said of them, in a list too."""
    found = page(
        """\
        # A page

        ```python title="one.py"
        one = 1
        ```

        - in a list:

          ```console unrun="it needs a \\"server\\"" exits=1
          $ one
          ```
        """
    )
    marks = {"unrun": 'it needs a "server"', "exits": "1"}
    title = {"title": "one.py"}
    assert found == [
        Block(page="page.md", line=3, language="python", marks=title, code="one = 1\n"),
        Block(page="page.md", line=9, language="console", marks=marks, code="$ one\n"),
    ]
    assert [block.is_run for block in found] == [True, False]


def test_commands_are_told_from_their_output() -> None:
    """A prompt makes a command; without any, every line is one."""
    assert commands_of("$ one &\nsays\n\n$ two\n") == [
        Command(text="one &", shown=("says", "")),
        Command(text="two"),
    ]
    assert commands_of("one\n\ntwo\n") == [Command(text="one"), Command(text="two")]


@pytest.mark.parametrize(
    ("shown", "lacking"),
    [
        (("one", "three  3"), None),
        (("…", "t…e 3"), None),
        (("two", "one"), "one"),
        (("one", "one"), "one"),
        (("thre",), "thre"),
    ],
)
def test_shown_output_may_leave_lines_out_and_nothing_else(
    shown: tuple[str, ...], lacking: str | None
) -> None:
    """What is shown was said, line by line and in that order."""
    assert missing(shown, ["one", "  two", "three 3"]) == lacking


@pytest.mark.parametrize(
    "block",
    [
        "```python\nraise SystemExit(1)\n```\n",
        "```python\nimport warnings\nwarnings.warn('old')\n```\n",
        "```python\nundefined_name\n```\n",
        "```console\n$ echo two\none\n```\n",
        "```console\n$ exit 1\n```\n",
        "```console exits=1\n$ true\n```\n",
        "```console\n$ printf one\n$ (exit 3)\n```\n",
    ],
)
def test_a_block_that_does_not_do_what_it_shows_is_noticed(block: str, tmp_path: Path) -> None:
    """An example that raises, warns, gives up or says something else makes its page's test fail."""
    with pytest.raises(AssertionError, match=r"page\.md|nothing more was said"):
        run_page(page(block), tmp_path)


def test_the_readme_begins_with_all_that_a_newcomer_needs() -> None:
    """Ten lines: install, run, look, look again; the file that they run is the next block."""
    lines = README.read_text(encoding="utf-8").splitlines()[:10]
    commands = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    assert [command.split(" ", 2)[:2] for command in commands] == [
        ["pip", "install"],
        ["python", "order.py"],
        ["snapshots", "show"],
        ["snapshots", "console"],
    ]
    assert blocks_of(README)[1].marks == {"title": "order.py"}


def test_a_page_is_one_story(tmp_path: Path) -> None:
    """Blocks find what those above them left: files, background work and the shell's own state."""
    text = """\
        ```python title="said.py"
        def said():
            return "hello"
        ```
        ```python
        from said import said
        open("left", "w").write(said())
        ```
        ```console
        $ python -c 'from said import said; print(said()); import signal; signal.pause()' &
        hello
        $ kill -9 $! && wait $! || echo killed with $?
        killed with 137
        $ cat left
        hello
        ```
        """
    run_page(page(text), tmp_path)


@pytest.mark.parametrize(
    ("block", "fault"),
    [
        ("```python fragment\n1\n```\n", "'fragment' is not understood"),
        ("```python unrun\n1\n```\n", "does not say why"),
        ("```python\n1 +\n```\n", "it is not Python"),
        ('```text title="a.txt"\n1\n```\n', "nothing else on the page uses a.txt"),
        ('```python unrun="a piece"\n1\n```\n', None),
    ],
)
def test_a_block_is_marked_only_with_what_is_understood(block: str, fault: str | None) -> None:
    """Blocks that are not run say why, and files that are shown are used."""
    found = faults_of(page(block))
    assert found == [] if fault is None else fault in found[0]


def test_links_and_anchors_are_found_but_not_in_code() -> None:
    """Links are those of the prose, anchors those of the headings."""
    text = "# One `two`, three\n\n[a](b.md#c) `[d](e)`\n\n```console\n# no heading\n[f](g)\n```\n"
    assert links_of(text) == ["b.md#c"]
    assert anchors_of(text) == {"one-two-three"}
