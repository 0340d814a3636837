"""A process with a host of the examples that dies by SIGKILL at a moment it was told.

    python -m tests.host.state_life SCENARIO FILE SERVICE MOMENT

A moment is `<state>:n`, directly behind the n-th save in which that state of a root chart is
active; `write:n`, directly behind the n-th write to the storage beside the runs; or `never`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from machines import Host, Machine
from machines.charts import etl, incident, poll, sentinel, triage
from machines.run.run import Run
from snapshots.errors import RunExistsError
from tests.host.world import until

MACHINES = (
    Machine(incident.Incident, name="incident"),
    Machine(triage.Triage, name="triage", failed=("rejected", "duplicate")),
    Machine(triage.Followup, name="followup"),
    Machine(etl.Etl, name="etl", failed=("broken",)),
    Machine(poll.Poll, name="poll"),
    Machine(sentinel.Watch, name="levels", failed=("refused",)),
)
WRITES = {"keyed": ("put", "put_if_absent", "delete"), "leases": ("acquire", "renew", "release"),
          "carry": ("save", "clear")}  # fmt: skip


class Watched(Host):
    """A host that says what of it has just come to disk: `<state>` for a save, or `write`."""

    def __init__(self, path: str, seen: Callable[[str], None]) -> None:
        super().__init__(path, MACHINES, verify=True, approvals=triage.SCOPE)
        self._seen = seen

    def saved(self, run: Run) -> None:
        super().saved(run)
        root = run.tree.root
        if root is not None and run.tree.running is None:
            for state in root.chart.configuration:
                self._seen(state.id)

    def _furnish(self, storage: Any) -> None:
        super()._furnish(storage)
        for capability, verbs in WRITES.items():
            target = getattr(storage, capability)
            target.transaction = self._telling_of_ends(target.transaction)
            for verb in verbs:
                setattr(target, verb, self._telling(getattr(target, verb)))

    def _telling(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def told(*args: Any, **options: Any) -> Any:
            result = write(*args, **options)
            if not self.store.database.connection.in_transaction:
                self._seen("write")
            return result

        return told

    def _telling_of_ends(self, begin: Callable[..., Any]) -> Callable[..., Any]:
        @contextmanager
        def told(*args: Any) -> Iterator[None]:
            with begin(*args):
                yield
            self._seen("write")

        return told


def dying(moment: str) -> Callable[[str], None]:
    """Return what ends this process, as a power cut would, when a moment has come."""
    what, _, times = moment.partition(":")
    counted: Counter[str] = Counter()

    def seen(happened: str) -> None:
        counted[happened] += 1
        if happened == what and counted[happened] == int(times):
            os.kill(os.getpid(), signal.SIGKILL)

    return seen


async def no_work(host: Host) -> None:
    """Wait until nothing is done by any run."""
    for header in await host.runs("live"):
        with suppress(Exception):
            await host.settled(header.run_id)


async def fire(host: Host, service: str) -> None:
    """Take an alert that fires, twice."""
    alert = {"fingerprint": "disk", "status": "firing", "summary": "full", "service": service}
    for _ in range(2):
        await incident.take_alert(host, alert)
        await no_work(host)


async def resolve(host: Host, service: str) -> None:
    """Take the alert that says it is over."""
    del service
    await incident.take_alert(host, {"fingerprint": "disk", "status": "resolved"})
    await no_work(host)


async def mail(host: Host, service: str) -> None:
    """Take a mail, twice."""
    given = {"id": "m1", "number": "17", "text": "help", "service": service}
    for _ in range(2):
        await triage.take_mail(host, given)
        await no_work(host)
    assert host.approvals is not None
    approvals = host.approvals
    await until(lambda: approvals.find("ticket-17") is not None, "the gate's announcement")


async def wait(host: Host, service: str) -> None:
    """Do what is decided, until every ticket is done."""
    del service
    assert host.approvals is not None
    while True:
        live = {header.machine for header in await host.runs("live")}
        if not live & {"triage", "followup"} and not host.approvals.unsettled():
            return
        await asyncio.sleep(0.01)


async def load(host: Host, service: str) -> None:
    """Load prices until there are no more."""
    for number in range(2):
        with suppress(RunExistsError):
            await host.start("etl", {"market": "xetra", "service": service}, run_id=f"e{number}")
        await no_work(host)


async def look(host: Host, service: str) -> None:
    """Poll until a poll finds nothing."""
    with suppress(RunExistsError):
        await host.start("poll", {"feed": "inbox", "service": service}, run_id="p")
    for _ in range(500):
        if "resting" in (await host.read("p")).configuration:
            return
        await asyncio.sleep(0.01)


async def wake(host: Host, service: str) -> None:
    """Wake once, unless a wake is still live."""
    if "levels" not in [header.machine for header in await host.runs("live")]:
        await sentinel.LEVELS.start(host, "levels", {"service": service})
    await no_work(host)


SCENARIOS: dict[str, Callable[[Host, str], Awaitable[None]]] = {
    one.__name__: one for one in (fire, resolve, mail, wait, load, look, wake)
}


async def main(scenario: str, file: str, service: str, moment: str) -> None:
    """Live, as the arguments say."""
    async with Watched(file, dying(moment)) as host:
        await SCENARIOS[scenario](host, service)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
