"""Who deals with the runs of a world: clients with events, and a person for doubts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from statemachine.exceptions import TransitionNotAllowed

from machines import TAKEN, Host, HostStoppedError, MachinesError, RunFinishedError
from snapshots.codec import dump
from snapshots.errors import (
    DecodeError,
    FencedError,
    RunExistsError,
    SnapshotsError,
    StorageError,
)
from tools.simulation.charts import EVENTS, GUIDE, MACHINES, SURE
from tools.simulation.kept import SpoiledError

if TYPE_CHECKING:
    from random import Random

    from tools.simulation.world import World

Status = Literal["new", "flying", "unknown", "acknowledged", "refused", "ignored", "mailed"]

MAILED = 0.25
UNLOADED = 0.04
CANCELLED = 0.01
FINALE_S = 400.0
"""How long the runs of a world may take to end once nothing fails any more."""
REFUSALS = (SpoiledError, TransitionNotAllowed, MachinesError, StorageError, DecodeError)


@dataclass(slots=True, eq=False)
class Op:
    """One event of a client, over all its attempts."""

    token: str
    run_id: str
    machine: str
    event: str
    gate: str | None = None
    delivery: str | None = None
    entry: int | None = None
    status: Status = "new"
    said: str = ""
    was_unknown: bool = False
    """Whether an earlier attempt may have been taken."""

    @property
    def is_for_child(self) -> bool:
        """Whether a child takes it."""
        return self.event == "bloom"

    @property
    def is_sure(self) -> bool:
        """Whether its chart takes it wherever it is."""
        return (self.machine, self.event) in SURE

    def __str__(self) -> str:
        return f"{self.run_id} {self.event} {self.token}"


class Clients:
    """Sends events, and remembers what it was told of each."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.runs: dict[str, str] = {}
        """The machine of each run that was asked for."""
        self.open: list[Op] = []
        """Events whose sender does not know what became of them, and can ask again."""
        self.ended: set[str] = set()
        """Runs that somebody wanted to end before they had."""
        self._numbers = 0

    # -- runs -------------------------------------------------------------------------------------

    async def begin(self, host: Host, run_id: str) -> None:
        """Start a run, or find that it was started."""
        rules = self.world.rules
        machine = next(m for m in MACHINES if m.name == self.runs[run_id])
        try:
            await host.start(machine, {"name": run_id}, run_id=run_id)
        except RunExistsError:
            if run_id not in rules.runs:
                return  # another client is about to start it
        except (SnapshotsError, MachinesError) as error:
            self.world.note(f"start of {run_id}: {type(error).__name__}")
            return
        else:
            self.world.note(f"started {run_id}")
        rules.require("start", f"{run_id} was started, and is nowhere", holds=run_id in rules.runs)
        rules.started.add(run_id)

    # -- events -----------------------------------------------------------------------------------

    async def act(self, host: Host) -> None:
        """Do one thing that a client does."""
        rng = self.rng
        missing = [run_id for run_id in self.runs if run_id not in self.world.rules.started]
        if missing:
            await self.begin(host, missing[0])
            return
        if self.open and rng.random() < 0.5:
            op = self.open.pop(rng.randrange(len(self.open)))
            await self.send(host, op)
            return
        live = [run_id for run_id in self.runs if self.world.is_live(run_id)]
        run_id = rng.choice(live if live and rng.random() < 0.95 else list(self.runs))
        events = EVENTS[self.runs[run_id]]
        chosen = rng.random()
        if chosen < UNLOADED:
            await self._unload(host, run_id)
        elif chosen < UNLOADED + CANCELLED:
            await self._cancel(host, run_id)
        elif events:
            await self.offer(host, run_id, rng.choice(events))

    async def _unload(self, host: Host, run_id: str) -> None:
        """Put a run out of memory, if it does nothing."""
        with suppress(SnapshotsError, MachinesError):
            self.world.note(f"unloaded {run_id}: {await host.unload(run_id)}")

    async def _cancel(self, host: Host, run_id: str) -> None:
        """End a run, from here or by the mailbox."""
        world = self.world
        if self.rng.random() < 0.5 and not world.is_fenced:
            world.note(f"mailed the end of {run_id}")
            self.ended.add(run_id)
            world.mailbox.put(run_id, "cancel", dump({"reason": "nobody wants it"}))
            return
        world.note(f"cancels {run_id}")
        self.ended.add(run_id)  # it may be on disk though nobody lives to hear of it
        try:
            await host.cancel(run_id, "nobody wants it")
        except (SnapshotsError, MachinesError) as error:
            world.note(f"not cancelled: {type(error).__name__}")
        else:
            status = world.rules.runs[run_id].status
            world.rules.require("cancel", f"{run_id} is {status}", holds=status == "cancelled")

    async def offer(self, host: Host, run_id: str, event: str, *, mail: bool | None = None) -> None:
        """Send a new event to a run; `@` is an answer to one of its gates."""
        gate = None
        if event == "@":
            found = await self._gate(host, run_id)
            if found is None:
                return
            gate, event = found
        self._numbers += 1
        token = f"t{self._numbers}"
        delivery = f"d{self._numbers}" if self.rng.random() < 0.6 else None
        op = Op(token, run_id, self.runs[run_id], event, gate, delivery)
        self.world.rules.ops[token] = op
        by_mail = self.rng.random() < MAILED if mail is None else mail
        if by_mail and not self.world.is_fenced:
            self._mail(op)
        else:
            await self.send(host, op)

    async def _gate(self, host: Host, run_id: str) -> tuple[str, str] | None:
        try:
            gates = await host.gates(run_id)
        except (SnapshotsError, MachinesError):
            return None
        if not gates:
            return None
        gate = self.rng.choice(gates)
        event = self.rng.choice(gate.events)
        if gate.key == "check":  # a person who looks after the call, and says what is true
            model = self.world.rules.runs[run_id].value["root"]["context"]
            event = "found" if self.world.outside.has_happened(model["doubted"]) else "missing"
        return gate.address, event

    def _mail(self, op: Op) -> None:
        """Hand an event in from another process."""
        asked: dict[str, Any] = {"event": op.event, "data": {"token": op.token}}
        if op.gate is not None:
            asked["gate"] = op.gate
        kind = "send" if op.gate is None else "answer"
        op.entry = self.world.mailbox.put(op.run_id, kind, dump(asked), op.delivery)
        op.status = "mailed"
        self.world.rules.mailed[op.entry] = op
        self.world.note(f"mailed {op} as {op.entry}")

    async def send(self, host: Host, op: Op) -> None:
        """Send an event, and note what is said of it."""
        op.status = "flying"
        self.world.note(f"sends {op}")
        named: dict[str, Any] = {"token": op.token, "delivery": op.delivery}
        try:
            if op.gate is None:
                result = await host.send(op.run_id, op.event, **named)
            else:
                result = await host.answer(op.run_id, op.gate, op.event, **named)
        except (HostStoppedError, FencedError) as error:
            self._unknown(op, type(error).__name__)
        except RunFinishedError as error:
            self._refuse(op, error)
        except REFUSALS as error:
            self._refuse(op, error)
        else:
            self._hear(op, result)

    def _unknown(self, op: Op, said: str) -> None:
        op.status, op.said, op.was_unknown = "unknown", said, True
        self.world.note(f"nobody knows of {op}: {said}")
        if op.delivery is not None:
            self.open.append(op)

    def _refuse(self, op: Op, error: BaseException) -> None:
        op.status, op.said = "refused", f"{type(error).__name__}: {error}"[:160]
        self.world.note(f"refused {op}: {op.said}")
        if op.was_unknown:
            op.status = "ignored"  # what is refused is this attempt
        else:
            self.world.rules.ran_nothing(op)

    def _hear(self, op: Op, result: Any) -> None:
        if result is TAKEN:
            op.status, op.said = "ignored", "taken"
            self.world.note(f"taken before: {op}")
            if op.is_sure:
                self.world.rules.taken_before(op)
        elif result == op.token or (isinstance(result, list) and op.token in result):
            op.status = "acknowledged"
            self.world.note(f"acknowledged {op}")
            self.world.rules.acknowledged(op)
        else:
            op.status, op.said = "ignored", repr(result)
            self.world.note(f"ignored {op}: {result!r}")

    def forget_process(self) -> None:
        """Note that who waited for an answer will not get it."""
        for op in self.world.rules.ops.values():
            if op.status == "flying":
                self._unknown(op, "the process ended")

    # -- the person who settles doubts ------------------------------------------------------------

    async def settle(self, host: Host, run_id: str) -> None:
        """Settle the effects of a run that are in doubt, as the outside says."""
        try:
            view = await host.read(run_id)
        except (SnapshotsError, MachinesError):
            return
        if view.status != "live":
            return
        for effect in view.effects:
            if effect["status"] == "unknown":
                await self._decide(host, run_id, effect)

    async def _decide(self, host: Host, run_id: str, effect: dict[str, Any]) -> None:
        outside = self.world.outside
        key = effect.get("key", effect["id"])
        account = outside.accounts.get(key)
        given: dict[str, Any] = {"attempt": effect["attempt"]}
        if account is not None and account.happened:
            given["done"] = account.answer
        elif self.rng.random() < 0.6:
            given["again"] = True
            outside.permit(key)
        else:
            given["failed"] = "a person looked"
        self.world.note(f"a person settles {effect['id']}: {given}")
        if self.rng.random() < MAILED and not self.world.is_fenced:
            asked = {"effect": effect["id"], **given}
            self.world.mailbox.put(run_id, "resolve", dump(asked))
            return
        try:
            await host.resolve(run_id, effect["id"], **given)
        except (SnapshotsError, MachinesError) as error:
            self.world.note(f"not settled: {type(error).__name__}")

    # -- the end ----------------------------------------------------------------------------------

    async def lead_all_to_end(self, host: Host) -> None:
        """Have every run come to its end, with nothing that fails."""
        world = self.world
        for run_id in self.runs:
            if run_id not in world.rules.started:
                await self.begin(host, run_id)
        deadline_s = world.time.now_s + FINALE_S
        while world.time.now_s < deadline_s:
            await self.ask_again(host)
            live = world.live_runs()
            if not live and not world.mailbox.pending():
                return
            for run_id in sorted(live):
                try:
                    await self.lead_to_end(host, run_id)
                except SnapshotsError as error:
                    world.rules.broke("finale", f"{run_id}: {type(error).__name__}: {error}")
            await asyncio.sleep(0.5)

    async def lead_to_end(self, host: Host, run_id: str) -> None:
        """Give a run what it waits for, if it waits for somebody."""
        view = await host.read(run_id)
        if view.status != "live":
            return
        await self.settle(host, run_id)
        for state in view.configuration:
            event = GUIDE.get((self.runs[run_id], state))
            if event is not None:
                await self.offer(host, run_id, event, mail=False)

    async def ask_again(self, host: Host) -> None:
        """Ask once more about everything that nobody knows of."""
        while self.open:
            await self.send(host, self.open.pop(0))
