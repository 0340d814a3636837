"""The charts of the simulation that wait for others: events, timers, gates."""

from __future__ import annotations

from statemachine import State

from machines import gate, timeout
from tools.simulation.kept import Kept
from tools.simulation.stage import STAGE

WATCH_S = 2.0
NUDGE_S = 1.5


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

    async def on_enter_busy(self) -> None:
        """Have a second event behind the first."""
        await STAGE.world.pause()
        self.model.asked = getattr(self.model, "asked", 0) + 1
        self.send("echo")

    def hear(self) -> None:
        """Count what came back."""
        self.model.heard = getattr(self.model, "heard", 0) + 1


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
    nudge = idle.to(None, on="hear") | waiting.to(None, on="hear") | late.to(None, on="hear")
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
