"""The list of faults names the test of each, and the tests are there."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.house.sources import modules, read

PAGE = Path("docs/faults.md")
NAMED = re.compile(r"`([\w/]+\.py)::(test_\w+)`")
DEFINED = re.compile(r"^ *(?:async )?def (test_\w+)\(", re.MULTILINE)
OWN = tuple(f"host/test_faults_{name}.py" for name in ("macrosteps", "timers", "effects"))
"""The test modules that have nothing but faults."""
GROUPS = [
    "Files and transactions",
    "Values",
    "Macrosteps, queues, children",
    "Timers",
    "Effects, gates, ownership",
]


def rows() -> dict[str, list[str]]:
    """Return the rows of the page's tables, by the heading above them."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in read(PAGE).splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif line.startswith("| ") and not line.startswith("| what "):
            found.setdefault(heading, []).append(line)
    return found


@cache
def defined() -> dict[str, set[str]]:
    """Return the names of the tests in each module, which is named from `tests/` on."""
    return {
        module.relative_to("tests").as_posix(): set(DEFINED.findall(read(module)))
        for module in modules("tests")
    }


def test_the_page_has_its_groups() -> None:
    """Each group of faults is there, in its order, with rows."""
    assert list(rows()) == GROUPS
    assert all(len(of_group) > 2 for of_group in rows().values())


@pytest.mark.parametrize("group", GROUPS)
def test_every_row_names_tests_that_are_there(group: str) -> None:
    """A test that was renamed or removed is renamed or replaced on the page too."""
    for row in rows()[group]:
        named = NAMED.findall(row)
        assert named, f"no test is named in: {row}"
        gone = [f"{of}::{test}" for of, test in named if test not in defined().get(of, ())]
        assert not gone, f"{', '.join(gone)} is named and not there: {row}"


@pytest.mark.parametrize("module", OWN)
def test_every_test_of_a_fault_is_on_the_page(module: str) -> None:
    """None of these tests is about anything else."""
    named = {test for of, test in NAMED.findall(read(PAGE)) if of == module}
    assert defined()[module] == named
