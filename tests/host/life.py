"""A process with a host that dies by SIGKILL at a moment it was told: what the death tests start.

    python -m tests.host.life SCENARIO FILE LOG

It writes a line to the log, which is the outside, at each thing that really happened.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from statemachine import State, StateChart

from machines import Context, Host, child, effect, gate, timeout
from snapshots.testing import ManualClock

FILE_ARGUMENT, LOG_ARGUMENT = 2, 3


class Log:
    """Lines that survive their writer: one write each, to the end of a file."""

    def __init__(self) -> None:
        self.path = ""
        self.die_at = ""

    def say(self, line: str) -> None:
        """Write a line; die directly behind it if that is the moment."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(descriptor, f"{line}\n".encode())
        os.close(descriptor)
        if self.die_at and line.startswith(self.die_at):
            os.kill(os.getpid(), signal.SIGKILL)

    def lines(self, start: str = "") -> list[str]:
        """Return the lines that start so."""
        if not Path(self.path).exists():
            return []
        return [line for line in Path(self.path).read_text().splitlines() if line.startswith(start)]


LOG = Log()


async def charge(key: str) -> str:
    """Take money; the outside counts it."""
    LOG.say(f"charge {key}")
    return "receipt"


async def mail(key: str) -> str:
    """Send a letter; the outside knows its key."""
    LOG.say(f"mail {key}")
    return "sent"


class Pays(StateChart):
    """Charges once, then mails once."""

    idle = State(initial=True)
    paying = State(invoke=effect(charge))
    mailing = State(invoke=effect(mail, idempotent=True))
    over = State(final=True)

    pay = idle.to(paying)
    done_invoke_paying = paying.to(mailing)
    done_invoke_mailing = mailing.to(over)

    def on_enter_mailing(self, data: Any = None) -> None:
        LOG.say("entering mailing")
        self.model.receipt = data


class Counts(StateChart):
    """Counts what it is told, and says so in the middle of its macrostep."""

    only = State(initial=True)
    over = State(final=True)
    count = only.to.itself(on="add")
    finish = only.to(over)

    def add(self, n: int) -> int:
        self.model.total = getattr(self.model, "total", 0) + n
        LOG.say(f"adding {n}")
        return int(self.model.total)


class Begins(StateChart):
    """Says that it is being entered for the first time."""

    only = State(initial=True)
    over = State(final=True)
    finish = only.to(over)

    def on_enter_only(self) -> None:
        LOG.say("beginning")


class Waits(StateChart):
    """Is left by a timeout."""

    waiting = State(initial=True, invoke=timeout(60, on="expired"))
    late = State(final=True)
    expired = waiting.to(late)

    def on_expired(self) -> None:
        LOG.say("expired")


class Inner(StateChart):
    """Ends at once."""

    only = State(initial=True, final=True)

    def on_enter_only(self) -> None:
        LOG.say("ending inside")


class Outer(StateChart):
    """Says when it reacts to its child's end."""

    holding = State(initial=True, invoke=child(Inner))
    held = State()
    over = State(final=True)
    done_invoke_holding = holding.to(held)
    finish = held.to(over)

    def on_done_invoke_holding(self) -> None:
        """Nothing: entering the state says it."""

    def on_enter_held(self) -> None:
        LOG.say("reacting")


async def work() -> str:
    """Do what is not in the ledger of effects."""
    LOG.say("working")
    return "worked"


class Works(StateChart):
    """Says when it reacts to the end of a plain call."""

    working = State(initial=True, invoke=work)
    worked = State()
    over = State(final=True)
    done_invoke_working = working.to(worked)
    finish = worked.to(over)

    def on_enter_worked(self, data: Any = None) -> None:
        LOG.say("using")
        self.model.result = data


class Bottom(StateChart):
    """Charges, two charts below the root."""

    charging = State(initial=True, invoke=effect(charge))
    charged = State(final=True, donedata="receipt")
    done_invoke_charging = charging.to(charged, on="keep")

    def keep(self, data: Any) -> None:
        self.model.got = data

    def receipt(self) -> Any:
        return self.model.got


class Middle(StateChart):
    """Has one chart below, and gives on what that gave."""

    holding = State(initial=True, invoke=child(Bottom))
    held = State(final=True, donedata="receipt")
    done_invoke_holding = holding.to(held, on="keep")

    def keep(self, data: Any) -> None:
        self.model.got = data

    def receipt(self) -> Any:
        return self.model.got


class Top(StateChart):
    """Has two charts below, one in the other."""

    holding = State(initial=True, invoke=child(Middle))
    held = State(final=True)
    done_invoke_holding = holding.to(held, on="keep")

    def keep(self, data: Any) -> None:
        self.model.got = data


class Asks(StateChart):
    """Charges, says so, and waits for an answer before it mails."""

    paying = State(initial=True, invoke=effect(charge))
    asking = State(invoke=gate("approve"))
    mailing = State(invoke=effect(mail))
    mailed = State()
    over = State(final=True)
    done_invoke_paying = paying.to(asking, on="book")
    approve = asking.to(mailing)
    done_invoke_mailing = mailing.to(mailed)
    finish = mailed.to(over)

    def book(self) -> None:
        LOG.say("booking")

    def on_enter_asking(self) -> None:
        LOG.say("asking")


async def converse(ctx: Context) -> None:
    """Ask in a conversation of which the first question comes to nothing, and wait."""
    ctx.admissions.record("session", conversation="talk")
    LOG.say(f"asking {ctx.epochs.mint('talk')}")
    if ctx.epochs.current("talk") == 0:
        message = "the line is dead"
        raise ConnectionError(message)
    await asyncio.Event().wait()


class Converses(StateChart):
    """Asks again after a fault, and takes the answer to what it asks now."""

    asking = State(initial=True, invoke=converse)
    told = State()
    over = State(final=True)
    error_execution = asking.to.itself(on="hear_of_it")
    reply = asking.to(told, on="keep")
    finish = told.to(over)

    def hear_of_it(self) -> None:
        LOG.say("burned")

    def keep(self, text: str) -> None:
        LOG.say(f"told {text}")
        self.model.text = text


class Twice(StateChart):
    """Charges in one region and mails in the other, in one macrostep."""

    idle = State(initial=True)

    class Both(State.Parallel):
        """Both at once."""

        class Left(State.Compound):
            """The charge."""

            paying = State(initial=True, invoke=effect(charge))
            paid = State(final=True)
            done_invoke_paying = paying.to(paid)

        class Right(State.Compound):
            """The letter, which must not go out twice either."""

            mailing = State(initial=True, invoke=effect(mail))
            mailed = State(final=True)
            done_invoke_mailing = mailing.to(mailed)

    over = State(final=True)
    go = idle.to(Both)
    done_state_Both = Both.to(over)  # noqa: N815 - the library's name


class Talks(StateChart):
    """Takes its time over what it is told, so that more is told meanwhile."""

    calm = State(initial=True)
    over = State(final=True)
    note = calm.to.itself(on="keep")
    finish = calm.to(over)

    async def keep(self, text: str) -> str:
        self.model.notes = [*getattr(self.model, "notes", []), text]
        LOG.say(f"noting {text}")
        await asyncio.sleep(0.001)
        return text


CHARTS = (Pays, Counts, Begins, Waits, Outer, Works, Top, Asks, Converses, Twice, Talks)
Scenario = Callable[[Host], Awaitable[None]]


async def acknowledged(host: Host) -> None:
    """Count, and say what was acknowledged."""
    await host.start(Counts, run_id="a")
    LOG.say("started a")
    for n in (1, 2, 3):
        total = await host.send("a", "count", n=n, delivery=f"d{n}")
        LOG.say(f"acknowledged {n} {total}")


async def begin(host: Host) -> None:
    """Start a run that says so while it begins."""
    await host.start(Begins, run_id="a")
    LOG.say("started a")


async def pay(host: Host) -> None:
    """Pay, and go on until the run has ended."""
    await host.start(Pays, run_id="a")
    await host.send("a", "pay")
    LOG.say("sent pay")
    await host.settled("a")
    await asyncio.sleep(0.05)


async def wait(host: Host) -> None:
    """Set a timer."""
    await host.start(Waits, run_id="a")
    LOG.say("started a")


async def nest(host: Host) -> None:
    """Start a chart with a child that ends at once."""
    await host.start(Outer, run_id="a")
    await asyncio.sleep(0.05)


async def plain(host: Host) -> None:
    """Start a chart with a plain call that ends at once."""
    await host.start(Works, run_id="a")
    await asyncio.sleep(0.05)


async def deep(host: Host) -> None:
    """Start three levels of charts."""
    await host.start(Top, run_id="a")
    await asyncio.sleep(0.05)


async def ask(host: Host) -> None:
    """Come to a gate, or be at one, and wait there."""
    if not await host.runs():
        await host.start(Asks, run_id="a")
    await host.settled("a")
    LOG.say("waiting")


async def burn(host: Host) -> None:
    """Start a conversation that has a fault."""
    await host.start(Converses, run_id="a")
    await asyncio.sleep(0.05)


async def twice(host: Host) -> None:
    """Start two effects in one macrostep."""
    await host.start(Twice, run_id="a")
    await host.send("a", "go")
    await asyncio.sleep(0.05)


async def talk(host: Host) -> None:
    """Send events while a macrostep is under way."""
    await host.start(Talks, run_id="a")
    sends = [asyncio.create_task(host.send("a", "note", text=text)) for text in "abc"]
    for send in sends:
        LOG.say(f"acknowledged {await send}")


async def stop(host: Host) -> None:
    """Pay, and stop the host while the charge is under way."""
    await host.start(Pays, run_id="a")
    await host.send("a", "pay")
    await host.stop()
    LOG.say("stopped")


async def busy(host: Host) -> None:
    """Work until somebody ends it: many runs, each counting and paying."""
    known = {header.run_id for header in await host.runs(limit=1_000)}
    for number in range(10_000):
        run = f"r{number}"
        if run in known:
            continue
        chart = Counts if number % 2 else Pays
        await host.start(chart, run_id=run)
        LOG.say(f"started {run}")
        if chart is Pays:
            await host.send(run, "pay")
            LOG.say(f"paid {run}")
        else:
            for n in (1, 2):
                await host.send(run, "count", n=n)
                LOG.say(f"counted {run} {n}")
        await asyncio.sleep(0)


SCENARIOS: dict[str, Scenario] = {
    scenario.__name__: scenario
    for scenario in (
        acknowledged,
        begin,
        pay,
        wait,
        nest,
        plain,
        deep,
        ask,
        burn,
        twice,
        talk,
        stop,
        busy,
    )
}


async def main() -> None:
    """Live, as the arguments say."""
    scenario, _, LOG.die_at = sys.argv[1].partition("@")
    LOG.path = sys.argv[LOG_ARGUMENT]
    clock = ManualClock()
    async with Host(sys.argv[FILE_ARGUMENT], CHARTS, clock=clock, verify=True) as host:
        await SCENARIOS[scenario](host)


if __name__ == "__main__":
    asyncio.run(main())
