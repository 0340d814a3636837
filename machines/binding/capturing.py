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
from machines.binding.works import (
    read_invoke,
    read_marked,
    read_queued,
    read_timer,
    without_empty,
)
from machines.engine.turns import INITIAL
from machines.errors import DefinitionError, IllegalConfigurationError
from machines.limits import OUTLINES_MAX
from machines.names import key_of
from snapshots.codec.classes import slots_of
from snapshots.errors import EncodeError
from snapshots.layout import join, quote

if TYPE_CHECKING:
    from collections.abc import Collection

    from machines.definition import Machine
    from machines.engine.nodes import Node
    from machines.engine.tree import Tree
    from machines.engine.turns import DurableEngine
    from machines.names import Names

LIBRARY_ATTRIBUTES = frozenset({
    "model", "history_values", "state_field", "start_configuration_values", "_callbacks",
    "_config", "_listeners", "_engine", "_get_engine", "_invoke_params", "_invoke_session",
})  # fmt: skip
"""What python-statemachine itself puts on an instance; a contract test pins it."""

PYDANTIC_EXTRA = "__pydantic_extra__"
"""Where a pydantic model keeps fields that it does not declare."""

Value = dict[str, Any]


def tree_fields(tree: Tree, machine: Machine) -> dict[str, bytes]:
    """Return the parts of a blob that hold a tree, as JSON: its charts, then what is beside them.

    Raises as `encode_moved` does.
    """
    assert tree.root is not None
    encode_moved(tree, machine)
    return {"root": node_bytes(tree.root), **beside_charts(tree, machine)}


def beside_charts(tree: Tree, machine: Machine) -> dict[str, bytes]:
    """Return what a tree holds beside its charts, as JSON: turn, between, clock."""
    fields: dict[str, bytes] = {}
    if turn := tree.turn:
        is_root = turn[0] is tree.root and len(turn) == 1
        fields["turn"] = b'[""]' if is_root else machine.codec.encode([node.path for node in turn])
        between = turn[0].engine.between
        if between is not None:
            fields["between"] = b"true" if between else b"false"
    fields["clock"] = b'{"seq":%d,"stamp":%d}' % (tree.seq, tree.stamp)
    return fields


def encode_moved(tree: Tree, machine: Machine) -> list[Node]:
    """Encode the charts of a tree that moved since it was saved last, and return them.

    Raises EncodeError for a value that could not come back, DefinitionError for a model that two
    charts share, IllegalConfigurationError for a configuration without a leaf.
    """
    moved = []
    has_other_models = False
    root = tree.root
    for node in tree.moved:
        if node is root or node.is_attached:
            moved.append(node)
            if node.fragment is None:
                node.fragment = encode_node(node, machine)
                (tree.busy.discard if node.idle else tree.busy.add)(node)
            if node.model_seen is not node.chart.model:
                node.model_seen, has_other_models = node.chart.model, True
    if has_other_models and root is not None and root.children:
        _refuse_shared_models(root, machine)
    return moved


def _refuse_shared_models(root: Node, machine: Machine) -> None:
    models = [node.chart.model for node in root.walk()]
    if len({id(model) for model in models}) < len(models):
        raise DefinitionError(
            machine.name,
            "two of its charts share one model object, which a snapshot cannot keep shared",
            "give each child chart a model of its own",
        )


def node_bytes(node: Node) -> bytes:
    """Return a chart and the charts below it as JSON; all of them are encoded."""
    fragment = node.fragment
    assert fragment is not None, f"chart {node.path!r} moved and was not encoded"
    if not node.children:
        return fragment
    below = b",".join(quote(key) + b":" + node_bytes(child) for key, child in node.children.items())
    return b'%b,"children":{%b}}' % (fragment[:-1], below)


def tree_bytes(tree: Tree, machine: Machine) -> bytes:
    """Return a tree as one JSON object."""
    return join(tree_fields(tree, machine))


def encode_node(node: Node, machine: Machine) -> bytes:
    """Return what a snapshot holds of one chart, without the charts below it, as JSON."""
    chart, encode = node.chart, machine.codec.encode
    outline, inside = outline_of(node, machine), _read_inside(node, machine)
    context = fields_of(chart.model, chart.state_field)
    if node.shared is not None:
        context = stored(context)
    # Each by itself: most charts have nothing but their model's fields.
    try:
        own = b",%b" % encode(inside)[1:-1] if inside else b""
        held = b',"context":%b' % encode(context) if context else b""
    except EncodeError:
        root = _root_of(node)  # the same once more, to say where
        encode(inside, root=root)
        encode(context, root=f"{root}.context")
        raise
    return b'%b,"spawned":%d%b%b}' % (outline, node.engine.invokes.spawned, own, held)


def is_idle(engine: DurableEngine) -> bool:
    """Whether a chart only waits: nothing is queued, to be begun, or under way outside."""
    if engine.external_queue.items or engine.invokes.marked:
        return False
    for invoke in engine.invokes.active.values():
        if invoke.live and invoke.kind in ("call", "effect"):
            return False
    return True


def outline_of(node: Node, machine: Machine) -> bytes:
    """Return the part of a snapshot that a chart has in common with others of its class.

    It is a function of few things, and kept by them: JSON, but for the brace that ends the object.
    """
    chart, engine, outlines = node.chart, node.engine, machine.outlines
    model, field = chart.model, chart.state_field
    queue = engine.external_queue.items
    started = not (queue and any(item.trigger.event == INITIAL for item in queue))
    held = getattr(model, field, None)
    if type(held) is not str:
        held = key_of(held)
    key = (node.cls, type(model), field, engine.is_async, engine.running, started, held)
    known = outlines.get(key)
    if known is not None:
        return known
    check_configuration(node, machine)
    plain = {
        "class": node.cls.__name__,
        "engine": "async" if engine.is_async else "sync",
        "status": "active" if engine.running else "finished",
        "started": started,
        "configuration": node.names.active(chart),
        "model": model_name(model, machine, _root_of(node)),
        "state_field": None if chart.state_field == "state" else chart.state_field,
    }
    if len(outlines) >= OUTLINES_MAX:
        outlines.clear()
    outline = outlines[key] = machine.codec.encode(without_empty(plain))[:-1]
    return outline


def _read_inside(node: Node, machine: Machine) -> Value:
    """Return what is a chart's own, but for its model's fields; what is empty is left out."""
    chart, engine = node.chart, node.engine
    invokes = engine.invokes
    value: Value = {}
    node.idle = True
    if engine.external_queue.items or invokes.marked or invokes.active or invokes.floors:
        value = _read_work(engine)
        node.idle = is_idle(engine)
    if node.tree.timers.items and (timers := node.tree.timers.of(node.path)):
        value["timers"] = [read_timer(timer) for timer in timers]
    if len(vars(chart)) != node.bare:
        if attributes := own_attributes(chart, machine.transient, node):
            value["attributes"] = attributes
        elif not machine.transient:
            node.bare = len(vars(chart))
    if (
        chart.history_values
        or engine._root_parallel_final_pending is not None
        or getattr(chart.model, chart.state_field, None) is None
    ):
        value |= _read_states(node)
    if node.init or node.source is not None or node.output is not None or node.shared is not None:
        value |= _read_beginning(node)
    return value


def _read_work(engine: DurableEngine) -> Value:
    invokes = engine.invokes
    value = {
        "queue": [read_queued(item) for item in engine.external_queue.items],
        "pending": [read_marked(mark) for mark in invokes.marked],
        "invokes": [read_invoke(invoke) for invoke in invokes.active.values()],
        "floors": invokes.floors,
    }
    return {name: part for name, part in value.items() if part}


def _read_states(node: Node) -> Value:
    """Return what a chart has of its states beside those that are active."""
    chart, names = node.chart, node.names
    final = node.engine._root_parallel_final_pending
    value: Value = {
        "start": start_of(chart, names),
        "history": _history_of(chart, names),
        "final": None if final is None else names.name(final),
    }
    return {name: part for name, part in value.items() if part}


def _read_beginning(node: Node) -> Value:
    """Return what a chart was made of, and how it ended."""
    value = {
        "init": node.init,
        "source": node.source,
        "params": node.params,
        "shared": node.shared.as_value() if node.shared is not None else None,
        "output": node.output,
    }
    return {name: part for name, part in value.items() if part is not None and part != {}}


def _history_of(chart: StateChart[Any], names: Names) -> dict[str, list[str]]:
    held = chart.history_values
    return {
        name: [names.name(member) for member in held[state.id]]
        for name, state in names.states.items()
        if state.id in held and state.is_history and held[state.id]
    }


def start_of(chart: StateChart[Any], names: Names) -> list[str]:
    """Return where a chart was told to begin, while it has not begun and if its class differs."""
    values = chart.start_configuration_values
    if chart.current_state_value is not None or values == type(chart).start_configuration_values:
        return []
    return [names.name(chart.states_map[value]) for value in values if value in chart.states_map]


def model_name(model: object, machine: Machine, root: str) -> str | None:
    """Return the stored name of a model's class, None for the library's plain one."""
    return None if type(model) is Model else machine.name_of(type(model), f"{root}.context")


def own_attributes(chart: StateChart[Any], transient: Collection[str], node: Node) -> Value:
    """Return what a chart, not the library, put on itself; refuse a chart that is held there."""
    own = {
        key: value
        for key, value in vars(chart).items()
        if key not in LIBRARY_ATTRIBUTES
        and type(value) is not InstanceState
        and key not in transient
    }
    for key, value in own.items():
        if isinstance(value, StateChart):
            reason = (
                "it is a chart, which no attribute keeps; let a state invoke it with child(...)"
            )
            where = f"{_root_of(node)}.attributes.{key}"
            raise EncodeError(where, type(value).__qualname__, reason)
    return own


def _root_of(node: Node) -> str:
    parts = node.path.split("/") if node.path else ()
    return "root" + "".join(f".children.{part}" for part in parts)


def fields_of(model: object, state_field: str) -> Value:
    """Return a model's fields, without the one that holds the chart's state."""
    fields: Value
    if type(model) is Model:  # the library's, which most charts have: nothing else is in it
        fields = model.__dict__.copy()
        fields.pop(state_field, None)
        return fields
    fields = dict(getattr(model, "__dict__", {}))
    for name in slots_of(type(model)):
        if hasattr(model, name):
            fields[name] = getattr(model, name)
    fields.pop(state_field, None)
    more = fields.get(PYDANTIC_EXTRA)
    if more:
        fields[PYDANTIC_EXTRA] = {key: more[key] for key in more if key != state_field}
    return fields


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
