"""Named charts for what a chart has yet to do: its queue, its timers and what it invoked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine import State, StateChart
from statemachine.contrib.timeout import timeout

from tools.charts.spec import Advance, Finish, Send
from tools.charts.subject import NamedChart, Traced, named

if TYPE_CHECKING:
    from tools.charts.trace import TraceModel


def _job(ctx: Any, n: Any = None) -> dict[str, Any]:
    """What these charts invoke: it gives the id of its invocation and its state's data."""
    return {"id": ctx.invokeid, "n": n}


def external_queue() -> NamedChart:
    """Guards the external queue and its order: `busy` sends itself two events as it is entered.

    Lost, the chart stays in `busy`; swapped, `second` comes too early and is dropped.
    """

    def build() -> type[StateChart[Any]]:
        class ExternalQueue(Traced):
            idle = State(initial=True)
            busy = State()
            half = State()
            done = State(final=True)
            begin = idle.to(busy)
            first = busy.to(half)
            second = half.to(done)

            def on_enter_busy(self) -> None:
                self.send("first")
                self.send("second", 5, data="x")

        return ExternalQueue

    return named(external_queue, row="external queue", build=build, script=(Send(event="begin"),))


def timers() -> NamedChart:
    """Guards the timers: two delayed events of one state, due 100 and 40 ms after it is entered.

    Lost, `waiting` is never left; with their times counted anew from a restart they come late.
    """

    def build() -> type[StateChart[Any]]:
        class Timers(Traced):
            # Else each `ping` would enter `waiting`, which sends its events again.
            enable_self_transition_entries = False
            idle = State(initial=True)
            waiting = State()
            warned = State()
            expired = State(final=True)
            begin = idle.to(waiting)
            warn = waiting.to(warned)
            expire = warned.to(expired) | waiting.to(expired)
            ping = waiting.to.itself(internal=True) | warned.to.itself(internal=True)

            def on_enter_waiting(self) -> None:
                self.send("expire", delay=100)
                self.send("warn", delay=40, data="soon")

        return Timers

    script = (
        Send(event="begin"), Advance(ms=30), Send(event="ping"), Advance(ms=15),
        Send(event="ping"), Advance(ms=54), Send(event="ping"), Advance(ms=1),
    )  # fmt: skip
    return named(timers, row="timers", build=build, script=script)


def send_ids() -> NamedChart:
    """Guards the send ids of timers: `stop` cancels `later` after a restart.

    Without its id the event cannot be cancelled, and `late` is entered.
    """

    def build() -> type[StateChart[Any]]:
        class SendIds(Traced):
            waiting = State(initial=True)
            stopped = State()
            late = State()
            stop = waiting.to(stopped, on="forget")
            later = stopped.to(late)
            again = late.to(waiting)

            def on_enter_waiting(self) -> None:
                self.send("later", delay=50, send_id="l")

            def forget(self) -> None:
                self.cancel_event("l")

        return SendIds

    script = (Advance(ms=10), Send(event="stop"), Advance(ms=100))
    return named(send_ids, row="timers", build=build, script=script)


def timeouts() -> NamedChart:
    """Guards the due time of a timeout: 100 ms after `asking` is entered, asked again at 60.

    Lost, `asking` is never left; counted anew from the restart, the 100 ms are not over at 100.
    """

    def build() -> type[StateChart[Any]]:
        class Timeouts(Traced):
            asking = State(initial=True, invoke=timeout(0.1, on="expired"))
            given_up = State(final=True)
            expired = asking.to(given_up)
            ping = asking.to.itself(internal=True, on="note")

            # An ordinary self-transition would set the timeout anew.
            enable_self_transition_entries = False

            def note(self, model: TraceModel) -> None:
                model.happened("act", "ping")

        return Timeouts

    script = (Advance(ms=60), Send(event="ping"), Advance(ms=40), Send(event="ping"))
    return named(timeouts, row="timers", build=build, script=script)


def pending_invokes() -> NamedChart:
    """Guards what is marked to be invoked, with its data: the save comes before the spawn.

    Lost, nothing is invoked and `working` is never left; without its data `n` is None.
    """

    def build() -> type[StateChart[Any]]:
        class PendingInvokes(Traced):
            idle = State(initial=True)
            working = State(invoke=_job)
            done = State(final=True)
            begin = idle.to(working)
            done_invoke_working = working.to(done)

        return PendingInvokes

    script = (Send(event="begin", kwargs={"n": 3}), Finish())
    return named(pending_invokes, row="pending invokes", build=build, script=script)


def active_invokes() -> NamedChart:
    """Guards what is invoked and under way: `ping` is a boundary while the work goes on.

    Lost, the work is never started again and `working` is never left.
    """

    def build() -> type[StateChart[Any]]:
        class ActiveInvokes(Traced):
            enable_self_transition_entries = False
            working = State(initial=True, invoke=[_job, timeout(5)])
            done = State(final=True)
            ping = working.to.itself(internal=True, on="note")
            done_invoke_working = working.to(done)

            def note(self, model: TraceModel) -> None:
                model.happened("act", "ping")

        return ActiveInvokes

    script = (Send(event="ping"), Finish(), Advance(ms=6000))
    return named(active_invokes, row="active invokes", build=build, script=script)


def done_sent_flag() -> NamedChart:
    """Guards that an invoke's end was sent: its state stays active, the work is over.

    Without the flag the work runs again after each restart, and `count` goes above 1.
    """

    def build() -> type[StateChart[Any]]:
        class DoneSentFlag(Traced):
            enable_self_transition_entries = False
            working = State(initial=True, invoke=_job)
            over = State(final=True)
            done_invoke_working = working.to.itself(internal=True, on="count_it")
            stop = working.to(over)
            ping = working.to.itself(internal=True)

            def count_it(self, model: Any) -> None:
                model.count += 1
                model.happened("act", f"done {model.count}")

        return DoneSentFlag

    script = (Finish(), Send(event="ping"), Finish(), Finish(), Send(event="stop"))
    return named(
        done_sent_flag, row="active invokes", build=build, script=script, fields={"count": 0},
        reported=("count",),
    )  # fmt: skip


def invoke_counter() -> NamedChart:
    """Guards the count of invocations: only the second time does `working` lead to `done`.

    Counted from 1 again after a restart, every invocation is `working.1` and leads to `again`.
    """

    def build() -> type[StateChart[Any]]:
        class InvokeCounter(Traced):
            working = State(initial=True, invoke=_job)
            again = State()
            done = State(final=True)
            retry = again.to(working)
            working.to(done, event="done.invoke.working.2")
            working.to(again, event="done.invoke.working")

        return InvokeCounter

    script = (Finish(), Send(event="retry"), Finish())
    return named(invoke_counter, row="invoke counter", build=build, script=script)


def children() -> NamedChart:
    """Guards child charts, two deep: each is in the middle of its own life at a boundary.

    Lost or begun anew, `Worker` needs its first job again, and the same `Finish` steps no longer
    lead to `done`; the trace of each child tells where it was.
    """

    def build() -> type[StateChart[Any]]:
        class Inner(Traced):
            one = State(initial=True, invoke=_job)
            two = State(invoke=_job)
            end = State(final=True)
            done_invoke_one = one.to(two)
            done_invoke_two = two.to(end)

        class Worker(Traced):
            alone = State(initial=True, invoke=_job)
            delegating = State(invoke=Inner)
            end = State(final=True)
            done_invoke_alone = alone.to(delegating)
            done_invoke_delegating = delegating.to(end)

        class Children(Traced):
            working = State(initial=True, invoke=Worker)
            done = State(final=True)
            done_invoke_working = working.to(done)
            ping = working.to.itself(internal=True)

            # The self-transition must not invoke a second worker.
            enable_self_transition_entries = False

        return Children

    script = (Finish(), Send(event="ping"), Finish(), Send(event="ping"), Finish())
    return named(
        children, row="children", build=build, script=script,
        incomparable=("the library calls a child done when its constructor returns",),
    )  # fmt: skip


def started_flag() -> NamedChart:
    """Guards whether a chart was started: a child is made first, and entered in its own turn.

    A restart in between must neither forget the entering, which leaves the child and its parent
    stuck, nor repeat it, which traces `waiting` twice.
    """

    def build() -> type[StateChart[Any]]:
        class Kid(Traced):
            waiting = State(initial=True)
            end = State(final=True)
            waiting.to(end)

        class StartedFlag(Traced):
            working = State(initial=True, invoke=Kid)
            done = State(final=True)
            done_invoke_working = working.to(done)

        return StartedFlag

    return named(
        started_flag, row="status and started flags", build=build, script=(Send(event="ping"),)
    )
