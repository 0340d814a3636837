"""The Dockerfile of the docs, as far as it can be tried without a container engine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from tests.house.pages import DOCS, blocks_of
from tests.house.sources import configuration

PAGE = DOCS / "howto" / "docker.md"
FILES = {block.marks["title"]: block.code for block in blocks_of(PAGE) if "title" in block.marks}
KNOWN = frozenset({"FROM", "RUN", "USER", "WORKDIR", "COPY", "ENV", "VOLUME", "STOPSIGNAL", "CMD"})


def instructions(dockerfile: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile, continued lines joined."""
    joined = re.sub(r"\\\n\s*", "", dockerfile)
    return [
        (word, rest.strip())
        for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line)
    ]


@pytest.fixture
def given() -> dict[str, list[str]]:
    """Return what the page's Dockerfile says, by instruction."""
    found: dict[str, list[str]] = {}
    for word, rest in instructions(FILES["Dockerfile"]):
        found.setdefault(word, []).append(rest)
    return found


def test_every_line_is_an_instruction(given: dict[str, list[str]]) -> None:
    """It begins from an image, and says nothing that is not understood."""
    assert instructions(FILES["Dockerfile"])[0][0] == "FROM"
    assert given.keys() == KNOWN


def test_the_image_has_a_python_that_the_package_runs_on(given: dict[str, list[str]]) -> None:
    """The version is one that the package names."""
    version = re.fullmatch(r"python:(3\.\d+)-slim", given["FROM"][0])
    assert version
    named = configuration()["project"]["classifiers"]
    assert f"Programming Language :: Python :: {version[1]}" in named


def test_what_it_installs_is_this_package(given: dict[str, list[str]]) -> None:
    """Its pip line names the distribution, with an extra that there is."""
    project = configuration()["project"]
    found = re.fullmatch(r'pip install --no-cache-dir "([\w-]+)\[(\w+)\]"', given["RUN"][0])
    assert found
    assert found[1] == project["name"]
    assert found[2] in project["optional-dependencies"]


def test_it_starts_the_service_that_the_page_runs(given: dict[str, list[str]]) -> None:
    """What CMD starts is copied, and is what the page starts without a container."""
    command = json.loads(given["CMD"][0])
    assert command[0] == "python"
    assert command[1] in FILES
    assert given["COPY"][0].split()[1] == command[1]
    assert f"$ {' '.join(command)} &" in PAGE.read_text(encoding="utf-8")


def test_the_file_lies_in_a_folder_that_is_kept_and_is_the_users_own(
    given: dict[str, list[str]],
) -> None:
    """The log and its index lie beside the file, so all of the folder is the volume."""
    file = re.search(r"SNAPSHOTS_FILE=(\S+)", given["ENV"][0])
    assert file
    folder = Path(file[1]).parent.as_posix()
    assert given["VOLUME"] == [folder]
    assert given["USER"] != ["root"]
    assert f"install --directory --owner={given['USER'][0]} --mode=0700 {folder}" in given["RUN"][1]
    service = yaml.safe_load(FILES["compose.yaml"])["services"]["orders"]
    assert service["volumes"] == [f"orders:{folder}"]


def test_it_is_stopped_by_the_signal_that_the_service_hears(given: dict[str, list[str]]) -> None:
    """The service ends its host by the signal that the engine sends, in longer than its grace."""
    assert f"signal.{given['STOPSIGNAL'][0]}" in FILES["service.py"]
    assert yaml.safe_load(FILES["compose.yaml"])["services"]["orders"]["stop_grace_period"] == "20s"
