"""A chart to its snapshot: everything that decides how it behaves from here on.

Every item is guarded by a chart that behaves differently without it (`tools/equivalence.py
--ablate`). A node is encoded again only after it moved: its bytes are kept until then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine import StateChart
from statemachine.model import Model
from statemachine.state import InstanceState

from machines.binding.documents import stored
from machines.engine.turns import INITIAL
from machines.errors import DefinitionError, IllegalConfigurationError
from snapshots.codec.classes import slots_of
from snapshots.errors import EncodeError
from snapshots.layout import join, quote

if TYPE_CHECKING:
    from collections.abc import Collection

    from machines.definition import Machine
    from machines.engine.invocations import Invoke, Marked
    from machines.engine.nodes import Arrival, Node
    from machines.engine.queues import Queued
    from machines.engine.tree import Tree
    from machines.names import Names
    from snapshots.ledgers.timers import Timer

LIBRARY_ATTRIBUTES = frozenset({
    "model", "history_values", "state_field", "start_configuration_values", "_callbacks",
    "_config", "_listeners", "_engine", "_get_engine", "_invoke_params", "_invoke_session",
})  # fmt: skip
"""What python-statemachine itself puts on an instance; a contract test pins it."""

PYDANTIC_EXTRA = "__pydantic_extra__"
"""Where a pydantic model keeps fields that it does not declare."""

Value = dict[str, Any]


def tree_fields(tree: Tree, machine: Machine) -> dict[str, bytes]:
    """Return the parts of a blob that hold a tree, as JSON: root, turn, between, timers, clock."""
    assert tree.root is not None
    _refuse_shared_models(tree.root, machine)
    encode = machine.codec.encode
    fields = {"root": node_bytes(tree.root, machine, "root")}
    if tree.turn:
        fields["turn"] = encode([node.path for node in tree.turn])
        between = tree.turn[0].engine.between
        if between is not None:
            fields["between"] = b"true" if between else b"false"
    if tree.timers.items:
        fields["timers"] = encode([read_timer(timer) for timer in tree.timers], root="timers")
    fields["clock"] = encode({"seq": tree.seq, "stamp": tree.stamp})
    return fields


def node_bytes(node: Node, machine: Machine, root: str) -> bytes:
    """Return a chart and the charts below it as JSON, encoding only what moved."""
    if node.fragment is None:
        node.fragment = machine.codec.encode(read_node(node, machine), root=root)
    if not node.children:
        return node.fragment
    below = b",".join(
        quote(key) + b":" + node_bytes(child, machine, f"{root}.children.{key}")
        for key, child in node.children.items()
    )
    return b'%b,"children":{%b}}' % (node.fragment[:-1], below)


def tree_bytes(tree: Tree, machine: Machine) -> bytes:
    """Return a tree as one JSON object."""
    return join(tree_fields(tree, machine))


def _refuse_shared_models(root: Node, machine: Machine) -> None:
    models = [node.chart.model for node in root.walk()]
    if len({id(model) for model in models}) < len(models):
        raise DefinitionError(
            machine.name,
            "two of its charts share one model object, which a snapshot cannot keep shared",
            "give each child chart a model of its own",
        )


def read_node(node: Node, machine: Machine) -> Value:
    """Return what a snapshot holds of one chart, without the charts below it."""
    chart, engine, names, root = node.chart, node.engine, node.names, _root_of(node)
    value: Value = {
        "class": node.cls.__name__,
        "engine": "async" if engine.is_async else "sync",
        "status": "active" if engine.running else "finished",
        "started": not any(q.trigger.event == INITIAL for q in engine.external_queue.items),
        "start": start_of(chart, names),
        "configuration": [names.name(state) for state in chart.configuration],
        "history": {
            name: [names.name(s) for s in chart.history_values[state.id]]
            for name, state in names.states.items()
            if state.id in chart.history_values and state.is_history
        },
        "queue": [read_queued(item) for item in engine.external_queue.items],
        "pending": [read_marked(mark) for mark in engine.invokes.marked],
        "invokes": [read_invoke(invoke) for invoke in engine.invokes.active.values()],
        "spawned": engine.invokes.spawned,
        "floors": engine.invokes.floors,
        "final": _name_or_none(names, engine._root_parallel_final_pending),
        "context": stored(fields_of(chart.model, chart.state_field)),
        "model": model_name(chart.model, machine, root),
        "attributes": own_attributes(chart, machine.transient, root),
        "init": node.init,
        "state_field": None if chart.state_field == "state" else chart.state_field,
        "shared": node.shared.as_value() if node.shared is not None else None,
        "source": node.source,
        "params": node.params,
        "output": node.output,
    }
    check_configuration(node, machine)
    return {key: part for key, part in value.items() if part is not None and part not in ([], {})}


def start_of(chart: StateChart[Any], names: Names) -> list[str]:
    """Return where a chart was told to begin, while it has not begun and if its class differs."""
    values = chart.start_configuration_values
    if chart.current_state_value is not None or values == type(chart).start_configuration_values:
        return []
    return [names.name(chart.states_map[value]) for value in values if value in chart.states_map]


def _name_or_none(names: Names, state: Any) -> str | None:
    return None if state is None else names.name(state)


def model_name(model: object, machine: Machine, root: str) -> str | None:
    """Return the stored name of a model's class, None for the library's plain one."""
    return None if type(model) is Model else machine.name_of(type(model), f"{root}.context")


def own_attributes(chart: StateChart[Any], transient: Collection[str], root: str) -> Value:
    """Return what a chart, not the library, put on itself; refuse a chart that is held there."""
    own = {
        key: value
        for key, value in vars(chart).items()
        if key not in LIBRARY_ATTRIBUTES
        and key not in transient
        and not isinstance(value, InstanceState)
    }
    for key, value in own.items():
        if isinstance(value, StateChart):
            reason = (
                "it is a chart, which no attribute keeps; let a state invoke it with child(...)"
            )
            where = f"{root}.attributes.{key}"
            raise EncodeError(where, type(value).__qualname__, reason)
    return own


def _root_of(node: Node) -> str:
    parts = node.path.split("/") if node.path else ()
    return "root" + "".join(f".children.{part}" for part in parts)


def fields_of(model: object, state_field: str) -> Value:
    """Return a model's fields, without the one that holds the chart's state."""
    fields: Value = dict(getattr(model, "__dict__", {}))
    for name in slots_of(type(model)):
        if hasattr(model, name):
            fields[name] = getattr(model, name)
    fields.pop(state_field, None)
    more = fields.get(PYDANTIC_EXTRA)
    if more:
        fields[PYDANTIC_EXTRA] = {key: more[key] for key in more if key != state_field}
    return fields


def read_queued(item: Queued) -> Value:
    """Return what a snapshot holds of a queued event."""
    trigger = item.trigger
    assert trigger.event is not None
    kwargs = {key: value for key, value in trigger.kwargs.items() if key != "_invoke_session"}
    return _without_empty(
        {
            "event": str(trigger.event),
            "name": trigger.event.name,
            "internal": trigger.event.internal or None,
            "send_id": trigger.send_id,
            "args": list(trigger.args),
            "kwargs": stored(kwargs),
            "at": item.at,
            "seq": item.seq,
            "invoke": item.invoke,
            "epoch": item.epoch,
        }
    )


def read_timer(timer: Timer) -> Value:
    """Return what a snapshot holds of a timer."""
    return _without_empty(
        {
            "id": timer.id,
            "node": timer.path,
            "due": timer.due,
            "seq": timer.seq,
            "event": timer.event,
            "name": timer.name,
            "send_id": timer.send_id,
            "args": list(timer.args),
            "kwargs": timer.kwargs,
            "policy": timer.policy,
            "span": timer.span,
            "invoke": timer.invoke,
        }
    )


def read_marked(mark: Marked) -> Value:
    """Return what a snapshot holds of an invoke that is not spawned yet."""
    return _without_empty(
        {
            "id": mark.id,
            "state": mark.state,
            "index": mark.index,
            "order": mark.order,
            "kwargs": mark.kwargs,
            "attempt": mark.attempt if mark.attempt > 1 else None,
        }
    )


def read_invoke(invoke: Invoke) -> Value:
    """Return what a snapshot holds of an invocation."""
    return _without_empty(
        {
            "id": invoke.id,
            "state": invoke.state,
            "index": invoke.index,
            "kind": invoke.kind,
            "kwargs": invoke.kwargs,
            "attempt": invoke.attempt,
            "sent": invoke.sent or None,
            "terminated": invoke.terminated or None,
            "cancelled": invoke.cancelled or None,
            **invoke.extra,
        }
    )


def read_arrival(arrival: Arrival) -> Value:
    """Return what a snapshot holds of something that came during a macrostep."""
    value = read_queued(arrival.item)
    return _without_empty({"node": arrival.path, "invoke": arrival.invoke, "item": value})


def _without_empty(value: Value) -> Value:
    return {key: part for key, part in value.items() if part is not None and part not in ([], {})}


def check_configuration(node: Node, machine: Machine) -> None:
    """Refuse a configuration without a leaf: never written, refused when read.

    A child without its parent is no such thing: an internal transition of a StateMachine into a
    compound state leaves the library's own engine there.
    """
    engine = node.engine
    active = node.chart.configuration
    if not active:
        if engine.running and any(
            item.trigger.event == INITIAL for item in engine.external_queue.items
        ):
            return
        raise IllegalConfigurationError(machine.name, node.path, "no state is active")
    here = {id(getattr(state, "_state", state)) for state in active}
    for state in active:
        inner = getattr(state, "_state", state)
        if inner.states and not any(id(below) in here for below in inner.states):
            reason = f"state {inner.id!r} is active and none of its children is"
            raise IllegalConfigurationError(machine.name, node.path, reason)
