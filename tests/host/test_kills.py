"""Real deaths: a process is ended by SIGKILL, and what the next one does is compared with a log."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from machines import TAKEN, Host
from tests.host import life
from tests.host.world import World, ended, settled, statuses, until

ROOT = Path(__file__).resolve().parents[2]


class Lives:
    """Processes on one file, one after the other, and the log that outlives them."""

    def __init__(self, world: World, log: Path) -> None:
        self.world = world
        self.log = life.Log()
        self.log.path = str(log)

    def _start(self, scenario: str) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-m", "tests.host.life", scenario]
        return subprocess.Popen(
            [*arguments, str(self.world.path), self.log.path],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def die(self, scenario: str, at: str) -> None:
        """Live until the line that the moment is named by, and be killed there."""
        with self._start(f"{scenario}@{at}") as process:
            output, _ = process.communicate(timeout=20)
        assert process.returncode == -signal.SIGKILL, output.decode()

    def live(self, scenario: str) -> None:
        """Live to a good end."""
        with self._start(scenario) as process:
            output, _ = process.communicate(timeout=20)
        assert process.returncode == 0, output.decode()

    def kill_after(self, scenario: str, lines: int) -> None:
        """Live until the log has grown by so many lines, and be killed at some moment then."""
        begun = len(self.log.lines())
        with self._start(scenario) as process:
            while len(self.log.lines()) < begun + lines:
                assert process.poll() is None, process.communicate()[0].decode()
                time.sleep(0.001)
            process.kill()
            process.communicate()

    def host(self) -> Host:
        """Return the next host, in this process."""
        return self.world.host(*life.CHARTS)


@pytest.fixture
def lives(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lives:
    """Return lives on the world's file; what its next hosts do is in the same log."""
    made = Lives(world, tmp_path / "log")
    monkeypatch.setattr(life, "LOG", made.log)
    return made


async def test_a_start_that_was_acknowledged_is_there(lives: Lives) -> None:
    """Killed directly after `start` returned."""
    lives.die("acknowledged", "started")
    async with lives.host() as host:
        assert host.report.resumed == ["a"]
        assert await host.send("a", "count", n=5) == 5


async def test_a_start_that_was_not_acknowledged_left_nothing(lives: Lives) -> None:
    """Killed inside the first macrostep: no row, and the id is free."""
    lives.die("begin", "beginning")
    async with lives.host() as host:
        assert lives.world.ids() == []
        assert await host.start(life.Begins, run_id="a") == "a"


@pytest.mark.parametrize("n", [1, 2, 3])
async def test_no_acknowledged_event_is_lost(lives: Lives, n: int) -> None:
    """Killed after the n-th acknowledgement: all of them are in the row, and are TAKEN again."""
    lives.die("acknowledged", f"acknowledged {n}")
    async with lives.host() as host:
        view = await host.read("a")
        assert view.context == {"total": sum(range(1, n + 1))}
        for repeat in range(1, n + 1):
            assert await host.send("a", "count", n=repeat, delivery=f"d{repeat}") is TAKEN


async def test_half_a_macrostep_is_none(lives: Lives) -> None:
    """Killed inside a callback that had changed the model: the row is the one before."""
    lives.die("acknowledged", "adding 3")
    async with lives.host() as host:
        assert (await host.read("a")).context == {"total": 3}
        assert await host.send("a", "count", n=3, delivery="d3") == 6


async def test_an_intended_call_is_made_once_after_a_kill(lives: Lives) -> None:
    """Killed when the intent was on disk and the call had not left."""
    lives.die("pay", "sent pay")
    assert lives.log.lines("charge") == []
    assert lives.world.effects("a") == ["intent"]
    async with lives.host() as host:
        await ended(host, "a")
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.world.status("a") == "done"


async def test_a_call_that_a_kill_hid_is_in_doubt_and_not_repeated(lives: Lives) -> None:
    """Killed when the outside had accepted: the next hosts do not call, a person decides."""
    lives.die("pay", "charge")
    assert lives.world.effects("a") == ["calling"]
    for _ in range(2):
        async with lives.host() as host:
            await until(lambda h=host: statuses(h, "a") == ["unknown"])
            await settled()
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    async with lives.host() as host:
        await host.resolve("a", "paying.1", done="it was in the bank's book")
        await ended(host, "a")
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.world.blob("a")["root"]["context"]["receipt"] == "it was in the bank's book"


async def test_an_idempotent_call_that_a_kill_hid_is_repeated_with_its_key(lives: Lives) -> None:
    """Killed when the second outside had accepted: it sees one key twice, the first no more."""
    lives.die("pay", "mail")
    async with lives.host() as host:
        await ended(host, "a")
    assert lives.log.lines("mail") == ["mail a/mailing.2"] * 2
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.world.status("a") == "done"


async def test_an_outcome_that_was_saved_leads_on_after_a_kill(lives: Lives) -> None:
    """Killed inside the macrostep that reacts to it: it is reacted to again, not called again."""
    lives.die("pay", "entering mailing")
    assert lives.world.effects("a") == ["done"]
    assert lives.world.configuration("a") == ["paying"]
    async with lives.host() as host:
        await ended(host, "a")
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.world.blob("a")["root"]["context"]["receipt"] == "receipt"


async def test_a_timer_survives_a_kill_and_fires_once(lives: Lives) -> None:
    """Killed with a timer set: its due time stays, and the event comes once."""
    lives.die("wait", "started")
    due_ms = lives.world.blob("a")["timers"][0]["due"]
    assert due_ms == lives.world.clock.now_ms() + 60_000
    lives.world.clock.advance(60_000)
    async with lives.host() as host:
        await ended(host, "a")
    async with lives.host():
        await settled()
    assert lives.log.lines("expired") == ["expired"]


async def test_a_finished_child_is_reacted_to_after_a_kill(lives: Lives) -> None:
    """Killed inside the parent's reaction: the child is not run again, the parent moves on."""
    lives.die("nest", "reacting")
    root = lives.world.blob("a")["root"]
    assert root["configuration"] == ["holding"]
    assert [item["event"] for item in root["queue"]] == ["done.invoke.holding.1"]
    async with lives.host() as host:
        await until(lambda: lives.world.configuration("a") == ["held"])
        await host.send("a", "finish")
    assert lives.log.lines("reacting") == ["reacting"] * 2
    assert lives.world.status("a") == "done"


async def test_of_two_effects_each_is_judged_by_its_own_row_after_a_kill(lives: Lives) -> None:
    """Killed inside the first call of two: that one is in doubt, the other is called, once."""
    lives.die("twice", "charge")
    assert lives.world.effects("a") == ["calling", "intent"]
    async with lives.host() as host:
        await until(lambda: statuses(host, "a") == ["unknown", "done"])
        await settled()
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.log.lines("mail") == ["mail a/mailing.2"]


async def test_events_that_were_accepted_run_once_after_a_kill(lives: Lives) -> None:
    """Killed in the macrostep behind a save that held the rest: each note is kept once."""
    lives.die("talk", "noting b")
    async with lives.host() as host:
        await until(lambda: len(lives.world.blob("a")["root"]["context"]["notes"]) == 3)
        await settled()
        assert (await host.read("a")).context == {"notes": ["a", "b", "c"]}
    assert lives.log.lines("noting") == ["noting a", "noting b", "noting b", "noting c"]


async def test_a_stop_in_time_leaves_no_doubt(lives: Lives) -> None:
    """Not killed but stopped: what was under way is on record when the process ends."""
    lives.live("stop")
    assert "calling" not in lives.world.effects("a")
    assert "unknown" not in lives.world.effects("a")
    async with lives.host() as host:
        await ended(host, "a")
    assert lives.log.lines("charge") == ["charge a/paying.1"]


@pytest.mark.parametrize("seed", range(2))
async def test_random_kills_lose_nothing_and_repeat_nothing(lives: Lives, seed: int) -> None:
    """Several deaths in the middle of work: each acknowledgement holds, no charge is twice."""
    chance = random.Random(seed)
    for _ in range(4):
        lives.kill_after("busy", chance.randrange(5, 60))
    log = lives.log
    charges = log.lines("charge")
    assert len(charges) == len(set(charges))
    async with lives.host() as host:
        assert host.report.unresumed == {}
        await until(
            lambda: all(statuses(host, run)[0] == "unknown" for run in list(host._resident))
        )
        views = {header.run_id: await host.read(header.run_id) for header in await host.runs()}
    assert {line.split()[1] for line in log.lines("started")} <= views.keys()
    for line in log.lines("counted"):
        _, run, n = line.split()
        assert views[run].context["total"] >= sum(range(1, int(n) + 1))
    for line in log.lines("paid"):
        assert views[line.split()[1]].configuration != ("idle",)
    assert len(log.lines("charge")) == len(set(log.lines("charge")))
    for run, view in views.items():
        if view.machine == "Pays" and view.status == "done":
            assert f"charge {run}/paying.1" in log.lines("charge")
