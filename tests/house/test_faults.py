"""The list of faults names the test of each, and the tests are there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.sources import NAMED_TEST, defined_tests, read, rows_of, untested

PAGE = Path("docs/faults.md")
OWN = tuple(f"host/test_faults_{name}.py" for name in ("macrosteps", "timers", "effects"))
"""The test modules that have nothing but faults."""
GROUPS = [
    "Files and transactions",
    "Values",
    "Macrosteps, queues, children",
    "Timers",
    "Effects, gates, ownership",
    "Keyed state, leases",
]


def test_the_page_has_its_groups() -> None:
    """Each group of faults is there, in its order, with rows."""
    assert list(rows_of(PAGE)) == GROUPS
    assert all(len(of_group) > 2 for of_group in rows_of(PAGE).values())


@pytest.mark.parametrize("group", GROUPS)
def test_every_row_names_tests_that_are_there(group: str) -> None:
    """A test that was renamed or removed is renamed or replaced on the page too."""
    assert [wrong for row in rows_of(PAGE)[group] for wrong in untested(row)] == []


@pytest.mark.parametrize("module", OWN)
def test_every_test_of_a_fault_is_on_the_page(module: str) -> None:
    """None of these tests is about anything else."""
    named = {test for of, test in NAMED_TEST.findall(read(PAGE)) if of == module}
    assert defined_tests()[module] == named
