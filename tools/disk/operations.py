"""Each thing that a host can be asked, as it is disturbed: arranged, done, and seen to be done."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from snapshots import open_store
from snapshots.limits import RETENTION_MS
from tools.disk import beside

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tools.disk.scene import Scene

    Act = Callable[[Scene], Awaitable[Any]]

NOTES: Final = 12
"""Enough saves for several checkpoints."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`arrange` is done before the disk fails, `act` while it does, and again if it raised.

    `holds` says, of a host that is at rest, whether the whole came about. `calls` is how often
    each effect is called in the end, however often the disk failed.
    """

    name: str
    act: Act
    holds: Act
    arrange: Act | None = None
    calls: dict[str, int] = field(default_factory=dict)
    opens: bool = False
    """Whether `act` itself opens the host."""
    rests: bool = True
    """Whether the runs are at rest before it: not where something is under way, or in doubt."""
    is_kept: bool = False
    """Whether what raises is kept all the same, and saved again without being asked."""
    is_one_write: bool = True
    """Whether nothing at all was written if it raises."""


async def _context(scene: Scene, **expected: Any) -> bool:
    found = (await scene.view()).context
    return all(found.get(name) == value for name, value in expected.items())


async def _is_in(scene: Scene, state: str) -> bool:
    return bool((await scene.view()).configuration == (state,))


# -- runs -----------------------------------------------------------------------------------------


async def _start(scene: Scene) -> None:
    scene.run = "b"
    await scene.host.start(scene.desk.chart, beside.GIVEN, run_id="b")


async def _started(scene: Scene) -> bool:
    return await _is_in(scene, "idle") and await _context(scene, **beside.GIVEN)


async def _send(scene: Scene) -> None:
    await scene.host.send("a", "note", what="text", value="as it is")


async def _deliver(scene: Scene) -> None:
    await scene.host.send("a", "note", what="text", value="as it is", delivery="once")


async def _many(scene: Scene) -> None:
    for number in range(NOTES):
        await scene.host.send("a", "note", what=f"text{number}", value="long " * 80)
        await asyncio.sleep(0.001)  # for the checkpoint thread


async def _all_sent(scene: Scene) -> bool:
    return await _context(scene, **{f"text{number}": "long " * 80 for number in range(NOTES)})


async def _asked(scene: Scene) -> None:
    await beside.desk(scene)
    await scene.host.send("a", "ask")


async def _answer(scene: Scene) -> None:
    await scene.host.answer("a", "review", "approve")


async def _is_idle(scene: Scene) -> bool:
    return await _is_in(scene, "idle")


async def _ring(scene: Scene) -> None:
    scene.clock.advance(700_000)
    scene.host._alarm.ring_due()  # noqa: SLF001 - it would look by itself, in real time
    await scene.host.settled("a")


async def _cancel(scene: Scene) -> None:
    await scene.host.cancel("a", "nobody wants it")


async def _is_cancelled(scene: Scene) -> bool:
    return bool((await scene.view()).status == "cancelled")


async def _finish(scene: Scene) -> None:
    await scene.host.send("a", "finish")


async def _is_done(scene: Scene) -> bool:
    return bool((await scene.view()).status == "done")


async def _lose(scene: Scene) -> None:
    await beside.desk(scene)
    await scene.close()
    with open_store(scene.path, clock=scene.clock) as store:
        store.mark(store.load("a").header, "lost", "its world is gone")
    await scene.open()


async def _revive(scene: Scene) -> None:
    await scene.host.revive("a")


async def _is_live(scene: Scene) -> bool:
    return bool((await scene.view()).status == "live")


async def _floor(scene: Scene) -> None:
    scene.run = await scene.host.start(scene.floor.chart, run_id="a")
    values = {f"value{n:03}": f"{n} as it was" for n in range(120)}
    await scene.host.send("a", "add", values=values)


async def _poke(scene: Scene) -> None:
    await scene.host.send("a", "poke", cell=7, what="value007", value="as it is")
    await scene.host.settled("a")


async def _poked(scene: Scene) -> bool:
    cells = scene.stored("a")["root"]["children"]
    changed = [name for name, cell in cells.items() if cell["context"]["value007"] == "as it is"]
    return len(cells) == 20 and len(changed) == 1


# -- effects and ledgers --------------------------------------------------------------------------


async def _charge(scene: Scene) -> None:
    await scene.host.send("a", "charge_it")
    await scene.host.settled("a")


async def _hold(scene: Scene) -> None:
    """Have a call be under way."""
    await beside.desk(scene)
    scene.outside.held = asyncio.Event()
    await scene.host.send("a", "charge_it")
    await scene.until(lambda: bool(scene.outside.calls), "the call")


async def _release(scene: Scene) -> None:
    assert scene.outside.held is not None
    scene.outside.held.set()
    await scene.host.settled("a")


async def _doubt(scene: Scene) -> None:
    """Have the outcome of a call hidden."""
    await beside.desk(scene)
    scene.errors["charge"] = [OSError("the line is dead")]
    await scene.host.send("a", "charge_it")
    await scene.host.settled("a")


async def _resolve(scene: Scene) -> None:
    await scene.host.resolve("a", "charging.1", done="a receipt")
    await scene.host.settled("a")


async def _follow(scene: Scene) -> None:
    await scene.host.send("a", "follow_it")
    await scene.host.settled("a")


async def _followed(scene: Scene) -> bool:
    """A disturbed change of a ledger fails the work, which the chart hears of."""
    return await _is_in(scene, "idle") or await _is_in(scene, "following")


# -- the host itself ------------------------------------------------------------------------------


async def _open(scene: Scene) -> None:
    if not scene.has_host:
        await scene.open()
    await scene.host.settled("a")


async def _leave_work(scene: Scene) -> None:
    """Leave a file behind in which there is something to do."""
    await scene.open()
    await beside.grown_old(scene)
    scene.clock.advance(-RETENTION_MS - beside.DAY_MS)
    scene.outside.held = asyncio.Event()
    await scene.host.send("a", "ship_it")
    await scene.until(lambda: bool(scene.outside.calls), "the call")
    scene.host._grace_s = 0  # noqa: SLF001 - the call never ends
    await scene.close()
    scene.outside.held = None
    scene.outside.calls.clear()
    scene.clock.advance(RETENTION_MS + beside.DAY_MS)


async def _opened(scene: Scene) -> bool:
    """A run that could not be read is reported, and left for the next boot."""
    return "a" in scene.host.report.unresumed or await _is_idle(scene)


async def _make(scene: Scene) -> None:
    if not scene.has_host:
        await scene.open()
    await _start(scene)


async def _stop(scene: Scene) -> None:
    await scene.close()


async def _stopped(scene: Scene) -> bool:
    return await beside.sent(scene)


async def _sent_before(scene: Scene) -> None:
    await beside.desk(scene)
    await _send(scene)


OPERATIONS: Final = (
    Operation(name="create", act=_make, holds=_started, opens=True, is_one_write=False),
    Operation(
        name="boot",
        arrange=_leave_work,
        act=_open,
        holds=_opened,
        opens=True,
        is_one_write=False,
        calls={"ship": 1},
    ),
    Operation(name="start", act=_start, holds=_started),
    Operation(name="send", arrange=beside.desk, act=_send, holds=beside.sent),
    Operation(name="delivery", arrange=beside.desk, act=_deliver, holds=beside.sent),
    Operation(name="answer", arrange=_asked, act=_answer, holds=_is_idle),
    Operation(name="timer", arrange=_asked, act=_ring, holds=_is_idle),
    Operation(name="cancel", arrange=beside.desk, act=_cancel, holds=_is_cancelled),
    Operation(name="finish", arrange=beside.desk, act=_finish, holds=_is_done),
    Operation(name="revive", arrange=_lose, act=_revive, holds=_is_live),
    Operation(name="child", arrange=_floor, act=_poke, holds=_poked, is_one_write=False),
    Operation(
        name="effect",
        arrange=beside.desk,
        act=_charge,
        holds=_is_idle,
        calls={"charge": 1},
        is_one_write=False,
    ),
    Operation(
        name="outcome",
        arrange=_hold,
        act=_release,
        holds=_is_idle,
        calls={"charge": 1},
        rests=False,
    ),
    Operation(
        name="resolve",
        arrange=_doubt,
        act=_resolve,
        holds=_is_idle,
        calls={"charge": 1},
        rests=False,
        is_kept=True,
        is_one_write=False,
    ),
    Operation(
        name="ledgers", arrange=beside.desk, act=_follow, holds=_followed, is_one_write=False
    ),
    Operation(
        name="mail",
        arrange=beside.desk,
        act=beside.hand_in_and_wait,
        holds=beside.handed_in,
        is_one_write=False,
    ),
    Operation(
        name="sweep",
        arrange=beside.grown_old,
        act=beside.sweep,
        holds=beside.swept,
        is_one_write=False,
    ),
    Operation(name="put", arrange=beside.desk, act=beside.put, holds=beside.is_put),
    Operation(name="synced put", arrange=beside.desk, act=beside.put_synced, holds=beside.is_put),
    Operation(
        name="put in a macrostep",
        arrange=beside.desk,
        act=beside.keep,
        holds=beside.is_kept,
        is_one_write=False,
    ),
    Operation(
        name="lock", arrange=beside.desk, act=beside.lock, holds=beside.is_put, is_one_write=False
    ),
    Operation(name="carry", arrange=beside.desk, act=beside.save_carry, holds=beside.is_carried),
    Operation(name="backup", arrange=beside.desk, act=beside.back_up, holds=beside.is_backed_up),
    Operation(
        name="checkpoint", arrange=beside.desk, act=_many, holds=_all_sent, is_one_write=False
    ),
    Operation(name="stop", arrange=_sent_before, act=_stop, holds=_stopped, is_one_write=False),
)
