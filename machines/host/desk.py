"""What callers ask of the runs of a host: start, send, answer, cancel, settle, read."""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Any

from machines.definition import Machine
from machines.errors import EffectNotFoundError, UnknownMachineError
from machines.host.live_runs import Residents
from machines.recovery.revival import revival
from machines.run import inbox as entering
from machines.run.calls import decide_by_hand
from machines.run.run import Run
from machines.run.views import view_of_row, view_of_run
from snapshots.identifiers import check_run_id, new_run_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from machines.definition import Chart
    from machines.gates import OpenGate
    from machines.run.views import RunView
    from snapshots.records import RunHeader, Status


class Taken(Enum):
    """What `send` returns for a delivery that its run has taken already."""

    TAKEN = "taken"


TAKEN = Taken.TAKEN


class Desk(Residents):
    """Takes what callers ask; a `Host` is one, and opens and closes the file."""

    async def start(
        self,
        machine: Chart | str,
        input: Mapping[str, Any] | None = None,  # noqa: A002 - the blob's word for it
        *,
        run_id: str | None = None,
    ) -> str:
        """Start a run and return its id once its first save is on disk.

        Raises UnknownMachineError, RunExistsError for an id that was used, EncodeError for an
        input or a context that cannot be stored, and what the first macrostep raises: then
        nothing is stored.
        """
        self._require_open()
        kept = self._machine(machine)
        given = dict(input or {})
        chosen = check_run_id(run_id) if run_id is not None else new_run_id(self.clock)
        self._refuse_used(chosen, kept, given)
        run = Run(self.store, kept, chosen, given, self, clock=self.clock, verify=self.verify)
        run.stored = asyncio.get_running_loop().create_future()
        self.keep(run)
        try:
            with self._watching_for_the_fence():
                run.begin()
                run.wake()
                await asyncio.shield(run.stored)
        except BaseException as error:
            if run.header is None:
                self.forget(run, error)
            raise
        return chosen

    def _machine(self, machine: Chart | str) -> Machine:
        """Return the machine of that name, the very machine given, or the one of that chart."""
        known = self.machines.values()
        if isinstance(machine, str):
            found = [m for m in known if m.name == machine]
        elif isinstance(machine, Machine):
            found = [m for m in known if m is machine]
        else:
            found = [m for m in known if m.chart is machine]
        if len(found) != 1:
            name = machine if isinstance(machine, str) else Machine.of(machine).name
            raise UnknownMachineError(name, tuple(self.machines))
        return found[0]

    async def send(
        self, run: str, event: str, /, *args: Any, delivery: str | None = None, **data: Any
    ) -> Any:
        """Send an event and return its result once its macrostep's save is on disk.

        `delivery` is the sender's own id for it: a repeat returns TAKEN and is not run. Raises
        what the macrostep raises (the run is then at its last saved snapshot), RunNotFoundError,
        AmbiguousRunError, RunFinishedError, EventRefusedError, EncodeError, InvalidKeyError.
        """
        while delivery is not None:
            entering.check_delivery(delivery)
            run_id = self._resolve(run)
            if self._was_taken(run_id, delivery):
                return TAKEN
            first = self.live(run_id).delivering.get(delivery)
            if first is None:
                break
            await asyncio.wait([first])
            if first.exception() is None:
                return TAKEN
        live = await self._ready(self._resolve(run), event)
        future = asyncio.get_running_loop().create_future()
        given = entering.Incoming(event=event, args=args, data=data)
        if not entering.send(live, given, waiter=future, delivery=delivery):
            return TAKEN
        if delivery is not None:
            live.note_delivering(delivery, future)
        return await asyncio.shield(future)

    async def answer(self, run: str, gate: str, event: str, /, *args: Any, **data: Any) -> Any:
        """Answer an open gate of a run; else as `send`. Raises GateClosedError.

        What was sent to the run before is run first: it may close the gate.
        """
        live = await self._ready(self._resolve(run), event, quiet=True)
        future = asyncio.get_running_loop().create_future()
        entering.answer(live, gate, entering.Incoming(event=event, args=args, data=data), future)
        return await asyncio.shield(future)

    async def cancel(self, run: str, reason: str | None = None) -> None:
        """End a live run: what it does outside is stopped. Raises RunFinishedError."""
        live = self.live(self._resolve(run))
        with self._watching_for_the_fence():
            live.cancel(reason)

    async def unload(self, run: str) -> bool:
        """Put a live run out of memory; False if it is doing something, and stays.

        It is built again from its row when an event, a timer or a question comes.
        """
        run_id = self._resolve(run)
        live = self._resident.get(run_id)
        if live is None:
            return run_id in self.waiting
        if live.header is None or not live.at_rest or self._shop.busy(live):
            return False
        del self._resident[run_id]
        self._drop_retry(live)
        live.over = True
        self.waiting[run_id] = live.header
        return True

    async def resolve(
        self,
        run: str,
        effect: str,
        *,
        done: Any = ...,
        failed: str | BaseException | None = None,
        again: bool = False,
    ) -> None:
        """Settle an effect in doubt: it was done (with its result), it failed, or call it again.

        `effect` is the effect's id, or the part of it behind the run's. Raises
        EffectNotFoundError, UnsettledEffectError if it is not in doubt or not exactly one outcome
        is given, EncodeError, RunFinishedError; StorageError if that could not be saved yet: it is
        kept, and saved again.
        """
        live = self._unpause(self.live(self._resolve(run)))
        effects = live.ledgers.effects
        row = effects.get(effect) or effects.get(f"{live.run_id}/{effect}")
        if row is None:
            raise EffectNotFoundError(live.run_id, effect, tuple(r.id for r in effects))
        decide_by_hand(live, row, done=done, failed=failed, again=again)
        if live.trouble is not None:
            raise live.trouble

    async def revive(self, run: str) -> None:
        """Make a lost, drifted or broken run live again.

        Raises DriftError if its machine still has another shape, RunFinishedError for a run that
        ended by itself or is live, UnknownMachineError, DecodeError.
        """
        self._require_open()
        stored = self.store.load(self._resolve(run))
        decision = revival(stored, self.machines, self.store.shape)
        assert decision.machine is not None
        made = self.build(stored.header, decision.machine, decision.value, restarted=True)
        with self._watching_for_the_fence():
            made.row.header = self.store.mark(stored.header, "live", None)
        self.begin(made, restarted=True)

    async def read(self, run: str) -> RunView:
        """Return how a run is, from memory or from its row, whatever its status."""
        run_id = self._resolve(run)
        live = self._resident.get(run_id)
        if live is not None and live.header is not None:
            return view_of_run(live)
        return view_of_row(self.store.load(run_id))

    async def runs(self, status: Status | None = None, *, limit: int = 100) -> list[RunHeader]:
        """Return the newest runs, or those of one status, without reading what they hold."""
        self._require_open()
        return self.store.headers(status, limit=limit)

    async def settled(self, run: str) -> RunView:
        """Wait until a run does nothing by itself, and return how it is.

        It then waits for others (a gate, a timer, an event, a decision about an effect in doubt),
        or it is over.
        """
        run_id = self._resolve(run)
        while (live := self._resident.get(run_id)) is not None:
            if busy := self._shop.tasks_of(run_id):
                await asyncio.wait(busy, return_when=asyncio.FIRST_COMPLETED)
            elif live.tree.turn and not live.paused:
                await asyncio.sleep(0)  # a long turn goes on in slices
            else:
                break
        return await self.read(run_id)

    async def gates(self, run: str) -> list[OpenGate]:
        """Return the open gates of a live run: key, accepted events, meta."""
        return self.live(self._resolve(run)).gates()
