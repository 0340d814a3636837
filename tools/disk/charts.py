"""The charts of the workload: a desk of about 1 KB with every ledger, and a floor of 100 KB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from statemachine import State, StateChart
from statemachine.model import Model

from machines import children, effect, gate, ledgers_of, send_down, spawn, state_of, timeout

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from machines import Context

CELLS: Final = 20
CELL_VALUES: Final = 120
"""Values of about 40 bytes each: twenty cells of 5 KB."""
WAIT_S: Final = 600.0


class Outside:
    """Who is called; told of each call at the moment at which it leaves."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.on_call: Callable[[str, str], None] = lambda _kind, _key: None
        self.held: asyncio.Event | None = None
        """What calls wait for before they are answered."""

    async def answers(self, kind: str, key: str) -> None:
        """Take a call and answer it."""
        self.reached(kind, key)
        if self.held is not None:
            await self.held.wait()

    def reached(self, kind: str, key: str) -> None:
        """Take a call."""
        self.calls.append((kind, key))
        self.on_call(kind, key)


async def follow(ctx: Context) -> int:
    """Change each of the other ledgers, at the write."""
    mark = f"{ctx.key} {ctx.attempt}"
    ctx.notices.add(f"source {mark}", {"of": mark})
    ctx.notices.take()
    ctx.admissions.record(mark, conversation="talk", replace=True)
    ctx.admissions.advance(7)
    ctx.epochs.bump("talk")
    ctx.picks.pick(mark, chain="talk", offer=["red", "blue"])
    ctx.picks.reply("talk", mark)
    ctx.picks.answer(mark)
    ctx.pushes.record("slot", commit=mark, source="here", bundle=mark.encode(), id=mark)
    ctx.pushes.finish("slot", {"went": mark}, id=mark)
    return len(mark)


def charts(outside: Outside) -> tuple[type[StateChart[Any]], type[StateChart[Any]]]:
    """Return a desk and a floor; the desk's effects reach this outside."""

    async def charge(key: str) -> str:
        await outside.answers("charge", key)
        return f"receipt for {key}"

    async def ship(key: str) -> dict[str, Any]:
        await outside.answers("ship", key)
        return {"parcel": key, "boxes": [1, 2, 3]}

    return _desk(charge, ship), Floor


def _desk(charge: Callable[..., Any], ship: Callable[..., Any]) -> type[StateChart[Any]]:
    class Desk(StateChart[Model]):
        """Does one thing after the other, and comes back."""

        idle = State(initial=True)
        charging = State(invoke=effect(charge, kind="charge", sync=True))
        shipping = State(invoke=effect(ship, kind="ship", idempotent=True))
        following = State(invoke=follow)
        waiting = State(
            invoke=[gate("approve", "reject", key="review"), timeout(WAIT_S, on="late")]
        )
        over = State(final=True)

        charge_it = idle.to(charging)
        ship_it = idle.to(shipping)
        follow_it = idle.to(following)
        ask = idle.to(waiting)
        done_invoke_charging = charging.to(idle)
        done_invoke_shipping = shipping.to(idle)
        done_invoke_following = following.to(idle)
        approve = waiting.to(idle)
        reject = waiting.to(idle)
        late = waiting.to(idle)
        note = idle.to.itself(internal=True, on="noting")
        remind = idle.to.itself(internal=True, on="reminding")
        ring = (
            idle.to.itself(internal=True, on="noting")
            | charging.to.itself(internal=True)
            | shipping.to.itself(internal=True)
            | following.to.itself(internal=True)
            | waiting.to.itself(internal=True)
        )
        keep = idle.to.itself(internal=True, on="keeping")
        finish = idle.to(over)

        def noting(self, what: str = "rung", value: Any = None) -> None:
            """Keep a value in the model."""
            setattr(self.model, what, value)

        def reminding(self, ms: int) -> None:
            """Set a timer of its own."""
            self.send("ring", delay=ms, what="reminded", value=ms)

        def keeping(self, what: str, value: Any) -> None:
            """Write beside the run, and in a ledger, in one macrostep."""
            state_of(self).put(what, value, ttl_ms=86_400_000)
            ledgers_of(self).epochs.bump(f"kept {what}")

    return Desk


class Cell(StateChart[Model]):
    """Holds 5 KB, of which a little changes."""

    holding = State(initial=True)
    held = State()
    change = holding.to(held, on="changing") | held.to(holding, on="changing")

    def changing(self, what: str, value: Any) -> None:
        """Change a value, or add one."""
        setattr(self.model, what, value)


class Floor(StateChart[Model]):
    """Twenty cells, of which one moves at a time."""

    working = State(initial=True, invoke=children(Cell))
    closed = State(final=True)
    add = working.to.itself(internal=True, on="adding")
    poke = working.to.itself(internal=True, on="poking")
    close = working.to(closed)

    def adding(self, values: dict[str, Any]) -> None:
        """Begin the cells."""
        for number in range(CELLS):
            spawn(self, f"cell{number:02}", values)

    def poking(self, cell: int, what: str, value: Any) -> None:
        """Have one cell change."""
        send_down(self, f"cell{cell:02}", "change", what=what, value=value)
