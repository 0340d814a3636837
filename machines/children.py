"""Child charts that a state invokes: charts of their own in the same run.

    shipping = State(invoke=child(Shipment, input={"boxes": 2}))

A StateChart class alone works as in the library. `child` also gives the chart a model from an
input, forwards events down, and its final state's done data come up with `done.invoke.<state>`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from machines.arguments import bind
from machines.definition import Machine
from machines.errors import DefinitionError, EventRefusedError

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
        return self.machine.make_model(given or {})


def child(
    chart: type[StateChart[Any]] | Machine,
    *,
    input: Input = None,  # noqa: A002 - the word that `Host.start` uses
    forward: bool = False,
    id: str | None = None,  # noqa: A002 - the word that the library and SCXML use
) -> Child:
    """Return what a state invokes to run a chart of its own inside the run.

    `input` makes the child's model: a mapping, or a function of the event's data, `machine` and
    `model` (the parent's). `forward` sends the parent's events to the child too. `id` replaces
    the numbered id, so that `send_down` can name it. Raises DefinitionError for what is no chart
    and for an id that a path cannot hold.
    """
    if id is not None and (not id or "/" in id):
        raise DefinitionError(repr(id), "it is no id for a child", "use letters and digits")
    return Child(Machine.of(chart), input, forward, id)


def send_up(machine: StateChart[Any], event: str, **data: Any) -> None:
    """Send an event from a child chart to the chart that invoked it.

    Raises EventRefusedError if the chart is the root of its run.
    """
    node = _node(machine)
    if node.parent is None:
        raise EventRefusedError(None, event, "the chart has no parent", "send it to the run")
    node.parent.engine.enqueue(event, _invokeid=node.id, **data)


def send_down(machine: StateChart[Any], invoke: str, event: str, **data: Any) -> None:
    """Send an event to a child chart by its invoke id.

    Raises EventRefusedError if there is no such child, or it has ended.
    """
    node = _node(machine)
    below = node.children.get(invoke)
    if below is None or below.finished:
        known = ", ".join(map(repr, node.children)) or "none"
        raise EventRefusedError(
            None, event, f"there is no child {invoke!r} (running: {known})", "name one of them"
        )
    below.engine.enqueue(event, **data)


def _node(machine: StateChart[Any]) -> Any:
    node = getattr(machine._engine, "node", None)  # noqa: SLF001 - pinned
    if node is None:
        raise DefinitionError(
            type(machine).__name__, "it is not run by the durable engine", "run it with a Host"
        )
    return node
