"""The charts of the simulation: small, and each shows the rules one kind of promise.

Every event of a client carries a `token`, which the callback that takes it keeps in the model: what
was run, and how often, can be read from the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine import State, StateChart

from machines import Machine, child, effect, gate, send_up, timeout
from machines.charts.pool import pool
from tools.simulation.outside import LostAnswerError, NotReachedError, RefusedError
from tools.simulation.stage import STAGE

if TYPE_CHECKING:
    from machines import Context

TIMEOUT_S = 3.0
WATCH_S = 2.0
NUDGE_S = 1.5
ITEMS = ("a", "b", "c", "d")


class SpoiledError(Exception):
    """A callback raised it, after it had changed the model."""


def backoff(attempt: int) -> float:
    """Wait a little longer each time."""
    return 0.1 * attempt


class Kept(StateChart[Any]):
    """What all charts here do: keep the tokens of events, in the order in which they ran."""

    catch_errors_as_events = False

    def keep(self, token: str) -> str:
        """Keep a token, and answer with it."""
        self.model.seen = [*getattr(self.model, "seen", ()), token]
        return token

    def spoil(self, token: str) -> None:
        """Keep a token, and raise."""
        self.keep(token)
        raise SpoiledError(token)


class Tally(Kept):
    """Takes notes; its events run by plans."""

    opened = State(initial=True)
    shut = State()
    over = State(final=True)

    note = opened.to.itself(internal=True, on="keep") | shut.to.itself(internal=True, on="keep")
    flip = opened.to(shut, on="keep") | shut.to(opened, on="keep")
    spoil_it = opened.to(shut, on="spoil") | shut.to(opened, on="spoil")
    finish = opened.to(over, on="keep") | shut.to(over, on="keep")


class Talker(Kept):
    """Awaits in its callbacks, and sends to itself while it runs."""

    calm = State(initial=True)
    busy = State()
    over = State(final=True)

    note = calm.to.itself(internal=True, on="keep_slowly") | busy.to.itself(
        internal=True, on="keep_slowly"
    )
    begin = calm.to(busy, on="keep")
    echo = busy.to(calm, on="hear")
    spoil_it = calm.to(busy, on="spoil") | busy.to(calm, on="spoil")
    finish = calm.to(over, on="keep") | busy.to(over, on="keep")

    async def keep_slowly(self, token: str) -> str:
        """Let others run before the token is kept."""
        await STAGE.world.pause()
        return self.keep(token)

    async def on_enter_busy(self) -> None:
        """Have a second event behind the first."""
        await STAGE.world.pause()
        self.model.asked = getattr(self.model, "asked", 0) + 1
        self.send("echo")

    def hear(self) -> None:
        """Count what came back."""
        self.model.heard = getattr(self.model, "heard", 0) + 1


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
    """Pays once and ships; what is in doubt waits for a person."""

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
        draft.to(None, on="keep")
        | paying.to(None, on="keep")
        | shipping.to(None, on="keep")
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


class Watch(Kept):
    """A timeout and a delayed event, set again and again."""

    idle = State(initial=True)
    waiting = State(invoke=timeout(WATCH_S, on="expired"))
    late = State()
    over = State(final=True)

    begin = idle.to(waiting, on="keep")
    leave = waiting.to(idle, on="keep")
    expired = waiting.to(late, on="expire")
    again = late.to(idle, on="keep")
    finish = idle.to(over, on="keep")
    nudge = (
        idle.to(None, on="hear")
        | waiting.to(None, on="hear")
        | late.to(None, on="hear")
    )
    note = idle.to(None, on="keep") | late.to(None, on="keep")

    def on_enter_waiting(self) -> None:
        """Set both timers, and note for when."""
        model, now_ms = self.model, STAGE.world.time.now_ms()
        model.entered = getattr(model, "entered", 0) + 1
        model.due = now_ms + round(WATCH_S * 1000)
        model.nudges = {**getattr(model, "nudges", {}), str(model.entered): ["set", now_ms]}
        self.send("nudge", delay=NUDGE_S * 1000, send_id=f"n{model.entered}", of=model.entered)

    def on_leave(self) -> None:
        """Take the delayed event back."""
        model = self.model
        if model.nudges[str(model.entered)][0] == "set":
            self.cancel_event(f"n{model.entered}")
            model.nudges = {**model.nudges, str(model.entered): ["cancelled", 0]}

    def expire(self) -> None:
        """Note when the timeout fired."""
        model = self.model
        fired = [model.entered, STAGE.world.time.now_ms(), model.due]
        model.fired = [*getattr(model, "fired", ()), fired]

    def hear(self, of: int) -> None:
        """Note that the delayed event came."""
        model = self.model
        before = model.nudges[str(of)]
        word = "heard" if before[0] == "set" else f"heard though {before[0]}"
        moved = [word, STAGE.world.time.now_ms() - before[1]]
        model.nudges = {**model.nudges, str(of): moved}


class Patient(Kept):
    """Timeouts that a restart prolongs."""

    idle = State(initial=True)

    class both(State.Parallel):  # noqa: N801 - a state, named as states are
        """Where both wait."""

        class left(State.Compound):  # noqa: N801 - as above
            """What was left is waited for."""

            resting = State(initial=True, invoke=timeout(WATCH_S, on="rested", resume="remaining"))
            was_rested = State(final=True)
            rested = resting.to(was_rested, on="expire")

        class right(State.Compound):  # noqa: N801 - as above
            """The whole is waited for again."""

            pausing = State(initial=True, invoke=timeout(WATCH_S, on="paused", resume="restart"))
            was_paused = State(final=True)
            paused = pausing.to(was_paused, on="expire")

    over = State(final=True)

    begin = idle.to(both, on="keep")
    done_state_both = both.to(over)

    def on_enter_both(self) -> None:
        """Note when both are over at the earliest."""
        self.model.due = STAGE.world.time.now_ms() + round(WATCH_S * 1000)

    def expire(self, event: str) -> None:
        """Note when a timeout fired."""
        fired = [str(event), STAGE.world.time.now_ms(), self.model.due]
        self.model.fired = [*getattr(self.model, "fired", ()), fired]


class Review(Kept):
    """A gate that opens again and again; each opening is answered once."""

    writing = State(initial=True)
    reviewing = State(invoke=gate("approve", "reject", key="review"))
    approved = State(final=True)

    submit = writing.to(reviewing, on="keep")
    approve = reviewing.to(approved, on="take")
    reject = reviewing.to(writing, on="take")
    note = writing.to(None, on="keep") | reviewing.to(None, on="keep")

    def on_enter_reviewing(self) -> None:
        """Number the openings."""
        self.model.openings = getattr(self.model, "openings", 0) + 1

    def take(self, token: str) -> str:
        """Note which opening an answer was for."""
        model = self.model
        model.answers = [*getattr(model, "answers", ()), model.openings]
        return self.keep(token)


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


LOST = LostAnswerError
MACHINES: tuple[Machine, ...] = tuple(
    Machine(chart, failed=failed)
    for chart, failed in (
        (Tally, ()), (Talker, ()), (Checkout, ("declined",)), (Asker, ()), (Doubter, ("declined",)),
        (Watch, ()), (Patient, ()), (Review, ()), (Tree, ()), (Crawl, ()), (Session, ()),
    )
)  # fmt: skip
"""What every host of a world knows; made once, since a chart is dear to look at."""
