"""A chart from its snapshot: new objects that behave as the old ones would have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine.exceptions import InvalidDefinition
from statemachine.model import Model
from statemachine.orderedset import OrderedSet

from machines.binding.capturing import Value, check_configuration, fields_of
from machines.binding.documents import revived
from machines.binding.planting import (
    ParentLink,
    document_class,
    handle_of,
    has_given_id,
    new_node,
)
from machines.definition import Machine, takes, takes_model
from machines.engine.engines import construct
from machines.engine.invocations import Invoke, Marked
from machines.engine.invokes import fresh, source_of
from machines.engine.nodes import Arrival, Node
from machines.engine.queues import Queued
from machines.engine.triggers import make_trigger
from machines.engine.turns import INITIAL
from machines.errors import DefinitionError, IllegalConfigurationError
from snapshots.ledgers.timers import Timer

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statemachine import StateChart

    from machines.engine.tree import Tree


def grow(tree: Tree, machine: Machine, value: Value) -> None:
    """Fill an empty tree from what a snapshot holds; nothing runs and nothing starts.

    Raises IllegalConfigurationError, and DefinitionError where the engine kinds differ, or where
    the library cannot make a chart: a callback is not there, say.
    """
    tree.restoring = True
    try:
        clock = value.get("clock", {})
        tree.seq = int(clock.get("seq", 0))
        tree.stamp = int(clock.get("stamp", 0))
        tree.root = node = new_node(tree, machine.chart)
        _grow_node(node, machine, value["root"])
        for stored in value.get("timers", ()):
            tree.timers.add(grow_timer(stored))
        for path in value.get("turn", ()):
            due = tree.find(path)
            if due is None:
                raise IllegalConfigurationError(machine.name, path, "no chart is there to run")
            tree.turn.append(due)
        if tree.turn:
            tree.turn[0].engine.between = value.get("between")
    except InvalidDefinition as error:
        reason = f"a chart of it cannot be made: {error}"
        hint = "mend the class; what is stored stays"
        raise DefinitionError(machine.name, reason, hint) from error
    finally:
        tree.restoring = False


def _grow_node(node: Node, machine: Machine, value: Value) -> None:
    tree = node.tree
    if node.shared is not None:
        node.shared.restore(value.get("shared", {}))
    node.init = dict(value.get("init", {}))
    node.source, node.params = value.get("source"), value.get("params")
    node.output = value.get("output")
    node.shown = list(value.get("configuration", ()))
    _grow_chart(node, machine, value)
    chart, engine = node.chart, node.engine
    if node.shared is not None:
        vars(chart.model).update(revived(vars(chart.model), node))
    _check_engine(node, machine, value)
    _grow_states(node, machine, value)
    _grow_work(node, machine, value)
    for stored in value.get("timers", ()):
        tree.timers.add(grow_timer({"node": node.path, **stored}))
    check_configuration(node, machine)
    # In the blob they lie where there was room; they were made in the order of their invocations.
    order = {invoke: place for place, invoke in enumerate(engine.invokes.active)}
    children = value.get("children", {})
    for key in sorted(children, key=lambda invoke: order.get(invoke, 0)):
        stored = children[key]
        invoke = engine.invokes.active[key]
        child = new_node(tree, _child_class(node, invoke, stored), node, key)
        node.children[key] = child
        child.fixed = has_given_id(invoke_source(node, invoke))
        _grow_node(child, machine, stored)


def _grow_states(node: Node, machine: Machine, value: Value) -> None:
    chart, engine = node.chart, node.engine
    if "start" in value:
        begin = [_state(node, machine, name).value for name in value["start"]]
        chart.start_configuration_values = begin
    states = [_state(node, machine, name) for name in value.get("configuration", ())]
    if states:
        chart.current_state_value = OrderedSet(state.value for state in states)
    for name, members in value.get("history", {}).items():
        held = [chart._config._instance_states[_state(node, machine, m).value] for m in members]
        chart.history_values[_state(node, machine, name).id] = held
    engine.running = value.get("status") != "finished"
    node.finished = not engine.running
    if "final" in value:
        engine._root_parallel_final_pending = node.names.states[value["final"]]


def _grow_work(node: Node, machine: Machine, value: Value) -> None:
    engine = node.engine
    for stored in value.get("queue", ()):
        engine.external_queue.add(grow_queued(node, stored))
    engine.invokes.spawned = int(value.get("spawned", 0))
    engine.invokes.floors = dict(value.get("floors", {}))
    engine.invokes.marked = [grow_marked(stored) for stored in value.get("pending", ())]
    for stored in value.get("invokes", ()):
        invoke = grow_invoke(stored)
        engine.invokes.active[invoke.id] = invoke
    held: list[Marked | Invoke] = [*engine.invokes.marked, *engine.invokes.active.values()]
    for work in held:
        _state(node, machine, work.state)
        if work.index >= len(engine.invokes.callbacks(work.state)):
            reason = f"it holds an invocation that state {work.state!r} does not declare"
            raise IllegalConfigurationError(machine.name, node.path, reason)


def _state(node: Node, machine: Machine, name: str) -> Any:
    state = node.names.states.get(name)
    if state is None:
        reason = f"it names the state {name!r}, which {node.cls.__name__} does not have"
        raise IllegalConfigurationError(machine.name, node.path, reason)
    return state


def _grow_chart(node: Node, machine: Machine, value: Value) -> None:
    attributes = dict(value.get("attributes", {}))
    arguments: Value = dict(node.init)
    if node.source is not None:
        node.link = ParentLink(node)
        attributes["_invoke_params"] = node.params
        attributes["_invoke_session"] = node.link
    model = grow_model(machine, value)
    if takes_model(node.cls):
        arguments["model"] = model
        chart = construct(node, attributes=attributes, **arguments)
        field = value.get("state_field", "state")
        if chart.state_field != field and takes(node.cls, "state_field"):
            # Its constructor leaves that to who makes the chart, as most do.
            chart = construct(node, attributes=attributes, state_field=field, **arguments)
        # Its constructor, or a listener's `setup`, may have set them anew, or taken another model.
        _fill(chart.model, value)
        return
    chart = construct(node, attributes=attributes, **arguments)
    for key, part in fields_of(model, chart.state_field).items():
        object.__setattr__(chart.model, key, part)


def grow_model(machine: Machine, value: Value) -> Any:
    """Return a model with the fields that a snapshot holds, without running its constructor."""
    name = value.get("model")
    cls: Any = Model if name is None else machine.class_of(name)
    model: object = cls() if name is None else cls.__new__(cls)
    _fill(model, value)
    return model


def _fill(model: object, value: Value) -> None:
    """Give a model the fields that a snapshot holds."""
    fields: Mapping[str, Any] = value.get("context", {})
    for key, part in fields.items():
        object.__setattr__(model, key, part)


def _check_engine(node: Node, machine: Machine, value: Value) -> None:
    kind = "async" if node.engine.is_async else "sync"
    stored = value.get("engine", kind)
    if stored != kind:
        raise DefinitionError(
            machine.name,
            f"the run was written by the {stored} engine and the chart now has the {kind} one",
            "keep the listeners and callbacks that decide it",
        )


def _child_class(node: Node, invoke: Invoke, stored: Value) -> type[StateChart[Any]]:
    source = invoke_source(node, invoke)
    if "source" in stored:
        text = stored["source"]
        content = text or source._resolve_content(node.chart)
        return document_class(source, content, invoke.id)
    return source if isinstance(source, type) else source.chart


def invoke_source(node: Node, invoke: Invoke) -> Any:
    """Return what the state of an invocation invokes: a spec, a handler, a chart, or None."""
    return source_of(node.engine.invokes.callbacks(invoke.state)[invoke.index])


def grow_queued(node: Node, value: Value) -> Queued:
    """Return a queued event from what a snapshot holds of it."""
    kwargs = revived(value.get("kwargs", {}), node)
    if value["event"] == INITIAL and node.link is not None:
        kwargs["_invoke_session"] = node.link
    trigger = make_trigger(
        node.chart,
        value["event"],
        value.get("name", value["event"]),
        args=tuple(value.get("args", ())),
        kwargs=kwargs,
        send_id=value.get("send_id"),
        internal=bool(value.get("internal")),
    )
    at, seq = int(value["at"]), int(value["seq"])
    return Queued(at, seq, trigger, value.get("invoke"), value.get("epoch"))


def grow_timer(value: Value) -> Timer:
    """Return a timer from what a snapshot holds of it."""
    return Timer(
        id=value["id"],
        path=value["node"],
        due=int(value["due"]),
        seq=int(value["seq"]),
        event=value.get("event"),
        name=value.get("name", ""),
        send_id=value.get("send_id"),
        args=tuple(value.get("args", ())),
        kwargs=dict(value.get("kwargs", {})),
        policy=value.get("policy", "deadline"),
        span=int(value.get("span", 0)),
        invoke=value.get("invoke"),
    )


def grow_marked(value: Value) -> Marked:
    """Return an invoke that is not spawned yet from what a snapshot holds of it."""
    return Marked(
        value["state"],
        dict(value.get("kwargs", {})),
        int(value["order"]),
        value.get("id"),
        int(value.get("index", 0)),
        int(value.get("attempt", 1)),
    )


_INVOKE_FIELDS = frozenset({
    "id", "state", "index", "kind", "kwargs", "attempt", "sent", "terminated", "cancelled",
})  # fmt: skip


def grow_invoke(value: Value) -> Invoke:
    """Return an invocation from what a snapshot holds of it."""
    return Invoke(
        value["id"],
        value["state"],
        int(value["index"]),
        value["kind"],
        dict(value.get("kwargs", {})),
        int(value.get("attempt", 1)),
        sent=bool(value.get("sent")),
        terminated=bool(value.get("terminated")),
        cancelled=bool(value.get("cancelled")),
        extra={key: part for key, part in value.items() if key not in _INVOKE_FIELDS},
    )


def grow_arrival(tree: Tree, value: Value) -> Arrival | None:
    """Return what came during a macrostep from what a snapshot holds of it."""
    node = tree.find(value["node"])
    if node is None:
        return None
    return Arrival(value["node"], value.get("invoke"), grow_queued(node, value["item"]))


def resume(tree: Tree, *, restored: bool) -> None:
    """Start what the invocations of a rebuilt tree do outside it.

    `restored` says that the process which did it has ended: each is told, and counted.
    """
    assert tree.root is not None
    for node in tree.root.walk():
        invokes = node.engine.invokes
        if restored:
            _count_attempts(node)
        for invoke in list(invokes.active.values()):
            source = invoke_source(node, invoke)
            if invoke.kind == "child":
                invoke.handler = handle_of(source, node.children.get(invoke.id))
            elif invoke.kind in ("call", "effect") and invoke.live:
                invokes.begin(invoke)
            elif invoke.kind == "call":
                invoke.handler = fresh(source)


def _count_attempts(node: Node) -> None:
    """Count what was, or may have been, begun by a process that has ended."""
    invokes = node.engine.invokes
    for invoke in invokes.active.values():
        if invoke.live and invoke.kind in ("call", "effect"):
            invoke.attempt += 1
            node.mark_moved()
    for mark in invokes.marked:
        mark.attempt += 1
        node.mark_moved()
