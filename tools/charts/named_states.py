"""Named charts for what a chart is at rest: its states, its data and how it was made."""

from __future__ import annotations

from typing import Any

from statemachine import HistoryState, State, StateChart
from statemachine.contrib.weighted import to, weighted_transitions

from tools.charts.acts import AwaitingWatcher, Watcher
from tools.charts.spec import Send
from tools.charts.subject import NamedChart, Traced, named
from tools.charts.trace import TraceModel


def configuration_order() -> NamedChart:
    """Guards the order of the active states: two regions want to leave on the same event.

    The region whose state was entered first wins. `flip` re-enters the left one, so the right
    wins: `by_right`. In document order, or sorted, the left would: `by_left`.
    """

    def build() -> type[StateChart[Any]]:
        class ConfigurationOrder(Traced):
            class Both(State.Parallel):
                class Left(State.Compound):
                    l1 = State(initial=True)
                    l2 = State()
                    flip = l1.to(l2)

                class Right(State.Compound):
                    r1 = State(initial=True)
                    r2 = State()
                    turn = r1.to(r2)

            by_left = State(final=True)
            by_right = State(final=True)
            leave = Both.Left.l2.to(by_left) | Both.Right.r1.to(by_right)

        return ConfigurationOrder

    script = (Send(event="flip"), Send(event="leave"))
    return named(configuration_order, row="configuration", build=build, script=script)


def history() -> NamedChart:
    """Guards what a shallow history state recorded: `again` leads back to `second`.

    With nothing recorded it leads to the default, `first`.
    """

    def build() -> type[StateChart[Any]]:
        class History(Traced):
            class Work(State.Compound):
                first = State(initial=True)
                second = State()
                back = HistoryState()
                step = first.to(second)
                back.to(first)

            outside = State()
            away = Work.to(outside)
            again = outside.to(Work.back)

        return History

    script = (Send(event="step"), Send(event="away"), Send(event="again"))
    return named(history, row="history", build=build, script=script)


def deep_history() -> NamedChart:
    """Guards what a deep history state recorded: `again` leads back to `inner2` in `Inside`.

    Recorded as one state, or not at all, it leads to `inner1` or to the default, `first`.
    """

    def build() -> type[StateChart[Any]]:
        class DeepHistory(Traced):
            class Work(State.Compound):
                first = State(initial=True)

                class Inside(State.Compound):
                    inner1 = State(initial=True)
                    inner2 = State()
                    deeper = inner1.to(inner2)

                back = HistoryState(type="deep")
                step = first.to(Inside)
                back.to(first)

            outside = State()
            away = Work.to(outside)
            again = outside.to(Work.back)

        return DeepHistory

    events = ("step", "deeper", "away", "again")
    script = tuple(Send(event=event) for event in events)
    return named(deep_history, row="history", build=build, script=script)


def model_fields() -> NamedChart:
    """Guards the model's fields: two coins open the gate.

    Without them the coins are gone, or the trace is, and `opened` is never entered.
    """

    def build() -> type[StateChart[Any]]:
        class ModelFields(Traced):
            closed = State(initial=True)
            opened = State()
            coin = closed.to.itself(internal=True, on="take")
            push = closed.to(opened, cond="coins >= 2")
            shut = opened.to(closed)

            def take(self, model: Any) -> None:
                model.coins += 1

        return ModelFields

    script = (Send(event="coin"), Send(event="coin"), Send(event="push"))
    fields = {"coins": 0}
    return named(
        model_fields, row="model fields", build=build, script=script, fields=fields,
        reported=("coins",),
    )  # fmt: skip


def own_attributes() -> NamedChart:
    """Guards the attributes that a chart puts on itself: the third try gives up.

    The constructor sets `tries` to 0 again; without the saved value `given_up` is never entered.
    """

    def build() -> type[StateChart[Any]]:
        class OwnAttributes(Traced):
            trying = State(initial=True)
            given_up = State(final=True)
            fail = trying.to(given_up, cond="tries >= 2") | trying.to(trying, on="count")

            def __init__(self, model: TraceModel | None = None) -> None:
                self.tries = 0
                super().__init__(model)

            def count(self) -> None:
                self.tries += 1

        return OwnAttributes

    script = (Send(event="fail"),) * 3
    return named(
        own_attributes, row="own attributes", build=build, script=script, attributes=("tries",)
    )


def constructor_arguments() -> NamedChart:
    """Guards the constructor's arguments: only the listener's `setup` sees `limit`, which is 7.

    Made anew without it, the listener traces its default, `limit=1`.
    """

    def build() -> type[StateChart[Any]]:
        class ConstructorArguments(StateChart[TraceModel]):
            listeners = [Watcher]  # noqa: RUF012 - how the library takes listeners of a class
            here = State(initial=True)
            there = State()
            go = here.to(there) | there.to(here)

            def __init__(self, model: TraceModel | None = None, limit: int = 1) -> None:
                super().__init__(TraceModel() if model is None else model, limit=limit)

        return ConstructorArguments

    script = (Send(event="go"), Send(event="go"))
    return named(
        constructor_arguments, row="constructor arguments", build=build, script=script,
        start={"limit": 7},
    )  # fmt: skip


def finished_flag() -> NamedChart:
    """Guards that a chart is finished: restored in its final state, it still is.

    Without the flag it does not say so, the script goes on, and the trace has one more result.
    """

    def build() -> type[StateChart[Any]]:
        class FinishedFlag(Traced):
            opened = State(initial=True)
            closed = State(final=True)
            close = opened.to(closed)

        return FinishedFlag

    script = (Send(event="close"), Send(event="close"))
    return named(finished_flag, row="status and started flags", build=build, script=script)


def root_parallel_is_final() -> NamedChart:
    """Guards the pending end of a root parallel state: all its regions are final.

    The end is noted within the macrostep and carried out after the save. Without the note the
    chart never ends.
    """

    def build() -> type[StateChart[Any]]:
        class RootParallelIsFinal(Traced):
            validate_final_reachability = False

            class Both(State.Parallel):
                class Left(State.Compound):
                    l1 = State(initial=True)
                    l2 = State(final=True)
                    finish = l1.to(l2)

                class Right(State.Compound):
                    r1 = State(initial=True)
                    r2 = State(final=True)
                    finish = r1.to(r2)

            validate_trap_states = False

        return RootParallelIsFinal

    script = (Send(event="finish"), Send(event="finish"))
    return named(root_parallel_is_final, row="root parallel is final", build=build, script=script)


def engine_kind() -> NamedChart:
    """Guards the kind of the engine: a listener of the class makes it asynchronous.

    The process after the restart has a listener without a coroutine, so its engine would be the
    other one, of which the snapshot is no snapshot: rebuilding must be refused. Without the row
    the chart goes on as if nothing had changed.
    """

    def make(listener: type) -> type[StateChart[Any]]:
        class EngineKind(Traced):
            listeners = [listener]  # noqa: RUF012 - how the library takes listeners of a class
            here = State(initial=True)
            there = State()
            go = here.to(there) | there.to(here)

        return EngineKind

    return named(
        engine_kind, row="engine kind", build=lambda: make(AwaitingWatcher),
        rebuild=lambda: make(Watcher), is_refused=True,
        script=(Send(event="go"), Send(event="go")),
    )  # fmt: skip


def weighted_generator() -> NamedChart:
    """Guards the state of weighted transitions' generator: ten rolls, one sequence.

    The generator is the class's; where it starts over at each restart, every roll is the first.
    """

    def build() -> type[StateChart[Any]]:
        class WeightedGenerator(Traced):
            rolling = State(initial=True)
            low = State()
            high = State()
            roll = weighted_transitions(rolling, to(low, 50), to(high, 50), seed=7)
            again = low.to(rolling) | high.to(rolling)

        return WeightedGenerator

    script = (Send(event="roll"), Send(event="again")) * 10
    return named(weighted_generator, row="weighted generator", build=build, script=script)
