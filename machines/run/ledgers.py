"""The ledgers of one run together: what each boundary adds to them, and their part of the blob."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from machines.effects import Effect
from machines.engine.invokes import source_of
from machines.engine.turns import INITIAL
from machines.names import path_below
from snapshots.ledgers.admissions import Admissions
from snapshots.ledgers.deliveries import Deliveries
from snapshots.ledgers.effects import EffectRow, Effects
from snapshots.ledgers.epochs import Epochs
from snapshots.ledgers.notices import Notices
from snapshots.ledgers.picks import Picks
from snapshots.ledgers.pushes import Pushes
from snapshots.ledgers.trail import Trail

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines.engine.nodes import Node
    from snapshots.clock import Clock
    from snapshots.codec import Codec


DONE = "done.invoke."
"""How the event begins that says the outcome of an invocation."""

Undo: TypeAlias = "Callable[[], object]"
Book: TypeAlias = Admissions | Epochs | Notices | Picks | Pushes


class Ledgers:
    """What a run keeps beside its tree."""

    def __init__(self) -> None:
        self.effects = Effects()
        self.admissions = Admissions()
        self.epochs = Epochs()
        self.notices = Notices()
        self.picks = Picks()
        self.pushes = Pushes()
        self.deliveries = Deliveries()
        self.trail = Trail()
        self._json: dict[str, tuple[int, bytes]] = {}
        """The JSON of ledgers, with how often each had changed when it was encoded."""
        self._cold: dict[str, bytes] = {}
        self._cold_changes = -1, -1
        """What `cold` returned last, and after how many changes of all ledgers that was."""
        self._delivered: dict[int, str] = {}
        """Deliveries whose events did not run yet, by the event's number."""
        self._spent: list[EffectRow] = []
        """Effects whose tail was stored although the chart had reacted to it."""
        self._name_books()

    def _name_books(self) -> None:
        """Know the ledgers that work changes through `machines.books`, in a blob's order."""
        self._books: tuple[tuple[str, Book], ...] = (
            ("admissions", self.admissions),
            ("epochs", self.epochs),
            ("notices", self.notices),
            ("picks", self.picks),
            ("pushes", self.pushes),
        )

    @classmethod
    def of(cls, value: dict[str, Any]) -> Ledgers:
        """Return the ledgers that a blob holds."""
        made = cls()
        made.effects = Effects.of(value.get("effects", ()))
        made.admissions = Admissions.of(value.get("admissions", {}))
        made.epochs = Epochs.of(value.get("epochs", {}))
        made.notices = Notices.of(value.get("notices", {}))
        made.picks = Picks.of(value.get("picks", ()))
        made.pushes = Pushes.of(value.get("pushes", {}))
        made.deliveries = Deliveries(value.get("deliveries", ()))
        made.trail = Trail(value.get("trail", ()))
        waiting = {(a["node"], a["item"]["event"]) for a in value.get("arrivals", ())}
        waiting |= _queued("", value.get("root", {}))
        made._name_books()
        made._spent = [
            row
            for row in made.effects
            if row.tail is not None and (row.path, f"{DONE}{row.invoke}") not in waiting
        ]
        return made

    def add_hot(self, hot: dict[str, bytes], codec: Codec) -> None:
        """Add what most saves change of the ledgers as JSON, by their names in a blob.

        Empty ones are left out. Raises EncodeError.
        """
        if trail := self.trail.json:
            hot["trail"] = trail
        if self.effects:
            hot["effects"] = self.effects.open_json(codec)

    def cold(self, codec: Codec) -> dict[str, bytes]:
        """Return the ledgers that change seldom as JSON, by their names in a blob.

        Empty ones are left out, and only what changed is encoded: while nothing did, this is the
        same dict. Raises EncodeError with a path that begins with the name.
        """
        # Numbers that only grow stay equal as long as their sum does; closed rows may open again.
        changes = (
            self.deliveries.changes
            + self.admissions.changes
            + self.epochs.changes
            + self.notices.changes
            + self.picks.changes
            + self.pushes.changes
        )
        closed = self.effects.closed
        if (changes, closed) != self._cold_changes:
            fields = {
                name: self._fragment(name, ledger, codec) for name, ledger in self._books if ledger
            }
            if self.deliveries:
                fields["deliveries"] = self.deliveries.as_json()
            if self.effects.closed:
                fields["settled"] = self.effects.closed_json(codec)
            self._cold, self._cold_changes = fields, (changes, closed)
        return self._cold

    def in_full(self, codec: Codec) -> dict[str, bytes]:
        """Return what `add_hot` and `cold` must give together: everything encoded anew."""
        values = {
            "effects": self.effects.open_value(),
            "settled": self.effects.closed_value(),
            **{name: ledger.as_value() for name, ledger in self._books},
            "deliveries": self.deliveries.as_value(),
            "trail": self.trail.as_value(),
        }
        return {name: codec.encode(value, root=name) for name, value in values.items() if value}

    def _fragment(self, name: str, ledger: Book, codec: Codec) -> bytes:
        known = self._json.get(name)
        if known is not None and known[0] == ledger.changes:
            return known[1]
        if ledger is self.pushes:
            fragment = self.pushes.as_json(codec)
        else:
            fragment = codec.encode(ledger.as_value(), root=name)
        self._json[name] = ledger.changes, fragment
        return fragment

    def conclude(self, path: str, invoke: str, *, fault: bool) -> bool:
        """Take the end of an invocation; return whether that changed a ledger.

        Its own session is over with its work. A fault says nothing of the session, but burns the
        conversation that it belongs to: what was minted for that is stale from here on.
        """
        self.release(path, invoke)
        own = self.admissions.get(path_below(path, invoke))
        if own is None or own.settled:
            return False
        if not fault:
            self.admissions.settle(own.key)
        elif own.conversation is not None:
            self.epochs.bump(own.conversation)
        return not fault or own.conversation is not None

    def release(self, path: str, invoke: str) -> None:
        """Give back the notices that an invocation took, as it ends without delivering them."""
        self.notices.release(path_below(path, invoke))

    def deliver(self, delivery: str, seq: int) -> None:
        """Note an external event as taken, with the number that its tree gives it."""
        self.deliveries.take(delivery)
        self._delivered[seq] = delivery

    def delivered(self, seq: int) -> None:
        """Keep a delivery whose event is on disk and is not run by itself any more."""
        self._delivered.pop(seq, None)

    def undeliver(self, seq: int) -> str | None:
        """Forget an event whose macrostep was undone; return its delivery, if it had one."""
        delivery = self._delivered.pop(seq, None)
        if delivery is not None:
            self.deliveries.drop(delivery)
        return delivery

    def intend(self, node: Node, run_id: str, clock: Clock, undo: list[Undo]) -> None:
        """Add a row for each effect that a chart is about to begin; `undo` takes them back."""
        if self._spent:
            self.drop_spent_tails()
        invokes = node.engine.invokes
        for mark in invokes.marked:
            source = source_of(invokes.callbacks(mark.state)[mark.index])
            if not isinstance(source, Effect) or mark.id is None:
                continue
            if self.effects.of_invoke(node.path, mark.id) is not None:
                continue
            name = "/".join(part for part in (run_id, node.path, mark.id) if part)
            context = invokes.context_of(mark)
            context.run_id = run_id
            row = EffectRow(
                name,
                node.path,
                mark.id,
                source.kind,
                source.key_for(context, name),
                source.idempotent,
                clock.now_ms(),
            )
            undo.append(self.effects.intend(row))

    def drop_spent_tails(self) -> None:
        """Let go of outcomes whose transition a former process saved, as it would have itself."""
        for row in self._spent:
            row.tail = None
        self._spent.clear()

    def follow(
        self,
        node: Node,
        clock: Clock,
        describe: Callable[[BaseException], dict[str, str]],
        undo: list[Undo],
    ) -> None:
        """Note in the trail where a chart's macrostep led; `undo` takes that back.

        An error that no transition took is noted too: without that it would leave no trace.
        """
        was, now = node.shown, node.names.active(node.chart)
        if now == was and not node.untaken:
            return
        current, now_ms = node.engine.current, clock.now_ms()
        if now != was:
            event = str(current.trigger.event) if current is not None else ""
            said = "" if event == INITIAL else event
            undo.append(self.trail.add(now_ms, node.path, said, was, now))
            undo.append(partial(setattr, node, "shown", was))
            node.shown = now
        if node.untaken:
            for error in node.untaken:
                told = describe(error)
                said = f"error.execution, not taken: {told['type']}: {told['message']}"
                undo.append(self.trail.add(now_ms, node.path, said, now, now))
            node.untaken = []

    def reacted(self, node: Node) -> None:
        """Let go of an event and of an outcome whose transition was just saved."""
        current = node.engine.current
        if current is None:
            return
        if self._delivered:
            self._delivered.pop(current.seq, None)
        event = current.trigger.event
        if event is None or not event.startswith(DONE):
            return
        row = self.effects.of_invoke(node.path, event.removeprefix(DONE))
        if row is not None and row.tail is not None:
            row.tail = None


def _queued(path: str, node: dict[str, Any]) -> set[tuple[str, str]]:
    """Return the events that wait for a chart and those below it: path and name."""
    waiting = {(path, item["event"]) for item in node.get("queue", ())}
    for key, below in node.get("children", {}).items():
        waiting |= _queued(path_below(path, key), below)
    return waiting
