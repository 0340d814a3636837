"""Outside work of runs, from its start to its outcome: plain calls, and effects by their ledger.

Everything here awaits only the `Hands` that do the work, so that the same rules hold on an event
loop and in a process without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from machines.effects import Done, Effect, NotDone
from machines.engine.nodes import Call
from machines.run import Run
from snapshots.errors import ConflictError, StorageError
from snapshots.ledgers.effects import EffectRow


class Hands(Protocol):
    """What does one piece of work and waits."""

    async def perform(
        self, work: Callable[[], Any], *, asynchronous: bool, timeout_s: float | None
    ) -> Any:
        """Do the work and return its result; TimeoutError if it takes longer."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    @property
    def ending(self) -> bool:
        """Whether the process gives work up because it stops."""


async def perform(run: Run, call: Call, hands: Hands) -> None:
    """Do a plain call and hand in its outcome."""
    if isinstance(call.spec, Effect):
        await _Effecting(run, call, call.spec, hands).go()
        return
    try:
        result = await hands.perform(call.work, asynchronous=call.is_async, timeout_s=None)
    except Exception as error:  # noqa: BLE001 - the chart is told, as error.execution
        _finish(run, call, "error.execution", {"error": error})
    else:
        _finish(run, call, f"done.invoke.{call.invoke}", {"data": result})


def _finish(run: Run, call: Call, event: str, data: dict[str, Any]) -> bool:
    return run.status == "live" and run.tree.finish(call.path, call.invoke, event, data)


class _Effecting:
    """One effect on its way through the ledger."""

    def __init__(self, run: Run, call: Call, effect: Effect, hands: Hands) -> None:
        self.run = run
        self.call = call
        self.effect = effect
        self.hands = hands
        row = run.ledgers.effects.of_invoke(call.path, call.invoke)
        assert row is not None, f"run {run.run_id!r}: effect {call.invoke!r} has no intent"
        self.row: EffectRow = row
        call.context.key = row.key

    async def go(self) -> None:
        """Call until there is an outcome, or none can be known."""
        if self.row.status in ("calling", "unknown") and not await self._may_call_again():
            return
        while self.run.status == "live":
            if not await self._note_calling():
                return
            verdict, value = await self._attempt()
            if verdict == "done":
                self._settle("done", value, f"done.invoke.{self.call.invoke}", {"data": value})
                return
            if verdict == "failed":
                self._settle("failed", value, "error.execution", {"error": value})
                return
            if verdict == "unknown" and not await self._may_call_again(value):
                return
            if verdict == "retry":
                await self.hands.sleep(self.effect.backoff(self.row.attempt))

    async def _note_calling(self) -> bool:
        """Save that the call is about to leave; there is no await from here to the call."""
        row = self.row
        while True:
            before = row.status, row.attempt
            row.status, row.attempt = "calling", row.attempt + 1
            self.call.context.attempt = row.attempt
            try:
                self.run.write(sync=self.effect.sync)
            except ConflictError as error:
                row.status, row.attempt = before
                self.run.worker.stalled(self.run, error)
                return False
            except StorageError as error:
                row.status, row.attempt = before
                self.run.worker.stalled(self.run, error)
                await self.hands.sleep(self.effect.backoff(1))
            else:
                return True

    async def _attempt(self) -> tuple[str, Any]:
        effect, call = self.effect, self.call
        work, asynchronous = call.work, call.is_async
        try:
            result = await self.hands.perform(
                work, asynchronous=asynchronous, timeout_s=effect.timeout
            )
        except asyncio.CancelledError as error:
            if self.hands.ending:
                raise
            return effect.judge(error, self.row.attempt), error
        except Exception as error:  # noqa: BLE001 - what it means is for the effect to say
            return effect.judge(error, self.row.attempt), error
        return "done", result

    async def _may_call_again(self, error: BaseException | None = None) -> bool:
        """Decide about a call whose outcome is hidden; True if it may be made (again)."""
        if self.effect.idempotent:
            return True
        if self.effect.probe is not None:
            verdict = await self._ask()
            if isinstance(verdict, Done):
                data = {"data": verdict.outcome}
                event = f"done.invoke.{self.call.invoke}"
                self._settle("done", verdict.outcome, event, data)
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
        except Exception:  # noqa: BLE001 - a probe that fails cannot tell: the effect stays in doubt
            return None

    def _doubt(self, error: BaseException | None) -> None:
        """Note that the outcome is hidden, and offer that to the chart if it names it."""
        row, run = self.row, self.run
        fresh = row.status != "unknown"
        row.status = "unknown"
        if error is not None:
            row.error = run.describe(error)
        state = self.call.context.state_id
        event = f"error.indoubt.{state}"
        node = run.tree.find(self.call.path)
        if not row.offered and node is not None and node.engine.takes_doubt(event):
            row.offered = True
            run.tree.tell(self.call.path, event, {"effect": row.id, "error": row.error})
        elif fresh:
            run.arrived()

    def _settle(self, status: Any, value: Any, event: str, data: dict[str, Any]) -> None:
        settle(self.run, self.row, status, value, event, data)


def settle(
    run: Run, row: EffectRow, status: Any, value: Any, event: str, data: dict[str, Any]
) -> None:
    """Record an outcome and queue the event that says so, in one save.

    An effect whose state was left is recorded without an event.
    """
    row.status, row.error = status, None
    try:
        run.machine.codec.encode(data, root=f"effect {row.id}")
    except Exception as error:  # noqa: BLE001 - the outcome is known, only its value is not storable
        event, data, value = "error.execution", {"error": error}, error
    if status == "failed" or isinstance(value, BaseException):
        row.error = run.describe(value)
    else:
        row.tail = value
    if not run.tree.finish(row.path, row.invoke, event, data):
        row.tail = None
        if run.status == "live":
            run.arrived()


def call_again(run: Run, row: EffectRow) -> None:
    """Have an effect in doubt called again, because somebody knows that it may."""
    row.status, row.offered, row.error = "intent", False, None
    run.arrived()
    node = run.tree.find(row.path)
    invoke = node.engine.invokes.active.get(row.invoke) if node is not None else None
    if node is not None and invoke is not None and invoke.live:
        node.engine.invokes.begin(invoke)

