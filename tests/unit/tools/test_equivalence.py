"""A short run of the comparison between the library's engine, the durable one, and restarts."""

from __future__ import annotations

import pytest

from tools.equivalence import ABLATIONS, Case, Tally, compare, misses, named_cases, random_cases
from tools.equivalence import main as compare_all

NAMED = {case.name: case for case in named_cases()}
RANDOM = list(random_cases(5, 2026))

# Which named chart guards an item that is not called after it.
GUARDS = {
    "configuration: order": "configuration_order",
    "started: initial state not entered": "started_flag",
    "status flag": "finished_flag",
    "active invokes: done-sent flag": "done_sent_flag",
    "whose turn it was": "turn_in_a_tree",
    "document: initialised flags": "initialised_flag",
    "document: session id": "session_id",
    "document: first event raised": "first_event_raised",
    "weighted generators": "weighted_generator",
    "own attributes": "own_attributes",
}


@pytest.mark.parametrize("case", NAMED.values(), ids=NAMED)
def test_a_named_chart_is_the_same_over_restarts(case: Case) -> None:
    """No hand-written chart behaves differently when it is restarted at every boundary."""
    tally = Tally()
    compare(case, tally)
    assert tally.differences == []
    assert tally.restarts > 0 or case.refused


@pytest.mark.parametrize("case", RANDOM, ids=[case.name for case in RANDOM])
def test_a_random_chart_is_the_same_over_restarts(case: Case) -> None:
    """A random chart does what it does under the library, and after any restart."""
    tally = Tally()
    compare(case, tally)
    assert tally.differences == []
    assert tally.restarts > 0


@pytest.mark.parametrize("item", ABLATIONS)
def test_an_item_left_out_of_a_snapshot_is_missed(item: str) -> None:
    """For each item there is a chart that behaves differently after a restart without it."""
    likely = GUARDS.get(item, item.replace(" ", "_"))
    cases = sorted(NAMED.values(), key=lambda case: case.name != likely)
    assert any(misses(case, ABLATIONS[item]) for case in cases)


def test_the_tool_says_what_it_compared(capsys: pytest.CaptureFixture[str]) -> None:
    """The command prints one line of counts and exits 0 without differences."""
    assert compare_all(["--charts", "1", "--seed", "5"]) == 0
    line = capsys.readouterr().out.strip().splitlines()[-1]
    assert line.endswith(": 0 differences")
    assert line.startswith(f"{len(NAMED) + 1} charts")
