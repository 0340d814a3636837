"""What today's charts invoke and a migrated run has not, and the other way round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from machines.engine.invocations import Invoke, Marked, given_id
from machines.engine.invokes import kind_of, source_of
from machines.recovery.blobs import Value, charts_of, work_of
from machines.recovery.dropping import drop_work
from machines.run.activity import nodes_of, waits_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from machines.engine.invokes import Invokes
    from machines.engine.nodes import Node
    from machines.engine.tree import Tree
    from machines.run.run import Run

DROPPED = {"type": "StateDropped", "message": "a migration dropped what was to call it"}
_UNFITTED = frozenset({"invokes", "pending", "children"})


def drop_misfits(value: Value, grown: Callable[[Value], Tree]) -> None:
    """Take what today's charts do not invoke, or as another kind of thing, out of a blob.

    `grown` builds the charts of a blob. The class of a chart is known once the one above it
    stands, so they are built level by level, each without what was not looked at yet.
    """
    effects = {(row["node"], row["invoke"]) for row in value["effects"]}
    level = 0
    while True:
        tree = grown({**_bare(value), "root": _cut(value["root"], level)})
        charts = charts_of(value)
        is_last = True
        for node in nodes_of(tree):
            if node.path.count("/") + bool(node.path) != level:
                continue
            gone = {
                work["id"]
                for work in work_of(charts[node.path])
                if _is_misfit(node, work, is_effect=(node.path, work["id"]) in effects)
            }
            drop_work(value, node.path, gone)
            is_last = is_last and not charts[node.path].get("children")
        if is_last:
            return
        level += 1


def _bare(value: Value) -> Value:
    return {key: value[key] for key in ("v", "run", "machine", "digest", "clock") if key in value}


def _cut(chart: Value, level: int) -> Value:
    """Return a chart with as many levels below it, the last one without what it invoked."""
    if level == 0:
        return {key: part for key, part in chart.items() if key not in _UNFITTED}
    below = {key: _cut(child, level - 1) for key, child in chart.get("children", {}).items()}
    return {**chart, "children": below}


def _is_misfit(node: Node, work: Value, *, is_effect: bool) -> bool:
    if work["state"] not in node.names.states:
        return False  # it is gone and was not mapped: to be refused by its name
    callbacks, index = node.engine.invokes.callbacks(work["state"]), work.get("index", 0)
    if index >= len(callbacks):
        return True
    kind = kind_of(callbacks[index])
    if given_id(work["id"]) is not None:
        return kind != "nursery"
    if "kind" in work:
        return bool(work["kind"] != kind)
    # Of what did not begin only this is known: effects have a row, and the rest is never pending.
    return kind in ("gate", "timeout", "nursery") or is_effect != (kind == "effect")


def begin_what_is_new(run: Run) -> None:
    """Mark and number what active states of a built run invoke and it does not have.

    A timeout and a gate are active from here on, the rest is pending, with intents for effects.
    Gates that are open are described anew. What was to be called for states that are gone is not.
    """
    begun = []
    for node in nodes_of(run.tree):
        if not node.finished:
            _hold_anew(node)
            if _begin_missing(node):
                begun.append(node)
                run.ledgers.intend(node, run.run_id, run.clock, [])
    for row in run.ledgers.effects:
        if row.status == "intent" and not waits_for(run.tree, row.path, row.invoke):
            run.ledgers.effects.withdraw(row.path, row.invoke, DROPPED)
    for node in begun:
        run.tree.ready(node)
    if begun and run.tree.turn[0] in begun and run.tree.turn[0].engine.between is None:
        # As behind a macrostep that entered the states: what they invoke begins first of all.
        run.tree.turn[0].engine.between = True


def _hold_anew(node: Node) -> None:
    """Give open gates and timeouts what today's code says of them; a due time stays."""
    invokes = node.engine.invokes
    for invoke in invokes.active.values():
        source = source_of(invokes.callbacks(invoke.state)[invoke.index])
        if invoke.live and invoke.kind == "gate":
            invokes.hold(invoke, source)
        elif invoke.live and invoke.kind == "timeout":
            for timer in node.tree.timers:
                if (timer.path, timer.invoke) == (node.path, invoke.id):
                    timer.event = source.on
    node.mark_moved()


def _begin_missing(node: Node) -> bool:
    """Number what active states of a chart invoke and it does not have; whether any is to begin."""
    invokes, names = node.engine.invokes, node.names
    had = _works(invokes)
    kept = {(work.state, work.index) for work in had}
    missing = {
        (name, index)
        for name in map(names.name, node.chart.configuration)
        for index in range(len(invokes.callbacks(name)))
        if (name, index) not in kept
    }
    for name in dict.fromkeys(name for name, _ in sorted(missing)):
        invokes.mark_for_invoke(names.states[name])
    invokes.number()
    # All that a state invokes was numbered; what it had keeps the number that it had.
    new = [work for work in _works(invokes) if not any(work is known for known in had)]
    for work in new:
        if (work.state, work.index) not in missing:
            _forget(node, work)
        elif isinstance(work, Marked):
            work.attempt = 0  # a restored run counts what it may have begun, and this it did not
    return any(isinstance(work, Marked) and work in invokes.marked for work in new)


def _works(invokes: Invokes) -> list[Invoke | Marked]:
    return [*invokes.active.values(), *invokes.marked]


def _forget(node: Node, work: Invoke | Marked) -> None:
    invokes = node.engine.invokes
    if isinstance(work, Marked):
        invokes.marked = [mark for mark in invokes.marked if mark is not work]
    else:
        del invokes.active[work.id]
        node.tree.timers.drop_invoke(node.path, work.id)
