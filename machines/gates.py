"""Gates: a state that waits for an answer from outside, by name.

reviewing = State(invoke=gate("approve", "reject", key="review", meta={"role": "editor"}))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machines.errors import DefinitionError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from machines.engine.invocations import Invoke
    from machines.engine.nodes import Node


@dataclass(frozen=True, slots=True)
class Gate:
    """What `gate` returns: open exactly as long as its state is active."""

    events: tuple[str, ...]
    key: str | None = None
    meta: Any = None
    durable_kind: str = field(default="gate", init=False)

    def run(self, ctx: Any) -> None:
        """Wait, under the library's own engine, until the state is left."""
        ctx.cancelled.wait()

    def shape(self) -> str:
        """Return what of the gate belongs to the shape of its chart."""
        return f"gate:{' '.join(sorted(self.events))}"

    def describe(self, node: Node, invoke: Invoke) -> dict[str, Any]:
        """Return what a snapshot holds of the open gate."""
        address = self.key or (f"{node.path}/{invoke.state}" if node.path else invoke.state)
        described: dict[str, Any] = {"key": address, "events": list(self.events)}
        if self.meta is not None:
            described["meta"] = self.meta
        return described


def gate(*events: str, key: str | None = None, meta: Any = None) -> Gate:
    """Return what a state invokes to wait for one of these events from outside.

    `key` is the gate's address in its run (default: the state's id, after the path of its chart);
    `meta` is any value for who lists open gates. Raises DefinitionError without an event.
    """
    if not events:
        name = "gate"
        reason = "it accepts no event"
        raise DefinitionError(name, reason, "name the events that it is answered with")
    return Gate(tuple(str(event) for event in events), key, meta)


@dataclass(frozen=True, slots=True)
class OpenGate:
    """A gate that waits for an answer."""

    key: str
    path: str
    state: str
    events: tuple[str, ...]
    meta: Any


def open_gates(nodes: Iterable[Node]) -> list[OpenGate]:
    """Return the open gates of charts, in the order in which they opened."""
    return [
        OpenGate(
            invoke.extra["key"],
            node.path,
            invoke.state,
            tuple(invoke.extra["events"]),
            invoke.extra.get("meta"),
        )
        for node in nodes
        for invoke in node.engine.invokes.active.values()
        if invoke.kind == "gate" and invoke.live
    ]
