"""Small charts, one for each thing that a test wants to see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statemachine import State, StateChart, StateMachine

from machines import child, effect, gate, timeout

Fn = Callable[..., Any]
ChartClass = type[StateChart]


class Door(StateChart):
    """Opens and closes; says what it was told."""

    shut = State(initial=True)
    ajar = State()
    gone = State(final=True)

    push = shut.to(ajar)
    pull = ajar.to(shut)
    remove = shut.to(gone) | ajar.to(gone)

    def on_push(self, by: str = "nobody") -> str:
        self.model.by = by
        self.model.pushes = getattr(self.model, "pushes", 0) + 1
        return f"pushed by {by}"


class Strict(StateMachine):
    """Lets an exception of a callback out, after it has changed the model."""

    calm = State(initial=True)
    broken = State()
    over = State(final=True)

    smash = calm.to(broken)
    note = calm.to.itself(internal=True)
    repair = broken.to(calm)
    finish = calm.to(over)

    def on_smash(self) -> None:
        self.model.smashed = True
        message = "smashed"
        raise ValueError(message)

    def on_note(self, text: str = "") -> str:
        self.model.notes = [*getattr(self.model, "notes", []), text]
        return text


def checkout(charge: Fn, **options: Any) -> ChartClass:
    """Return a chart that pays once, and takes an error where it is told of one."""

    class Checkout(StateChart):
        idle = State(initial=True)
        paying = State(invoke=effect(charge, kind="charge", **options))
        aside = State()
        paid = State(final=True)
        refused = State(final=True)

        pay = idle.to(paying)
        leave = paying.to(aside)
        close = aside.to(refused)
        done_invoke_paying = paying.to(paid)
        error_execution = paying.to(refused)

        def on_enter_paid(self, data: Any = None) -> None:
            self.model.receipt = data

        def on_enter_refused(self, error: Any = None) -> None:
            self.model.why = str(error)

    return Checkout


def careful(charge: Fn, **options: Any) -> ChartClass:
    """Return a chart that pays once and names what happens when that is in doubt."""

    class Careful(StateChart):
        idle = State(initial=True)
        paying = State(invoke=effect(charge, kind="charge", **options))
        checking = State()
        paid = State(final=True)
        refused = State(final=True)

        pay = idle.to(paying)
        done_invoke_paying = paying.to(paid)
        error_execution = paying.to(refused)
        error_indoubt_paying = paying.to(checking)
        found = checking.to(paid)

        def on_enter_checking(self, effect: str = "", error: Any = None) -> None:
            self.model.doubted = effect
            self.model.doubt = error

    return Careful


def greedy(charge: Fn, **options: Any) -> ChartClass:
    """Return a chart that pays once and takes every event there is with `*` and `error`."""

    class Greedy(StateChart):
        idle = State(initial=True)
        paying = State(invoke=effect(charge, kind="charge", **options))
        paid = State(final=True)
        taken = State(final=True)

        pay = idle.to(paying)
        done_invoke_paying = paying.to(paid)
        any_error = paying.to(taken, event="error")
        anything = paying.to(taken, event="*")

    return Greedy


def pair(first: Fn, second: Fn, **options: Any) -> ChartClass:
    """Return a chart with two effects in one state, and an end when both are done."""

    class Pair(StateChart):
        idle = State(initial=True)

        class Work(State.Parallel):
            class Left(State.Compound):
                a = State(initial=True, invoke=effect(first, kind="first", **options))
                a_done = State(final=True)
                done_invoke_a = a.to(a_done)

            class Right(State.Compound):
                b = State(initial=True, invoke=effect(second, kind="second", **options))
                b_done = State(final=True)
                done_invoke_b = b.to(b_done)

        over = State(final=True)
        go = idle.to(Work)
        done_state_Work = Work.to(over)  # noqa: N815 - the library's name

    return Pair


def mailer(send: Fn, **options: Any) -> ChartClass:
    """Return a chart that sends a letter on each round, and can be stopped."""

    class Mailer(StateChart):
        idle = State(initial=True)
        sending = State(invoke=effect(send, kind="mail", **options))
        stopped = State(final=True)

        again = idle.to(sending)
        done_invoke_sending = sending.to(idle)
        stop = idle.to(stopped) | sending.to(stopped)

    return Mailer


def patient(charge: Fn, told: list[str], **options: Any) -> ChartClass:
    """Return a chart that listens to a doubt and stays where it is."""

    class Patient(StateChart):
        idle = State(initial=True)

        class Work(State.Parallel):
            class Left(State.Compound):
                paying = State(initial=True, invoke=effect(charge, kind="charge", **options))
                paid = State(final=True)
                done_invoke_paying = paying.to(paid)

            class Right(State.Compound):
                listening = State(initial=True)
                error_indoubt_paying = listening.to.itself(on="listen")

        pay = idle.to(Work)

        def listen(self, effect: str = "") -> None:
            told.append(effect)

    return Patient


class Review(StateChart):
    """Waits at a gate for one of two answers."""

    writing = State(initial=True)
    reviewing = State(invoke=gate("approve", "reject", key="review", meta={"role": "editor"}))
    approved = State(final=True)
    rejected = State(final=True)

    submit = writing.to(reviewing)
    approve = reviewing.to(approved)
    reject = reviewing.to(rejected)
    withdraw = reviewing.to(writing)

    def on_approve(self, note: str = "") -> str:
        self.model.note = note
        return f"approved: {note}"


def waiter(duration: float = 60.0, **options: Any) -> ChartClass:
    """Return a chart whose state is left when a timeout says so."""

    class Waiter(StateChart):
        waiting = State(initial=True, invoke=timeout(duration, on="expired", **options))
        elsewhere = State()
        late = State(final=True)

        expired = waiting.to(late) | elsewhere.to(late)
        leave = waiting.to(elsewhere)
        back = elsewhere.to(waiting)

    return Waiter


class Reminder(StateChart):
    """Sends itself a delayed event, which can be taken back."""

    idle = State(initial=True)
    armed = State()
    rung = State(final=True)

    arm = idle.to(armed)
    disarm = armed.to(idle)
    ring = armed.to(rung) | idle.to(rung)
    note = armed.to.itself(internal=True) | idle.to.itself(internal=True)

    def on_arm(self, seconds: float = 60.0) -> None:
        self.send("ring", delay=seconds * 1000, send_id="alarm")

    def on_disarm(self) -> None:
        self.cancel_event("alarm")


class Leaf(StateChart):
    """The innermost chart: waits to be told, and then has ended."""

    budding = State(initial=True, invoke=gate("bloom"))
    bloomed = State(final=True, donedata="colour")

    bloom = budding.to(bloomed)

    def on_bloom(self, colour: str = "white") -> None:
        self.model.colour = colour

    def colour(self) -> Any:
        return getattr(self.model, "colour", None)


class Branch(StateChart):
    """The chart in the middle: has ended when its leaf has."""

    growing = State(initial=True, invoke=child(Leaf))
    grown = State(final=True, donedata="seen")

    done_invoke_growing = growing.to(grown, on="look")

    def look(self, data: Any = None) -> None:
        self.model.colour = data

    def seen(self) -> Any:
        return self.model.colour


class Trunk(StateChart):
    """The root: counts how often its branch told it that it has ended."""

    alive = State(initial=True, invoke=child(Branch))
    resting = State()
    felled = State(final=True)

    done_invoke_alive = alive.to(resting)
    fell = resting.to(felled)

    def on_enter_resting(self, data: Any = None) -> None:
        self.model.told = getattr(self.model, "told", 0) + 1
        self.model.seen = data
