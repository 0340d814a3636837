"""A shop's host in a process of its own: charts that wait, are in doubt, nest, and have drifted.

`python -m tests.browser.shop FILE` fills the file, says `ready`, and serves it until its standard
input ends.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statemachine import State, StateChart

from machines import Host, Machine, child, effect, gate, timeout

ORDER = "order-1042"
PARCEL = "parcel-7"
PARCEL_DONE = "parcel-6"
# As long as an id may well be, and nowhere to be broken.
LONG = "x" * 180
HOLD_S = 3 * 60 * 60


@dataclass
class Basket:
    """What an order knows."""

    customer: str
    amount_cents: int
    lines: list[str] = field(default_factory=list)
    approved_by: str | None = None


def charge(key: str) -> str:
    """Lose the answer of the bank: whether it took the money is not known."""
    message = "the bank's answer was lost"
    raise ConnectionError(message)


def reserve(model: Basket) -> str:
    """Reserve what was bought."""
    return f"reserved {len(model.lines)} lines"


class Delivery(StateChart):
    """A child: how the parcel goes out."""

    labelling = State(initial=True)
    waiting = State(invoke=gate("collected", key="carrier", meta={"carrier": "bicycle"}))
    out = State(final=True)
    label = labelling.to(waiting)
    collected = waiting.to(out)

    def on_enter_labelling(self) -> None:
        """Go on at once."""
        self.send("label")


class Order(StateChart[Basket]):
    """An order: packed and paid side by side, reviewed by a person, held for a while."""

    cart = State(initial=True)

    class working(State.Parallel):  # noqa: N801 - its name is the id of the state
        class packing(State.Compound):  # noqa: N801 - its name is the id of the state
            reserving = State(initial=True, invoke=effect(reserve, kind="reserve"))
            sending = State(invoke=child(Delivery, input={}))
            packed = State(final=True)
            done_invoke_reserving = reserving.to(sending)
            done_invoke_sending = sending.to(packed)

        class paying(State.Compound):  # noqa: N801 - its name is the id of the state
            charging = State(initial=True, invoke=effect(charge, kind="charge"))
            paid = State(final=True)
            done_invoke_charging = charging.to(paid)

        class checking(State.Compound):  # noqa: N801 - its name is the id of the state
            review = State(
                initial=True,
                invoke=gate("approve", "reject", key="review", meta={"asks": "is it genuine?"}),
            )
            holding = State(invoke=timeout(HOLD_S))
            cleared = State(final=True)
            approve = review.to(holding, on="keep_name")
            done_invoke_holding = holding.to(cleared)

    refused = State(final=True)
    complete = State(final=True)
    pay = cart.to(working)
    note = working.to.itself(internal=True, on="keep_line")
    reject = working.to(refused)
    done_state_working = working.to(complete)

    def keep_name(self, by: str = "somebody") -> None:
        """Note who approved."""
        self.model.approved_by = by

    def keep_line(self, text: str = "a line") -> None:
        """Note something more."""
        self.model.lines.append(text)


class Parcel(StateChart):
    """As it was released first."""

    ready = State(initial=True)
    review = State()
    travelling = State()
    lost = State(final=True)
    arrived = State(final=True)
    check = ready.to(review)
    send_out = review.to(travelling)
    arrive = travelling.to(arrived)
    lose = travelling.to(lost)


class NewParcel(StateChart):
    """As it was released later: `review` is gone, customs are new."""

    ready = State(initial=True)
    travelling = State()
    customs = State(invoke=gate("clear"))
    arrived = State(final=True)
    lost = State(final=True)
    send_out = ready.to(travelling)
    stop = travelling.to(customs)
    clear = customs.to(travelling)
    arrive = travelling.to(arrived)
    lose = travelling.to(lost) | customs.to(lost)


async def fill(path: Path) -> None:
    """Leave what an earlier release had: a parcel under way in a state that is gone since."""
    async with Host(path, machines=[Machine(Parcel, name="parcel")]) as host:
        await host.start(Parcel, {}, run_id=PARCEL)
        await host.send(PARCEL, "check")
        await host.start(Parcel, {}, run_id=PARCEL_DONE)
        for event in ("check", "send_out", "arrive"):
            await host.send(PARCEL_DONE, event)


async def serve(path: Path) -> None:
    """Run today's release until standard input ends."""
    machines: list[Any] = [Machine(Order, name="order"), Machine(NewParcel, name="parcel")]
    async with Host(path, machines=machines) as host:
        basket = {"customer": "Kim", "amount_cents": 4_990, "lines": ["a lamp", "two bulbs"]}
        await host.start(Order, basket, run_id=ORDER)
        await host.send(ORDER, "pay")
        for number in range(3):
            await host.start(NewParcel, {}, run_id=f"parcel-{10 + number}")
        await host.start(NewParcel, {}, run_id=LONG)
        await host.send("parcel-11", "send_out")
        await host.send("parcel-12", "send_out")
        await host.send("parcel-12", "stop")
        await host.cancel("parcel-10", reason="the customer changed their mind")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


async def main(path: Path) -> None:
    """Fill the file, then serve it."""
    await fill(path)
    await serve(path)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
