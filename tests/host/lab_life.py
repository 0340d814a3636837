"""A lab whose hosts really die: the process gets SIGKILL at the point.

    python -m tests.host.lab_life FOLDER

makes a file in the folder for each point and each number of times, and prints a line for each:
the file's name and how its process ended.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from statemachine import State, StateChart

from machines import child, effect, gate, timeout
from machines.testing import POINTS, Lab, LabHost

TIMES = (2,)
NEVER = 99


async def charge(key: str = "") -> str:
    """Be called by nobody."""
    raise AssertionError(key)


class Part(StateChart):
    """A chart within, which pays."""

    paying = State(initial=True, invoke=effect(charge, kind="part"))
    paid = State(final=True)
    done_invoke_paying = paying.to(paid)


class Trade(StateChart):
    """Pays, has a part pay, and waits."""

    cart = State(initial=True)
    paying = State(invoke=[effect(charge), timeout(60, on="forget")])
    parting = State(invoke=child(Part))
    review = State(invoke=[gate("approve"), timeout(60, on="forget")])
    forgotten = State(final=True)
    shipped = State(final=True)

    pay = cart.to(paying)
    done_invoke_paying = paying.to(parting, on="keep")
    done_invoke_parting = parting.to(review)
    forget = paying.to(forgotten) | review.to(forgotten)
    approve = review.to(shipped)

    def keep(self, data: Any) -> None:
        """Keep the receipt."""
        self.model.receipt = data


class Doomed(LabHost):
    """A host whose process dies with it."""

    def die(self, at: str) -> NoReturn:
        """Die here and now."""
        del at
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


class DoomedLab(Lab):
    """A lab of such hosts."""

    def host(self, **options: Any) -> LabHost:
        """Return the next one."""
        self._host = Doomed(self, [Trade], **options)
        return self._host


async def trade(lab: Lab, point: str, n: int) -> None:
    """Have two runs trade until the host dies at a point."""
    lab.fake("charge").raises(OSError("late")).returns("receipt")
    lab.fake("part", otherwise="part")
    lab.crash_at(point, n)
    async with lab.host() as host:
        for run in ("t-1", "t-2"):
            await host.start(Trade, {"amount": 12}, run_id=run)
        await asyncio.gather(host.send("t-1", "pay"), host.send("t-2", "pay"))
        await lab.settled()
        await lab.advance(30_000)
        await host.answer("t-2", "review", "approve")
        await lab.advance(60_000)


def main(folder: Path) -> None:
    """Die at each point."""
    said: list[str] = []
    for point in POINTS:
        for n in TIMES:
            name = f"{point.replace(' ', '-')}-{n}.db"
            pid = os.fork()
            if pid == 0:
                try:
                    asyncio.run(trade(DoomedLab(folder / name, [Trade]), point, n))
                finally:
                    os._exit(NEVER)
            _, status = os.waitpid(pid, 0)
            said.append(f"{name} {os.waitstatus_to_exitcode(status)}\n")
    sys.stdout.writelines(said)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
