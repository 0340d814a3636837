"""Short plays of whole worlds: what holds, what a planted bug breaks, that a seed is a repro."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tools import simulate
from tools.simulation.loop import Crash, Time, VirtualLoop
from tools.simulation.plants import PLANTS, planted
from tools.simulation.staging import play, staged
from tools.simulation.world import World

TOOL = Path(simulate.__file__)
ON_A_DISK = 87
"""A seed whose world has its file on a disk."""


def digest_in_a_process(seed: int, hashes: str) -> str:
    """Return the digest of a seed's trace as the tool prints it, begun with these hashes."""
    told = subprocess.run(
        [sys.executable, str(TOOL), "--seed", str(seed)],
        env={**os.environ, "PYTHONHASHSEED": hashes},
        capture_output=True,
        text=True,
        check=True,
    )
    (found,) = re.findall(r"0 broken, trace (\w+)", told.stdout)
    return str(found)


def test_no_world_breaks_a_promise(capsys: pytest.CaptureFixture[str]) -> None:
    """Some dozens of seeds: hosts die, saves fail, and nothing is lost, repeated or stuck."""
    assert simulate.main(["--seeds", "40", "--jobs", "1"]) == 0
    line = capsys.readouterr().out
    found = re.match(r"40 worlds \((\d+) calls, (\d+) crashes, .*: 0 failures", line)
    assert found is not None, line
    assert int(found[1]) > 40
    assert int(found[2]) > 20


@pytest.mark.parametrize("plant", sorted(PLANTS))
def test_a_planted_bug_is_found(plant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each bug that the tool can plant breaks a promise within few seeds, and is gone after it."""
    assert simulate.main(["--plant", plant, "--seeds", "200", "--jobs", "1"]) == 0
    told = capsys.readouterr().out
    found = re.search(rf"{plant}: found by seed (\d+)", told)
    assert found is not None, told
    with staged():
        assert play(int(found[1])).broken == ()


def test_a_bug_that_no_seed_finds_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code is 1 where a plant, which here does nothing, was not found."""
    monkeypatch.setitem(PLANTS, "forget-timer", lambda _: None)
    assert simulate.main(["--plant", "forget-timer", "--seeds", "2", "--jobs", "1"]) == 1
    assert "forget-timer: not found" in capsys.readouterr().out


def test_a_broken_promise_is_a_failure_that_names_its_seed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The exit code is 1, and what is printed is the command's own option."""
    with planted("skip-save-before-effect"):
        assert simulate.main(["--seeds", "2", "--jobs", "1"]) == 1
    assert re.search(r"^  --seed \d+: intent before call: ", capsys.readouterr().out, re.MULTILINE)


def test_a_seed_plays_the_same_world_twice() -> None:
    """Traces are equal line by line, whatever was played before in the process."""
    seeds = range(60, 72)
    with staged():
        forth = {seed: play(seed).trace for seed in seeds}
        back = {seed: play(seed).trace for seed in reversed(seeds)}
    assert forth == back
    assert len({*forth.values()}) == len(seeds)


def test_a_seed_plays_the_same_world_in_another_process() -> None:
    """What a run over many seeds found is found again by the one seed alone."""
    assert digest_in_a_process(3, "11") == digest_in_a_process(3, "random")


def test_worlds_on_a_disk_are_among_them() -> None:
    """Some seeds have a real file, whose folder is gone afterwards."""
    with staged():
        world = World(ON_A_DISK)
        folder = world._folder
        assert folder is not None
        assert world.play().broken == ()
    assert not Path(folder).exists()


def test_a_loop_ends_before_the_callback_at_which_it_dies() -> None:
    """Nothing of a process runs after that, however much was ready."""
    loop, ran = VirtualLoop(Random(1), Time()), []
    loop.dies_at = 3
    for number in range(5):
        loop.call_soon(ran.append, number)
    with pytest.raises(Crash):
        loop.run_forever()
    loop.bury()
    assert len(ran) == 3


def test_time_passes_where_nothing_else_happens() -> None:
    """An hour's wait takes no time, and the wall clock shows it."""
    time = Time()
    loop, begun_ms = VirtualLoop(Random(1), time), time.now_ms()
    loop.call_later(3_600, loop.stop)
    loop.run_forever()
    loop.bury()
    assert 3_600_000 <= time.now_ms() - begun_ms < 3_601_000
