"""A pool: a chart that takes items from a source and works each with a chart of its own.

```python
class Page(StateChart):                          # works one item, which its model has as `item`
    fetching = State(initial=True, invoke=effect(fetch, idempotent=True))
    fetched = State(final=True, donedata="size")
    done_invoke_fetching = fetching.to(fetched, on="keep")

    def keep(self, data):
        self.model.text = data

    def size(self):
        return len(self.model.text)

def next_page(model, active, outcomes):          # the source: it only asks, and takes nothing away
    return next((url for url in model.urls if url not in {*active, *outcomes}), None)

Crawl = pool(Page, next_page, cap=8, name="Crawl")

async with Host("state.db", machines=[Crawl]) as host:
    run = await host.start(Crawl, {"urls": ["a.example", "b.example"]})
    await host.settled(run)
    print((await host.read(run)).context["outcomes"])
```

The whole pool is one run: its row holds every worker. A crash at any moment loses no item and works
none twice; what a worker does outside is under the rules of its own effects.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypedDict

from statemachine import State, StateChart

from machines.charts.sources import ItemRefusedError, check_source, question_for, read_answer, shown
from machines.children import children, spawn, stop_child
from machines.definition import Machine
from machines.effects import exponential
from machines.errors import DefinitionError, MachinesError
from machines.timers import timeout as after
from snapshots.errors import InvalidKeyError

if TYPE_CHECKING:
    from machines.charts.sources import Question, Source
    from machines.effects import Backoff

EVENT: Final = re.compile(r"\w+(\.\w+)*")
OWN_NAMES: Final = frozenset({
    "working", "asking", "deciding", "full", "retrying", "waiting", "closing", "drained",
    "deadlocked", "unreachable", "stop_worker", "retry", "conclude", "error_execution",
    "done_invoke_asking", "done_invoke_working", "done_invoke_waiting",
})  # fmt: skip
"""Its states and events, which `wake` cannot be."""
WORKERS: Final = 40
RETRIES: Final = 4


class Outcome(TypedDict, total=False):
    """What became of an item: one entry of the `outcomes` in the context of a pool."""

    ended: list[str]
    """Names of the final states that its worker reached; none if there was no worker, or a stop."""
    data: Any
    """The worker's done data."""
    error: Exception
    """Why the worker could not be made, or that it was stopped; absent if it ended by itself."""


class WorkerStoppedError(MachinesError):
    """A worker was stopped before it had ended."""

    def __init__(self, worker: str, reason: str | None) -> None:
        why = f": {reason}" if reason else ""
        super().__init__(f"worker {worker!r} was stopped{why}", worker=worker, reason=reason)


def pool(
    worker: type[StateChart[Any]] | Machine,
    source: Source,
    *,
    cap: int = WORKERS,
    wake: str | None = None,
    interval_s: float | None = None,
    name: str | None = None,
    retries: int = RETRIES,
    backoff: Backoff = exponential,
) -> type[PoolChart]:
    """Return a chart class that works the items of a source, each in a chart of its own.

    `source` gets the parameters that it names out of `active` (the ids of the items being
    worked, a tuple of texts), `outcomes` (`Outcome` by id, in the order in which they ended; to
    be read only), `model`, `machine` and `ctx`. It returns an item: a mapping with an `"id"`,
    or a text or whole number that is its own id; or None: there is nothing more; or `(None,
    n)`: nothing to take now, n are open. It must only ask: a crash loses its answer, and it is
    asked again. It is asked one question at a time: at the start, after each item, when a
    worker has ended, at the event `wake`, and `interval_s` seconds after it had nothing. What
    wakes the pool while it asks has it ask again. After an error, or an answer that is none of
    these (`ItemRefusedError`), it is asked up to `retries` times more, the n-th time after
    `backoff(n)` seconds; then the pool waits.

    Each item gets a `worker` chart, spawned under the item's id with the input `{"item": item}`;
    at most `cap` at a time. An id is a printable text of 1 to 200 characters without a slash; 7 and
    "7" are one. An id that is being worked or has an outcome is never worked again: a source that
    gives one is behind, which counts as `(None, 1)`. The event `stop_worker`, with `worker=` an id
    and perhaps `reason=`, ends one.

    The run ends, when nobody works any more, as `drained` (nothing is open), or, if neither `wake`
    nor `interval_s` could change that, as `deadlocked` (some are open) or as `unreachable` (the
    last question failed). The latter two are failures of the run if
    `Machine(…, failed=["deadlocked", "unreachable"])` says so.

    The model is the run's own, of any class that `Machine(…, context=)` takes and that can take
    the pool's fields, too: `active`, `outcomes`, `open` (how many the last answer said are open),
    `error` (of the last question, None if it was answered), `failures` (questions that failed in a
    row) and `stale` (the last answer may be older than what the pool knows). Outcomes are kept
    whole and for good, up to the bound of the row (16 MiB), and are encoded with each step of the
    pool itself, a few microseconds for each: thousands are fine, a hundred thousand are not. An
    input may bring the `outcomes` of an earlier run: those items count as worked. As the child of
    another chart a pool gives them as its done data. An exception that leaves a worker's callbacks
    and that its chart does not catch ends the whole run, as anywhere.

    The shape, and with it the digest, follows from the worker's, and from whether there is a
    `wake` (and its name) and an interval; `name` (by default the worker's and `Pool`) and the
    numbers do not count.

    Raises DefinitionError for a worker or a source that cannot be one, and for senseless numbers.
    """
    machine = Machine.of(worker)
    chart_name = name or f"{machine.chart.__name__}Pool"
    _check_numbers(chart_name, cap, interval_s, retries)
    check_source(chart_name, source)
    _check_wake(chart_name, wake)
    made = _chart(machine, question_for(source), wake, interval_s)
    made.cap, made.retries, made.backoff = cap, retries, staticmethod(backoff)
    made.wakes = wake is not None or interval_s is not None
    made.__name__ = made.__qualname__ = made.name = chart_name
    return made


class PoolChart(StateChart[Any]):
    """What every pool does; its states are made by `pool`."""

    catch_errors_as_events = False

    cap: int = WORKERS
    retries: int = RETRIES
    backoff: Backoff = staticmethod(exponential)
    wakes: bool = False
    """Whether anything but a worker's end could lead to another question."""

    def on_enter_working(self) -> None:
        """Give the model the pool's fields."""
        model = self.model
        model.active, model.open = [], 0
        model.error, model.failures, model.stale = None, 0, False
        model.outcomes = dict(getattr(model, "outcomes", None) or {})

    def on_enter_asking(self) -> None:
        """Begin a question: from here on, news make its answer stale."""
        self.model.stale = False

    def on_enter_retrying(self) -> None:
        """Ask again after a while."""
        delay_ms = round(self.backoff(self.model.failures) * 1_000)
        self.send("retry", delay=delay_ms, send_id="retry")

    def on_exit_retrying(self) -> None:
        """Forget what was to come: something else has it ask again."""
        self.cancel_event("retry")

    def on_enter_closing(self) -> None:
        """End behind whatever is queued by now: it may be news."""
        self.send("conclude")

    # -- what is told ---------------------------------------------------------------------------

    def take(self, data: Any) -> None:
        """Take the source's answer: spawn a worker, or note that there is nothing."""
        model = self.model
        try:
            found = read_answer(data)
            if isinstance(found, int):
                model.open = found
            elif found in model.active or found in model.outcomes:
                model.open = 1
            else:
                spawn(self, found, {"item": data})
                model.active = [*model.active, found]
                model.stale = True
        except InvalidKeyError as error:
            self.excuse(ItemRefusedError(shown(data), error.reason))
        except ItemRefusedError as error:
            self.excuse(error)
        else:
            model.error, model.failures = None, 0

    def excuse(self, error: Exception) -> None:
        """Note why there is no answer."""
        self.model.error = error
        self.model.failures += 1

    def hear(self) -> None:
        """Note that the source may have something that it had not."""
        self.model.stale, self.model.failures = True, 0

    def collect(
        self,
        child: str,
        data: Any = None,
        ended: list[str] | tuple[str, ...] = (),
        error: Exception | None = None,
    ) -> None:
        """Keep how a worker ended."""
        model = self.model
        if child not in model.active:
            return
        outcome = Outcome(ended=list(ended), data=data)
        if error is not None:
            outcome["error"] = error
        model.active = [id_ for id_ in model.active if id_ != child]
        model.outcomes = {**model.outcomes, child: outcome}
        self.hear()

    def stop_one(self, worker: str, reason: str | None = None) -> bool:
        """Stop a worker; return whether it had not ended."""
        stopped = stop_child(self, worker)
        if stopped:
            self.collect(worker, error=WorkerStoppedError(worker, reason))
        return stopped

    def result(self) -> dict[str, Outcome] | None:
        """Return the outcomes for a chart that invoked the pool; a run has them in its context."""
        node: Any = self._engine.node
        return dict(self.model.outcomes) if node.parent is not None else None

    # -- what is decided ------------------------------------------------------------------------

    def is_a_workers(self, child: str | None = None) -> bool:
        """Whether an error is that of a worker that could not be made."""
        return child is not None

    def is_worked(self, worker: str) -> bool:
        """Whether an item is being worked."""
        return worker in self.model.active

    def is_full(self) -> bool:
        """Whether as many work as may."""
        return len(self.model.active) >= self.cap

    def is_stale(self) -> bool:
        """Whether the source has to be asked."""
        return bool(self.model.stale)

    def is_patient(self) -> bool:
        """Whether a question that failed is to be asked again."""
        return self.model.error is not None and self.model.failures <= self.retries

    def is_over(self) -> bool:
        """Whether nobody works and nothing is to come."""
        return not self.model.active and (self.has_nothing() or not self.wakes)

    def has_nothing(self) -> bool:
        """Whether the source said that nothing is open."""
        return self.model.error is None and not self.model.open

    def was_answered(self) -> bool:
        """Whether the last question has an answer that could be taken."""
        return self.model.error is None


def _chart(
    machine: Machine, question: Question, wake: str | None, interval_s: float | None
) -> type[PoolChart]:
    """Return the states of a pool.

    While it asks, what comes is noted without leaving the state: leaving it would take the
    question back.
    """
    pause = None if interval_s is None else after(interval_s)

    class Pool(PoolChart):
        """Works the items of a source."""

        class working(State.Compound, invoke=children(machine)):  # noqa: N801 - a state, named as states are
            """Where there can be workers."""

            asking = State(initial=True, invoke=question)
            deciding = State()
            full = State()
            retrying = State()
            waiting = State(invoke=pause)
            closing = State()

            deciding.to(full, cond="is_full")
            deciding.to(asking, cond="is_stale")
            deciding.to(retrying, cond="is_patient")
            deciding.to(closing, cond="is_over")
            deciding.to(waiting)
            done_invoke_asking = asking.to(deciding, on="take")
            error_execution = (
                asking.to(None, cond="is_a_workers", on="collect")
                | asking.to(deciding, on="excuse")
                | deciding.from_(full, retrying, waiting, cond="is_a_workers", on="collect")
            )
            done_invoke_working = asking.to(None, on="collect") | deciding.from_(
                full, retrying, waiting, on="collect"
            )
            stop_worker = asking.to(None, cond="is_worked", on="stop_one") | deciding.from_(
                full, retrying, waiting, cond="is_worked", on="stop_one"
            )
            retry = retrying.to(asking)
            if pause is not None:
                done_invoke_waiting = waiting.to(deciding, on="hear")
            if wake is not None:
                asking.to(None, event=wake, on="hear")
                deciding.from_(retrying, waiting, closing, event=wake, on="hear")

        drained = State(final=True, donedata="result")
        deadlocked = State(final=True, donedata="result")
        unreachable = State(final=True, donedata="result")
        conclude = (
            working.closing.to(unreachable, unless="was_answered")
            | working.closing.to(drained, cond="has_nothing")
            | working.closing.to(deadlocked)
        )

    return Pool


def _check_numbers(name: str, cap: int, interval_s: float | None, retries: int) -> None:
    if cap < 1 or retries < 0 or (interval_s is not None and not interval_s > 0):
        given = f"cap={cap!r}, interval_s={interval_s!r}, retries={retries!r}"
        raise DefinitionError(name, given, "give positive numbers")


def _check_wake(name: str, wake: str | None) -> None:
    if wake is None:
        return
    if not isinstance(wake, str) or not EVENT.fullmatch(wake):
        raise DefinitionError(name, f"wake={wake!r} is no event", "give the name of one event")
    of_the_library = wake.split(".")[0] in ("done", "error")
    if of_the_library or wake in OWN_NAMES or hasattr(PoolChart, wake):
        reason = f"wake={wake!r} is a name that it uses itself"
        raise DefinitionError(name, reason, "give the event another name")
