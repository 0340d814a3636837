"""Forks killed at any moment: each is whole or not there, and what was told is there."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from snapshots import open_store
from tests.unit.snapshots.inspection.stored_runs import RUN, add, encoded, run_value

ROOT = Path(__file__).resolve().parents[2]

# Forks one run again and again, and says of each when it begins and when it is done.
FORKS = """
import itertools, sys
from snapshots.inspection.copies.forking import fork
for number in itertools.count():
    print("begun", number, flush=True)
    fork(sys.argv[1], sys.argv[2], f"{sys.argv[3]}/fork-{number}.db")
    print("done", number, flush=True)
"""


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_leaves_whole_forks_or_none(tmp_path: Path, seed: int) -> None:
    """Whoever reads its words knows which are there; the one under way is whole or not there."""
    dice, path, folder = random.Random(seed), tmp_path / "state.db", tmp_path / "forks"
    folder.mkdir()
    with open_store(path) as store:
        add(store, blob=encoded(run_value(input={"pad": "x" * 500_000})))
        before = store.load(RUN)
    with subprocess.Popen(
        [sys.executable, "-c", FORKS, str(path), RUN, str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        heard = [process.stdout.readline() for _ in range(3)]
        time.sleep(dice.uniform(0.0, 0.1))  # the moment of the kill
        process.kill()
        heard += process.stdout.readlines()
    heard = [line for line in heard if line.endswith("\n")]  # the last may break off
    done = {int(line.split()[1]) for line in heard if line.startswith("done")}
    begun = {int(line.split()[1]) for line in heard if line.startswith("begun")}
    there = {int(each.stem.removeprefix("fork-")) for each in folder.glob("fork-*.db")}
    assert done
    assert done <= there <= begun
    assert len(begun - done) <= 1
    for number in there:
        with open_store(folder / f"fork-{number}.db") as store:
            copy = store.load(RUN)
            assert (copy.header.status, copy.header.parked) == ("live", True)
            assert b"nothing is called" in copy.blob
    with open_store(path) as store:
        assert store.load(RUN) == before
