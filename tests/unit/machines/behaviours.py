"""Charts for comparing two engines: each has callbacks that show an order, a result or an error."""

from __future__ import annotations

from typing import Any

from statemachine import Event, State, StateChart, StateMachine

from tests.unit.machines.charts import Awaited, Logged, note


class Results(Logged, StateMachine):
    """Callbacks that return nothing, one thing and several."""

    a = State(initial=True)
    b = State()

    none = a.to(b) | b.to(a)
    one = a.to(b, on="give_one") | b.to(a)
    many = a.to(b, before="give_one", on="give_two", after="give_three") | b.to(a)
    listed = a.to(b, on="give_list") | b.to(a)
    falsy = a.to.itself(on="give_zero")

    def on_transition(self, event: str, target: State | None) -> None:
        note(self, f"{event}>{target.id if target else ''}")

    def give_one(self) -> int:
        return 1

    def give_two(self) -> int:
        return 2

    def give_three(self) -> int:
        return 3

    def give_list(self) -> list[int]:
        return [1, 2]

    def give_zero(self) -> int:
        return 0


class Order(StateMachine):
    """Every callback that the library calls by its name, each noting that it was called."""

    a = State(initial=True, exit="a_is_left", enter="a_is_entered")
    b = State(enter="b_is_entered")

    go = a.to(b, before="before_inline", on="on_inline", after="after_inline", cond="may")
    back = b.to(a)

    def prepare_event(self, event: str) -> dict[str, Any]:
        note(self, f"prepare {event}")
        return {"prepared": event}

    def may(self, prepared: str) -> bool:
        note(self, f"may {prepared}")
        return True

    def before_transition(self) -> None:
        note(self, "before_transition")

    def before_go(self) -> str:
        note(self, "before_go")
        return "before"

    def before_inline(self) -> None:
        note(self, "before_inline")

    def on_exit_state(self, state: State, source: State) -> None:
        note(self, f"on_exit_state {state.id} {source.id}")

    def on_exit_a(self) -> None:
        note(self, "on_exit_a")

    def a_is_left(self) -> None:
        note(self, "a_is_left")

    def on_transition(self) -> None:
        note(self, "on_transition")

    def on_go(self) -> str:
        note(self, "on_go")
        return "on"

    def on_inline(self) -> None:
        note(self, "on_inline")

    def on_enter_state(self, state: State, target: State) -> None:
        note(self, f"on_enter_state {state.id} {target.id}")

    def on_enter_b(self) -> str:
        note(self, "on_enter_b")
        return "entered"

    def b_is_entered(self) -> None:
        note(self, "b_is_entered")

    def a_is_entered(self) -> None:
        note(self, "a_is_entered")

    def after_transition(self) -> None:
        note(self, "after_transition")

    def after_go(self) -> str:
        note(self, "after_go")
        return "after"

    def after_inline(self) -> None:
        note(self, "after_inline")


class Nested(Logged, StateChart):
    """Callbacks that send to their own chart while it runs, and what such a send returns."""

    a = State(initial=True)
    b = State()
    c = State()
    d = State(final=True)

    go = a.to(b)
    next = b.to(c)
    last = c.to(d)
    ask = a.to.itself(on="send_inside")
    other = a.to.itself()

    def send_inside(self) -> str:
        note(self, f"inside: {self.send('other')!r}")
        return "asked"

    def on_enter_b(self) -> None:
        note(self, f"sent: {self.send('next')!r}")

    def on_enter_c(self) -> None:
        note(self, f"raised: {self.raise_('last')!r}")


class Queues(Logged, StateChart):
    """Internal events run before external ones, each external one with a macrostep of its own."""

    a = State(initial=True)

    go = a.to.itself(on="spread")
    internal = a.to.itself(internal=True)
    external = a.to.itself(on="again")
    inner = a.to.itself(internal=True)

    def spread(self) -> None:
        self.send("external")
        self.raise_("internal")
        self.send("external")
        self.raise_("internal")

    def again(self) -> None:
        self.raise_("inner")


class Internal(Logged, StateChart):
    """Internal and external transitions, to itself and to a child."""

    class outer(State.Compound):  # noqa: N801 - a state is named as its id
        first = State(initial=True)
        second = State()
        step = first.to(second)

    inside = outer.to.itself(internal=True, on="touch")
    outside = outer.to.itself(on="touch")
    down = outer.to(outer.second, internal=True)
    over = outer.to(outer.second)

    def touch(self) -> str:
        note(self, "touched")
        return "touched"


class InternalMachine(Logged, StateMachine):
    """Self-transitions of a `StateMachine`, which does not enter a state again that it is in."""

    a = State(initial=True)
    b = State()

    inside = a.to.itself(internal=True, on="touch")
    outside = a.to.itself(on="touch")
    over = a.to(b) | b.to(a)

    def touch(self) -> str:
        note(self, "touched")
        return "touched"


class InternalCompound(Internal, StateMachine):
    """The same as `Internal` in a `StateMachine`: the library leaves the compound state itself."""


class Caught(Logged, StateChart):
    """Errors of callbacks become the event `error.execution`."""

    calm = State(initial=True)
    broken = State()

    in_on = calm.to.itself(on="fail")
    in_before = calm.to.itself(before="fail")
    in_after = calm.to.itself(after="fail")
    in_guard = calm.to.itself(cond="fail")
    in_enter = calm.to(broken)
    mend = broken.to(calm)
    error_execution = calm.to(broken, on="look") | broken.to.itself(on="look", internal=True)

    def fail(self) -> None:
        message = "it broke"
        raise ValueError(message)

    def on_enter_broken(self, event: str) -> None:
        if event == "in_enter":
            message = "entering"
            raise KeyError(message)

    def look(self, error: Exception) -> str:
        note(self, f"look: {error!r}")
        return "looked"


class Uncaught(Logged, StateMachine):
    """Errors of callbacks reach the caller, and the configuration stays as it was."""

    calm = State(initial=True)
    other = State()

    in_on = calm.to(other, on="fail")
    in_before = calm.to(other, before="fail")
    in_after = calm.to.itself(after="fail")
    in_guard = calm.to(other, cond="fail")
    move = calm.to(other) | other.to(calm)

    def fail(self) -> None:
        message = "it broke"
        raise ValueError(message)


class Guarded(Logged, StateMachine):
    """Conditions, their negation, expressions and the order of competing transitions."""

    low = State(initial=True)
    high = State()
    top = State()

    up = low.to(high, cond="is_ready") | low.to(top, unless="is_ready or is_shut")
    down = high.to(low) | top.to(low)
    arm = low.to.itself(on="make_ready")
    shut = low.to.itself(on="make_shut")

    is_ready = False
    is_shut = False

    def make_ready(self) -> None:
        self.is_ready = True

    def make_shut(self) -> None:
        self.is_ready = False
        self.is_shut = True


class Validated(Logged, StateChart):
    """A validator's error reaches the caller even where errors are events."""

    a = State(initial=True)
    b = State()

    pay = a.to(b, validators="check_amount")
    back = b.to(a)
    error_execution = a.to.itself()

    def check_amount(self, amount: int = 0) -> None:
        if amount <= 0:
            message = f"no amount: {amount}"
            raise ValueError(message)


class Data(Logged, StateMachine):
    """What an event carries reaches the callbacks that name it."""

    a = State(initial=True)
    b = State()

    put = a.to(b) | b.to(a)

    def on_put(self, *args: Any, key: str = "none", **kwargs: Any) -> list[Any]:
        own = {"event_data", "machine", "event", "model", "transition", "state", "source", "target"}
        rest = {k: v for k, v in kwargs.items() if k not in own}
        rest.pop("previous_configuration", None)
        rest.pop("new_configuration", None)
        note(self, f"{args} {key} {sorted(rest.items())}")
        return [args, key]


class Declared(Logged, StateChart):
    """Events that are declared: by name, combined, by prefix and by wildcard."""

    a = State(initial=True)
    b = State()
    c = State()

    go = Event(a.to(b), name="Go on")
    either = b.to(c) | c.to(b)
    a_error = Event(a.to(c), id="error.mine")
    anything = Event(c.to(a), id="*")


class Joined(Logged, StateChart):
    """`done.state` of a compound and of a parallel state, with the data of their final states."""

    class work(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State(final=True)
            end_left = l1.to(l2)

            def on_enter_l2(self) -> dict[str, int]:
                return {"left": 1}

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True)
            r2 = State(final=True)
            end_right = r1.to(r2)

    over = State(final=True)
    done_state_work = work.to(over)


class RootJoin(Logged, StateChart):
    """A parallel state at the root ends the chart when all its regions have ended."""

    class work(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State(final=True)
            end_left = l1.to(l2)

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True)
            r2 = State(final=True)
            end_right = r1.to(r2)


class Conflicts(Logged, StateChart):
    """Two regions want to leave on one event, and a child's transition wins over its parent's."""

    class both(State.Parallel):  # noqa: N801 - a state is named as its id
        class left(State.Compound):  # noqa: N801 - as above
            l1 = State(initial=True)
            l2 = State()
            flip = l1.to(l2)
            deep = l1.to(l2)

        class right(State.Compound):  # noqa: N801 - as above
            r1 = State(initial=True)
            r2 = State()
            turn = r1.to(r2)

    out_left = State()
    out_right = State()
    leave = both.left.l2.to(out_left) | both.right.r1.to(out_right)
    deep = both.to(out_left)
    again = out_left.to(both) | out_right.to(both)


class AsyncResults(Awaited, StateMachine):
    """Coroutines that return things, and one that sends."""

    a = State(initial=True)
    b = State()

    go = a.to(b, on="give") | b.to(a)
    chain = a.to.itself(on="send_on")

    async def give(self) -> int:
        return 1

    async def send_on(self) -> str:
        note(self, f"sent: {await self.send('go')!r}")
        return "sent"


class AsyncErrors(Awaited, StateMachine):
    """Coroutines that raise."""

    a = State(initial=True)
    b = State()

    go = a.to(b) | b.to(a)
    fail = a.to(b, on="break_down")

    async def break_down(self) -> None:
        message = "it broke"
        raise ValueError(message)


class AsyncCaught(Awaited, StateChart):
    """Coroutines that raise, where errors are events."""

    a = State(initial=True)
    b = State()

    go = a.to(b) | b.to(a)
    fail = a.to.itself(on="break_down")
    error_execution = a.to(b)

    async def break_down(self) -> None:
        message = "it broke"
        raise ValueError(message)
