"""A film that a studio renders: a long job that is posted once and followed through every restart.

What each part shows:

- `rendering` invokes a plain coroutine, not an effect: after a restart it is simply started again.
  It then finds the admission that an earlier life of it recorded, and reads on from the offset
  there instead of posting the job again.
- Between the studio's acceptance and the record of the admission the process may die. The studio
  takes an idempotency key for that: the invocation's own, which is the same after a restart, so
  that whoever asks again gets the same job. Once the admission is on disk nobody asks any more.
- Each scene goes to the chart as an event before the offset moves, and both are in one save. One
  may come again, since it may be read again from the saved offset on; `keep_scene` knows it by its
  number.
- `is_there` is the machine's `reconcile`: the studio is asked whether it still has the job. If not,
  the run is lost.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from functools import partial
from http.client import HTTPException
from typing import TYPE_CHECKING, TypeVar

from statemachine import State, StateChart

from machines.charts.service import RETRY_S, RefusedError, ask, post

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines import Context, Restored
    from snapshots.ledgers.admissions import Admission

T = TypeVar("T")


@dataclass
class Film:
    """Which film it is, which studio renders it, and the scenes that are there."""

    number: str
    service: str
    scenes: list[str] = field(default_factory=list)


async def admit(ctx: Context, film: Film) -> Admission:
    """Return the admission of the film's job: the one on disk, else that of a job posted now."""
    if ctx.admission is not None:
        return ctx.admission
    assert ctx.key is not None, "the work of a run has a key"
    order = partial(post, film.service, "render", key=ctx.key, subject=film.number)
    return ctx.admissions.record(await patiently(order))


async def render(ctx: Context, model: Film) -> int:
    """Follow the film's job to its end; return how many scenes it has."""
    job = await admit(ctx, model)
    service, offset, ended = model.service, job.offset, job.settled
    while not ended:
        read = partial(ask, service, "scenes", job=job.handle, start=offset, term=ctx.term)
        heard = await patiently(read)
        for number, scene in enumerate(heard["scenes"], start=offset):
            ctx.send("scene", number=number, text=scene)
        offset, ended = offset + len(heard["scenes"]), heard["ended"]
        ctx.admissions.advance(offset)
        if ended:
            ctx.admissions.settle()
    return offset


async def patiently(call: Callable[[], T]) -> T:
    """Make a call that may be made again until it is answered. Raises RefusedError."""
    while True:
        try:
            return await asyncio.to_thread(call)
        except (OSError, HTTPException):
            await asyncio.sleep(RETRY_S)


def is_there(run: Restored) -> bool:
    """Whether the studio still has the run's job; True if none was posted yet, or it is over."""
    jobs = run.value.get("admissions", {}).values()
    try:
        for job in jobs:
            if not job.get("settled"):
                ask(run.context["service"], "job", job=job["handle"])
    except RefusedError:
        return False
    return True


class Rendering(StateChart[Film]):
    """One film, from its order to its last scene."""

    rendering = State(initial=True, invoke=render)
    rendered = State(final=True)
    abandoned = State(final=True)

    scene = rendering.to(None, on="keep_scene")
    done_invoke_rendering = rendering.to(rendered)
    error_execution = rendering.to(abandoned)

    def keep_scene(self, number: int, text: str) -> None:
        """Keep a scene, unless it is there already."""
        if number == len(self.model.scenes):
            self.model.scenes.append(text)
