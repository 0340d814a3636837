"""The plain work of a chart that posts a job outside, and follows it over restarts."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from snapshots.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from machines import Context
    from tools.simulation.world import World

STEPS = 3


class Follower:
    """Does the work, and knows outside which jobs there are."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.jobs: dict[str, int] = {}
        """How often each job was posted."""

    async def follow(self, ctx: Context) -> str:
        """Post a job, unless one was admitted before, and follow it to its end."""
        world, rng = self.world, self.rng
        assert ctx.key is not None
        assert ctx.run_id is not None
        own = ctx.key.removeprefix(f"{ctx.run_id}/")
        admission = ctx.admission
        if admission is None:
            # A former owner does not know what its successor has written.
            told = (ctx.run_id, "admissions", own) in world.rules.floors and not world.is_fenced
            world.rules.require("admission", f"{ctx.key} has forgotten its job", holds=not told)
            self.jobs[ctx.key] = self.jobs.get(ctx.key, 0) + 1
            world.note(f"posted {ctx.key}")
            await asyncio.sleep(rng.random() * 0.2)
            admission = await self._write(
                ctx, "admissions", own, 0, lambda: ctx.admissions.record(ctx.key)
            )
        what = f"{ctx.key} was admitted as {admission.handle!r}"
        world.rules.require("admission", what, holds=admission.handle == ctx.key)
        for step in range(admission.offset + 1, STEPS + 1):
            await asyncio.sleep(rng.random() * 0.5)
            advance = partial(ctx.admissions.advance, step)
            await self._write(ctx, "admissions", own, step, advance)
            await self._beside(ctx, step)
        return f"job {ctx.key}"

    async def _beside(self, ctx: Context, step: int) -> None:
        """Write another ledger, or send an event."""
        chosen = self.rng.randrange(4)
        if chosen == 0:
            ctx.send("tick")
        elif chosen == 1:
            number = ctx.epochs.current("talk") + 1
            await self._write(ctx, "epochs", "talk", number, lambda: ctx.epochs.bump("talk"))
        elif chosen == 2:
            source = f"{ctx.key}-{step}"
            await self._write(ctx, "notices", source, 1, lambda: ctx.notices.add(source, "news"))
        else:
            pick = f"{ctx.key}-{step}"
            if all(row.id != pick for row in ctx.picks.outstanding()):
                await self._write(ctx, "", "", 0, lambda: ctx.picks.pick(pick, "chain", ["a", "b"]))

    async def _write(
        self, ctx: Context, ledger: str, key: str, least: int, write: Callable[[], Any]
    ) -> Any:
        """Write a ledger, again while the disk refuses it; it is on disk then."""
        while True:
            try:
                written = write()
            except StorageError:
                await asyncio.sleep(0.1 + self.rng.random() * 0.2)
            else:
                if ledger:
                    assert ctx.run_id is not None
                    self.world.rules.wrote(ctx.run_id, ledger, key, least)
                return written
