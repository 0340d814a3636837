"""The crash tool finds nothing in the charts as they are, and everything in careless ones."""

from __future__ import annotations

import re

import pytest

from tests.crash.demo_runs import crash_tool
from tools.careless import WRONGS
from tools.crash import shares
from tools.scenarios.known import SCENARIOS

COUNT = re.compile(r"^(?P<claim>[a-z][^:]*): (?P<found>\d+)$", re.MULTILINE)
OF_ALL = {
    "acknowledged transitions lost",
    "runs stuck",
    "events run twice, or trails that do not hang together",
    "commands refused",
}
WITHOUT_DOUBT = {
    "calls that left without an intent on disk",
    "effects recorded as done that never happened",
}
OF_EFFECTS = {*WITHOUT_DOUBT, "doubts that nobody settled"}
CLAIMS = {
    "checkout": {*OF_ALL, *OF_EFFECTS, "non-idempotent effects repeated"},
    "pool": {
        *OF_ALL,
        *OF_EFFECTS,
        "tasks worked twice",
        "tasks forgotten",
        "outcomes that are not what was done",
    },
    "reattach": {
        *OF_ALL,
        "jobs posted twice",
        "jobs asked for again although on record",
        "scenes skipped, or read out of order",
        "followers that did not begin at the saved offset",
        "films that are not whole",
    },
    "approval": {
        *OF_ALL,
        *OF_EFFECTS,
        "non-idempotent effects repeated",
        "gates that not exactly one approver won",
        "approvers told that they won, and another is on paper",
    },
    "incident": {
        *OF_ALL,
        *WITHOUT_DOUBT,
        "alerts not paged exactly once",
        "alerts whose end was not told under their message",
        "incidents begun by a repeat",
        "incidents left open",
    },
    "triage": {
        *OF_ALL,
        *WITHOUT_DOUBT,
        "tickets that not exactly one person decided",
        "tickets not answered once, by who decided",
        "decisions that nobody took",
    },
    "etl": {
        *OF_ALL,
        "loads at work beside another one",
        "readings from before the cursor",
        "prices not written exactly once",
        "locks that nobody gave back",
    },
    "poll": {
        *OF_ALL,
        *WITHOUT_DOUBT,
        "items not handled exactly once",
        "items handled and not noted",
        "pages from before the cursor",
    },
    "sentinel": {
        *OF_ALL,
        *WITHOUT_DOUBT,
        "revisions left out, or saved twice",
        "migrations left out, or made twice",
        "levels that were not handed on",
        "changes not told exactly once",
    },
    "approvals": {
        *OF_ALL,
        *WITHOUT_DOUBT,
        "matters that not exactly one decided",
        "decisions not followed exactly once",
        "people told what is not on record",
        "decisions that nobody took",
        "words that were taken for a decision",
    },
    "carry": {
        *OF_ALL,
        *WITHOUT_DOUBT,
        "entries lost, or added twice",
        "revisions told that are another's",
        "lists found that were taken back later",
    },
}
KILLS = {"approvals": 2, "carry": 2}
"""What is done by people in processes of their own takes longer."""
RUNS = {
    "checkout": 8,
    "pool": 3,
    "reattach": 4,
    "approval": 3,
    "incident": 5,
    "triage": 3,
    "etl": 8,
    "poll": 3,
    "sentinel": 8,
    "approvals": 1,
    "carry": 2,
}


def short(scenario: str) -> tuple[str, ...]:
    """Return what the tool is told so that it is done soon."""
    kills = KILLS.get(scenario, 8)
    named = ("--scenario", scenario, "--kills", str(kills), "--seed", "11")
    return (*named, "--runs", str(RUNS[scenario]))


def found_in(text: str) -> dict[str, int]:
    """Return how many faults each claim was found guilty of."""
    return {match["claim"]: int(match["found"]) for match in COUNT.finditer(text)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_kills_lose_repeat_and_stop_nothing(scenario: str) -> None:
    """Whatever was acknowledged is there, what may happen once happened once, all runs ended."""
    done = crash_tool(*short(scenario))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert found_in(done.stdout) == dict.fromkeys(CLAIMS[scenario], 0)
    assert f"kills: {KILLS.get(scenario, 8)} in" in done.stdout
    (statuses,) = re.findall(r"^runs: (.*)$", done.stdout, re.MULTILINE)
    ended = {name: int(n) for n, name in re.findall(r"(\d+) (\w+)", statuses)}
    # A verdict on finished work begins a run that nobody planned.
    more = RUNS[scenario] if scenario == "approvals" else 0
    assert RUNS[scenario] <= sum(ended.values()) <= RUNS[scenario] + more
    assert ended.keys() <= ({"done", "lost"} if scenario == "reattach" else {"done"})


@pytest.mark.parametrize("scenario", WRONGS)
def test_an_orchestrator_that_does_it_wrongly_is_caught(scenario: str) -> None:
    """The same loop over one that forgets, repeats or says yes to all finds it: it can fail."""
    done = crash_tool(*short(scenario), "--control")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert found_in(done.stdout)[SCENARIOS[scenario].control.text] > 0


def test_all_share_the_kills_and_are_summed_up_in_one_line() -> None:
    """As equal as can be, none left out; too few for all are refused before anything is killed."""
    assert shares(200, 11) == [19, 19, *[18] * 9]
    done = crash_tool("--all", "--kills", "3")
    assert done.returncode == 2
    assert "--all needs a kill for each" in done.stderr
