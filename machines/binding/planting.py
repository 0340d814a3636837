"""New charts in a tree: the root from its input, children from what a state invokes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine.io.actions import _ensure_writable_target
from statemachine.io.invoke import VALID_INVOKE_TYPES, Invoker, _InvokeSession

from machines.binding.capturing import fields_of
from machines.definition import Machine, takes_model
from machines.engine.engines import construct
from machines.engine.invocations import numbered_under
from machines.engine.nodes import Node
from machines.engine.queues import apart
from machines.engine.shared_state import Shared
from machines.limits import CHARTS_DEPTH_MAX
from snapshots.errors import LimitError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statemachine import StateChart

    from machines.engine.invocations import Invoke
    from machines.engine.tree import Tree


def new_node(
    tree: Tree,
    cls: type[StateChart[Any]],
    parent: Node | None = None,
    id: str = "",  # noqa: A002 - the field's name
) -> Node:
    """Return a node without its chart."""
    node = Node(tree, parent, id, cls)
    node.shared = Shared.of(cls)
    return node


def plant(tree: Tree, machine: Machine, given: Mapping[str, Any]) -> Node:
    """Make the root chart of a new run; its initial state is entered in its first turn.

    It gets copies of its input, as after a restart: what the caller holds is not its model's.
    """
    model = machine.make_model(apart(dict(given)))
    node = new_node(tree, machine.chart)
    node.init = apart(machine.constructor_arguments(given))
    tree.root = node
    give_model(node, model, attributes={})
    return node


def give_model(node: Node, model: object | None, *, attributes: dict[str, Any]) -> None:
    """Construct the node's chart around a model, however its constructor takes one."""
    arguments = apart(node.init)  # what the chart does to them is no part of how it was begun
    if takes_model(node.cls):
        construct(node, attributes=attributes, model=model, **arguments)
        return
    chart = construct(node, attributes=attributes, **arguments)
    for key, part in ({} if model is None else fields_of(model, chart.state_field)).items():
        setattr(chart.model, key, part)


class ParentLink(_InvokeSession):
    """What a document's chart sends to its parent through: the event is queued, never run here."""

    def __init__(self, node: Node) -> None:
        assert node.parent is not None
        super().__init__(parent=node.parent.chart, invokeid=node.id)
        self._above = node.parent

    def send_to_parent(self, event: str, **data: Any) -> None:
        """Queue an event for the parent."""
        self._above.engine.enqueue(event, _invokeid=self.invokeid, **data)


class ChildHandle:
    """An invoked chart, as its parent's engine sees it."""

    def __init__(self, node: Node, *, forward: bool) -> None:
        self._node = node
        self.autoforward = forward

    def on_event(self, event: str, **data: Any) -> None:
        """Queue an event for the child, unless it has ended."""
        if not self._node.finished:
            self._node.engine.enqueue(event, **data)


class DocumentHandle:
    """An invoked document's chart; finalizes as the library's invoker does."""

    def __init__(self, node: Node | None, invoker: Invoker) -> None:
        self._node = node
        self._invoker = invoker
        self.invoke_id = invoker.invoke_id
        self.autoforward = invoker.autoforward

    def on_event(self, event: str, **data: Any) -> None:
        """Queue an event for the child, unless it has ended."""
        if self._node is not None and not self._node.finished:
            self._node.engine.enqueue(event, **data)

    def on_finalize(self, trigger_data: Any) -> None:
        """Run the invoke's finalize block in the parent (SCXML 6.5)."""
        self._invoker.on_finalize(trigger_data)


def make_child(node: Node, invoke: Invoke, source: Any) -> Any:
    """Make the chart that a state invokes, to run when its turn comes; return its handle."""
    if isinstance(source, Invoker):
        return _make_document_child(node, invoke, source)
    if isinstance(source, type):
        child = _child_node(node, invoke.id, source)
        give_model(child, None, attributes={})
        return None
    child = _child_node(node, invoke.id, source.chart)
    give_model(child, source.model_for(node.chart, invoke.kwargs), attributes={})
    _number_on(child, source)
    return ChildHandle(child, forward=source.forward)


def _number_on(child: Node, source: Any) -> None:
    """Let a chart under a given id number its invokes where the last one under it stopped."""
    child.fixed = has_given_id(source)
    if child.fixed and child.parent is not None:
        above = child.parent.engine.invokes
        floor = above.floors.get(numbered_under(child.id), 0)
        child.engine.invokes.spawned = max(floor, above.spawned)


def has_given_id(source: Any) -> bool:
    """Whether what is invoked names its own id, or its chart gives one to each that it spawns."""
    spawns = getattr(source, "durable_kind", None) == "nursery"
    return spawns or getattr(source, "invoke_id", None) is not None


def handle_of(source: Any, child: Node | None) -> Any:
    """Return the handle of a child that was rebuilt, or of one that has ended."""
    if isinstance(source, Invoker):
        return DocumentHandle(child, source)
    if isinstance(source, type) or child is None:
        return None
    return ChildHandle(child, forward=source.forward)


def _child_node(node: Node, invoke_id: str, cls: type[StateChart[Any]]) -> Node:
    depth = len(node.keys) + 1
    if depth > CHARTS_DEPTH_MAX:
        what = "the number of charts above one"
        raise LimitError(what, CHARTS_DEPTH_MAX, depth)
    child = new_node(node.tree, cls, node, invoke_id)
    node.children[invoke_id] = child
    return child


def _make_document_child(node: Node, invoke: Invoke, source: Invoker) -> DocumentHandle:
    chart = node.chart
    definition = source._definition
    if source.idlocation:
        _ensure_writable_target(source.idlocation, "<invoke> 'idlocation'")
        setattr(chart.model, source.idlocation, invoke.id)
    kind = definition.type
    if definition.typeexpr:
        kind = source._eval(definition.typeexpr, machine=chart)
    if kind not in VALID_INVOKE_TYPES:
        message = f"invoke type {kind!r} is not one of {sorted(map(str, VALID_INVOKE_TYPES))}"
        raise ValueError(message)
    content = source._resolve_content(chart)
    if content is None:
        message = "the invoke names no document"
        raise ValueError(message)
    params = source._evaluate_params(chart)
    child = _child_node(node, invoke.id, document_class(source, content, invoke.id))
    child.source = content if isinstance(content, str) else ""
    child.params = params
    child.link = ParentLink(child)
    construct(child, attributes={}, _invoke_params=params, _invoke_session=child.link)
    _number_on(child, source)
    return DocumentHandle(child, source)


def document_class(source: Invoker, content: Any, invoke_id: str) -> type[StateChart[Any]]:
    """Return the class of an invoked document."""
    cls: type[StateChart[Any]] = source._create_child_class(content, invoke_id)
    return cls
