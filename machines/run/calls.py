"""Outside work of runs, from its start to its outcome: plain calls, and effects by their ledger.

Everything here awaits only the `Hands` that do the work, so that the same rules hold on an event
loop and in a process without one.
"""

from __future__ import annotations

from asyncio import CancelledError
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, Protocol

from machines.effects import Done, Effect, NotDone
from machines.errors import UnsettledEffectError
from machines.run.activity import waits_for
from machines.run.worker import UNSAVED
from snapshots.errors import LimitError, SnapshotsError, StorageError
from snapshots.limits import BLOB_BYTES_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines.engine.nodes import Call
    from machines.run.run import Run
    from machines.run.telling import Called
    from snapshots.ledgers.effects import EffectRow

Data = dict[str, Any]


class Hands(Protocol):
    """What does one piece of work and waits."""

    async def perform(
        self,
        work: Callable[[], Any],
        *,
        asynchronous: bool,
        timeout_s: float | None = None,
        leaving: Callable[[], None] | None = None,
    ) -> Any:
        """Do the work and return its result; CallTimeoutError if it takes longer.

        `leaving` is called directly before the work leaves, and keeps it from that by raising.
        """

    async def sleep(self, seconds: float) -> None:
        """Wait, but not longer than the process goes on."""

    @property
    def ending(self) -> bool:
        """Whether no new call may leave, because the process stops."""

    def are_ended(self) -> bool:
        """Whether a cancellation that arrives here was asked for, and not raised by the work."""


async def perform(run: Run, call: Call, hands: Hands) -> None:
    """Do a plain call or an effect, and hand in its outcome."""
    if isinstance(call.spec, Effect):
        await _perform_effect(_Effecting(run, call, call.spec, hands))
    else:
        await _perform_plain(run, call, hands)


async def _perform_effect(effecting: _Effecting) -> None:
    try:
        await effecting.go()
    except (SnapshotsError, AssertionError):
        raise
    except Exception as error:  # noqa: BLE001 - a backoff that raises, say: it is this effect's alone
        effecting.give_up(error)


async def _perform_plain(run: Run, call: Call, hands: Hands) -> None:
    try:
        result = await hands.perform(call.work, asynchronous=call.is_async)
    except CancelledError as error:
        if hands.are_ended():
            raise
        outcome: tuple[str, Data] = "error.execution", {"error": error}
    except Exception as error:  # noqa: BLE001 - the chart is told, as error.execution
        outcome = "error.execution", {"error": error}
    else:
        outcome = f"done.invoke.{call.invoke}", {"data": result}
    if run.goes_on:
        event, data = storable(run, *outcome, f"outcome of {call.invoke}")
        changed = run.ledgers.conclude(call.path, call.invoke, fault="error" in data)
        if not run.tree.finish(call.path, call.invoke, event, data) and changed:
            run.arrived()


def storable(run: Run, event: str, data: Data, what: str) -> tuple[str, Data]:
    """Return an outcome as it can be saved: one that cannot is an error for the chart.

    It must leave room for what else the run has, so that its arrival can be saved.
    """
    limit = BLOB_BYTES_MAX // 2
    try:
        size = len(run.machine.codec.encode(data, root=what))
    except SnapshotsError as error:
        return "error.execution", {"error": error}
    if size > limit:
        too_long = LimitError(f"the size of the {what} in bytes", limit, size, run.run_id)
        return "error.execution", {"error": too_long}
    return event, data


class _NotLeftError(Exception):
    """A call did not leave: the save that must come before it failed, or nobody wants it now."""

    def __init__(self, cause: SnapshotsError | None) -> None:
        super().__init__(str(cause))
        self.cause = cause


class _Effecting:
    """One effect on its way through the ledger."""

    def __init__(self, run: Run, call: Call, effect: Effect, hands: Hands) -> None:
        self.run = run
        self.call = call
        self.effect = effect
        self.hands = hands
        self.under_way = ExitStack()
        """What ends with the call that has left."""
        self.called: Called | None = None
        row = run.ledgers.effects.of_invoke(call.path, call.invoke)
        assert row is not None, f"run {run.run_id!r}: effect {call.invoke!r} has no intent"
        self.row: EffectRow = row
        call.context.key = row.key

    async def go(self) -> None:
        """Call until there is an outcome, or none can be known."""
        if self.row.status in ("calling", "unknown") and not await self._may_call_again():
            return
        while self._may_leave():
            verdict, value = await self._attempt()
            if not await self._goes_on_after(verdict, value):
                return

    async def _goes_on_after(self, verdict: str, value: Any) -> bool:
        """Take the end of an attempt; return whether there is to be another one."""
        if verdict == "not left":
            return await self._wait_to_save(value)
        if verdict == "retry":
            return await self._wait_to_retry(value)
        if verdict == "unknown":
            return await self._may_call_again(value)
        if verdict == "done":
            settle(self.run, self.row, "done", value)
        else:
            self._fail(value)
        return False

    def give_up(self, error: Exception) -> None:
        """Take an error of what surrounds the call, not of the call: it may have happened."""
        if self.row.status == "intent":
            self._fail(error)
        elif self.row.status in ("calling", "unknown"):
            self._doubt(error)

    def _may_leave(self) -> bool:
        if not self.run.goes_on or self.hands.ending:
            return False
        return self.row.status in ("intent", "calling", "unknown")

    @property
    def _is_waited_for(self) -> bool:
        return waits(self.run, self.row)

    async def _attempt(self) -> tuple[str, Any]:
        effect, call = self.effect, self.call
        try:
            # Arguments are found before the row says that the call leaves.
            work = effect.ready(call.context)
        except Exception as error:  # noqa: BLE001 - it proves that the call did not leave
            return "failed", error
        self.called = None
        with self.under_way:
            verdict, value = await self._perform(work)
            if self.called is not None:
                self.called.verdict = verdict
                self.called.error = value if verdict != "done" else None
        return verdict, value

    async def _perform(self, work: Callable[[], Any]) -> tuple[str, Any]:
        effect = self.effect
        try:
            result = await self.hands.perform(
                work,
                asynchronous=self.call.is_async,
                timeout_s=effect.timeout,
                leaving=self._leave,
            )
        except _NotLeftError as error:
            return "not left", error.cause
        except CancelledError as error:
            if self.hands.are_ended():
                raise
            return effect.judge(error, self.row.attempt), error
        except Exception as error:  # noqa: BLE001 - what it means is for the effect to say
            return effect.judge(error, self.row.attempt), error
        return "done", result

    def _leave(self) -> None:
        """Save that the call is about to leave; there is no await from here to the call."""
        row = self.row
        if not self._may_leave():
            raise _NotLeftError(None)
        before = row.status, row.attempt
        row.status, row.attempt = "calling", row.attempt + 1
        self.call.context.attempt = row.attempt
        try:
            self.run.write(sync=self.effect.sync)
        except SnapshotsError as error:
            row.status, row.attempt = before
            raise _NotLeftError(error) from error
        self.called = self.under_way.enter_context(self.run.told.calling(self.run, row))

    async def _wait_to_save(self, error: SnapshotsError | None) -> bool:
        """Wait before the intended call is saved again; False if that is not to be."""
        if error is not None and not isinstance(error, UNSAVED):
            self._fail(error)
        elif error is not None:
            self.run.worker.stalled(self.run, error)
            await self.hands.sleep(self.effect.backoff(1))
        return isinstance(error, StorageError)

    async def _wait_to_retry(self, error: BaseException) -> bool:
        """Wait before the next attempt; False if it is not to be made."""
        row = self.row
        if not self.effect.idempotent:
            # The error proves that nothing happened: dying here leaves nothing in doubt.
            row.status = "intent"
            self.run.arrived()
        if self._is_waited_for:
            await self.hands.sleep(self.effect.backoff(row.attempt))
        if self._is_waited_for:
            return True
        if self._may_leave():
            self._fail(error)
        return False

    async def _may_call_again(self, error: BaseException | None = None) -> bool:
        """Decide about a call whose outcome is hidden; True if it may be made (again)."""
        if self.effect.idempotent:
            return True
        if self.effect.probe is not None:
            verdict = await self._ask()
            if self.row.status not in ("calling", "unknown"):
                return self.row.status == "intent"  # somebody decided meanwhile
            if isinstance(verdict, Done):
                settle(self.run, self.row, "done", verdict.outcome)
                return False
            if isinstance(verdict, NotDone):
                return True
        self._doubt(error)
        return False

    async def _ask(self) -> Any:
        work, asynchronous = self.effect.bind(self.call.context, self.effect.probe)
        try:
            return await self.hands.perform(
                work, asynchronous=asynchronous, timeout_s=self.effect.timeout
            )
        except CancelledError:
            if self.hands.are_ended():
                raise
            return None
        except Exception:  # noqa: BLE001 - a probe that fails cannot tell: the effect stays in doubt
            return None

    def _doubt(self, error: BaseException | None) -> None:
        """Note that the outcome is hidden, and offer that to the chart if it names it."""
        row, run = self.row, self.run
        if not run.goes_on:
            return
        is_news = row.status != "unknown" or error is not None
        row.status = "unknown"
        if error is not None:
            row.error = run.describe(error)
        if is_news:
            run.told.outcome(run, row)
        if not self._offer() and is_news:
            run.arrived()

    def _offer(self) -> bool:
        """Tell the chart of the doubt, once, if it names it; return whether it was told."""
        row, run = self.row, self.run
        if row.offered or row.status != "unknown" or not self._is_waited_for:
            return False
        if run.tree.running is not None:
            # In the middle of a macrostep a chart is in no configuration that could be asked.
            run.when_quiet(self._offer)
            return False
        node = run.tree.find(self.call.path)
        event = f"error.indoubt.{self.call.context.state_id}"
        if node is None or not node.engine.takes_doubt(event):
            return False
        row.offered = True
        run.tree.tell(self.call.path, event, {"effect": row.id, "error": row.error})
        return True

    def _fail(self, error: BaseException) -> None:
        settle(self.run, self.row, "failed", error)


def waits(run: Run, row: EffectRow) -> bool:
    """Whether the chart that an effect belongs to still waits for its outcome."""
    return run.goes_on and waits_for(run.tree, row.path, row.invoke)


def settle(run: Run, row: EffectRow, status: Literal["done", "failed"], value: Any) -> None:
    """Record an outcome and queue the event that says so, in one save.

    An effect whose state was left is recorded without an event. Nothing is recorded in a run that
    has ended: its last write said that the outcome will not be known.
    """
    if not run.goes_on:
        return
    if status == "done":
        outcome: tuple[str, Data] = f"done.invoke.{row.invoke}", {"data": value}
    else:
        outcome = "error.execution", {"error": value}
    event, data = storable(run, *outcome, f"outcome of effect {row.id}")
    row.status, row.error = status, None
    if "error" in data:
        row.error = run.describe(data["error"])
    else:
        row.tail = value
    run.ledgers.conclude(row.path, row.invoke, fault="error" in data)
    run.told.outcome(run, row)
    if not run.tree.finish(row.path, row.invoke, event, data):
        row.tail = None
        run.arrived()


def decide_by_hand(
    run: Run,
    row: EffectRow,
    *,
    done: Any,
    failed: str | BaseException | None,
    again: bool,
) -> None:
    """Settle an effect in doubt as somebody says, or have it called again.

    Raises UnsettledEffectError, and EncodeError for a result that cannot be stored.
    """
    if row.status != "unknown":
        hint = "only an effect in doubt can be settled by hand"
        raise UnsettledEffectError(run.run_id, row.id, row.status, hint)
    if (done is not ...) + (failed is not None) + again != 1:
        hint = "give exactly one of done=, failed= and again=True"
        raise UnsettledEffectError(run.run_id, row.id, row.status, hint)
    if again:
        _call_again(run, row)
    elif failed is not None:
        error = failed if isinstance(failed, BaseException) else RuntimeError(failed)
        settle(run, row, "failed", error)
    else:
        run.machine.codec.encode(done, root="done")
        settle(run, row, "done", done)


def _call_again(run: Run, row: EffectRow) -> None:
    if not waits(run, row):
        hint = "its state was left, so that nobody waits for a new call; give done= or failed="
        raise UnsettledEffectError(run.run_id, row.id, row.status, hint)
    row.status, row.offered, row.error = "intent", False, None
    run.arrived()
    node = run.tree.find(row.path)
    invoke = node.engine.invokes.active.get(row.invoke) if node is not None else None
    if node is not None and invoke is not None and waits(run, row):
        node.engine.invokes.begin(invoke)
