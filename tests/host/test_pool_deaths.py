"""A pool that is killed again and again: what its workers did is read from the outside alone.

    python -m tests.host.test_pool_deaths MOMENT FILE LOG

is the process that dies: a host with a pool of 30 items, whose workers each call outside once. A
repeat of such a call is harm, so a call that a death hid is asked about first. MOMENT is empty, or
says when to die: `3 work` directly behind the third line of the log that begins so, `before 7` or
`after 7` beside the seventh save.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Done, Host, NotDone, effect
from machines.charts.pool import Outcome, pool
from snapshots.testing import ManualClock
from tests.host.life import Log

ROOT = Path(__file__).resolve().parents[2]
ITEMS = [f"item-{number:02}" for number in range(30)]
DEATHS_MAX = 60
CALL_S = 0.01


class MortalLog(Log):
    """A log whose writer dies behind the n-th line that begins so."""

    def __init__(self) -> None:
        super().__init__()
        self.begins, self.left = "", 0

    def say(self, line: str) -> None:
        """Write a line; die directly behind it if that is the moment."""
        super().say(line)
        if self.left and line.startswith(self.begins):
            self.left -= 1
            if not self.left:
                os.kill(os.getpid(), signal.SIGKILL)


LOG = MortalLog()


async def work(model: Any, key: str) -> str:
    """Do what must not be done twice; the outside notes it, and its answer takes a moment."""
    LOG.say(f"work {model.item} {key}")
    await asyncio.sleep(CALL_S)
    return f"{model.item} worked"


def find_work(model: Any, key: str) -> Done | NotDone:
    """Ask the outside whether it was done."""
    found = LOG.lines(f"work {model.item} {key}")
    return Done(f"{model.item} found") if found else NotDone()


class Job(StateChart):
    """Works one item."""

    working = State(initial=True, invoke=effect(work, probe=find_work))
    worked = State(final=True, donedata="say")
    done_invoke_working = working.to(worked, on="keep")

    def keep(self, data: str) -> None:
        LOG.say(f"keeping {self.model.item}")
        self.model.result = data

    def say(self) -> Any:
        return self.model.result


def next_item(active: tuple[str, ...], outcomes: Mapping[str, Outcome]) -> str | None:
    """Return the first item that is neither worked nor done."""
    LOG.say("asked")
    known = {*active, *outcomes}
    return next((item for item in ITEMS if item not in known), None)


class Jobs(pool(Job, next_item, cap=3)):  # type: ignore[misc]  # a class that is made by a function
    """A pool that says where it is."""

    def on_exit_asking(self) -> None:
        LOG.say("answered")

    def collect(self, child: str, data: Any = None, ended: Any = (), error: Any = None) -> None:
        LOG.say(f"collecting {child}")
        super().collect(child, data, ended, error)

    def on_enter_drained(self) -> None:
        LOG.say("draining")


# -- the process that dies ------------------------------------------------------------------------


def die_at_save(host: Any, when: str, number: int) -> None:
    """Have the process killed directly before or after a save, counted from now on."""
    save, saves = host.store.save, 0

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal saves
        saves += 1
        if saves == number and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        saved = save(*args, **options)
        if saves == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return saved

    host.store.save = counted


async def main(moment: str, path: str, log: str) -> None:
    """Live until the moment, or until the pool has ended; say then how it did."""
    LOG.path = log
    first, _, second = moment.partition(" ")
    if first.isdigit():
        LOG.begins, LOG.left = second, int(first)
    async with Host(path, [Jobs], clock=ManualClock(), verify=True) as host:
        if second.isdigit():
            die_at_save(host, first, int(second))
        if not await host.runs():
            await host.start(Jobs, run_id="jobs")
        while (view := await host.read("jobs")).status == "live":  # noqa: ASYNC110 - no event tells
            await asyncio.sleep(CALL_S)
    LOG.say(f"over {view.status} {view.configuration[0]} {len(view.context['outcomes'])}")


# -- the tests ------------------------------------------------------------------------------------


class Lives:
    """Processes on one file, one after the other, and the log that outlives them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "state.db"
        self.log = Log()
        self.log.path = str(folder / "log")

    def start(self, moment: str = "") -> subprocess.Popen[bytes]:
        """Start a life that ends at a moment."""
        arguments = [sys.executable, "-m", "tests.host.test_pool_deaths", moment]
        return subprocess.Popen(
            [*arguments, str(self.path), self.log.path],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def live(self, moment: str = "") -> bool:
        """Live until a moment; return whether it came, or the pool ended before it."""
        with self.start(moment) as process:
            output, _ = process.communicate(timeout=20)
        assert process.returncode in (0, -signal.SIGKILL), output.decode()
        return process.returncode != 0

    def kill_after(self, lines: int) -> bool:
        """Live until the log has grown by so many lines, and be killed from outside then."""
        begun = len(self.log.lines())
        with self.start() as process:
            while len(self.log.lines()) < begun + lines and process.poll() is None:
                time.sleep(0.0005)
            process.kill()
            output, _ = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), output.decode()
        return process.returncode != 0

    def worked(self) -> Counter[str]:
        """Return how often the outside was told to work each item."""
        return Counter(line.split()[1] for line in self.log.lines("work "))

    def check_end(self) -> None:
        """Assert by the log that each item was worked, none twice, and that the pool drained."""
        assert self.worked() == Counter(ITEMS)
        over = self.log.lines("over")
        assert over[-1] == f"over done drained {len(ITEMS)}"


@pytest.fixture
def lives(tmp_path: Path) -> Lives:
    """Return lives on a file that does not exist yet."""
    return Lives(tmp_path)


def test_a_pool_that_is_killed_wherever_something_happens_works_each_item_once(
    lives: Lives,
) -> None:
    """Killed as it asks, as it is answered, as a call is made, taken, collected; and at its end."""
    moments = ["1 asked", "2 answered", "3 work", "1 collecting", "2 keeping", "1 work"]
    moments += ["2 collecting", "4 asked", "2 answered", "5 work", "3 keeping", "1 draining"]
    for moment in moments:
        assert lives.live(moment), f"it did not die at {moment!r}"
    assert not lives.log.lines("over")
    assert not lives.live()
    assert lives.log.lines("draining") == ["draining"] * 2
    lives.check_end()


@pytest.mark.parametrize("seed", range(2))
def test_a_pool_that_is_killed_at_any_save_works_each_item_once(lives: Lives, seed: int) -> None:
    """Directly before or after one save of each life, drawn by lot."""
    chance = random.Random(seed)
    deaths = 0
    while lives.live(f"{chance.choice(('before', 'after'))} {chance.randrange(1, 50)}"):
        deaths += 1
        assert max(lives.worked().values(), default=1) == 1
        assert deaths < DEATHS_MAX
    assert deaths >= 3
    lives.check_end()


def test_a_pool_that_is_killed_from_outside_works_each_item_once(lives: Lives) -> None:
    """At moments that nobody chose, some lines of the log after each start."""
    chance = random.Random(7)
    deaths = sum(lives.kill_after(chance.randrange(1, 25)) for _ in range(5))
    assert deaths >= 2
    lives.live()
    lives.check_end()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
