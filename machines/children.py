"""Child charts: charts of their own in the same run, invoked by a state or spawned by a chart.

    shipping = State(invoke=child(Shipment, input={"boxes": 2}))
    working = State(invoke=children(Worker))

A StateChart class alone works as in the library. `child` also gives the chart a model from an
input, forwards events down, and its final state's done data come up with `done.invoke.<state>`.
`children` opens a nursery: while its state is active the chart may `spawn` as many as it likes, by
ids of its own, and `stop_child` each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machines.arguments import bind
from machines.definition import Machine
from machines.engine.invocations import SPAWNED, given_id
from machines.engine.nurseries import children_of, mark_child, nurseries
from machines.engine.nurseries import stop_child as stop_marked_or_begun
from machines.engine.queues import apart
from machines.errors import ChildExistsError, DefinitionError, EventRefusedError
from machines.limits import CHILD_ID_CHARS_MAX
from snapshots.errors import InvalidKeyError

if TYPE_CHECKING:
    from statemachine import StateChart

Input = Mapping[str, Any] | Callable[..., Mapping[str, Any]] | None


@dataclass(frozen=True, slots=True)
class Child:
    """What `child` returns: a handler for `State(invoke=…)`."""

    machine: Machine
    given: Input = None
    forward: bool = False
    invoke_id: str | None = None
    durable_kind: str = field(default="child", init=False)

    @property
    def chart(self) -> type[StateChart[Any]]:
        """The child's class."""
        return self.machine.chart

    def run(self, ctx: Any) -> None:
        """Make and run the chart under the library's own engine."""
        model = self.model_for(ctx.machine, ctx.kwargs)
        self.chart(model=model) if model is not None else self.chart()

    def model_for(self, parent: StateChart[Any], kwargs: Mapping[str, Any]) -> object | None:
        """Return the child's model, None for the library's plain one."""
        given = self.given
        if callable(given):
            given = bind(given, {**kwargs, "machine": parent, "model": parent.model})()
        if given is None and self.machine.context is None:
            return None
        return self.machine.make_model(apart(given or {}))


@dataclass(frozen=True, slots=True)
class Children:
    """What `children` returns: a handler for `State(invoke=…)`."""

    machine: Machine
    forward: bool = False
    durable_kind: str = field(default="nursery", init=False)

    @property
    def chart(self) -> type[StateChart[Any]]:
        """The class of each child."""
        return self.machine.chart

    def run(self, ctx: Any) -> None:
        """Wait, under the library's own engine, until the state is left."""
        ctx.cancelled.wait()

    def model_for(self, parent: StateChart[Any], kwargs: Mapping[str, Any]) -> object | None:
        """Return the model of a child that was spawned with this input."""
        del parent
        if not kwargs and self.machine.context is None:
            return None
        return self.machine.make_model(apart(kwargs))


def child(
    chart: type[StateChart[Any]] | Machine,
    *,
    input: Input = None,  # noqa: A002 - the word that `Host.start` uses
    forward: bool = False,
    id: str | None = None,  # noqa: A002 - the word that the library and SCXML use
) -> Child:
    """Return what a state invokes to run a chart of its own inside the run.

    `input` makes the child's model: a mapping, or a function of the event's data, `machine` and
    `model` (the parent's); the child gets a copy of it, since charts share no object. `forward`
    sends the parent's events to the child too. `id` replaces the numbered id, so that `send_down`
    can name it. Raises DefinitionError for what is no chart and for an id that a path cannot hold.
    """
    if id is not None and (not id or "/" in id or SPAWNED in id):
        raise DefinitionError(repr(id), "it is no id for a child", "use letters and digits")
    return Child(Machine.of(chart), input, forward, id)


def children(chart: type[StateChart[Any]] | Machine, *, forward: bool = False) -> Children:
    """Return what a state invokes so that its chart can spawn children while it is active.

    They end with the state. `forward` sends the parent's events to all of them too.
    """
    return Children(Machine.of(chart), forward)


def spawn(
    machine: StateChart[Any],
    id: str,  # noqa: A002 - the word that the library and SCXML use
    input: Mapping[str, Any] | None = None,  # noqa: A002 - the word that `Host.start` uses
    *,
    state: str | None = None,
) -> str:
    """Have a chart begin a child of its own once its macrostep is saved; return its invoke id.

    To be called in a callback of the chart, while a state that invokes `children(…)` is active:
    `state` names which, if there are several. The child's end comes as `done.invoke.<state>` with
    `child=` the id, `data=` its done data and `ended=` the names of its final states; one that
    cannot be made as `error.execution` with `child=` and `error=`. An id may be used again once its
    child's end was taken or it was stopped: keys of effects are not.

    Raises ChildExistsError for an id that is in use, EventRefusedError where no child can be
    spawned, InvalidKeyError for an id that a path cannot hold.
    """
    node = _node(machine)
    if not isinstance(id, str) or not _is_id(id):
        reason = f"a child's id is a printable text of 1 to {CHILD_ID_CHARS_MAX} characters"
        raise InvalidKeyError(str(id)[:CHILD_ID_CHARS_MAX], f"{reason}, without a slash")
    name = f"spawn {id!r}"
    if not node.engine.is_calling:
        reason, hint = "no macrostep of its chart is being run", "spawn it in one of its callbacks"
        raise EventRefusedError(_run_id(node), name, reason, hint)
    places = nurseries(node.engine.invokes)
    found = [place for place in places if state is None or node.names.name(place[0]) == state]
    if len(found) != 1:
        known = ", ".join(repr(node.names.name(place[0])) for place in places) or "none"
        reason = f"{len(found)} active states could take it (with children: {known})"
        hint = "spawn it once a state that invokes children(…) was entered, and name one of several"
        raise EventRefusedError(_run_id(node), name, reason, hint)
    invoke = mark_child(node.engine.invokes, found[0], id, dict(input or {}))
    if invoke is None:
        raise ChildExistsError(type(machine).__name__, id)
    return invoke


def _is_id(text: str) -> bool:
    return 0 < len(text) <= CHILD_ID_CHARS_MAX and "/" not in text and text.isprintable()


def stop_child(machine: StateChart[Any], id: str) -> bool:  # noqa: A002 - as in `spawn`
    """End a child that the chart spawned, with all it invokes; False if there is none of that id.

    `id` is the one that it was spawned with, or its invoke id where several states have children.
    To be called in a callback of the chart. What the child does outside ends after the save; an
    end of it that was not taken yet is void.
    """
    node = _node(machine)
    if not node.engine.is_calling:
        reason, hint = "no macrostep of its chart is being run", "stop it in one of its callbacks"
        raise EventRefusedError(_run_id(node), f"stop {id!r}", reason, hint)
    return stop_marked_or_begun(node.engine.invokes, id)


def spawned(machine: StateChart[Any]) -> tuple[str, ...]:
    """Return the ids of the children that the chart spawned and that have not ended."""
    return tuple(children_of(_node(machine).engine.invokes))


def send_up(machine: StateChart[Any], event: str, **data: Any) -> None:
    """Send an event from a child chart to the chart that invoked it.

    Raises EventRefusedError if the chart is the root of its run.
    """
    node = _node(machine)
    if node.parent is None:
        reason, hint = "the chart has no parent", "send it to the run"
        raise EventRefusedError(_run_id(node), event, reason, hint)
    node.parent.engine.enqueue(event, _invokeid=node.id, **data)


def send_down(machine: StateChart[Any], invoke: str, event: str, **data: Any) -> None:
    """Send an event to a child chart by its invoke id, or by the id that it was spawned with.

    Raises EventRefusedError if there is no such child, or it has ended.
    """
    node = _node(machine)
    below = node.children.get(invoke)
    if below is None:
        below = next((c for c in node.children.values() if given_id(c.id) == invoke), None)
    if below is None or below.finished:
        known = ", ".join(map(repr, node.children)) or "none"
        reason = f"there is no child {invoke!r} (running: {known})"
        raise EventRefusedError(_run_id(node), event, reason, "name one of them")
    below.engine.enqueue(event, **data)


def _node(machine: StateChart[Any]) -> Any:
    node = getattr(machine._engine, "node", None)  # noqa: SLF001 - pinned
    if node is None:
        raise DefinitionError(
            type(machine).__name__, "it is not run by the durable engine", "run it with a Host"
        )
    return node


def _run_id(node: Any) -> str | None:
    """Return the id of the run that a chart belongs to, None if it belongs to none."""
    found: str | None = getattr(node.tree.keeper, "run_id", None)
    return found
