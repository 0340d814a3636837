"""The pages of the docs do what they say, and what they lead to is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.house.pages import (
    README,
    RUNS,
    anchors_of,
    blocks_of,
    commands_of,
    faults_of,
    links_of,
    pages,
    run_page,
)
from tests.house.sources import ROOT, configuration

# What cannot run where tests run: installations, servers of one's own, pieces of something larger.
UNRUN_MAX = 8
TOLD = [page for page in pages() if page != README]
RUNNING = [page for page in TOLD if any(block.is_run for block in blocks_of(page))]
LINKING = [*pages(), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "bench" / "README.md"]


def name_of(page: Path) -> str:
    """Name a page from the root of the checkout."""
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", TOLD, ids=name_of)
def test_blocks_are_marked_only_with_what_is_understood(page: Path) -> None:
    """What is not run says why, what is written is used, and Python is Python."""
    assert faults_of(blocks_of(page)) == []


@pytest.mark.parametrize("page", RUNNING, ids=name_of)
def test_a_page_does_what_it_says(page: Path, tmp_path: Path) -> None:
    """From top to bottom, in one folder, each block does what the text says."""
    run_page(blocks_of(page), tmp_path)


def test_few_blocks_are_not_run() -> None:
    """A block that is only shown may be wrong, so there are not many."""
    unrun = [
        str(block)
        for page in pages()
        for block in blocks_of(page)
        if block.language in RUNS and not block.is_run
    ]
    assert len(unrun) <= UNRUN_MAX, unrun


def test_no_command_hides_from_being_run() -> None:
    """Commands of ours stand in `console` blocks, which are run, and in no other shell's."""
    hidden = [
        str(block)
        for page in pages()
        for block in blocks_of(page)
        if block.language in {"sh", "shell", "bash", "py", "pycon"}
    ]
    assert hidden == []


def test_what_the_pages_install_is_there_to_be_installed() -> None:
    """Commands that no page's test runs name this package, and extras that it has."""
    known = configuration()["project"]["optional-dependencies"].keys()
    commands = [
        command.text
        for page in pages()
        for block in blocks_of(page)
        if block.language == "console"
        for command in commands_of(block.code)
        if command.text.startswith("pip install")
    ]
    extras = [re.search(r'"(?:machine-snapshots|\.)\[([a-z,]+)\]"', each) for each in commands]
    assert len(commands) > 3
    assert all(found and set(found[1].split(",")) <= known for found in extras), commands


@pytest.mark.parametrize("page", LINKING, ids=name_of)
def test_every_link_leads_somewhere(page: Path) -> None:
    """Files that are linked are there, and so are the headings."""
    lost = []
    for link in links_of(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        is_there = target.exists() and target.is_relative_to(ROOT)
        if not is_there or (anchor and anchor not in anchors_of(target.read_text("utf-8"))):
            lost.append(link)
    assert lost == []
