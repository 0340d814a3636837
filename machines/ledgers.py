"""The ledgers of one run together: what each boundary adds to them, and their part of the blob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.engine.turns import INITIAL
from snapshots.ledgers.deliveries import Deliveries
from snapshots.ledgers.effects import EffectRow, Effects
from snapshots.ledgers.trail import Trail

if TYPE_CHECKING:
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
            self._learn(f"{path}/{key}" if path else key, below)

    def fields(self, codec: Codec) -> dict[str, bytes]:
        """Return the ledgers as JSON, by their names in a blob; empty ones are left out."""
        values = {
            "effects": self.effects.as_value(),
            "deliveries": self.deliveries.as_value(),
            "trail": self.trail.as_value(),
        }
        return {key: codec.encode(value, root=key) for key, value in values.items() if value}

    def deliver(self, delivery: str, seq: int) -> None:
        """Note an external event as taken, with the number that its tree gives it."""
        self.deliveries.take(delivery)
        self._delivered[seq] = delivery

    def undeliver(self, seq: int) -> None:
        """Forget an event whose macrostep was undone."""
        delivery = self._delivered.pop(seq, None)
        if delivery is not None:
            self.deliveries.drop(delivery)

    def follow(self, node: Node, now_ms: int) -> None:
        """Note in the trail where a chart's macrostep led."""
        was = self._last.get(node.path, [])
        now = [node.names.name(state) for state in node.chart.configuration]
        current = node.engine.current
        if now != was:
            event = str(current.trigger.event) if current is not None else ""
            self.trail.add(now_ms, node.path, "" if event == INITIAL else event, was, now)
            self._last[node.path] = now
        if current is not None:
            self._delivered.pop(current.seq, None)

    def reacted(self, node: Node) -> None:
        """Let go of an outcome whose transition was just saved."""
        current = node.engine.current
        event = str(current.trigger.event) if current is not None else ""
        if not event.startswith(("done.invoke.", "error.execution")):
            return
        for row in self.effects:
            if row.tail is not None and event == f"done.invoke.{row.invoke}":
                row.tail = None
