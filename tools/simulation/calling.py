"""The charts of the simulation that call the outside: alone, in children, in a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine import State

from machines import child, effect, gate, send_up
from machines.charts.pool import pool
from tools.simulation.kept import Kept
from tools.simulation.outside import NotReachedError, RefusedError
from tools.simulation.stage import STAGE

if TYPE_CHECKING:
    from machines import Context

TIMEOUT_S = 3.0
ITEMS = ("a", "b", "c", "d")


def backoff(attempt: int) -> float:
    """Wait a little longer each time."""
    return 0.1 * attempt


async def charge(ctx: Context) -> str:
    """Take money: never twice."""
    return await STAGE.world.outside.serve("charge", ctx, idempotent=False)


def ship(ctx: Context) -> str:
    """Send a parcel, however often it is asked, once; a thread waits for the answer."""
    return STAGE.world.outside.serve_blocking("ship", ctx, idempotent=True)


def stamp(ctx: Context) -> str:
    """Do what may not be repeated, while a thread waits."""
    return STAGE.world.outside.serve_blocking("stamp", ctx, idempotent=False)


async def probe(key: str) -> Any:
    """Ask what became of a call."""
    return await STAGE.world.outside.probe(key)


class Checkout(Kept):
    """Pays once and ships; what is in doubt waits for a person. Outcomes come while it awaits."""

    catch_errors_as_events = True

    draft = State(initial=True)
    paying = State(
        invoke=effect(
            charge,
            timeout=TIMEOUT_S,
            retries=2,
            retry_on=NotReachedError,
            failed_on=RefusedError,
            backoff=backoff,
            sync=True,
        )
    )
    shipping = State(invoke=effect(ship, idempotent=True, retries=9, backoff=backoff))
    shipped = State(final=True)
    declined = State(final=True)

    note = (
        draft.to(None, on="keep_slowly")
        | paying.to(None, on="keep_slowly")
        | shipping.to(None, on="keep_slowly")
    )
    pay = draft.to(paying, on="keep")
    leave = paying.to(draft, on="keep")
    done_invoke_paying = paying.to(shipping, on="receive")
    done_invoke_shipping = shipping.to(shipped, on="receive")
    error_execution = paying.to(declined) | shipping.to(declined)

    def receive(self, data: str) -> None:
        """Keep a receipt."""
        self.model.receipts = [*getattr(self.model, "receipts", ()), data]


class Asker(Kept):
    """Two effects at a time, which are asked after when their outcome is hidden."""

    catch_errors_as_events = True

    idle = State(initial=True)

    class both(State.Parallel):  # noqa: N801 - a state, named as states are
        """Where both are called."""

        class left(State.Compound):  # noqa: N801 - as above
            """The one that is awaited."""

            calling = State(
                initial=True,
                invoke=effect(charge, probe=probe, timeout=TIMEOUT_S, failed_on=RefusedError),
            )
            called = State(final=True)
            done_invoke_calling = calling.to(called, on="receive")
            error_execution = calling.to(called)

        class right(State.Compound):  # noqa: N801 - as above
            """The one that blocks."""

            stamping = State(
                initial=True, invoke=effect(stamp, probe=probe, failed_on=RefusedError)
            )
            stamped = State(final=True)
            done_invoke_stamping = stamping.to(stamped, on="receive")
            error_execution = stamping.to(stamped)

    over = State(final=True)

    begin = idle.to(both, on="keep")
    done_state_both = both.to(over)

    def receive(self, data: str) -> None:
        """Keep a receipt."""
        self.model.receipts = [*getattr(self.model, "receipts", ()), data]


class Doubter(Kept):
    """Takes a doubt itself, and has a person look after it at a gate."""

    catch_errors_as_events = True

    idle = State(initial=True)
    paying = State(invoke=effect(charge, timeout=TIMEOUT_S, failed_on=RefusedError))
    checking = State(invoke=gate("found", "missing", key="check"))
    paid = State(final=True)
    declined = State(final=True)

    begin = idle.to(paying, on="keep")
    done_invoke_paying = paying.to(paid, on="receive")
    error_execution = paying.to(declined)
    error_indoubt_paying = paying.to(checking, on="doubt")
    found = checking.to(paid, on="keep")
    missing = checking.to(idle, on="keep")

    def doubt(self, effect: str) -> None:
        """Note which call is in doubt."""
        self.model.doubted = effect

    def receive(self, data: str) -> None:
        """Keep a receipt."""
        self.model.receipts = [*getattr(self.model, "receipts", ()), data]


class Leaf(Kept):
    """The innermost chart: calls, tells its parent, and waits for an answer."""

    calling = State(
        initial=True,
        invoke=effect(ship, idempotent=True, retries=9, backoff=backoff),
    )
    budding = State(invoke=gate("bloom"))
    bloomed = State(final=True, donedata="told")

    done_invoke_calling = calling.to(budding)
    bloom = budding.to(bloomed, on="keep")

    def on_enter_budding(self) -> None:
        """Tell the chart above."""
        send_up(self, "progress")

    def told(self) -> Any:
        """Give the tokens up."""
        return self.model.seen


class Branch(Kept):
    """The chart in the middle: has ended when its leaf has."""

    growing = State(initial=True, invoke=child(Leaf))
    grown = State(final=True, donedata="told")

    progress = growing.to(None, on="count")
    done_invoke_growing = growing.to(grown, on="look")

    def count(self) -> None:
        """Count what the leaf said."""
        self.model.progress = getattr(self.model, "progress", 0) + 1

    def look(self, data: Any) -> None:
        """Keep what the leaf gave."""
        self.model.got = data

    def told(self) -> Any:
        """Give on what the leaf gave, and how often it said something."""
        return [self.model.progress, *self.model.got]


class Tree(Kept):
    """Three levels; the tokens of the innermost come up when it ends."""

    resting = State(initial=True)
    growing = State(invoke=child(Branch))
    felled = State(final=True)

    begin = resting.to(growing, on="keep")
    done_invoke_growing = growing.to(resting, on="take")
    finish = resting.to(felled, on="keep")
    note = resting.to(None, on="keep") | growing.to(None, on="keep")

    def take(self, data: Any) -> None:
        """Keep what came up: how often the leaf told, then its tokens."""
        self.model.rounds = [*getattr(self.model, "rounds", ()), data[0]]
        self.model.seen = [*getattr(self.model, "seen", ()), *data[1:]]


class Page(Kept):
    """Works one item of the pool."""

    catch_errors_as_events = True

    fetching = State(
        initial=True,
        invoke=effect(
            charge, timeout=TIMEOUT_S, probe=probe, failed_on=RefusedError, retries=1,
            retry_on=NotReachedError, backoff=backoff,
        ),
    )  # fmt: skip
    fetched = State(final=True, donedata="receipt")
    gone = State(final=True)

    done_invoke_fetching = fetching.to(fetched, on="receive")
    error_execution = fetching.to(gone)

    def receive(self, data: str) -> None:
        """Keep the receipt."""
        self.model.receipt = data

    def receipt(self) -> str:
        """Give the receipt up."""
        return str(self.model.receipt)


async def next_page(active: tuple[str, ...], outcomes: dict[str, Any]) -> str | None:
    """Give the next item that is neither worked nor done."""
    await STAGE.world.pause()
    return next((item for item in ITEMS if item not in {*active, *outcomes}), None)


Crawl = pool(Page, next_page, cap=2, name="Crawl", backoff=backoff)


async def follow(ctx: Context) -> str:
    """Post a job once and follow it, over restarts; each change of a ledger is on disk at once."""
    return await STAGE.world.follower.follow(ctx)


class Session(Kept):
    """Plain work with a session outside."""

    catch_errors_as_events = True

    idle = State(initial=True)
    following = State(invoke=follow)
    over = State(final=True)

    begin = idle.to(following, on="keep")
    done_invoke_following = following.to(over, on="receive")
    error_execution = following.to(idle)
    tick = following.to(None, on="count")

    def count(self) -> None:
        """Count what the work sent."""
        self.model.ticks = getattr(self.model, "ticks", 0) + 1

    def receive(self, data: str) -> None:
        """Keep what the work returned."""
        self.model.receipts = [*getattr(self.model, "receipts", ()), data]
