"""What callers ask of the runs of a host: start, send, answer, cancel, settle, read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from machines.definition import Machine
from machines.errors import (
    DefinitionError,
    EffectNotFoundError,
    RunFinishedError,
    UnknownMachineError,
    UnsettledEffectError,
)
from machines.host.live_runs import Residents
from machines.recovery.decision import read
from machines.recovery.revival import revival
from machines.run import inbox as entering
from machines.run.calls import decide_by_hand
from machines.run.ending import cancel
from machines.run.run import Run
from machines.run.views import view_of_row, view_of_run
from machines.run.waiters import TAKEN, hear
from snapshots.errors import RunExistsError, RunNotFoundError, SnapshotsError
from snapshots.identifiers import check_run_id, new_run_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines.books import Books
    from machines.definition import Chart
    from machines.gates import OpenGate
    from machines.run.views import RunView
    from snapshots.records import RunHeader, Status


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

        `input` is a mapping of names to values: they make the model. Raises UnknownMachineError,
        RunExistsError for an id that was used, DefinitionError for what is no mapping, EncodeError
        for an input or a context that cannot be stored, and what the first macrostep raises: then
        nothing is stored.
        """
        self._require_open()
        kept = self._machine(machine)
        given = _mapping(kept, input)
        chosen = check_run_id(run_id) if run_id is not None else new_run_id(self.clock)
        self._refuse_used(chosen, kept, given)
        run = Run(self.store, kept, chosen, given, self, clock=self.clock, verify=self.verify)
        run.stored = asyncio.get_running_loop().create_future()
        run.stored.add_done_callback(hear)
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

    def _refuse_used(self, run_id: str, machine: Machine, given: dict[str, Any]) -> None:
        run = self._resident.get(run_id)
        if run is not None:
            raise RunExistsError(run_id, run.machine.name == machine.name, run.given == given)
        try:
            stored = self.store.load(run_id)
        except RunNotFoundError:
            return
        same = stored.header.machine == machine.name
        same_input = None
        with suppress(SnapshotsError):
            same_input = read(stored, machine).get("input", {}) == given if same else None
        raise RunExistsError(run_id, same, same_input)

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
        self,
        run: str,
        event: str,
        /,
        *args: Any,
        delivery: str | None = None,
        epoch: str | None = None,
        **data: Any,
    ) -> Any:
        """Send an event and return its result once its macrostep's save is on disk.

        `delivery` is the sender's own id for it: a repeat returns TAKEN and is not run. `epoch` is
        what the run minted for the conversation that this answers (`ctx.epochs.mint`): once that
        conversation has another one, STALE is returned and the event is not run.

        Raises what the macrostep raises (the run is then at its last saved snapshot),
        RunNotFoundError, AmbiguousRunError, RunFinishedError, EventRefusedError, EncodeError,
        InvalidKeyError.
        """
        live: Run | None
        live, takes = None, False
        if delivery is None:
            live, takes = self._look_at(run, event)
        if not takes:
            live = await self._ready_for(run, event, delivery)
        if live is None:
            return TAKEN
        future = asyncio.get_running_loop().create_future()
        given = entering.Incoming(event, args, data, "", None, epoch)
        receipt = entering.send(live, given, waiter=future, delivery=delivery)
        if receipt is not None:
            return receipt
        if future.done():  # as most are: nothing is to be waited for
            return future.result()
        return await self._answered(live, future, delivery)

    async def answer(
        self,
        run: str,
        gate: str,
        event: str,
        /,
        *args: Any,
        delivery: str | None = None,
        epoch: str | None = None,
        **data: Any,
    ) -> Any:
        """Answer an open gate of a run, by its key or its address; else as `send`.

        What was sent to the run before is run first, with all that it leads to: it may close the
        gate. A run that does not come to rest within a second is answered between two of its
        macrosteps then; one event that it has sent to itself may still come first. Raises
        GateClosedError, AmbiguousGateError, and EventRefusedError for data that the gate's model
        refuses, before anything is taken.
        """
        live = await self._ready_for(run, event, delivery, quiet=True)
        if live is None:
            return TAKEN
        future = asyncio.get_running_loop().create_future()
        given = entering.Incoming(event=event, args=args, data=data, epoch=epoch)
        receipt = entering.answer(live, gate, given, future, delivery=delivery)
        if receipt is not None:
            return receipt
        if future.done():
            return future.result()
        return await self._answered(live, future, delivery)

    async def _ready_for(
        self, run: str, event: str, delivery: str | None, *, quiet: bool = False
    ) -> Run | None:
        """Return the run that takes the event now; None once it has taken that delivery.

        A delivery that is under way is waited for: if it fails, this one counts.
        """
        if delivery is None:
            return await self._ready(self._resolve(run), event, quiet=quiet)
        entering.check_delivery(delivery)
        while True:
            run_id = self._resolve(run)
            if self._was_taken(run_id, delivery):
                return None
            first = self.live(run_id).delivering.get(delivery)
            if first is None:
                try:
                    live = await self._ready(run_id, event, quiet=quiet)
                except RunFinishedError:
                    continue  # it ended meanwhile, maybe by that very delivery
                first = live.delivering.get(delivery)
                if first is None:
                    return live
            await asyncio.wait([first])
            if first.exception() is None:
                return None

    async def _answered(self, live: Run, future: asyncio.Future[Any], delivery: str | None) -> Any:
        if delivery is not None:
            live.note_delivering(delivery, future)
        return await asyncio.shield(future)

    async def cancel(self, run: str, reason: str | None = None) -> None:
        """End a live run: what it does outside is stopped. Raises RunFinishedError."""
        live = self.live(self._resolve(run))
        with self._watching_for_the_fence():
            cancel(live, reason)

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
        self._passing.drop(live)
        self._retries.drop(live.run_id)
        live.over = True
        self.waiting.add(run_id)
        return True

    async def resolve(
        self,
        run: str,
        effect: str,
        *,
        done: Any = ...,
        failed: str | BaseException | None = None,
        again: bool = False,
        attempt: int | None = None,
    ) -> None:
        """Settle an effect in doubt: it was done (with its result), it failed, or call it again.

        `effect` is the effect's id, or the part of it behind the run's. `attempt` is the number of
        the call that this is about, if the effect may have been called again meanwhile.

        Raises EffectNotFoundError, UnsettledEffectError if it is not in doubt, its attempt is
        another one, or not exactly one outcome is given, EncodeError, RunFinishedError;
        StorageError if that could not be saved yet: it is kept, and saved again.
        """
        live = self._unpause(self.live(self._resolve(run)))
        self._decide(live, effect, attempt, done=done, failed=failed, again=again)
        if live.trouble is not None:
            raise live.trouble

    def _decide(self, live: Run, effect: str, attempt: int | None, **outcome: Any) -> None:
        effects = live.ledgers.effects
        row = effects.get(effect) or effects.get(f"{live.run_id}/{effect}")
        if row is None:
            raise EffectNotFoundError(live.run_id, effect, tuple(r.id for r in effects))
        if attempt is not None and attempt != row.attempt:
            hint = f"its attempt is {row.attempt}, not {attempt}: look at it and decide anew"
            raise UnsettledEffectError(live.run_id, row.id, row.status, hint)
        decide_by_hand(live, row, **outcome)

    async def revive(self, run: str) -> None:
        """Make a lost, drifted or broken run live again.

        One that another shape wrote is migrated. Raises DriftError if its machine has no
        migration for that, MigrationRefusedError, RunFinishedError for a run that ended by itself
        or is live, UnknownMachineError, DecodeError; it then stays as it was.
        """
        self._revive(self._resolve(run))

    def _revive(self, run_id: str, settle: Callable[[], object] | None = None) -> None:
        """Revive a run; `settle` is called in the transaction that makes it live."""
        stored = self.store.load(run_id)
        decision = revival(stored, self.machines, self.store.shape)
        assert decision.machine is not None
        if decision.fate == "migrate":
            brought = self.bring_over(stored.header, decision, reconcile=False, settle=settle)
            assert brought is not None, "nobody was asked whether it is lost"
            self.begin(brought, restarted=True)
            return
        made = self.build(stored.header, decision.machine, decision.value, restarted=True)
        with self._watching_for_the_fence(), self.store.transaction():
            made.row.header = self.store.mark(stored.header, "live", None)
            if settle is not None:
                settle()
        self.begin(made, restarted=True)

    async def read(self, run: str) -> RunView:
        """Return how a run is, from memory or from its row, whatever its status."""
        run_id = self._resolve(run)
        live = self._resident.get(run_id)
        if live is not None and live.header is not None:
            return view_of_run(live)
        stored = self.store.load(run_id)
        machine = self.machines.get(stored.header.machine)
        return view_of_row(stored, None if machine is None else machine.codec)

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
        """Return the open gates of a live run: key, accepted events, their parameters, meta."""
        return self.live(self._resolve(run)).gates()

    async def ledgers(self, run: str) -> Books:
        """Return the ledgers of a live run: each change of one is saved before it returns."""
        return self.live(self._resolve(run)).books()


def _mapping(machine: Machine, given: object) -> dict[str, Any]:
    """Return an input as a dict of its own; DefinitionError for what is no mapping of names."""
    if given is None:
        return {}
    if isinstance(given, Mapping) and all(isinstance(name, str) for name in given):
        return dict(given)
    reason = f"its input is {type(given).__name__!r}, not a mapping of names to values"
    hint = "give the fields; the class that they make is the machine's context"
    raise DefinitionError(machine.name, reason, hint)
