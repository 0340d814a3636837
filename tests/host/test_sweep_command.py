"""The command `snapshots sweep` beside a real host: it is named, and left to itself."""

from __future__ import annotations

import os

import pytest

from machines.lock import FileLock, holder_name
from snapshots.database.holding import holder_of
from snapshots.inspection.cli import run
from snapshots.limits import RETENTION_MS
from tests.host.charts import Door
from tests.host.world import World


async def test_a_host_that_holds_the_file_is_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """It sweeps by itself; after it has gone, anybody may."""
    async with world.host(Door) as host:
        done = await host.start(Door)
        await host.send(done, "remove")
        world.clock.advance(RETENTION_MS + 1)
        assert holder_of(world.path) == holder_name()
        assert run(["sweep", str(world.path)]) == 1
        err = capsys.readouterr().err
        assert f"refused: process {os.getpid()} on" in err
        assert world.ids() == [done]
    assert holder_of(world.path) is None


def test_to_ask_for_the_holder_takes_nothing(world: World) -> None:
    """A lock can be had right after, exclusive or shared, and asking creates no file."""
    assert holder_of(world.path) is None
    assert not world.path.with_name("state.db.lock").exists()
    with FileLock(str(world.path)).take():
        assert holder_of(world.path) == holder_name()
    with FileLock(str(world.path)).take(shared=True):
        assert holder_of(world.path) is None
    assert holder_of(world.path) is None
    with FileLock(str(world.path)).take() as lock:
        assert lock.held
