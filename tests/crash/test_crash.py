"""The crash tool finds nothing in the charts as they are, and everything in careless ones."""

from __future__ import annotations

import re

import pytest

from machines.demo.scenarios import SCENARIOS
from tests.crash.demo_runs import crash_tool
from tools.careless import WRONGS

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
}
SHORT = ("--kills", "8", "--seed", "11")
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
}


def found_in(text: str) -> dict[str, int]:
    """Return how many faults each claim was found guilty of."""
    return {match["claim"]: int(match["found"]) for match in COUNT.finditer(text)}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_eight_kills_lose_repeat_and_stop_nothing(scenario: str) -> None:
    """Whatever was acknowledged is there, what may happen once happened once, all runs ended."""
    runs = RUNS[scenario]
    done = crash_tool("--scenario", scenario, *SHORT, "--runs", str(runs))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert found_in(done.stdout) == dict.fromkeys(CLAIMS[scenario], 0)
    assert "kills: 8 in" in done.stdout
    (statuses,) = re.findall(r"^runs: (.*)$", done.stdout, re.MULTILINE)
    ended = {name: int(n) for n, name in re.findall(r"(\d+) (\w+)", statuses)}
    assert sum(ended.values()) == runs
    assert ended.keys() <= ({"done", "lost"} if scenario == "reattach" else {"done"})


@pytest.mark.parametrize("scenario", WRONGS)
def test_an_orchestrator_that_does_it_wrongly_is_caught(scenario: str) -> None:
    """The same loop over one that forgets, repeats or says yes to all finds it: it can fail."""
    runs = RUNS[scenario]
    done = crash_tool("--scenario", scenario, *SHORT, "--runs", str(runs), "--control")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert found_in(done.stdout)[SCENARIOS[scenario].control.text] > 0
