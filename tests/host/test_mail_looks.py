"""How soon a host sees what is handed in, and how seldom it looks, by a clock that jumps.

The loop's time jumps to whatever is due next, so that a minute is over at once and every wait has
exactly its length.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from machines.limits import MAIL_POLL_MS
from snapshots.testing import ManualClock
from tests.host.charts import Door
from tests.host.letterbox import Letterbox
from tests.host.world import Outside, World

SEEN_WITHIN_S = 0.2
MINUTE_S = 60.0


class JumpingLoop(asyncio.SelectorEventLoop):
    """A loop whose time is over as soon as nobody has anything left to do in it."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]  # asyncio's own
        select = selector.select

        def jump(timeout: float | None = None) -> Any:
            self._now_s += timeout or 0.0
            return select(timeout if timeout is None else 0)

        selector.select = jump

    def time(self) -> float:
        """Return the seconds that have passed in the loop."""
        return self._now_s


def live(what: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a loop of its own."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(what)


def world_in(folder: Path) -> World:
    """Return a world whose file does not exist yet."""
    return World(folder / "state.db", ManualClock(), Outside())


def test_an_entry_is_taken_within_200_ms(tmp_path: Path) -> None:
    """At whatever moment it is accepted, beside two looks or just behind one."""

    async def hand_in() -> None:
        chance, loop = random.Random(1), asyncio.get_running_loop()
        world = world_in(tmp_path)
        async with world.host(Door) as host:
            run = await host.start(Door)
            with Letterbox(world) as box:
                for number in range(40):
                    await asyncio.sleep(chance.random())
                    entry, accepted_s = box.send(run, ("push", "pull")[number % 2]), loop.time()
                    while box.outcome(entry) is None:  # noqa: ASYNC110 - nothing tells of it
                        await asyncio.sleep(0.001)
                    assert loop.time() - accepted_s <= SEEN_WITHIN_S

    live(hand_in())


def test_a_host_with_an_empty_mailbox_looks_seldom(tmp_path: Path) -> None:
    """No busy loop: in a minute it looks as often as its interval fits in, and once more."""

    async def idle() -> None:
        world = world_in(tmp_path)
        async with world.host(Door) as host:
            said: list[str] = []
            host.store.database.trace_statements(lambda sql, _: said.append(sql))
            await asyncio.sleep(MINUTE_S)
            host.store.database.trace_statements(None)
        looks = [sql for sql in said if "mailbox_pending" in sql]
        assert MINUTE_S / SEEN_WITHIN_S <= len(looks) <= MINUTE_S * 1000 / MAIL_POLL_MS + 1

    live(idle())
