"""Gates: a state that waits for an answer from outside, by name.

reviewing = State(invoke=gate("approve", "reject", key="review", meta={"role": "editor"}))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machines.engine.invokes import source_of
from machines.errors import AmbiguousGateError, DefinitionError, GateClosedError
from machines.limits import REFUSAL_CHARS_MAX
from machines.names import path_below
from machines.parameters import INJECTED, Model, Parameter, taken_by, taken_by_callbacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from machines.engine.invocations import Invoke
    from machines.engine.nodes import Node


@dataclass(frozen=True, slots=True)
class Gate:
    """What `gate` returns: open exactly as long as its state is active."""

    events: tuple[str, ...]
    key: str | None = None
    meta: Any = None
    models: Mapping[str, Model] = field(default_factory=dict)
    """What the data of an event must be good for, by event."""
    durable_kind: str = field(default="gate", init=False)

    def run(self, ctx: Any) -> None:
        """Wait, under the library's own engine, until the state is left."""
        ctx.cancelled.wait()

    def shape(self) -> str:
        """Return what of the gate belongs to the shape of its chart."""
        return f"gate:{' '.join(sorted(self.events))}"

    def describe(self, node: Node, invoke: Invoke) -> dict[str, Any]:
        """Return what a snapshot holds of the open gate."""
        address = self.key or path_below(node.path, invoke.state)
        described: dict[str, Any] = {"key": address, "events": list(self.events)}
        if self.meta is not None:
            described["meta"] = self.meta
        return described

    def parameters(self, node: Node) -> dict[str, tuple[Parameter, ...]]:
        """Return what each event takes: of its model, else of the callbacks that it would call."""
        return {
            event: taken_by(self.models[event])
            if event in self.models
            else taken_by_callbacks(node.chart, event)
            for event in self.events
        }

    def refusal(self, event: str, args: tuple[Any, ...], data: Mapping[str, Any]) -> str | None:
        """Say what the model of an event has against its data; None if nothing, or no model."""
        model = self.models.get(event)
        if model is None:
            return None
        try:
            model(*args, **data)
        except Exception as error:  # noqa: BLE001 - whatever a model raises is its refusal
            name = getattr(model, "__name__", repr(model))
            return f"it is no {name} ({type(error).__name__}: {error})"[:REFUSAL_CHARS_MAX]
        return None


def gate(
    *events: str,
    key: str | None = None,
    meta: Any = None,
    model: Model | Mapping[str, Model] | None = None,
) -> Gate:
    """Return what a state invokes to wait for one of these events from outside.

    `key` is the gate's address in its run (default: the state's id, after the path of its chart);
    `meta` is any value for who lists open gates. `model` is called with an answer's data before
    it is taken: a dataclass, a pydantic or msgspec class, anything with a signature; what it
    raises refuses the answer, and the callbacks get the plain data. A mapping gives one per
    event. Neither `meta` nor `model` belongs to the shape of the chart.

    Raises DefinitionError without an event, for a key that is no text, and for a model that has
    no signature, is for no event of the gate, or takes what python-statemachine takes away.
    """
    name = "gate"
    if not events:
        reason = "it accepts no event"
        raise DefinitionError(name, reason, "name the events that it is answered with")
    if key is not None and not (isinstance(key, str) and key):
        raise DefinitionError(name, f"its key is {key!r}", "give a text, or leave it out")
    named = tuple(str(event) for event in events)
    return Gate(named, key, meta, _models(named, model))


def _models(events: tuple[str, ...], model: Model | Mapping[str, Model] | None) -> dict[str, Model]:
    name = "gate"
    if model is None:
        return {}
    given = dict(model) if isinstance(model, Mapping) else dict.fromkeys(events, model)
    for event, one in given.items():
        if event not in events:
            reason = f"its model is for {event!r}, which it does not accept"
            raise DefinitionError(name, reason, f"name some of {list(events)!r}")
        try:
            lost = sorted({parameter.name for parameter in taken_by(one)} & INJECTED)
        except (TypeError, ValueError) as error:
            reason = f"its model {one!r} has no signature ({error})"
            raise DefinitionError(name, reason, "give a class, or a function") from error
        if lost:
            reason = f"its model {one!r} takes {lost!r}, which python-statemachine replaces"
            raise DefinitionError(name, reason, "give these another name")
    return given


@dataclass(frozen=True, slots=True)
class OpenGate:
    """A gate that waits for an answer.

    `parameters` are what each event takes, by event. They come from the code, not from the row:
    what was read from a row alone has none, and they are not compared.
    """

    key: str
    path: str
    state: str
    events: tuple[str, ...]
    meta: Any
    parameters: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict, compare=False)

    @property
    def address(self) -> str:
        """What names this gate and no other of its run: its key, after the path of its chart."""
        return self.key if self._has_default_key else path_below(self.path, self.key)

    @property
    def _has_default_key(self) -> bool:
        return self.key == path_below(self.path, self.state)

    def __str__(self) -> str:
        return f"{self.key} ({', '.join(self.events)})"


def open_gates(nodes: Iterable[Node]) -> list[OpenGate]:
    """Return the open gates of charts, in the order in which they opened, with their parameters."""
    return [
        _listed(node, invoke, _source(node, invoke).parameters(node))
        for node, invoke in _open(nodes)
    ]


def gate_for(run_id: str, nodes: Sequence[Node], name: str, event: str) -> tuple[OpenGate, Gate]:
    """Return the open gate that a key or an address names, if it takes the event.

    Raises AmbiguousGateError for a key under which charts of the run have several open, and
    GateClosedError if none is open or it does not take the event.
    """
    close = [(n, i) for n, i in _open(_near(nodes, name)) if name.endswith(i.extra["key"])]
    listed = [(_listed(node, invoke, {}), _source(node, invoke)) for node, invoke in close]
    named = [(one, source) for one, source in listed if name in (one.key, one.address)]
    if len(named) > 1:
        exactly = [(one, source) for one, source in named if name == one.address]
        if len(exactly) != 1:
            raise AmbiguousGateError(run_id, name, event, tuple(one.address for one, _ in named))
        named = exactly
    if not named or event not in named[0][0].events:
        others = (_listed(node, invoke, {}) for node, invoke in _open(nodes))
        raise GateClosedError(run_id, name, event, tuple(map(str, others)))
    return named[0]


def _near(nodes: Iterable[Node], name: str) -> list[Node]:
    """Return the charts that have a gate, open or not, whose key ends what an answer names.

    A gate's key ends its address: of the others nothing need be known, and there may be many.
    """
    near = []
    for node in nodes:
        for invoke in node.engine.invokes.active.values():
            if invoke.kind == "gate" and name.endswith(invoke.extra.get("key", "")):
                near.append(node)
                break
    return near


def _source(node: Node, invoke: Invoke) -> Gate:
    source: Gate = source_of(node.engine.invokes.callbacks(invoke.state)[invoke.index])
    return source


def _open(nodes: Iterable[Node]) -> list[tuple[Node, Invoke]]:
    found: list[tuple[Node, Invoke]] = []
    for node in nodes:
        active = node.engine.invokes.active
        if not active:
            continue
        opened = [each for each in active.values() if each.kind == "gate" and each.live]
        if len(opened) > 1:
            # A state that was entered again without being left has its gate once.
            opened = [*{each.extra["key"]: each for each in reversed(opened)}.values()][::-1]
        found += [(node, each) for each in opened]
    return found


def _listed(
    node: Node, invoke: Invoke, parameters: Mapping[str, tuple[Parameter, ...]]
) -> OpenGate:
    extra = invoke.extra
    return OpenGate(
        key=extra["key"],
        path=node.path,
        state=invoke.state,
        events=tuple(extra["events"]),
        meta=extra.get("meta"),
        parameters=parameters,
    )
