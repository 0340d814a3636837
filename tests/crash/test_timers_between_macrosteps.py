"""Timers that are set and cancelled between two macrosteps, by a process that is killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

from snapshots import open_store

KEPT = 20
"""How many timers the process leaves set: for each one more it cancels the oldest."""
SETTER = f"""
import sys
from machines import open_run
from snapshots import open_store
from tests.host.charts import Reminder

def say(sign, number):
    sys.stdout.write(f"{{sign}}{{number}}\\n")
    sys.stdout.flush()

number = int(sys.argv[2])
with open_store(sys.argv[1]) as store, open_run(store, Reminder, "a") as chart:
    while True:
        number += 1
        chart.send("ring", delay=3_600_000, send_id=f"n{{number}}")
        say("+", number)
        if number > {KEPT}:
            chart.cancel_event(f"n{{number - {KEPT}}}")
            say("-", number - {KEPT})
"""


def told_by_a_killed_process(path: Path, number: int, lines: int) -> list[str]:
    """Have a process set timers from a number on; kill it behind so many lines; return all."""
    words = (sys.executable, "-c", SETTER, str(path), str(number))
    folder = Path(__file__).parents[2]
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8", cwd=folder) as process:
        assert process.stdout is not None
        told = [process.stdout.readline() for _ in range(lines)]
        process.kill()
        told += process.stdout.readlines()
    return [line for line in told if line.endswith("\n")]


def timers_of(path: Path) -> set[int]:
    """Return the numbers of the timers that the run's row holds."""
    with open_store(path) as store:
        found = json.loads(store.load("a").blob)["root"]["timers"]
    return {int(timer["send_id"].removeprefix("n")) for timer in found}


def test_a_kill_leaves_each_timer_as_the_caller_was_told(tmp_path: Path) -> None:
    """Eight processes, one after the other: what returned is on disk, and at most the next call."""
    path, chance, number = tmp_path / "state.db", random.Random(3), 0
    kept: set[int] = set()
    for _ in range(8):
        told = told_by_a_killed_process(path, number, chance.randrange(20, 200))
        for line in told:
            (kept.add if line[0] == "+" else kept.discard)(int(line[1:]))
        found = timers_of(path)
        last = max(kept)
        under_way = {last + 1, last - KEPT}
        assert found - under_way == kept - under_way
        assert len(found ^ kept) <= 1
        number, kept = max(found), found
    assert number > 8 * KEPT // 2
