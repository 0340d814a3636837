"""The outside of a world: what really happened there, whoever remembers it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machines import Done, NotDone, Unknown

if TYPE_CHECKING:
    from random import Random

    from tools.simulation.world import World


class RefusedError(Exception):
    """The other side said no: nothing happened."""


class NotReachedError(Exception):
    """The call did not arrive: nothing happened."""


class LostAnswerError(Exception):
    """The call arrived, and its answer did not."""


class FormerOwnerError(Exception):
    """The other side knows a later owner of the run, and refused."""


@dataclass(slots=True)
class Account:
    """What the outside knows of one key."""

    calls: int = 0
    happened: int = 0
    permitted: int = 1
    """How often a call that may not be repeated could have left by now."""
    idempotent: bool = False
    answer: str = ""
    refused: int = 0
    """How often it was refused for good."""
    last_term: int = 0


@dataclass(slots=True)
class Outside:
    """Services: each call is told how to end by the seed, at the moment at which it arrives."""

    rng: Random
    world: World
    accounts: dict[str, Account] = field(default_factory=dict)
    posts: dict[str, list[int]] = field(default_factory=dict)
    """Handles of the jobs that were posted, by what posted them."""

    def arrive(self, name: str, ctx: Any, *, idempotent: bool, blocking: bool) -> str:
        """Take a call, and return what shall become of it; raises where it is at fault."""
        world, key = self.world, ctx.key
        account = self.accounts.setdefault(key, Account(idempotent=idempotent))
        if ctx.term < world.term:
            # It waited in a thread of a process that was frozen: only we can refuse it.
            world.note(f"{name} of a former owner: {key}")
            if not blocking:
                world.rules.broke("fenced", f"a fenced host called {key}")
            raise FormerOwnerError
        account.calls += 1
        fate = self.rng.choices(
            ("done", "refused", "not reached", "lost", "silent"), (12, 1, 2, 2, 1)
        )[0]
        world.note(f"{name} {key} attempt {ctx.attempt}: {fate}")
        world.rules.called(key, account, ctx, blocking=blocking)
        if account.happened and idempotent:
            return "done"
        if fate in ("done", "lost", "silent"):
            account.happened += 1
            account.answer = f"{name} {key}"
        elif fate == "not reached":
            account.permitted += 1
        else:
            account.refused += 1
        return fate

    def answer(self, key: str, fate: str) -> str:
        """Return what a call is answered, or raise."""
        if fate == "refused":
            raise RefusedError(key)
        if fate == "not reached":
            raise NotReachedError(key)
        if fate == "lost":
            raise LostAnswerError(key)
        return self.accounts[key].answer

    async def serve(self, name: str, ctx: Any, *, idempotent: bool) -> str:
        """Serve a call that is awaited."""
        fate = self.arrive(name, ctx, idempotent=idempotent, blocking=False)
        await asyncio.sleep(60.0 if fate == "silent" else self.rng.random() * 0.8)
        return self.answer(ctx.key, fate)

    def serve_blocking(self, name: str, ctx: Any, *, idempotent: bool) -> str:
        """Serve a call that a thread waits for."""
        fate = self.arrive(name, ctx, idempotent=idempotent, blocking=True)
        return self.answer(ctx.key, "lost" if fate == "silent" else fate)

    async def probe(self, key: str) -> Done | NotDone | Unknown:
        """Say what became of a call."""
        account = self.accounts.get(key, Account())
        await asyncio.sleep(self.rng.random() * 0.3)
        if self.rng.random() < 0.2:
            self.world.note(f"probe {key}: cannot tell")
            return Unknown()
        self.world.note(f"probe {key}: happened {account.happened}")
        if account.happened:
            return Done(account.answer)
        account.permitted += 1
        return NotDone()

    def has_happened(self, key: str) -> bool:
        """Say whether a call had its effect."""
        return key in self.accounts and self.accounts[key].happened > 0

    def permit(self, key: str) -> None:
        """Note that a person said that a call may leave again."""
        self.accounts.setdefault(key, Account()).permitted += 1
