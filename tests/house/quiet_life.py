"""A run's whole life in a process of its own, in which every connection is heard.

Started by `test_network` behind a hook that hears what Python is asked to connect to; what a driver
connects to in C is read from the sockets that the process has open at each stage.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from statemachine import State, StateChart

from machines import Host, effect, gate
from machines.carry import storage_effect
from machines.state import state_of
from snapshots import Mailbox, open_store
from snapshots.errors import RunNotFoundError
from snapshots.limits import RETENTION_MS
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.testing import ManualClock
from tests.host.world import until

DESCRIPTORS = Path("/proc/self/fd")
NOSY = "nosy"


def charge(model: Any) -> str:
    """Call nobody; but a nosy one tries to, and takes no for an answer."""
    if model.name == NOSY:
        try:
            socket.getaddrinfo("example.org", 443)
        except PermissionError:
            return "refused"
    return "charged"


def note(ctx: Any) -> None:
    """Write beside the run."""
    state_of(ctx.machine).put("noted", ctx.run_id)


class Order(StateChart):
    """Is charged and noted, and waits for a person."""

    cart = State(initial=True)
    paying = State(invoke=effect(charge))
    noting = State(invoke=storage_effect(note, kind="note"))
    review = State(invoke=gate("approve"))
    shipped = State(final=True)
    pay = cart.to(paying)
    done_invoke_paying = paying.to(noting)
    done_invoke_noting = noting.to(review)
    approve = review.to(shipped)


def waiting(mailbox: Mailbox) -> set[int]:
    """Return the numbers of what no host has taken yet."""
    return {pending.entry for pending in mailbox.pending()}


def peers() -> set[str]:
    """Return whom the sockets of this process are connected to, pairs of its own apart."""
    found = set()
    for entry in os.listdir(DESCRIPTORS):  # noqa: PTH208 - iterdir() keeps a descriptor of its own
        try:
            with socket.socket(fileno=os.dup(int(entry))) as opened:
                found.add(repr(opened.getpeername()))
        except OSError:  # no socket, not connected, or closed since it was listed
            continue
    return found - {repr("")}


class Life:
    """What happened in a life, and who was connected to meanwhile."""

    def __init__(self, place: str, name: str) -> None:
        self.place = place
        self.name = name
        self.clock = ManualClock()
        self.stages: list[str] = []
        self.peers: set[str] = set()

    def passed(self, stage: str) -> None:
        """Note a stage, and look around."""
        self.stages.append(stage)
        self.peers |= peers()

    async def lived(self) -> None:
        """Live from the start to the sweep, over two restarts."""
        with ExitStack() as opened:
            storage = opened.enter_context(open_storage(self.place)) if self.place else None
            options: dict[str, Any] = {
                "machines": [Order],
                "clock": self.clock,
                "storage": storage,
                "approvals": Scope(workflow="orders"),
            }
            async with Host("state.db", **options) as host:
                run = await host.start(Order, {"name": self.name})
                self.passed("start")
                await self.mailed(run, "pay")
                await host.settled(run)
                self.passed((await host.read(run)).configuration[-1])
            async with Host("state.db", **options) as host:
                self.passed(f"restart: {len(host.report.resumed)} resumed")
                await host.answer(run, "review", "approve")
                self.passed((await host.read(run)).status)
            self.clock.advance(RETENTION_MS + 1)
            async with Host("state.db", **options) as host:
                await host.sweep()
                try:
                    await host.read(run)
                except RunNotFoundError:
                    self.passed("swept")

    async def mailed(self, run: str, event: str) -> None:
        """Hand an event in as another process would, and wait until it is taken."""
        with open_store("state.db", clock=self.clock) as store:
            mailbox = Mailbox(store, clock=self.clock)
            content = json.dumps({"event": event, "data": {}}).encode()
            number = mailbox.put(run, "send", content)
            await until(lambda: number not in waiting(mailbox), "an outcome")
            entry = mailbox.entry(number)
        assert entry is not None, "it is kept for a day"
        self.passed(f"mailbox: {entry.outcome}")


def main() -> None:
    """Live as the command line says, and print what happened."""
    life = Life(place=sys.argv[1], name=sys.argv[2])
    asyncio.run(life.lived())
    told = {
        "stages": life.stages,
        "peers": sorted(life.peers),
        "drivers": sorted({"psycopg", "psycopg_pool"} & set(sys.modules)),
    }
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main()
