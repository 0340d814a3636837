"""A laboratory for charts: one file, one clock, an outside that is faked, and hosts that die."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

from statemachine import StateChart

from machines.definition import Machine
from machines.effects import Effect
from machines.errors import DefinitionError
from machines.host.host import Host
from machines.host.workshop import Workshop
from machines.limits import LAB_ALARMS_MAX, LAB_PATIENCE_S
from machines.names import every_state
from machines.run.activity import nodes_of
from machines.run.waiters import hear
from machines.telemetry import Dispatcher
from machines.testing.fakes import Fake
from machines.testing.hands import ManualHands, Waits
from machines.testing.points import Crashed, Plan, is_of_a_death
from snapshots.testing import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from machines.definition import Chart
    from machines.engine.nodes import Call, Node
    from machines.run.run import Run
    from snapshots.ledgers.effects import EffectRow
    from snapshots.storage import Backend

QUIET_TURNS: Final = 20
SPINS: Final = 50
NAP_S: Final = 0.001


class Lab:
    """Where charts are tested on real hosts, one after the other on one file.

        lab = Lab(tmp_path / "state.db", machines=[Order])
        charge = lab.fake("charge").returns("receipt-7")
        lab.crash_at("after call")
        async with lab.host() as host:
            run = await host.start(Order)
            await host.send(run, "pay")
            await lab.settled()                  # the host dies here: its block is left
        async with lab.host() as host:           # the next one, on the same file
            await lab.advance(60_000)            # timers fire, each at its time

    The clock is turned by hand: timers, backoffs and timeouts of effects go by it. Every save is
    compared with a full capture.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        machines: Iterable[Chart],
        *,
        clock: ManualClock | None = None,
        **options: Any,
    ) -> None:
        """Take what each `Host` of it gets: its file, its machines, and its other options."""
        self.path = os.fspath(path)
        self.clock = clock or ManualClock()
        self.waits = Waits(self.clock)
        self.plan = Plan()
        self._machines = [Machine.of(machine) for machine in machines]
        self._options = options
        self._fakes: dict[str, Fake] = {}
        self._host: LabHost | None = None

    def host(self, **options: Any) -> LabHost:
        """Return the next host on the file, not opened yet; `options` are those of `Host`."""
        self._host = LabHost(self, self._machines, **{**self._options, **options})
        return self._host

    def fake(self, kind: str, *, otherwise: Any = None) -> Fake:
        """Return what stands in for all effects of a kind, by default their function's name.

        Raises DefinitionError if no machine of this lab has one: the real one would be called.
        """
        known = {effect.kind for machine in self._machines for effect in _effects(machine.chart)}
        if kind not in known:
            reason, hint = f"no effect is of kind {kind!r}", f"there are {sorted(known)}"
            raise DefinitionError(self._machines[0].name if self._machines else "", reason, hint)
        return self._fakes.setdefault(kind, Fake(kind, self.waits, self._die, otherwise))

    def fake_of(self, effect: Effect) -> Fake | None:
        """Return what stands in for an effect, if anything does."""
        return self._fakes.get(effect.kind)

    def crash_at(self, point: str, n: int = 1) -> None:
        """Have the host die at the n-th time from now on that it is at a point of `POINTS`.

        Nothing of it goes on, and nothing more is written, as by SIGKILL; a blocking function in a
        thread alone cannot be stopped. What the test awaits of the host raises Crashed, which
        leaves the host's `async with` block and no more. A block that ends without the crash
        raises AssertionError. A later plan takes the place of an earlier one.

        Raises ValueError for what is no point, and for an n below 1.
        """
        self.plan.set(point, n)

    def _die(self, at: str) -> None:
        assert self._host is not None
        self._host.die(at)

    # -- time -----------------------------------------------------------------------------------

    async def settled(self) -> None:
        """Wait until no run does anything by itself: what is left waits for others or the clock.

        Raises Crashed if the host has died, AssertionError if something goes on for seconds.
        """
        turns, quiet = 0, 0
        deadline_s = asyncio.get_running_loop().time() + LAB_PATIENCE_S
        while quiet < QUIET_TURNS:
            host = self._living()
            busy = next(host.busy(patient=turns < SPINS), None)
            quiet = 0 if busy else quiet + 1
            if busy and asyncio.get_running_loop().time() > deadline_s:
                message = f"{busy} is still under way after {LAB_PATIENCE_S} s"
                raise AssertionError(message)
            await asyncio.sleep(NAP_S if busy and turns > SPINS else 0)
            turns += 1
        self._living()

    async def advance(self, ms: int) -> None:
        """Turn the clock by so much, and stop on the way wherever something is due.

        Timers fire one after the other, each at its own time, and what they lead to has come to
        rest before the next one. Raises what `settled` does, and ValueError for what is no number
        of whole milliseconds, 0 or more: time does not go back.
        """
        if type(ms) is not int or ms < 0:
            message = f"ms is {ms!r}: the clock is turned by whole milliseconds, forward"
            raise ValueError(message)
        until_ms = self.clock.now_ms() + ms
        for _ in range(LAB_ALARMS_MAX):
            await self.settled()
            due_ms = self._nearest_ms()
            is_last = due_ms is None or due_ms > until_ms
            stop_ms = until_ms if due_ms is None else min(due_ms, until_ms)
            self.clock.set(max(self.clock.now_ms(), stop_ms))
            self._living().ring()
            if is_last:
                await self.settled()
                return
        message = f"{LAB_ALARMS_MAX} alarms within {ms} ms: timers are set without end"
        raise AssertionError(message)

    def _nearest_ms(self) -> int | None:
        due = (self._living().nearest_ms(), self.waits.nearest_ms())
        return min((ms for ms in due if ms is not None), default=None)

    def _living(self) -> LabHost:
        if self._host is None:
            message = "the lab has no host: open one with `async with lab.host()`"
            raise AssertionError(message)
        if self._host.crash is not None:
            raise self._host.crash
        return self._host


class LabHost(Host):
    """A host of a lab: a real one, but for its waits, its fakes, and that it can die."""

    _shop: _LabShop

    def __init__(self, lab: Lab, machines: Iterable[Chart], **options: Any) -> None:
        options.setdefault("verify", True)
        super().__init__(lab.path, machines, clock=lab.clock, **options)
        self._lab = lab
        self.crash: Crashed | None = None
        """How it died, if it has."""
        seen = {name: options.get(name) for name in ("meter", "tracer")}
        self.told: _Told = _Told(self, **seen)
        self._has_written = False
        self.steps = False
        """Whether the save that is under way is of a macrostep."""

    async def __aexit__(  # type: ignore[override]  # it says whether what was raised is its crash
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        await self.stop()
        unmet = self._lab.plan.give_up() if self.crash is None else ""
        if unmet and error is None:
            raise AssertionError(unmet)
        return self.crash is not None and is_of_a_death(error)

    def reach(self, at: str) -> None:
        """Be at a point: die, if it is the one."""
        if self.crash is None and self._lab.plan.is_reached(at):
            self.die(at)

    def die(self, at: str) -> None:
        """Die here and now: raises Crashed."""
        self.crash = crash = Crashed(at)
        self._stopped, self._is_silent, self._grace_s = f"crashed {at}", True, 0.0
        store: Any = self.store
        # Whatever still unwinds writes nothing.
        store.database.connection.pragma("query_only", 1)
        self._shop.hands.end()
        this = asyncio.current_task()
        for task in (*self._tasks, *self._shop.all_tasks()):
            if task is not this:
                task.cancel()
        for run in self._passing.every():
            for waiter in _waiters(run):
                waiter.add_done_callback(hear)
            self.forget(run, crash)
        self.told.subscriptions.end()
        raise crash

    def _break(self, error: BaseException) -> None:
        if self.crash is None:
            super()._break(error)

    # -- time -----------------------------------------------------------------------------------

    def nearest_ms(self) -> int | None:
        """Return when the next timer of a run is due; None if none is."""
        return self._alarm.nearest_ms()

    def ring(self) -> None:
        """Have what is due go on."""
        self._alarm.ring_due()
        self._lab.waits.ring_due()

    def busy(self, *, patient: bool) -> Iterator[str]:
        """Yield what is under way and does not wait for the clock.

        Plain work may go on for as long as its state: `patient` says to wait for it, too.
        """
        for run in [*self._resident.values()]:
            if run.tree.turn and not run.paused:
                yield f"run {run.run_id!r}"
        yield from self._shop.under_way(self._lab.waits.idle, plain=patient)

    # -- what is put around the product -----------------------------------------------------------

    def _workshop(self) -> Workshop:
        return _LabShop(self._break, ManualHands(self._lab.waits, self.reach))

    def _furnish(self, storage: Backend) -> None:
        super()._furnish(storage)
        store: Any = self.store
        for verb in ("create", "save", "migrate"):
            setattr(store, verb, self._at_point(getattr(store, verb)))

    def _at_point(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def written(*given: Any, **named: Any) -> Any:
            if self.steps:
                self.reach("before step")
            self.reach("before save")
            result = write(*given, **named)
            self._has_written = True
            return result

        return written

    def saved(self, run: Run) -> None:
        """Be at the points behind a save, once it is on disk."""
        super().saved(run)
        store: Any = self.store
        if not self._has_written or store.database.connection.in_transaction:
            return
        self._has_written = False
        is_step, self.steps = self.steps, False
        self.reach("after save")
        if is_step:
            self.reach("after step")

    def start_call(self, run: Run, call: Call) -> None:
        """Begin outside work, or what stands in for it."""
        fake = self._lab.fake_of(call.spec) if isinstance(call.spec, Effect) else None
        if fake is not None:
            call.spec, call.is_async = fake.stand_in(call.spec), True
        super().start_call(run, call)


class _LabShop(Workshop):
    """A workshop whose tasks can be looked at."""

    def all_tasks(self) -> list[asyncio.Task[None]]:
        """Return all that is under way."""
        return [*(work.task for work in self._all()), *(task for task, _ in self._pumps.values())]

    def under_way(self, idle: set[asyncio.Task[Any]], *, plain: bool) -> Iterator[str]:
        """Yield what is under way, but for tasks that are idle."""
        for work in self._all():
            is_meant = work.is_effect or plain
            if is_meant and not work.task.done() and work.task not in idle:
                yield f"{work.call.invoke!r} of run {work.run.run_id!r}"
        for task, run in self._pumps.values():
            if not task.done():
                yield f"a macrostep of run {run.run_id!r}"


class _Told(Dispatcher):
    """A dispatcher that is at the points of macrosteps and outcomes."""

    def __init__(self, host: LabHost, *, meter: Any, tracer: Any) -> None:
        super().__init__(host.clock, meter=meter, tracer=tracer)
        self._host = host

    def look(self) -> None:
        """Hear of everything."""
        super().look()
        self.each = self.hears = True

    def stepping(self, run: Run, node: Node) -> Callable[[], object]:
        """Know that the next save is of a macrostep."""
        undo = super().stepping(run, node)
        self._host.steps = True

        def back() -> None:
            self._host.steps = False
            undo()

        return back

    def outcome(self, run: Run, row: EffectRow) -> Callable[[], object]:
        """Be at the points before and after an outcome is recorded."""
        self._host.reach("before outcome")
        self.note(run, ("point", row.id), lambda: self._host.reach("after outcome"))
        return super().outcome(run, row)


def _waiters(run: Run) -> Iterator[asyncio.Future[Any]]:
    """Yield what somebody waits for of a run: some wait no more, and would not hear of its end."""
    tree = run.tree
    items = [arrival.item for arrival in (*tree.admitted, *tree.arrivals)]
    for node in nodes_of(tree):
        items += [*node.engine.external_queue.items]
        items += [node.engine.current] if node.engine.current is not None else []
    yield from (item.trigger.future for item in items if item.trigger.future is not None)


def _effects(chart: type[StateChart[Any]], seen: tuple[Any, ...] = ()) -> Iterator[Effect]:
    """Yield the effects that a chart invokes, and those that it invokes charts with."""
    for state in every_state(list(chart.states)):
        for spec in state.invoke:
            source: Any = getattr(spec.func, "_invoke_handler", spec.func)
            inner = getattr(source, "chart", source)
            if isinstance(source, Effect):
                yield source
            elif isinstance(inner, type) and issubclass(inner, StateChart) and inner not in seen:
                yield from _effects(inner, (*seen, chart))
