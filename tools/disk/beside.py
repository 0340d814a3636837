"""What a host is asked for beside its runs, as it is disturbed: done, and seen to be done."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from machines import state_of
from snapshots import open_store
from snapshots.codec import dump
from snapshots.errors import NotFoundError
from snapshots.limits import RETENTION_MS
from snapshots.storage import Scope
from snapshots.storage.carry import CarryState
from snapshots.storage.contracts import Contract
from tools.disk.life import mailbox_of

if TYPE_CHECKING:
    from pathlib import Path

    from tools.disk.scene import Scene

DAY_MS: Final = 86_400_000
GIVEN: Final = {"text": "as it was"}


async def desk(scene: Scene) -> None:
    """Have a run that is idle."""
    scene.run = await scene.host.start(scene.desk.chart, GIVEN, run_id="a")


async def sent(scene: Scene) -> bool:
    """Whether the run has the event."""
    return bool((await scene.view()).context.get("text") == "as it is")


async def _hand_in(scene: Scene) -> None:
    box = mailbox_of(scene.host, scene.clock)
    data = {"event": "note", "data": {"what": "text", "value": "as it is"}}
    scene.entry = box.put("a", "send", dump(data))


async def hand_in_and_wait(scene: Scene) -> None:
    """Hand an event in, and wait until it was taken."""
    await _hand_in(scene)
    await scene.at_rest()


async def handed_in(scene: Scene) -> bool:
    """Whether it was taken, once."""
    entry = mailbox_of(scene.host, scene.clock).entry(scene.entry)
    return entry is not None and entry.outcome == "taken" and await sent(scene)


async def grown_old(scene: Scene) -> None:
    """Have runs and values of long ago."""
    await desk(scene)
    scene.state.put("old", 1, ttl_ms=DAY_MS)
    for number in range(3):
        await scene.host.start(scene.desk.chart, GIVEN, run_id=f"old{number}")
        await scene.host.send(f"old{number}", "finish")
    scene.clock.advance(RETENTION_MS + DAY_MS)


async def sweep(scene: Scene) -> None:
    """Sweep."""
    await scene.host.sweep()


async def swept(scene: Scene) -> bool:
    """Whether all of them are gone, and nothing else."""
    return [header.run_id for header in await scene.host.runs()] == ["a"]


async def put(scene: Scene) -> None:
    """Store a value."""
    scene.state.put("text", "as it is", ttl_ms=DAY_MS)


async def is_put(scene: Scene) -> bool:
    """Whether it is stored."""
    return bool(scene.state.get("text") == "as it is")


async def put_synced(scene: Scene) -> None:
    """Store two values in a synced transaction."""
    with scene.host.store.transaction(sync=True):
        scene.state.put("text", "as it is")
        scene.state.put("more", "of it")


async def keep(scene: Scene) -> None:
    """Have a chart store a value, and change a ledger."""
    await scene.host.send("a", "keep", what="text", value="as it is")


async def is_kept(scene: Scene) -> bool:
    """A chart that catches errors hears of a write that failed; nobody takes it, which is noted."""
    root = scene.host.live("a").tree.root
    assert root is not None, "it is live"
    is_put = state_of(root.chart).get("text") == "as it is"
    stored = scene.stored("a")
    is_told = any("error" in str(line) for line in stored["trail"])
    return is_told or (is_put and stored.get("epochs", {}).get("kept text", 0) > 0)


async def lock(scene: Scene) -> None:
    """Store a value under a lease."""
    scene.clock.advance(61_000)  # the lease of one that could not be released has lapsed
    with scene.state.overlap_lock("nightly", ttl_ms=60_000) as lock:
        assert lock is not None, "nobody holds it"
        scene.state.put("text", "as it is")


def _carry(scene: Scene) -> CarryState:
    return CarryState(
        scene.host.storage.carry, Scope(workflow="tool"), contract=Contract("cursor", 1)
    )


async def save_carry(scene: Scene) -> None:
    """Save carry state for the first time."""
    _carry(scene).save("crawl", {"at": 7}, expected_revision=0)


async def is_carried(scene: Scene) -> bool:
    """Whether it is there, at its first revision."""
    carried = _carry(scene).load("crawl")
    return carried is not None and carried.value == {"at": 7} and carried.revision == 1


async def back_up(scene: Scene) -> None:
    """Copy the file."""
    scene.host.store.backup(_copy(scene))


async def is_backed_up(scene: Scene) -> bool:
    """Whether the copy is whole."""
    with open_store(_copy(scene), clock=scene.clock, read_only=True) as store:
        try:
            return store.load("a").header.status == "live"
        except NotFoundError:
            return False


def _copy(scene: Scene) -> Path:
    return scene.path.with_name("copy.db")
