"""The comparison: who takes part, what is measured, and what the exit code says."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from bench import compare
from bench.__main__ import main as bench
from bench.compare import OURS, RAW, Contest, Kind, lines
from bench.peers.folder import PEERS, Folder
from bench.peers.process import ROOT, PeerProcess
from bench.turns import Rounds

FAKE = Path(__file__).with_name("fake_peer.py")
KIND = Kind(name="tiny", charts=3, values=20, steps=5)


def fake(name: str, mode: str = "good") -> PeerProcess:
    """Return a program under some name."""
    command = (sys.executable, str(FAKE), mode)
    return PeerProcess(name, command, environment={"PYTHONPATH": str(ROOT)})


def rounds(*p50: int) -> Rounds:
    """Return rounds of three acts with these medians."""
    return [[ns - 1, ns, ns * 10] for ns in p50]


def test_all_programs_do_the_same_steps(tmp_path: Path) -> None:
    """Each has a duration for each step of each round, and the same values on disk."""
    with ExitStack() as opened:
        both = [opened.enter_context(fake(name)) for name in ("one", "two")]
        contest = Contest(KIND, tmp_path, both)
        found = contest.measure(2)
        assert [[len(turn) for turn in arm] for arm in found] == [[5, 5], [5, 5]]
        contest.check()
        first, second = (peer.read("tiny") for peer in both)
        assert first is not None
        assert first == second
        assert len(first) == 3
        assert {len(chart) for chart in first} == {17}


def test_a_program_that_did_not_store_what_it_was_told_is_found_out(tmp_path: Path) -> None:
    """A fast answer alone is no save."""
    with ExitStack() as opened:
        both = [opened.enter_context(fake(*one)) for one in (("one",), ("two", "forgets"))]
        contest = Contest(KIND, tmp_path, both)
        contest.measure(1)
        with pytest.raises(AssertionError, match="two stored something else"):
            contest.check()


def test_a_line_has_the_ratios_of_its_rounds_to_raw_and_to_ours() -> None:
    """A round in which the whole machine was slow changes neither."""
    kind = Kind(name="tiny", charts=1, values=20, steps=3, bars={"peer": 0.5, "other": 0.5})
    measured = [rounds(10, 900, 10), rounds(40, 3_600, 40), rounds(80, 7_200, 80)]
    raw, ours, peer = lines([RAW.name, OURS.name, "peer"], measured, kind)
    assert (raw.to_raw[0], ours.to_raw[0], peer.to_raw[0]) == (1, 4, 8)
    assert peer.ours_to_it == 0.5
    assert peer.holds
    assert (ours.bar, raw.bar, peer.bar) == (None, None, 0.5)
    assert peer.figures.longest == 72_000
    assert peer.to_raw[3] == 72_000 / 9_000
    assert peer.cells()[-3:] == ("0.50", "<= 0.50", "ok")


def test_a_bar_beside_a_peer_fails_past_itself() -> None:
    """And its row says so."""
    kind = Kind(name="tiny", charts=1, values=20, steps=3, bars={"peer": 0.5})
    found = [rounds(10), rounds(41), rounds(80)]
    _, _, peer = lines([RAW.name, OURS.name, "peer"], found, kind)
    assert not peer.holds
    assert peer.cells()[-1] == "FAILED"


def test_the_bars_beside_the_peers_are_those_that_were_set() -> None:
    """Twice xstate's at 1 KB, 0.3 of it at 100 KB, faster than all others at both."""
    faster = dict.fromkeys(("langgraph", "dbos", "burr", "xstate-statemachine"), 1.0)
    assert [kind.bars for kind in compare.KINDS] == [
        {"xstate": 2.0, **faster},
        {"xstate": 0.3, **faster},
    ]
    assert set(compare.KINDS[0].bars) < {peer.name for peer in PEERS}


def test_a_missing_peer_is_named_and_nothing_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, one line for each, and how to install them or to leave them out."""
    without = [f"--without={peer.name}" for peer in PEERS if peer.name not in ("burr", "dbos")]
    assert bench(["compare", f"--folder={tmp_path}", *without]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert "burr is missing: there is no apache-burr" in told.err
    assert "dbos is missing" in told.err
    assert "python -m bench peers" in told.err
    assert "--without 'burr' --without 'dbos'" in told.err or "--without 'dbos'" in told.err


def test_a_missing_node_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without node does not compare less than it was asked for."""
    monkeypatch.setenv("PATH", str(tmp_path))
    without = [f"--without={peer.name}" for peer in PEERS if peer.name != "xstate"]
    assert bench(["compare", f"--folder={tmp_path}", *without]) == 2
    assert "xstate is missing: there is no node" in capsys.readouterr().err


def test_a_peer_that_does_not_start_counts_as_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Files that are there, but do not run, are said to be of no use."""
    packages = tmp_path / "python" / "lib" / "python3.11" / "site-packages"
    (packages / "apache_burr-0.43.0.dist-info").mkdir(parents=True)
    without = [f"--without={peer.name}" for peer in PEERS if peer.name != "burr"]
    assert bench(["compare", f"--folder={tmp_path}", *without]) == 2
    assert "burr: cannot be started" in capsys.readouterr().err


def test_an_unknown_peer_cannot_be_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    """A slip of the pen would otherwise measure more than was meant."""
    assert bench(["compare", "--without", "bur"]) == 2
    assert "no peer is called 'bur'" in capsys.readouterr().err


def test_ours_and_the_baselines_are_measured_for_real(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the foreign peers left out, three programs store both kinds of run."""
    file = tmp_path / "figures.json"
    kinds = [
        Kind(name=kind.name, charts=kind.charts, values=kind.values, steps=2)
        for kind in compare.KINDS
    ]
    code = compare.main(
        Folder(path=tmp_path / "none"),
        without=[peer.name for peer in PEERS if peer.module != "stdlib"],
        rounds=1,
        kinds=kinds,
        json_file=file,
        markdown=True,
    )
    assert code == 0
    said = capsys.readouterr().out
    assert said.startswith("measured on: ")
    assert said.count("| ours |") == 2
    written = json.loads(file.read_text(encoding="utf-8"))
    assert list(written["runs"]) == ["1 KB", "100 KB"]
    names = [line["name"] for line in written["runs"]["1 KB"]]
    assert names == ["raw upsert", "ours", "sqlite3 + json"]
    assert written["versions"]["ours"].keys() >= {"machine-snapshots", "python-statemachine"}
