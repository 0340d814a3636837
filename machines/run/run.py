"""One live run: its tree of charts, its ledgers, and the row that holds both.

The run is what keeps the tree: it saves at each boundary, puts the tree back to its last saved
snapshot when anything fails, and ends the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.binding.capturing import beside_charts, encode_moved
from machines.binding.planting import make_child, plant
from machines.binding.works import read_arrival
from machines.books import Books, Owner
from machines.engine.queues import answer, reject_waiter
from machines.engine.tree import Tree
from machines.errors import RunFinishedError
from machines.gates import OpenGate, open_gates
from machines.run import ending, restoring
from machines.run import rollback as mending
from machines.run.activity import (
    in_flight,
    nodes_of,
    parked,
)
from machines.run.ledgers import Ledgers
from machines.run.letters import Letters
from machines.run.row import Head, Parts, Row, verify
from machines.run.telling import SILENCE
from machines.run.waiters import STALE, tell_all
from machines.run.worker import UNSAVED, Halt, Worker
from machines.run.writing import Pen, lent
from snapshots.codec import dump, load
from snapshots.errors import EncodeError, SnapshotsError
from snapshots.layout import unfold_blob
from snapshots.limits import NO_TIMER_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from machines.definition import Machine
    from machines.engine.nodes import Arrival, Call, Node
    from machines.engine.queues import Queued
    from machines.run.telling import Teller
    from snapshots.clock import Clock
    from snapshots.records import RunHeader, Status, StoredRun
    from snapshots.store import SnapshotStore

NEVER_CALLED = {"type": "StateLeft", "message": "its state was left before the call"}


class Run:
    """A run in memory. Everything happens on the thread that runs its tree."""

    def __init__(
        self,
        store: SnapshotStore,
        machine: Machine,
        run_id: str,
        given: Mapping[str, Any],
        worker: Worker,
        *,
        clock: Clock,
        verify: bool = False,
    ) -> None:
        self.store = store
        self.machine = machine
        self.run_id = run_id
        self.given = dict(given)
        self.worker, self.clock, self.verify = worker, clock, verify
        self.told: Teller = worker.told if worker is not None else SILENCE
        self.row = Row(store, machine, run_id, given)
        self.step = 0
        self.error: dict[str, str] | None = None
        self.cause: BaseException | None = None
        """The exception that `error` describes, if it was raised here."""
        self.ledgers = Ledgers()
        self.tree = Tree(clock, self, make_child)
        self.tree.policies = machine.resume
        self.paused = False
        self.trouble: SnapshotsError | None = None
        """What the last save failed with, until one succeeds."""
        self.over = False
        """Whether nothing of it may run or be saved here any more."""
        self.letters = Letters()
        self.delivering: dict[str, Any] = {}
        """Who waits for a delivery that was taken and is not saved yet."""
        self.arrivals_saved: frozenset[int] = frozenset()
        """Numbers of the events that the row holds as arrivals."""
        self.stored: Any = None
        """Who waits for the first save."""

    def begin(self) -> None:
        """Make the root chart of a new run; its first boundary stores it."""
        root = plant(self.tree, self.machine, self.given)
        if not self.tree.turn:
            root.engine.moved = True
            self.tree.ready(root)

    def restore(
        self,
        header: RunHeader,
        value: dict[str, Any],
        *,
        restarted: bool,
        complete: Callable[[Run], None] | None = None,
    ) -> None:
        """Build the tree that a row holds; see `machines.run.restoring`."""
        restoring.restore(self, header, value, restarted=restarted, complete=complete)

    def resume(self, *, restarted: bool) -> None:
        """Start what the restored run does outside; then it can be woken."""
        restoring.resume(self, restarted=restarted)

    @property
    def header(self) -> RunHeader | None:
        """What is on disk of the run, but for its blob; None before its first save."""
        return self.row.header

    @property
    def status(self) -> Status:
        """The run's status, `live` before its first save."""
        header = self.row.header
        return header.status if header is not None else "live"

    @property
    def goes_on(self) -> bool:
        """Whether the run may still run and be saved here."""
        header = self.row.header  # for each save and event, so without a call of `status`
        return not self.over and (header is None or header.status == "live")

    def as_stored(self) -> StoredRun:
        """Return the run as its row holds it."""
        return self.row.as_stored(self._rest(self._arrivals(self.status)))

    def as_value(self) -> dict[str, Any]:
        """Return the run as its row holds it, decoded, with all effects as rows."""
        value = self.machine.codec.decode_blob(self.as_stored().blob)
        return unfold_blob(value, self.run_id)

    @property
    def due_ms(self) -> int:
        """When the run's nearest timer is due; NO_TIMER_MS if there is none."""
        return self._nearest(live=self.status == "live")

    @property
    def at_rest(self) -> bool:
        """Whether nothing runs, waits to run or to be saved, or is under way outside."""
        tree = self.tree
        waits = tree.turn or tree.running or tree.arrivals or self.trouble
        return not (waits or in_flight(tree, self.ledgers.effects))

    def gates(self) -> list[OpenGate]:
        """Return the open gates of the run, in the order in which they opened."""
        return open_gates(nodes_of(self.tree))

    def require_live(self) -> None:
        """Raise RunFinishedError if the run takes nothing more."""
        if self.status != "live":
            raise RunFinishedError(self.run_id, self.status)

    def note_delivering(self, delivery: str, future: Any) -> None:
        """Know who waits for a delivery, until that is answered."""
        if not future.done():
            self.delivering[delivery] = future
            future.add_done_callback(lambda _: self.delivering.pop(delivery, None))

    def when_quiet(self, function: Callable[[], object]) -> None:
        """Have a function called once the tree has come to rest."""
        self.tree.resting.append(lambda: self.post(function))

    # -- the tree's keeper ----------------------------------------------------------------------

    @property
    def has_loop(self) -> bool:
        """Whether an event loop runs what is a coroutine."""
        return self.worker.has_loop

    def boundary(self, node: Node) -> None:
        """Save the whole run: the macrostep of `node` is over and nothing that follows began."""
        if not self.goes_on:
            raise Halt
        tree, ledgers = self.tree, self.ledgers
        root = tree.root
        assert root is not None
        undo: list[Callable[[], object]] = []
        step = self.step
        try:
            if self.told.each:
                undo.append(self.told.stepping(self, node))
            if node.untaken:
                undo.append(self.told.swallowed(self, node))
            ledgers.intend(node, self.run_id, self.clock, undo)
            for path, invoke in tree.stopped:
                undo.append(ledgers.effects.withdraw(path, invoke, NEVER_CALLED))
            ledgers.follow(node, self.clock, self.describe, undo)
            self.step += 1
            if root.finished:
                ending.end(self, ending.verdict(self, root), None)
            else:
                self.put("live", None)
        except BaseException:
            self.step = step
            for back in reversed(undo):
                back()
            raise
        ledgers.reacted(node)

    def begun(self, node: Node) -> None:
        """Nothing: what begins saves for itself."""

    def is_stale(self, epoch: str | None) -> bool:
        """Whether a conversation has another epoch than the one that was minted for it.

        Raises InvalidKeyError for a text that nothing minted.
        """
        return epoch is not None and not self.ledgers.epochs.is_current(epoch)

    def ignores(self, item: Queued) -> bool:
        """Whether an event answers a conversation that moved on; its sender is told so."""
        if not self.is_stale(item.epoch):
            return False
        self.ledgers.delivered(item.seq)
        answer(item.trigger, STALE)
        return True

    def start(self, call: Call) -> None:
        """Hand outside work to the worker."""
        context = call.context
        context.run_id, context.term = self.run_id, self.store.term
        owner = Owner(path=call.path, invoke=call.invoke)
        context.books = self.books(owner)
        context.key = f"{self.run_id}/{owner.key}"
        self.worker.start_call(self, call)

    def books(self, owner: Owner | None = None) -> Books:
        """Return the ledgers as an invocation changes them, or as the run itself does."""
        return Books(self.ledgers, owner, Pen(self))

    def stop(self, path: str, invoke: str) -> None:
        """Have outside work ended whose state was left."""
        if self.ledgers.effects.of_invoke(path, invoke) is None:
            self.ledgers.release(path, invoke)  # an effect goes on, and may still deliver
        self.worker.stop_call(self, path, invoke)

    def post(self, function: Callable[[], object]) -> None:
        """Have the tree's own thread call the function soon."""
        self.worker.post(function)

    def wake(self) -> None:
        """See that the tree runs."""
        if not self.paused:
            self.worker.wake(self)

    def arrived(self) -> None:
        """Save at once what came from outside, then see that the tree runs.

        If the file is at fault it is kept in memory, and saved again later. What cannot be saved
        at all ends the run.
        """
        if not self.goes_on:
            return
        try:
            self.write()
        except UNSAVED as error:
            mending.stall(self, error, None)
        except SnapshotsError as error:
            mending.choke(self, error)
        self.wake()

    def failed(self, node: Node, item: Queued | None, error: Exception) -> bool:
        """Mend the run after an exception left a macrostep; see `machines.run.rollback`."""
        del node
        return mending.failed(self, item, error)

    def describe(self, error: BaseException) -> dict[str, str]:
        """Return what is stored of an exception: its type, and its message cut to a bound."""
        plain: Any = self.machine.codec.to_plain(error)
        return {"type": plain["type"], "message": plain["v"]}

    def release(self, error: BaseException) -> None:
        """Run and save nothing more, and tell that to everybody who waits for the run."""
        self.over = True
        tell_all(self.tree, error)
        reject_waiter(self.stored, error)

    # -- writing --------------------------------------------------------------------------------

    def write(self, *, sync: bool = False) -> None:
        """Save a change that came between boundaries: a ledger, an arrival, a queued event.

        Inside a macrostep the tree's bytes of the last boundary stand.
        """
        self.put("live", None, sync=sync)

    def put(self, status: Status, reason: str | None, *, sync: bool = False) -> None:
        """Write the run as it is now; raises what the store does, and then nothing has changed."""
        if self.store.is_lent and (refusal := lent(self)):
            self.row.refusal = refusal
            raise refusal
        if self.told.each:
            self.told.saving(self)
        tree, row = self.tree, self.row
        arrivals = self._arrivals(status) if tree.arrivals or tree.admitted else []
        try:
            root, moved, beside, rest, head = self._encoded(status, reason, arrivals)
        except EncodeError as error:
            which = error.path, error.type_name, error.reason
            raise EncodeError(*which, self.run_id) from error.__cause__
        check = self._verify if self.verify and root is not None else None
        if self.letters.any:
            with self.letters.settling(self, status, sync=sync) as synced:
                row.put(root, moved, beside, rest, head, sync=synced, check=check)
        else:
            row.put(root, moved, beside, rest, head, sync=sync, check=check)
        row.settle()
        self.trouble = None
        if arrivals or self.arrivals_saved:
            self.arrivals_saved = frozenset(arrival.item.seq for arrival in arrivals)
        if root is not None:
            tree.admitted.clear()
            tree.moved.clear()
        if self.stored is not None and not self.stored.done():
            self.stored.set_result(None)
        self.worker.saved(self)

    def _encoded(
        self, status: Status, reason: str | None, arrivals: list[Arrival]
    ) -> tuple[Node | None, list[Node], dict[str, bytes], Parts, Head]:
        """Return what `Row.put` takes of the run: inside a macrostep no root, the charts stand."""
        tree, live = self.tree, status == "live"
        due_ms = self._nearest(live=live)
        if tree.running is not None:
            head = status, reason, due_ms, False
            return None, [], self.row.beside, self._rest(arrivals), head
        moved = encode_moved(tree, self.machine)
        head = status, reason, due_ms, live and parked(tree, self.ledgers.effects)
        return tree.root, moved, beside_charts(tree, self.machine), self._rest(arrivals), head

    def _rest(self, arrivals: list[Arrival]) -> Parts:
        """Return the parts of the blob that are not the tree's own, as JSON."""
        codec, ledgers = self.machine.codec, self.ledgers
        hot = {"step": b"%d" % self.step}
        if arrivals:
            stored = [read_arrival(arrival) for arrival in arrivals]
            hot["arrivals"] = codec.encode(stored, root="arrivals")
        if self.error is not None:
            hot["error"] = codec.encode(self.error)
        ledgers.add_hot(hot, codec)
        return hot, ledgers.cold(codec)

    def _verify(self, blob: bytes | bytearray) -> None:
        """Assert that a blob holds the run as it is now, encoded anew."""
        assert self.tree.root is not None
        encode = self.machine.codec.encode
        expected = self.ledgers.in_full(self.machine.codec)
        expected |= beside_charts(self.tree, self.machine) | {"step": encode(self.step)}
        # What these two are differs with the status: they are looked at for their form alone.
        for name in ("arrivals", "error"):
            value = load(bytes(blob)).get(name)
            if value is not None:
                expected[name] = dump(value)
        verify(self.row, self.tree.root, blob, expected)

    def _nearest(self, *, live: bool) -> int:
        """Return when the nearest timer of a run is due, which has none once it has ended."""
        timers = self.tree.timers.items
        return timers[0].due if live and timers else NO_TIMER_MS

    def _arrivals(self, status: Status) -> list[Arrival]:
        """Return what came from outside and is not in the tree as it is saved now.

        Who waits for an event when the run ends is told that it did not happen.
        """
        tree = self.tree
        arrivals = [*tree.admitted, *tree.arrivals] if tree.running is not None else tree.arrivals
        if status == "live":
            return list(arrivals)
        return [arrival for arrival in arrivals if arrival.item.trigger.future is None]
