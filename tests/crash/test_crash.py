"""The crash tool finds nothing in the charts as they are, and everything in careless ones."""

from __future__ import annotations

import re

from tests.crash.demo_runs import crash_tool

COUNT = re.compile(r"^(?P<claim>[a-z][^:]*): (?P<found>\d+)$", re.MULTILINE)
CLAIMS = {
    "acknowledged transitions lost",
    "non-idempotent effects repeated",
    "runs stuck",
    "events run twice, or trails that do not hang together",
    "calls that left without an intent on disk",
    "effects recorded as done that never happened",
    "doubts that nobody settled",
    "commands refused",
}


def found_in(text: str) -> dict[str, int]:
    """Return how many faults each claim was found guilty of."""
    return {match["claim"]: int(match["found"]) for match in COUNT.finditer(text)}


def test_ten_kills_lose_repeat_and_stop_nothing() -> None:
    """Whatever was acknowledged is there, what may happen once happened once, all runs are done."""
    done = crash_tool("--kills", "10", "--seed", "11", "--runs", "8")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert found_in(done.stdout) == dict.fromkeys(CLAIMS, 0)
    assert "kills: 10 in" in done.stdout
    assert "runs: 8 done\n" in done.stdout


def test_effects_that_are_wrongly_called_idempotent_are_caught() -> None:
    """The same loop over charts that repeat a charge finds the repeats: the tool can fail."""
    done = crash_tool("--kills", "10", "--seed", "11", "--runs", "8", "--control")
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert found_in(done.stdout)["non-idempotent effects repeated"] > 0
