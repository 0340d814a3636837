"""Programs that are measured: what they are asked, what they answer, and how they fail."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pytest

from bench.peers.process import ROOT, PeerError, PeerProcess

FAKE = Path(__file__).with_name("fake_peer.py")
CHARTS = [{"n": 1}, {"n": 2}]


def fake(mode: str = "good") -> PeerProcess:
    """Return a program that is not started yet."""
    command = (sys.executable, str(FAKE), mode)
    return PeerProcess("fake", command, environment={"PYTHONPATH": str(ROOT)})


def test_a_program_says_its_versions_and_does_what_it_is_told(tmp_path: Path) -> None:
    """Each step is timed, and what was told last is found on disk."""
    with fake() as peer:
        assert peer.versions == {"fake": "1.0"}
        peer.open("1 KB", tmp_path, CHARTS)
        took_ns = peer.measure("1 KB", [(1, {"n": 3}), (1, {"n": 4}), (0, {"text": "é\n"})])
        assert len(took_ns) == 3
        assert min(took_ns) > 0
        assert peer.read("1 KB") == [{"text": "é\n"}, {"n": 4}]
    assert (tmp_path / "closed").exists()


def test_a_long_line_comes_whole(tmp_path: Path) -> None:
    """What is longer than a pipe holds is put together again, in both directions."""
    long = [{"text": "x" * 300_000}]
    with fake() as peer:
        peer.open("long", tmp_path, long)
        assert peer.read("long") == long


def test_two_runs_are_kept_apart(tmp_path: Path) -> None:
    """A program has several runs at once, each in its own folder."""
    with fake() as peer:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            peer.open(name, tmp_path / name, [{"run": name}])
        assert peer.read("one") == [{"run": "one"}]
        assert peer.read("two") == [{"run": "two"}]


def test_an_error_is_told_and_the_program_goes_on(tmp_path: Path) -> None:
    """What a program could not do is said with its own words; it can be asked again."""
    with fake("raises") as peer:
        peer.open("1 KB", tmp_path, CHARTS)
        with pytest.raises(PeerError, match="the disk is on fire") as caught:
            peer.measure("1 KB", [(0, {"n": 5})])
        assert caught.value.peer == "fake"
        assert "Traceback" in caught.value.said
        assert peer.read("1 KB") == CHARTS


def test_a_run_that_was_not_opened_is_an_error() -> None:
    """A program cannot be asked for what it does not have."""
    with fake() as peer, pytest.raises(PeerError, match="KeyError"):
        peer.read("1 KB")


@pytest.mark.parametrize(
    ("mode", "said"),
    [("dies", "I cannot go on"), ("skips", "measured 0 of 1 steps")],
)
def test_a_program_that_does_not_measure_is_named(tmp_path: Path, mode: str, said: str) -> None:
    """One that dies, or that answers for fewer steps, is no result."""
    with fake(mode) as peer:
        peer.open("1 KB", tmp_path, CHARTS)
        with pytest.raises(PeerError, match=said):
            peer.measure("1 KB", [(0, {"n": 5})])


@pytest.mark.parametrize(
    ("mode", "said"),
    [("babbles", "good morning"), ("is refused", "no module named peer")],
)
def test_a_program_that_does_not_start_says_why(mode: str, said: str) -> None:
    """What is no answer, or comes before the end, is in the error."""
    with pytest.raises(PeerError, match=said), fake(mode):
        pass


def test_a_program_that_is_not_there_is_named() -> None:
    """A command that cannot be run is an error of the same kind."""
    absent = PeerProcess("absent", ("/nowhere/python", "-m", "bench.peers.dbos"))
    with pytest.raises(PeerError, match="absent: cannot be started"), absent:
        pass


def test_the_error_survives_pickling() -> None:
    """Its fields and its message are the same afterwards."""
    error = PeerError("burr", "has ended", "no space left")
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - its own bytes
    assert (again.peer, again.what, again.said) == ("burr", "has ended", "no space left")
    assert str(again) == str(error) == "burr: has ended; it said: no space left"
