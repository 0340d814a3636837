"""Work that blocks in a thread when its host stops: it is told, waited for, named, and cut off."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Context, effect
from tests.host.world import Outside, World, until

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 20

PROCESS = """
import asyncio, logging, sys, threading
from statemachine import State, StateChart
from machines import Host, effect

logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stdout)
both = threading.Barrier(3)

def hang(key=""):
    both.wait()
    threading.Event().wait()

class Paying(StateChart):
    paying = State(initial=True, invoke=effect(hang))
    over = State(final=True)
    done_invoke_paying = paying.to(over)

class Watching(StateChart):
    watching = State(initial=True, invoke=hang)
    over = State(final=True)
    done_invoke_watching = watching.to(over)

async def main():
    async with Host(sys.argv[1], machines=[Paying, Watching], grace_s=0.01) as host:
        await host.start(Paying, run_id="pay")
        await host.start(Watching, run_id="watch")
        await asyncio.to_thread(both.wait)

asyncio.run(main())
print("stopped")
"""


def test_a_process_ends_though_calls_of_its_host_hang(world: World) -> None:
    """They are named by run and call; what became of the effect is as after a crash."""
    arguments = [sys.executable, "-c", PROCESS, str(world.path)]
    done = subprocess.run(
        arguments, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    told = "host.left calls='pay/paying.1, watch/watching.1'"
    assert done.stdout.splitlines() == [told, "stopped"]
    assert world.effects("pay") == ["calling"]
    assert world.status("watch") == "live"


async def test_work_that_hears_of_the_end_may_clean_up_before_the_host_has_stopped(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """A plain call that looks at `ctx.cancelled` is waited for; then nothing is left to name."""
    begun, swept = threading.Event(), threading.Event()
    ended: list[bool] = []

    def watch(ctx: Context) -> None:
        begun.set()
        ctx.cancelled.wait()
        swept.wait(PATIENCE_S)
        ended.append(True)

    class Watches(StateChart[Any]):
        watching = State(initial=True, invoke=watch)
        over = State(final=True)
        stop = watching.to(over)

    with caplog.at_level(logging.WARNING, "machines"):
        async with world.host(Watches) as host:
            await host.start(Watches)
            await until(begun.is_set)
            asyncio.get_running_loop().call_later(0.02, swept.set)
        assert ended == [True]
    assert "host.left" not in caplog.text


async def test_who_leaves_a_host_twice_waits_once(world: World, outside: Outside) -> None:
    """What hangs is named once, and its thread ends as soon as it can."""
    begun, release = threading.Event(), threading.Event()
    heard: list[str] = []

    def hang(key: str) -> None:
        begun.set()
        release.wait(PATIENCE_S)

    class Calls(StateChart[Any]):
        calling = State(initial=True, invoke=effect(hang))
        over = State(final=True)
        done_invoke_calling = calling.to(over)

    host = world.host(Calls, grace_s=0)
    host.subscribe(lambda one: heard.append(one.data["calls"]), kinds="host.left")
    async with host:
        await host.start(Calls, run_id="r")
        await until(begun.is_set)
        await host.stop()
        await host.stop()
    threads = [*host._shop.hands._effects._threads]
    release.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    await until(lambda: heard != [])
    assert heard == ["r/calling.1"]
