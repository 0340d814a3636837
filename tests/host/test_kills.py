"""Real deaths: a process is ended by SIGKILL, and what the next one does is compared with a log."""

from __future__ import annotations

import random

import pytest

from machines import TAKEN
from tests.host.lives import Lives
from tests.host.world import ended, statuses, until


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


async def test_an_idempotent_call_that_a_kill_hid_is_repeated_with_its_key(lives: Lives) -> None:
    """Killed when the second outside had accepted: it sees one key twice, the first no more."""
    lives.die("pay", "mail")
    async with lives.host() as host:
        await ended(host, "a")
    assert lives.log.lines("mail") == ["mail a/mailing.2"] * 2
    assert lives.log.lines("charge") == ["charge a/paying.1"]
    assert lives.world.status("a") == "done"


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
