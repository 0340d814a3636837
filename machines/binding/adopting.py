"""A chart that the library's own engine runs, taken over by the durable one as it stands.

This is how `capture` reads a chart that was made without this package: what the library keeps in
its engine, queues and threads becomes a tree.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING, Any

from statemachine.engines.async_ import AsyncEngine
from statemachine.engines.base import _running_engine

from machines.binding.planting import new_node
from machines.engine.engines import DurableAsyncEngine, DurableSyncEngine
from machines.engine.invocations import Invoke, Marked
from machines.engine.invokes import kind_of, source_of
from machines.engine.queues import Queued
from machines.engine.tree import Tree
from snapshots.ledgers.timers import Timer

if TYPE_CHECKING:
    from statemachine import StateChart

    from machines.engine.nodes import Keeper, MakeChild, Node
    from snapshots.clock import Clock


def adopt(chart: StateChart[Any], clock: Clock, keeper: Keeper, make_child: MakeChild) -> Tree:
    """Return a tree of what a chart of the library's engine holds; the chart stays as it is."""
    tree = Tree(clock, keeper, make_child)
    tree.root = _adopt_node(tree, chart, None, "")
    return tree


def _adopt_node(tree: Tree, chart: StateChart[Any], parent: Node | None, name: str) -> Node:
    node = new_node(tree, type(chart), parent, name)
    node.chart = chart
    library: Any = chart._engine
    if _is_stepping(library):
        tree.running = node
    kind = DurableAsyncEngine if isinstance(library, AsyncEngine) else DurableSyncEngine
    engine = kind(chart)
    engine.install(node)
    engine.running = library.running
    node.finished = not library.running
    engine._root_parallel_final_pending = library._root_parallel_final_pending
    _adopt_shared(node, chart)
    _adopt_invokes(node, library)
    _adopt_queue(node, library)
    return node


def _is_stepping(library: Any) -> bool:
    """Whether a step of the library's engine is under way.

    Its loop also holds the lock while it sleeps until a delayed event is due: then its cache is
    empty and no microstep is counted.
    """
    if not library._processing.locked():
        return False
    inside = _running_engine.get() is library
    return inside or bool(library._cache or library._microstep_count)


def _adopt_shared(node: Node, chart: StateChart[Any]) -> None:
    if node.shared is None:
        return
    cells = node.shared.cells
    node.shared.flags = [bool(cell.cell_contents) for cell in cells.flags]
    sessions = cells.interpreter.sessions if cells.interpreter is not None else {}
    session = sessions.get(chart.name)
    if session is not None:
        node.shared.session_id = session.session_id
        node.shared.raised = session.first_event_raised
    for place, group in enumerate(cells.groups):
        node.shared.selected[place] = group._selected


def _adopt_queue(node: Node, library: Any) -> None:
    tree, now = node.tree, monotonic()
    for trigger in sorted(library.external_queue.queue.queue):
        if trigger.cancelled:
            continue
        left = round((trigger.execution_time - now) * 1000)
        item = Queued(tree.now(), tree.number(), trigger)
        if left <= 0:
            tree.enqueue(node, item)
            continue
        tree.timers.add(
            Timer(
                id=f"{trigger.event}.{item.seq}",
                path=node.path,
                due=tree.clock.now_ms() + left,
                seq=item.seq,
                event=str(trigger.event),
                name=trigger.event.name,
                send_id=trigger.send_id,
                args=trigger.args,
                kwargs=trigger.kwargs,
                span=round(trigger.event.delay),
            )
        )


def _adopt_invokes(node: Node, library: Any) -> None:
    invokes, manager = node.engine.invokes, library._invoke_manager
    for state, kwargs in manager._pending:
        name = node.names.name(state)
        invokes.marked.append(Marked(name, dict(kwargs), state.document_order))
    seen: dict[tuple[str, bool], int] = {}
    for found in manager._active.values():
        state = next(s for s in node.names.states.values() if s.id == found.state_id)
        name = node.names.name(state)
        # What a state invokes is active all together, or cancelled all together.
        place = name, found.ctx.cancelled.is_set()
        index = seen[place] = seen.get(place, -1) + 1
        callbacks = invokes.callbacks(name)
        callback = callbacks[index % len(callbacks)]
        invokes.spawned += 1
        invoke = Invoke(
            found.invokeid, name, index % len(callbacks), kind_of(callback), found.ctx.kwargs
        )
        invoke.sent = invoke.terminated = found.terminated
        invoke.cancelled = found.ctx.cancelled.is_set()
        invoke.handler = source_of(callback)
        invokes.active[invoke.id] = invoke
        if invoke.kind in ("timeout", "gate") and invoke.live:
            # The library does not keep when a timeout began: its whole span is still to come.
            invokes.hold(invoke, invoke.handler)
        child = getattr(found._handler, "_child", None)
        if child is not None and invoke.kind == "child":
            invoke.sent = invoke.terminated = not child._engine.running
            node.children[invoke.id] = _adopt_node(node.tree, child, node, invoke.id)
