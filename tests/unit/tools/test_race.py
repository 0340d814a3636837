"""A short run of the races between processes, and of those that must be caught."""

from __future__ import annotations

import re

import pytest

from snapshots.storage import Scope
from snapshots.storage.rows import Lease
from tools.race import BACKENDS, Count, Succession, is_free_in_time, judge, main
from tools.races import LONG_MS, RACES

LINE = re.compile(
    r"(\w+) (\w+): (\d+) rounds, (\d+) (with one winner|refused|free at their expiry)"
)
STALLS = ("stopped_holder", "killed_holder")


def lines_of(text: str) -> dict[tuple[str, str], tuple[int, int]]:
    """Return what was printed: the rounds of each backend and kind, and the good ones of them."""
    found = [LINE.fullmatch(line) for line in text.splitlines()]
    assert None not in found, text
    return {(m[1], m[2]): (int(m[3]), int(m[4])) for m in found if m is not None}


def count(rounds: int, good: int) -> Count:
    """Return the count of some kind."""
    return Count(backend="sqlite", kind="lock", rounds=rounds, good=good)


def lease(token: int, expires_ms: int) -> Lease:
    """Return a lease of some name."""
    return Lease(scope=Scope(), name="held", token=token, holder="", expires_ms=expires_ms)


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_round_has_one_winner_and_a_stalled_holder_none(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of three processes one wins each round of each kind; stopped and killed holders lose."""
    assert main(["--rounds", "48", "--processes", "3", "--backend", backend, "--seed", "5"]) == 0
    expected = {(backend, kind): (12, 12) for kind in RACES}
    expected |= {(backend, kind): (1, 1) for kind in STALLS}
    assert lines_of(capsys.readouterr().out) == expected


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_look_before_a_write_is_caught(backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a key is read and then written, some rounds have several winners: the tool says so."""
    arguments = ["--rounds", "400", "--processes", "4", "--backend", backend, "--control"]
    assert main(arguments) == 0
    ((rounds, good),) = lines_of(capsys.readouterr().out).values()
    assert good < rounds == 400


def test_a_single_bad_round_is_a_failure() -> None:
    """The exit code is 1 if one round of one kind did not go as it must."""
    assert judge([count(9, 9), count(9, 9)], control=False) == 0
    assert judge([count(9, 9), count(9, 8)], control=False) == 1


def test_a_control_that_is_not_caught_is_a_failure() -> None:
    """The control has to be found on every backend, else the races show nothing."""
    assert judge([count(9, 8), count(9, 8)], control=True) == 0
    assert judge([count(9, 9), count(9, 8)], control=True) == 1


@pytest.mark.parametrize(
    ("claimed_ms", "token", "refusals", "expected"),
    [(70, 2, 1, True), (69, 2, 1, False), (70, 3, 1, False), (70, 2, 0, False)],
    ids=["at its expiry", "before", "a claim between", "never held"],
)
def test_a_lock_that_is_free_too_early_is_told(
    claimed_ms: int, token: int, refusals: int, *, expected: bool
) -> None:
    """The next claim must be at the expiry or later, be the very next, and be refused before."""
    following = lease(token, claimed_ms + LONG_MS)
    found = Succession(lease=lease(1, 70), following=following, refusals=refusals)
    assert is_free_in_time(found) is expected


def test_a_race_needs_two() -> None:
    """One process alone shows nothing, so the tool refuses it."""
    with pytest.raises(SystemExit, match="2"):
        main(["--processes", "1"])
