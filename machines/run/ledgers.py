"""The ledgers of one run together: what each boundary adds to them, and their part of the blob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.effects import Effect
from machines.engine.invokes import source_of
from machines.engine.turns import INITIAL
from machines.names import path_below
from snapshots.ledgers.deliveries import Deliveries
from snapshots.ledgers.effects import EffectRow, Effects
from snapshots.ledgers.trail import Trail

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from machines.engine.nodes import Node
    from snapshots.codec import Codec


class Ledgers:
    """What a run keeps beside its tree."""

    def __init__(self) -> None:
        self.effects = Effects()
        self.deliveries = Deliveries()
        self.trail = Trail()
        self._delivered: dict[int, str] = {}
        """Deliveries whose events did not run yet, by the event's number."""
        self._last: dict[str, list[str]] = {}
        """The configuration of each chart at its last boundary."""

    @classmethod
    def of(cls, value: dict[str, Any]) -> Ledgers:
        """Return the ledgers that a blob holds."""
        made = cls()
        made.effects = Effects(EffectRow.of(row) for row in value.get("effects", ()))
        made.deliveries = Deliveries(value.get("deliveries", ()))
        made.trail = Trail(value.get("trail", ()))
        made._learn("", value.get("root", {}))
        return made

    def _learn(self, path: str, node: dict[str, Any]) -> None:
        self._last[path] = list(node.get("configuration", ()))
        for key, below in node.get("children", {}).items():
            self._learn(path_below(path, key), below)

    def fields(self, codec: Codec) -> dict[str, bytes]:
        """Return the ledgers as JSON, by their names in a blob; empty ones are left out."""
        values = {"effects": self.effects.as_value(), "deliveries": self.deliveries.as_value()}
        fields = {key: codec.encode(value, root=key) for key, value in values.items() if value}
        if self.trail:
            fields["trail"] = self.trail.as_json()
        return fields

    def deliver(self, delivery: str, seq: int) -> None:
        """Note an external event as taken, with the number that its tree gives it."""
        self.deliveries.take(delivery)
        self._delivered[seq] = delivery

    def delivered(self, seq: int) -> None:
        """Keep a delivery whose event is on disk and is not run by itself any more."""
        self._delivered.pop(seq, None)

    def undeliver(self, seq: int) -> None:
        """Forget an event whose macrostep was undone."""
        delivery = self._delivered.pop(seq, None)
        if delivery is not None:
            self.deliveries.drop(delivery)

    def intend(self, node: Node, run_id: str, now_ms: int, undo: ExitStack) -> None:
        """Add a row for each effect that a chart is about to begin; `undo` takes them back."""
        invokes = node.engine.invokes
        for mark in invokes.marked:
            source = source_of(invokes.callbacks(mark.state)[mark.index])
            if not isinstance(source, Effect) or mark.id is None:
                continue
            if self.effects.of_invoke(node.path, mark.id) is not None:
                continue
            name = "/".join(part for part in (run_id, node.path, mark.id) if part)
            row = EffectRow(
                name,
                node.path,
                mark.id,
                source.kind,
                source.key_for(invokes.context_of(mark), name),
                source.idempotent,
                now_ms,
            )
            self.effects.intend(row)
            undo.callback(self.effects.drop, row.id)

    def follow(self, node: Node, now_ms: int) -> Callable[[], None]:
        """Note in the trail where a chart's macrostep led; return what takes that back."""
        path = node.path
        was = self._last.get(path, [])
        now = [node.names.name(state) for state in node.chart.configuration]
        if now == was:
            return lambda: None
        current = node.engine.current
        event = str(current.trigger.event) if current is not None else ""
        forget = self.trail.add(now_ms, path, "" if event == INITIAL else event, was, now)
        self._last[path] = now

        def undo() -> None:
            forget()
            self._last[path] = was

        return undo

    def reacted(self, node: Node) -> None:
        """Let go of an event and of an outcome whose transition was just saved."""
        current = node.engine.current
        if current is None:
            return
        self._delivered.pop(current.seq, None)
        event = str(current.trigger.event)
        if not event.startswith("done.invoke."):
            return
        row = self.effects.of_invoke(node.path, event.removeprefix("done.invoke."))
        if row is not None:
            row.tail = None
