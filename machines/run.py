"""One live run: its tree of charts, its ledgers, and the row that holds both.

The run is what keeps the tree: it saves at each boundary, puts the tree back to its last saved
snapshot when anything fails, and ends the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from machines.binding.capturing import node_bytes, read_arrival, tree_fields
from machines.binding.planting import make_child, plant
from machines.binding.rebuilding import grow, grow_arrival, resume
from machines.definition import Machine
from machines.effects import Effect
from machines.engine.invokes import source_of
from machines.engine.nodes import Call, Node
from machines.engine.queues import Queued, reject, reject_waiter
from machines.engine.tree import Tree
from machines.engine.turns import RESERVED
from machines.errors import EventRefusedError, GateClosedError, MachinesError, RunFinishedError
from machines.ledgers import Ledgers
from machines.shape import shape_bytes
from snapshots.clock import Clock
from snapshots.errors import ConflictError, DecodeError, SnapshotsError, StorageError
from snapshots.layout import join
from snapshots.ledgers.effects import EffectRow
from snapshots.limits import NO_TIMER_MS
from snapshots.records import RunHeader, Status, StoredRun

if TYPE_CHECKING:
    from snapshots.store import SnapshotStore


class Worker(Protocol):
    """What does a run's outside work, and runs its tree."""

    has_loop: bool

    def start_call(self, run: Run, call: Call) -> None:
        """Begin outside work, or go on with it if it is under way."""

    def stop_call(self, run: Run, path: str, invoke: str) -> None:
        """End outside work whose state was left."""

    def wake(self, run: Run) -> None:
        """See that the run's tree runs until it has nothing to do."""

    def post(self, function: Callable[[], object]) -> None:
        """Have the tree's thread call the function soon."""

    def stalled(self, run: Run, error: SnapshotsError) -> None:
        """Take note that the run could not be saved, and try again later if that may help."""

    def saved(self, run: Run) -> None:
        """Take note of a save: arm timers."""

    def ended(self, run: Run) -> None:
        """Take note that the run is not live any more."""


@dataclass(frozen=True, slots=True)
class OpenGate:
    """A gate that waits for an answer."""

    key: str
    path: str
    state: str
    events: tuple[str, ...]
    meta: Any


class Run:
    """A run in memory. Everything happens on the thread that runs its tree."""

    def __init__(
        self,
        store: SnapshotStore,
        machine: Machine,
        run_id: str,
        given: Mapping[str, Any],
        worker: Worker,
        clock: Clock,
        *,
        verify: bool = False,
    ) -> None:
        self.store = store
        self.machine = machine
        self.run_id = run_id
        self.given = dict(given)
        self.worker = worker
        self.clock = clock
        self.verify = verify
        self.header: RunHeader | None = None
        self.step = 0
        self.error: dict[str, str] | None = None
        self.ledgers = Ledgers()
        self.tree = Tree(clock, self, make_child)
        self.tree.policies = machine.resume
        self.paused = False
        self.stored: Any = None
        """Who waits for the first save."""
        self._input = machine.codec.encode(self.given, root="input")
        self._good: dict[str, bytes] = {}
        """The tree as it was saved last."""

    # -- beginnings -----------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the root chart of a new run; its first boundary stores it."""
        root = plant(self.tree, self.machine, self.given)
        if not self.tree.turn:
            root.engine.moved = True
            self.tree.ready(root)

    def restore(self, header: RunHeader, value: dict[str, Any]) -> None:
        """Build the tree that a row holds; nothing is written, nothing runs yet."""
        self.header = header
        self.step = int(value.get("step", 0))
        self.error = value.get("error")
        self.ledgers = Ledgers.of(value)
        self._grow(value)
        if header.status == "live":
            self.tree.timers.resume(header.updated_ms, self.clock.now_ms())
        self._good = tree_fields(self.tree, self.machine)
        for stored in value.get("arrivals", ()):
            arrival = grow_arrival(self.tree, stored)
            if arrival is not None:
                self.tree.arrivals.append(arrival)

    def _grow(self, value: dict[str, Any]) -> None:
        try:
            grow(self.tree, self.machine, value)
        except (SnapshotsError, MachinesError):
            raise
        except Exception as error:
            reason = f"its blob does not fit the chart ({type(error).__name__}: {error})"
            raise DecodeError(self.run_id, reason) from error

    def resume(self) -> None:
        """Start what the restored run does outside; then it can be woken."""
        if self.header is not None and self.header.status == "live":
            resume(self.tree, restored=True)

    # -- what is seen of it ---------------------------------------------------------------------

    @property
    def status(self) -> Status:
        """The run's status, `live` before its first save."""
        return self.header.status if self.header is not None else "live"

    def as_stored(self) -> StoredRun:
        """Return the run as its row holds it."""
        assert self.header is not None
        return StoredRun(header=self.header, blob=self._blob(self._good))

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs, waits to run, or is under way outside."""
        tree = self.tree
        return not (tree.turn or tree.running or tree.arrivals or self._in_flight())

    def _in_flight(self) -> bool:
        return self.ledgers.effects.outstanding or any(
            invoke.live and invoke.kind in ("call", "effect")
            for node in self._nodes()
            for invoke in node.engine.invokes.active.values()
        )

    def _nodes(self) -> Iterator[Node]:
        return self.tree.root.walk() if self.tree.root is not None else iter(())

    @property
    def parked(self) -> bool:
        """Whether the run only waits: no queue, nothing pending, nothing in flight or in doubt."""
        tree = self.tree
        if tree.arrivals or self._in_flight():
            return False
        if any(timer.policy != "deadline" for timer in tree.timers):
            return False
        return not any(
            node.engine.external_queue.items or node.engine.invokes.marked
            for node in self._nodes()
        )

    def gates(self) -> list[OpenGate]:
        """Return the open gates of the run, in the order in which they opened."""
        return [
            OpenGate(
                invoke.extra["key"],
                node.path,
                invoke.state,
                tuple(invoke.extra["events"]),
                invoke.extra.get("meta"),
            )
            for node in self._nodes()
            for invoke in node.engine.invokes.active.values()
            if invoke.kind == "gate" and invoke.live
        ]

    # -- what enters ----------------------------------------------------------------------------

    def send(
        self,
        event: str,
        args: tuple[Any, ...] = (),
        data: Mapping[str, Any] | None = None,
        *,
        waiter: Any = None,
        delay_ms: float | None = None,
        delivery: str | None = None,
        path: str = "",
    ) -> bool:
        """Take an event for a chart of the run; return False for a delivery that was taken.

        Raises RunFinishedError, EncodeError for data that cannot be stored.
        """
        if delivery is not None and delivery in self.ledgers.deliveries:
            return False
        self.require_live()
        refuse_reserved(self.run_id, event, data or {})
        node = self.tree.find(path)
        assert node is not None, f"run {self.run_id!r} has no chart at {path!r}"
        self.machine.codec.encode([list(args), dict(data or {})], root=f"event {event}")
        if delivery is not None:
            self.ledgers.deliver(delivery, self.tree.seq + 1)
        node.engine.enqueue(event, *args, delay=delay_ms, waiter=waiter, **(data or {}))
        return True

    def answer(
        self, gate: str, event: str, args: tuple[Any, ...], data: Mapping[str, Any], waiter: Any
    ) -> None:
        """Take an answer to an open gate; raises GateClosedError if none takes it."""
        self.require_live()
        gates = self.gates()
        found = next((g for g in gates if g.key == gate and event in g.events), None)
        if found is None:
            known = tuple(f"{g.key} ({', '.join(g.events)})" for g in gates)
            raise GateClosedError(self.run_id, gate, event, known)
        self.send(event, args, data, waiter=waiter, path=found.path)

    def require_live(self) -> None:
        """Raise RunFinishedError if the run takes nothing more."""
        if self.status != "live":
            raise RunFinishedError(self.run_id, self.status)

    # -- the tree's keeper ----------------------------------------------------------------------

    @property
    def has_loop(self) -> bool:
        """Whether an event loop runs what is a coroutine."""
        return self.worker.has_loop

    def boundary(self, node: Node) -> None:
        """Save the whole run: the macrostep of `node` is over and nothing that follows began."""
        intents = list(self._intend(node))
        self.ledgers.follow(node, self.clock.now_ms())
        root = self.tree.root
        assert root is not None
        try:
            if root.finished:
                self._end(self._verdict(root), None)
            else:
                self._save()
        except BaseException:
            for row in intents:
                self.ledgers.effects.drop(row.id)
            raise
        self.ledgers.reacted(node)

    def _intend(self, node: Node) -> Iterator[EffectRow]:
        for mark in node.engine.invokes.marked:
            source = source_of(node.engine.invokes.callbacks(mark.state)[mark.index])
            if not isinstance(source, Effect) or mark.id is None:
                continue
            if self.ledgers.effects.of_invoke(node.path, mark.id) is not None:
                continue
            name = "/".join(part for part in (self.run_id, node.path, mark.id) if part)
            context = node.engine.invokes.context_of(mark)
            row = EffectRow(
                name,
                node.path,
                mark.id,
                source.kind,
                source.key_for(context, name),
                source.idempotent,
                self.clock.now_ms(),
            )
            self.ledgers.effects.intend(row)
            yield row

    def _verdict(self, root: Node) -> Status:
        failed = any(state.id in self.machine.failed for state in root.chart.configuration)
        return "failed" if failed else "done"

    def begun(self, node: Node) -> None:
        """Nothing: what begins saves for itself."""

    def start(self, call: Call) -> None:
        """Hand outside work to the worker."""
        context = call.context
        context.run_id, context.term = self.run_id, self.store.term
        self.worker.start_call(self, call)

    def stop(self, path: str, invoke: str) -> None:
        """Have outside work ended whose state was left."""
        self.worker.stop_call(self, path, invoke)

    def post(self, function: Callable[[], object]) -> None:
        """Have the tree's own thread call the function soon."""
        self.worker.post(function)

    def wake(self) -> None:
        """See that the tree runs."""
        if not self.paused and self.status == "live":
            self.worker.wake(self)

    def arrived(self) -> None:
        """Save at once what came from outside, then see that the tree runs.

        If the save fails it is kept in memory, and saved again later.
        """
        try:
            self.write()
        except (StorageError, ConflictError) as error:
            self._stall(error, None)
        self.wake()

    def failed(self, node: Node, item: Queued | None, error: Exception) -> bool:
        """Put the run back to its last saved snapshot, and tell who must know.

        Who waits for the event gets the exception and the run stays live. Where nobody waits it
        becomes `error`, in the same write. A save that failed changes nothing but memory.
        """
        del node
        if self.header is None:
            self.tree.turn.clear()
            reject_waiter(self.stored, error)
            return True
        self.put_back()
        waits = item is not None and item.trigger.future is not None
        if isinstance(error, StorageError | ConflictError):
            self._stall(error, item)
            return True
        try:
            if waits and item is not None and not item.trigger.future.done():
                self._refuse(item, error)
            else:
                self.die(error)
        except (StorageError, ConflictError) as broken:
            self._stall(broken, item)
        return True

    def _refuse(self, item: Queued, error: Exception) -> None:
        self.ledgers.undeliver(item.seq)
        root = self.tree.root
        assert root is not None
        for node in root.walk():
            if node.engine.external_queue.remove(item.seq):
                node.fragment = None
                self.write()
        reject(item.trigger, error)

    def _stall(self, error: StorageError | ConflictError, item: Queued | None) -> None:
        self.paused = True
        if item is not None:
            self.ledgers.undeliver(item.seq)
            reject(item.trigger, error)
        self.worker.stalled(self, error)

    def put_back(self) -> None:
        """Throw the objects of the tree away and build them from the last saved snapshot.

        Outside work that is under way is not touched: it belongs to the run.
        """
        value = self.machine.codec.decode(join(self._good))
        self.tree.clear()
        grow(self.tree, self.machine, value)
        resume(self.tree, restored=False)

    # -- endings --------------------------------------------------------------------------------

    def die(self, error: BaseException) -> None:
        """End the run with an exception that its chart does not handle."""
        self.error = self.describe(error)
        self._end("error", f"{self.error['type']}: {self.error['message']}")

    def describe(self, error: BaseException) -> dict[str, str]:
        """Return what is stored of an exception: its type, and its message cut to a bound."""
        plain: Any = self.machine.codec.to_plain(error)
        return {"type": plain["type"], "message": plain["v"]}

    def cancel(self, reason: str | None = None) -> None:
        """End the run because somebody asked for it. Raises RunFinishedError."""
        self.require_live()
        self._end("cancelled", reason or "cancelled")

    def set_aside(self, status: Status, reason: str) -> None:
        """Mark the run lost or drifted: the row keeps its snapshot."""
        assert self.header is not None
        self.header = self.store.mark(self.header, status, reason)
        self.worker.ended(self)

    def _end(self, status: Status, reason: str | None) -> None:
        self.ledgers.effects.close()
        self._put(status, reason)
        refusal = RunFinishedError(self.run_id, status)
        for node in self._nodes():
            if status in ("error", "cancelled"):
                node.engine.external_queue.reject_futures(refusal)
            for invoke in node.engine.invokes.active.values():
                if invoke.live and invoke.kind in ("call", "effect"):
                    self.stop(node.path, invoke.id)
        self.worker.ended(self)

    # -- writing --------------------------------------------------------------------------------

    def write(self, *, sync: bool = False) -> None:
        """Save a change that came between boundaries: a ledger, an arrival, a queued event.

        Inside a macrostep the tree's bytes of the last boundary stand.
        """
        self._put("live", None, sync=sync)

    def _save(self) -> None:
        self.step += 1
        try:
            self._put("live", None)
        except BaseException:
            self.step -= 1
            raise

    def _put(self, status: Status, reason: str | None, *, sync: bool = False) -> None:
        fresh = self.tree.running is None
        fields = tree_fields(self.tree, self.machine) if fresh else self._good
        if self.verify and fresh:
            self._verify(fields["root"])
        blob = self._blob(fields)
        due = self.tree.timers.next_due()
        due_ms = NO_TIMER_MS if due is None or status != "live" else due
        parked = status == "live" and fresh and self.parked
        if self.header is None:
            self.header = self.store.create(
                run_id=self.run_id,
                machine=self.machine.name,
                digest=self.machine.digest,
                shape=shape_bytes(self.machine.chart),
                blob=blob,
                due_ms=due_ms,
                parked=parked,
                status=status,
                reason=reason,
            )
        else:
            self.header = self.store.save(
                self.header,
                blob,
                status=status,
                reason=reason,
                due_ms=due_ms,
                parked=parked,
                sync=sync,
            )
        self._good = fields
        if fresh:
            self.tree.admitted.clear()
        if self.stored is not None and not self.stored.done():
            self.stored.set_result(None)
        self.worker.saved(self)

    def _blob(self, fields: dict[str, bytes]) -> bytes:
        encode = self.machine.codec.encode
        parts = {
            "v": b"1",
            "run": encode(self.run_id),
            "machine": encode(self.machine.name),
            "digest": encode(self.machine.digest),
            "input": self._input,
            "step": encode(self.step),
            **fields,
        }
        arrivals = [*self.tree.admitted, *self.tree.arrivals] if self.tree.running else ()
        if arrivals:
            stored = [read_arrival(arrival) for arrival in arrivals]
            parts["arrivals"] = encode(stored, root="arrivals")
        parts |= self.ledgers.fields(self.machine.codec)
        if self.error is not None:
            parts["error"] = encode(self.error)
        return join(parts)

    def _verify(self, root: bytes) -> None:
        for node in self._nodes():
            node.fragment = None
        assert self.tree.root is not None
        full = node_bytes(self.tree.root, self.machine, "root")
        assert full == root, f"run {self.run_id!r}: a chart moved and was not encoded again"


def refuse_reserved(run_id: str, event: str, data: Mapping[str, Any]) -> None:
    """Refuse event data that the library would silently replace by a value of its own."""
    for name in sorted(RESERVED & data.keys()):
        raise EventRefusedError(
            run_id,
            event,
            f"its data uses the name {name!r}, which python-statemachine replaces",
            "give that value another name",
        )
