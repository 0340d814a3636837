"""The way into a host's mailbox for tests: what another process would hand in."""

from __future__ import annotations

import json
from contextlib import ExitStack
from functools import cached_property
from typing import Any, Self

from machines import Host
from snapshots import Mailbox, MailboxEntry
from tests.host.world import World, until


class Letterbox:
    """Hands in through a connection of its own, opened when it is first used; `with` closes it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    @cached_property
    def mailbox(self) -> Mailbox:
        """The mailbox of the world's file."""
        store = self._opened.enter_context(self.world.opened(read_only=False))
        return Mailbox(store, clock=self.world.clock)

    def put(self, kind: str, run: str, delivery: str | None = None, **content: Any) -> int:
        """Hand in an entry and return its number."""
        return self.put_bytes(kind, run, json.dumps(content).encode(), delivery)

    def put_bytes(self, kind: str, run: str, data: bytes, delivery: str | None = None) -> int:
        """Hand in an entry with any content, as a program of somebody else's might."""
        return self.mailbox.put(run, kind, data, delivery)

    def send(self, run: str, event: str, delivery: str | None = None, **data: Any) -> int:
        """Hand in an event for a run."""
        return self.put("send", run, delivery, event=event, data=data)

    def answer(
        self, run: str, gate: str, event: str, delivery: str | None = None, **data: Any
    ) -> int:
        """Hand in an answer to a gate of a run."""
        return self.put("answer", run, delivery, gate=gate, event=event, data=data)

    def entry(self, number: int) -> MailboxEntry:
        """Return an entry as it is in the file."""
        found = self.mailbox.entry(number)
        assert found is not None
        return found

    def outcome(self, number: int) -> str | None:
        """Return what became of an entry, None while nothing did."""
        return self.entry(number).outcome

    def pending(self) -> list[int]:
        """Return the numbers of what waits."""
        return [found.entry for found in self.mailbox.pending()]

    async def settled(self, *numbers: int) -> list[str]:
        """Wait until entries are settled and return their outcomes."""
        await until(lambda: all(self.outcome(number) for number in numbers), "an outcome")
        return [str(self.outcome(number)) for number in numbers]

    async def refusal(self, number: int) -> str:
        """Wait until an entry is refused and return the reason."""
        (outcome,) = await self.settled(number)
        assert outcome.startswith("refused: "), outcome
        return outcome.removeprefix("refused: ")


async def looked(host: Host, times: int = 2) -> None:
    """Wait until a host has looked into its mailbox so often from now on."""
    looks, mailbox = 0, host._mailbox
    pending = mailbox.pending

    def counted(after: int = 0) -> Any:
        nonlocal looks
        looks += 1
        return pending(after)

    mailbox.pending = counted  # type: ignore[method-assign]  # it is only counted
    try:
        await until(lambda: looks > times, "a look into the mailbox")
    finally:
        del mailbox.pending
