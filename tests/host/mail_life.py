"""A process with a host whose mailbox is filled by others: what the tests of its deaths start.

    python -m tests.host.mail_life MOMENT FILE LOG

It lives until it is killed, or until its host is fenced. At the line of its log that begins with
MOMENT it kills itself; an empty MOMENT never comes.
"""

from __future__ import annotations

import asyncio
import sys

from statemachine import State, StateChart

from machines import Host, effect, gate
from machines.errors import HostStoppedError
from tests.host import life

LOOK_S = 0.01


class Notes(StateChart):
    """Keeps what it is told, in order, and says so in the middle of its macrostep."""

    only = State(initial=True)
    over = State(final=True)
    note = only.to.itself(internal=True, on="keep")
    finish = only.to(over)

    def keep(self, text: str) -> None:
        self.model.notes = [*getattr(self.model, "notes", []), text]
        life.LOG.say(f"noting {text}")


class Thinks(StateChart):
    """As `Notes`, but each macrostep takes a while, so that more is told meanwhile."""

    only = State(initial=True)
    over = State(final=True)
    note = only.to.itself(internal=True, on="keep")
    finish = only.to(over)

    async def keep(self, text: str) -> None:
        self.model.notes = [*getattr(self.model, "notes", []), text]
        life.LOG.say(f"noting {text}")
        await asyncio.sleep(0.002)


class Asks(StateChart):
    """Waits for an answer, and charges once it is there."""

    asking = State(initial=True, invoke=gate("approve", "reject"))
    paying = State(invoke=effect(life.charge))
    paid = State(final=True)
    rejected = State(final=True)
    approve = asking.to(paying)
    reject = asking.to(rejected)
    done_invoke_paying = paying.to(paid)


CHARTS = (Notes, Thinks, Asks)


async def main() -> None:
    """Live, as the arguments say."""
    life.LOG.die_at, path, life.LOG.path = sys.argv[1:]
    async with Host(path, CHARTS, verify=True) as host:
        life.LOG.say("up")
        try:
            while True:
                await host.runs(limit=1)
                await asyncio.sleep(LOOK_S)
        except HostStoppedError as error:
            life.LOG.say(f"stopped: {error}")


if __name__ == "__main__":
    asyncio.run(main())
