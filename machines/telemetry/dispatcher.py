"""The one place from which everything is told that happens in a host and its runs.

The engines and the store know nothing of it. A run says what is to be told before it is saved;
it is passed on behind the save that made it true, or never.
"""

from __future__ import annotations

import time
from asyncio import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from machines.telemetry.kinds import Occurrence
from machines.telemetry.lines import Lines
from machines.telemetry.metering import Meters
from machines.telemetry.subscriptions import Subscriptions
from machines.telemetry.tracing import Spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from machines.engine.nodes import Node
    from machines.run.run import Run
    from snapshots.clock import Clock
    from snapshots.ledgers.effects import EffectRow
    from snapshots.records import MailboxEntry, RunHeader

T = TypeVar("T")

_NS_PER_MS: Final = 1_000_000
_NS_PER_S: Final = 1_000_000_000
_OUTCOMES: Final = ("done", "failed", "unknown")


@dataclass(slots=True)
class _Times:
    """What is measured of a run, in nanoseconds of the machine's own clock."""

    mark_ns: int = 0
    """When the macrostep began that is under way: as its run was woken, or behind the last one."""
    save_ns: int = 0
    """When the save began that is under way, 0 if none is."""
    step: tuple[Node, str] | None = None
    """The chart and the event of the macrostep that is being saved."""
    calls_ms: dict[str, float] = field(default_factory=dict)
    """How long the last call of an effect took, by the effect's id."""


@dataclass(slots=True)
class Called:
    """A call that has left: what its end means, and the error that it ended with, if with one."""

    verdict: str = ""
    error: BaseException | None = None


class Dispatcher:
    """Passes on what it is told to the log, the meter, the tracer and the subscribers.

    Nothing here raises: what a listener raises is told as `listener.raised`.
    """

    def __init__(self, clock: Clock, *, meter: Any = None, tracer: Any = None) -> None:
        self._clock = clock
        self._lines = Lines()
        self._meters = Meters(meter) if meter is not None else None
        self._spans = Spans(tracer) if tracer is not None else None
        self.subscriptions = Subscriptions(self.look, self._failed)
        self._times: WeakKeyDictionary[Run, _Times] = WeakKeyDictionary()
        self._noted: dict[str, dict[Any, Callable[[], None]]] = {}
        """What is to be told behind the next save of a run, by run and by what it is about."""
        self._held: list[Callable[[], None]] | None = None
        """What is told in a transaction that is still open."""
        self.each = False
        self.hears = False
        """Whether a save is to be heard of: there is `each`, or something waits for one."""
        self.look()

    def look(self) -> None:
        """Look who listens: levels of loggers change, and listeners come and go."""
        observed = self._meters is not None or self._spans is not None
        self.each = observed or self._lines.each or self.subscriptions.each
        self.hears = self.each or bool(self._noted)

    def tell(
        self, kind: str, run: str = "", machine: str = "", state: tuple[str, ...] = (), **data: Any
    ) -> None:
        """Pass an occurrence on, now or behind the open transaction."""
        if self._wants(kind, run):
            told = self._made(kind, run, machine, state, data)
            self._after(lambda: self._pass_on(told))

    def _wants(self, kind: str, run: str) -> bool:
        observed = self._meters is not None or self._spans is not None
        return observed or self._lines.wants(kind) or self.subscriptions.wants(kind, run)

    def _made(
        self, kind: str, run: str, machine: str, state: tuple[str, ...], data: dict[str, Any]
    ) -> Occurrence:
        return Occurrence(
            kind=kind,
            at_ms=self._clock.now_ms(),
            run=run,
            machine=machine,
            state=state,
            data=MappingProxyType(data),
        )

    def _of(self, run: Run, kind: str, **data: Any) -> None:
        self.tell(kind, run.run_id, run.machine.name, _active(run), **data)

    def _pass_on(self, told: Occurrence) -> None:
        for listen in self._listeners():
            self._guarded(listen, told)

    def _guarded(self, listen: Callable[..., T], *said: Any) -> T | None:
        """Have a listener told; None if it raises, which never hurts a run.

        Nothing awaits here, so that a cancellation is one that the listener itself has raised.
        """
        try:
            return listen(*said)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - as said
            self._failed(error)
            return None

    def _listeners(self) -> Iterator[Callable[[Occurrence], None]]:
        yield self._lines.write
        if self._meters is not None:
            yield self._meters.take
        yield self.subscriptions.offer

    def _failed(self, error: BaseException) -> None:
        told = self._made("listener.raised", "", "", (), {"reason": _text(error)})
        try:
            self._lines.write(told)
        except (Exception, CancelledError):  # noqa: BLE001 - it is the log that raises, and nobody else is to be told
            return

    # -- behind saves and transactions ------------------------------------------------------------

    def _after(self, tell: Callable[[], None]) -> None:
        if self._held is None:
            tell()
        else:
            self._held.append(tell)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold back what is told in the block until it is left; if it raises, that never was."""
        before, self._held = self._held, []
        try:
            yield
        except BaseException:
            self._held = before
            raise
        held, self._held = self._held, before
        for tell in held:
            self._after(tell)

    def note(self, run: Run, about: Any, tell: Callable[[], None]) -> Callable[[], object]:
        """Tell something behind the next save of a run; return what takes that back."""
        noted = self._noted.setdefault(run.run_id, {})
        noted[about] = tell
        self.hears = True
        return lambda: noted.pop(about, None)

    def drop(self, run_id: str) -> None:
        """Forget what waits for a save of a run: there is to be none."""
        if self._noted.pop(run_id, None) is not None:
            self.look()

    # -- what a host tells of its runs ------------------------------------------------------------

    def starting(self, run: Run) -> None:
        """Hear that a new run is to be saved for the first time."""
        self.note(run, "started", lambda: self._of(run, "run.started"))

    def ended(self, run: Run) -> None:
        """Hear that the last write of a run is on disk."""
        self._noted.pop(run.run_id, None)
        header = run.header
        assert header is not None
        if header.status == "error":
            self._of(run, "run.error", reason=header.reason)
        else:
            self._of(run, "run.ended", status=header.status, reason=header.reason)

    def aside(self, header: RunHeader, status: str, reason: str | None) -> None:
        """Hear that a run was set aside (`drifted`, `lost`), or could not be taken up."""
        self.tell(f"run.{status}", header.run_id, header.machine, reason=reason)

    def mailed(self, entry: MailboxEntry, outcome: str, run: Run | None) -> None:
        """Hear that an entry of the mailbox is settled."""
        machine = run.machine.name if run is not None else ""
        said: dict[str, Any] = {"entry": entry.entry, "asked": entry.kind, "outcome": outcome}
        self.tell("mail.settled", entry.run_id, machine, **said)

    def of_run(self, kind: str, run: Run, **data: Any) -> None:
        """Hear something else of a run."""
        self._of(run, kind, **data)

    # -- what a run tells; see `machines.run.telling.Teller` --------------------------------------

    def begins(self, run: Run) -> None:
        """Hear that a run's charts begin to run."""
        self._times_of(run).mark_ns = time.perf_counter_ns()

    def stepping(self, run: Run, node: Node) -> Callable[[], object]:
        """Hear that a macrostep is over and about to be saved; return what takes that back."""
        times, current = self._times_of(run), node.engine.current
        times.step = node, str(current.trigger.event) if current is not None else ""

        def undo() -> None:
            times.step = None
            times.mark_ns = time.perf_counter_ns()

        return undo

    def saving(self, run: Run) -> None:
        """Hear that a save begins."""
        self._times_of(run).save_ns = time.perf_counter_ns()

    def saved(self, run: Run) -> None:
        """Hear that a save is on disk, or will be with the open transaction."""
        times = self._times.get(run)
        if times is not None and times.save_ns:
            self._measured(run, times)
        noted = self._noted.pop(run.run_id, None)
        if noted is not None:
            for tell in noted.values():
                tell()
        self.hears = self.each or bool(self._noted)

    def _measured(self, run: Run, times: _Times) -> None:
        """Tell of a save, and of the macrostep that it is of, if it is of one."""
        now_ns = time.perf_counter_ns()
        assert run.header is not None
        name, begun_ns, step = run.machine.name, times.mark_ns or times.save_ns, None
        if times.step is not None:
            node, event = times.step
            data = {"event": event, "path": node.path, "step": run.step}
            data["ms"] = (now_ns - begun_ns) / _NS_PER_MS
            step = self._made("machine.step", run.run_id, name, tuple(node.shown), data)
        data = {"revision": run.header.revision, "status": run.status, "bytes": run.row.size}
        data["ms"] = (now_ns - times.save_ns) / _NS_PER_MS
        save = self._made("snapshot.save", run.run_id, name, _active(run), data)
        times.save_ns, times.step = 0, None
        if run.tree.running is None:
            times.mark_ns = now_ns
        self._after(lambda: self._tell_save(step, save))

    def _tell_save(self, step: Occurrence | None, save: Occurrence) -> None:
        if self._spans is not None:
            self._guarded(self._spans.saved, step, save)
        if step is not None:
            self._pass_on(step)
        self._pass_on(save)

    def swallowed(self, run: Run, node: Node) -> Callable[[], object]:
        """Hear of errors that no transition took, before they are saved; as `stepping`."""
        path = node.path
        told = [run.describe(error) for error in node.untaken]

        def tell() -> None:
            for error in told:
                self._of(run, "machine.swallowed", path=path, reason=_said(error))

        return self.note(run, ("swallowed", path), tell)

    def raised(self, run: Run, event: str, error: BaseException) -> None:
        """Hear that a macrostep raised, and that the run was put back."""
        stored, times = run.describe(error), self._times.get(run)
        if times is not None:
            begun_ns, times.mark_ns = times.mark_ns, time.perf_counter_ns()
            if self._spans is not None and begun_ns:
                data = {"event": event, "ms": (times.mark_ns - begun_ns) / _NS_PER_MS}
                step = self._made("machine.step", run.run_id, run.machine.name, _active(run), data)
                self._guarded(self._spans.raised, step, stored)
        self._of(run, "machine.raised", event=event, reason=_said(stored))

    @contextmanager
    def calling(self, run: Run, row: EffectRow) -> Iterator[Called]:
        """Hear that a call leaves, whose row says so on disk; it is under way in the block."""
        called, call, id_ = Called(), row.kind, row.id
        data = {"effect": id_, "call": call, "attempt": row.attempt}
        told = self._made("effect.call", run.run_id, run.machine.name, _active(run), data)
        self._pass_on(told)
        span = self._guarded(self._spans.call, told) if self._spans is not None else None
        begun_ns = time.perf_counter_ns()
        try:
            yield called
        finally:
            took_ns = time.perf_counter_ns() - begun_ns
            self._times_of(run).calls_ms[id_] = took_ns / _NS_PER_MS
            if self._meters is not None:
                measured = (told.machine, call, called.verdict, took_ns / _NS_PER_S)
                self._guarded(self._meters.called, *measured)
            if span is not None:
                error = run.describe(called.error) if called.error is not None else None
                self._guarded(span.end, called.verdict, error)

    def outcome(self, run: Run, row: EffectRow) -> Callable[[], object]:
        """Hear what became of an effect, which the run's next save holds; as `stepping`."""

        def tell() -> None:
            if row.status not in _OUTCOMES:
                return
            ms = self._times_of(run).calls_ms.pop(row.id, None)
            reason = _said(row.error) if row.error is not None else None
            said = {"attempt": row.attempt, "status": row.status, "reason": reason, "ms": ms}
            self._of(run, "effect.outcome", effect=row.id, call=row.kind, **said)

        return self.note(run, row.id, tell)

    def _times_of(self, run: Run) -> _Times:
        times = self._times.get(run)
        if times is None:
            times = self._times[run] = _Times()
        return times


def _active(run: Run) -> tuple[str, ...]:
    """Return the names of the root chart's active states at its last boundary."""
    root = run.tree.root
    return tuple(root.shown) if root is not None else ()


def _said(error: dict[str, str]) -> str:
    """Return what is stored of an exception as one text."""
    return f"{error['type']}: {error['message']}"


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
