"""One run without a host: for a web view or a script, without an event loop.

with open_run(store, Order, "order-7", {"amount": 12}) as chart:
chart.send("pay")
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar, overload

from statemachine import StateChart

from machines.arguments import is_async
from machines.definition import Machine
from machines.effects import Effect
from machines.engine.queues import Answer
from machines.engine.tree import drive
from machines.errors import (
    HostStoppedError,
    NeedsLoopError,
    RunFinishedError,
    UnknownMachineError,
    UnsettledEffectError,
)
from machines.lock import FileLock
from machines.names import every_state
from machines.recovery.decision import ask, decide, drifted
from machines.recovery.migrating import migrate
from machines.run.calls import perform
from machines.run.inbox import sender
from machines.run.rollback import put_back
from machines.run.run import Run
from machines.run.telling import SILENCE
from machines.run.worker import Halt
from machines.run.writing import save_timers
from machines.telemetry import Dispatcher
from snapshots.clock import SystemClock
from snapshots.errors import RunNotFoundError
from snapshots.identifiers import check_run_id
from snapshots.storage.nesting import OpenTransactionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping

    from machines.definition import Chart
    from machines.engine.nodes import Call
    from machines.recovery.decision import Decision
    from machines.recovery.migrating import MakeRun
    from machines.run.telling import Silence
    from snapshots.clock import Clock
    from snapshots.errors import SnapshotsError
    from snapshots.records import RunHeader
    from snapshots.store import SnapshotStore

C = TypeVar("C", bound=StateChart[Any])


class InlineHands:
    """Does work where it stands: it blocks, and nothing is awaited."""

    ending = False

    def are_ended(self) -> bool:
        """Whether a cancellation was asked for: nobody can, while the work blocks."""
        return False

    async def perform(
        self,
        work: Callable[[], Any],
        *,
        asynchronous: bool,
        timeout_s: float | None = None,
        leaving: Callable[[], None] | None = None,
    ) -> Any:
        """Do the work; what could not be done without a loop was refused before."""
        assert not asynchronous
        assert timeout_s is None
        if leaving is not None:
            leaving()
        return work()

    async def sleep(self, seconds: float) -> None:
        """Wait, and hold the caller up."""
        time.sleep(seconds)  # noqa: ASYNC251 - there is no loop to hold up


class InlineWorker:
    """Runs a run's tree and its work on the caller's thread, one after the other."""

    has_loop = False
    storage = None
    """Its runs have the storage of their own file."""

    def __init__(self, told: Dispatcher | Silence = SILENCE) -> None:
        self.told = told
        self._calls: dict[tuple[str, str], Call] = {}
        self._hands = InlineHands()
        self._working = False

    def start_call(self, run: Run, call: Call) -> None:
        """Keep the work until the tree is at rest.

        Raises NeedsLoopError for a coroutine, a timeout, or a probe that is a coroutine.
        """
        needs = "the coroutine" if call.is_async else needs_loop(call)
        if needs:
            raise NeedsLoopError(run.machine.name, f"invokes {needs} {call.invoke!r}")
        call.context.send = sender(run, call.path)
        self._calls.setdefault(call.key, call)

    def stop_call(self, run: Run, path: str, invoke: str) -> None:
        """Forget work that has not begun."""
        del run
        self._calls.pop((path, invoke), None)

    def wake(self, run: Run) -> None:
        """Run the tree to rest, then its work, until there is neither.

        Raises RunFinishedError if that ended the run in a way that its chart does not know of.
        """
        if run.over and run.status == "live":
            raise HostStoppedError(run.store.path, "the block of this open_run was left")
        if run.tree.pumping:
            return
        if run.tree.unsaved:
            save_timers(run)
        if not run.tree.is_sync:
            raise NeedsLoopError(run.machine.name, "has coroutine callbacks")
        if run.goes_on:
            self._drive(run)
        if run.status in ("error", "cancelled"):
            raise RunFinishedError(run.run_id, run.status) from run.cause
        if not self._working:
            self._work(run)

    def _drive(self, run: Run) -> None:
        if self.told.each:
            self.told.begins(run)
        try:
            with suppress(Halt):
                drive(run.tree)
        except BaseException as error:
            if not isinstance(error, Exception):
                self._interrupted(run)
            raise
        if not run.tree.is_sync and run.goes_on:
            raise NeedsLoopError(run.machine.name, "invokes a chart with coroutine callbacks")

    def _interrupted(self, run: Run) -> None:
        """Put a run back to its last save: who stops the interrupt must not find half a macrostep.

        The event that was being run did not happen; what is queued behind it waits.
        """
        if run.header is not None and run.goes_on:
            turn = run.tree.turn
            with suppress(Halt):
                put_back(run, turn[0].engine.current if turn else None)

    def _work(self, run: Run) -> None:
        self._working = True
        try:
            while self._calls and run.goes_on:
                call = self._calls.pop(next(iter(self._calls)))
                _finish(perform(run, call, self._hands))
        finally:
            self._working = False

    def post(self, function: Callable[[], object]) -> None:
        """Call it: there is one thread."""
        function()

    def stalled(self, run: Run, error: SnapshotsError) -> None:
        """Raise what the save failed with: nobody tries again later."""
        run.paused = False
        raise error

    def saved(self, run: Run) -> None:
        """Pass on what the save made true; timers are looked at when the run is next opened.

        Nothing is told of a save within a storage's transaction: that may be taken back.
        """
        if self.told.hears and not run.store.is_lent:
            self.told.saved(run)

    def ended(self, run: Run) -> None:
        """Forget its work."""
        self._calls.clear()
        if not run.store.is_lent:
            self.told.ended(run)

    def lost(self, run: Run, error: Exception) -> None:
        """Raise what kept the charts from being built anew: the row is as it was saved last."""
        run.release(error)
        raise error


def coroutine_invoked(chart: type[StateChart[Any]], seen: Collection[Any] = ()) -> str | None:
    """Return the id of a state that invokes a coroutine, in the chart or in one that it invokes."""
    for state in every_state(list(chart.states)):
        for spec in state.invoke:
            source: Any = getattr(spec.func, "_invoke_handler", spec.func)
            inner = getattr(source, "chart", source)
            if isinstance(inner, type) and issubclass(inner, StateChart):
                if inner not in seen and coroutine_invoked(inner, (*seen, chart)) is not None:
                    return state.id
                continue
            work = source.fn if isinstance(source, Effect) else getattr(source, "run", source)
            work = getattr(chart, work, None) if isinstance(work, str) else work
            if callable(work) and is_async(work):
                return state.id
    return None


def needs_loop(call: Call) -> str:
    """Return what of an effect only a loop could do, empty if nothing."""
    effect = call.spec
    if not isinstance(effect, Effect):
        return ""
    if effect.timeout is not None:
        return "with a timeout"
    probes = effect.probe is not None and effect.bind(call.context, effect.probe)[1]
    return "with a coroutine for a probe" if probes else ""


def _finish(coroutine: Coroutine[Any, Any, None]) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    coroutine.close()
    message = "inline work awaited something"
    raise AssertionError(message)


@overload
@contextmanager
def open_run(
    store: SnapshotStore,
    chart: type[C],
    run_id: str,
    input: Mapping[str, Any] | None = None,
    *,
    clock: Clock | None = None,
) -> Iterator[C]: ...


@overload
@contextmanager
def open_run(
    store: SnapshotStore,
    chart: Machine,
    run_id: str,
    input: Mapping[str, Any] | None = None,
    *,
    clock: Clock | None = None,
) -> Iterator[StateChart[Any]]: ...


@contextmanager
def open_run(
    store: SnapshotStore,
    chart: Chart,
    run_id: str,
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the blob's word for it
    *,
    clock: Clock | None = None,
) -> Iterator[StateChart[Any]]:
    """Load a run, or start it with an input, and yield its chart: each macrostep is saved.

    Timers that are due fire as it is opened. What the chart invokes is done on this thread, after
    the save. A chart that raises is put back to its last saved snapshot, in place.

    A run that reached its end can be looked at. Raises HostLockedError while a host holds the file
    (send to the host), NeedsLoopError for a chart with coroutines, UnknownMachineError for a run of
    another machine, RunFinishedError for one that ended otherwise, UnsettledEffectError while a
    call may be under way elsewhere, DriftError, MigrationRefusedError, DecodeError,
    OpenTransactionError inside a block of `store.transaction()`; and, from `send`,
    RevisionConflictError if another process saved the run.
    """
    if store.in_transaction and not store.is_lent:
        # Its calls would leave before the row that says so is on disk.
        raise OpenTransactionError(run_id, store.path)
    machine = Machine.of(chart)
    state = coroutine_invoked(machine.chart)
    if state is not None:
        raise NeedsLoopError(machine.name, f"invokes a coroutine in its state {state!r}")
    with FileLock(store.path).take(shared=True):
        run = _load(store, machine, check_run_id(run_id), dict(input or {}), clock or SystemClock())
        assert run.tree.root is not None
        try:
            yield run.tree.root.chart
        finally:
            run.release(HostStoppedError(store.path, "the block of this open_run was left"))


def _load(
    store: SnapshotStore, machine: Machine, run_id: str, given: dict[str, Any], clock: Clock
) -> Run:
    def made(machine: Machine, run_id: str, given: Mapping[str, Any]) -> Run:
        return Run(store, machine, run_id, given, InlineWorker(told), clock=clock)

    told = Dispatcher(clock)

    try:
        stored = store.load(run_id)
    except RunNotFoundError:
        run = made(machine, run_id, given)
        told.starting(run)
        return _start(run)
    if stored.header.machine != machine.name:
        raise UnknownMachineError(stored.header.machine, (machine.name,), run_id)
    known = {machine.name: machine}
    live = stored.header.status == "live"
    decision = decide(stored, known, store.shape(stored.header.digest), reconcile=live)
    if decision.error is not None:
        raise decision.error
    if stored.header.status not in ("live", "done", "failed"):
        raise RunFinishedError(run_id, stored.header.status)
    if decision.fate == "migrate" and not live:
        raise drifted(stored, machine, store.shape(stored.header.digest))
    _refuse_calling(run_id, decision.value)
    run = _restored(stored.header, decision, made)
    if live:
        run.resume(restarted=True)
        run.wake()
    return run


def _restored(header: RunHeader, decision: Decision, made: MakeRun) -> Run:
    """Return a run that was built; one that is to be migrated is written so. Nothing has begun."""
    machine, value = decision.machine, decision.value
    assert machine is not None
    if decision.fate != "migrate":
        run = made(machine, header.run_id, value.get("input", {}))
        run.restore(header, value, restarted=True)
        return run
    run = migrate(header, value, machine, decision.steps, made)
    if not run.tree.is_sync:
        raise NeedsLoopError(machine.name, "has coroutine callbacks")
    gone = ask(machine, run.run_id, run.as_value())
    if gone is not None and gone.error is not None:
        raise gone.error
    run.write()
    return run


def _refuse_calling(run_id: str, value: dict[str, Any]) -> None:
    """Refuse a run of which another process may be making a call at this moment.

    A host knows that it is alone; here a call that seems to be hidden may only be under way.
    """
    for row in value.get("effects", ()):
        if row["status"] == "calling" and not row.get("idempotent"):
            hint = "wait for the process that makes the call, or open the file with a Host"
            raise UnsettledEffectError(run_id, row["id"], "calling", hint)


def _start(run: Run) -> Run:
    run.begin()
    if not run.tree.is_sync:
        raise NeedsLoopError(run.machine.name, "has coroutine callbacks")
    run.stored = first = Answer()
    run.wake()
    first.result()
    return run
