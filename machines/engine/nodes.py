"""The parts of a tree of charts: its nodes, what they call outside, and who keeps them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from machines.engine.invocations import given_id, numbered_under
from machines.names import Names, names_of, path_below

if TYPE_CHECKING:
    from collections.abc import Callable

    from statemachine import StateChart

    from machines.engine.invocations import Invoke
    from machines.engine.queues import Queued
    from machines.engine.shared_state import Shared
    from machines.engine.tree import Tree
    from machines.engine.turns import DurableEngine


@dataclass(slots=True)
class Call:
    """Work outside the chart that an invocation started."""

    path: str
    invoke: str
    work: Callable[[], Any]
    """Does the work: a plain function to be run in a thread, or one that gives a coroutine."""
    is_async: bool
    spec: Any = None
    """What the state invokes, if it is one of this package's own (an effect)."""
    context: Any = None
    on_cancel: Callable[[], None] | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What names the work within its run."""
        return self.path, self.invoke


class Keeper(Protocol):
    """What a tree of charts is kept by: it saves, does the outside work, and mends failures."""

    @property
    def has_loop(self) -> bool:
        """Whether an event loop runs what is a coroutine."""

    def boundary(self, node: Node) -> None:
        """Save: the macrostep of `node` is over and nothing that follows has begun."""

    def begun(self, node: Node) -> None:
        """Note that what the last boundary of `node` let begin has begun."""

    def start(self, call: Call) -> None:
        """Begin outside work, to be reported to `Tree.finish`."""

    def ignores(self, item: Queued) -> bool:
        """Whether an event is not to be run: it answers a conversation that has moved on."""

    def stop(self, path: str, invoke: str) -> None:
        """End outside work whose state was left; the save that says so is on disk."""

    def post(self, function: Callable[[], object]) -> None:
        """Have the tree's own thread call the function soon."""

    def arrived(self) -> None:
        """Save what came from outside, at once, and see that the tree runs."""

    def wake(self) -> None:
        """See that the tree runs until it has nothing to do."""

    def failed(self, node: Node, item: Queued | None, error: Exception) -> bool:
        """Mend the tree after an exception left the engine; False lets it go to the caller."""


class MakeChild(Protocol):
    """Makes the chart that a state invokes."""

    def __call__(self, node: Node, invoke: Invoke, source: Any, /) -> Any:
        """Return the chart's handle; raise what its parent is told."""


@dataclass(slots=True)
class Arrival:
    """An event, or the end of an invocation, that came while a macrostep was being run."""

    path: str
    invoke: str | None
    item: Queued


@dataclass(slots=True, eq=False)
class Node:
    """One chart of the tree, and what the library keeps on threads and in closures."""

    tree: Tree
    parent: Node | None
    id: str
    """The invocation that this chart is, in its parent; empty for the root."""
    cls: type[StateChart[Any]]
    path: str = field(init=False)
    """Where the chart is in the tree: invoke ids from the root down."""
    chart: StateChart[Any] = field(init=False)
    engine: DurableEngine = field(init=False)
    children: dict[str, Node] = field(default_factory=dict)
    init: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments that the chart's constructor was given."""
    shared: Shared | None = None
    """The chart's own values of what its class shares between its machines."""
    source: str | None = None
    """Text of a child that was made from a document at run time."""
    params: dict[str, Any] | None = None
    fixed: bool = False
    """Whether its id is given, not numbered: another chart may be invoked under it later."""
    finished: bool = False
    output: Any = None
    error: Any = None
    idle: bool = False
    """Whether it only waited when it was encoded last."""
    model_seen: Any = None
    """The model that it had then."""
    bare: int = -1
    """How many entries the chart's `__dict__` had when they were all the library's own."""
    names: Names = field(init=False)
    """The stable names of the chart's states."""
    fragment: bytes | None = field(init=False, default=None)
    """The chart as it was encoded last, None once it moved; see `mark_moved`."""
    link: Any = None
    """What a document's chart sends to its parent through."""
    shown: list[str] = field(default_factory=list)
    """The names of its active states at its last boundary."""
    untaken: list[BaseException] = field(default_factory=list)
    """Errors that were offered to it since then, and that no transition took."""

    def __post_init__(self) -> None:
        """Count as moved: it was never encoded."""
        self.path = path_below(self.parent.path, self.id) if self.parent is not None else self.id
        self.names = names_of(self.cls)
        self.tree.moved[self] = None

    def mark_moved(self) -> None:
        """Have the chart encoded anew for the next save of its tree."""
        self.fragment = None
        self.tree.moved[self] = None

    @property
    def keys(self) -> list[str]:
        """What leads to the chart from the root: its own invocation last."""
        keys, node = [], self
        while node.parent is not None:
            keys.append(node.id)
            node = node.parent
        return keys[::-1]

    @property
    def is_attached(self) -> bool:
        """Whether it is a chart of its tree still, and not one that was."""
        node = self
        while node.parent is not None:
            if node.parent.children.get(node.id) is not node:
                return False
            node = node.parent
        return node.tree.root is node

    @property
    def is_spawned(self) -> bool:
        """Whether its parent spawned it by an id of its own, into a nursery."""
        return given_id(self.id) is not None

    def shown_now(self) -> list[str]:
        """Return the names of the states that are active now."""
        return self.names.active(self.chart)

    def walk(self) -> list[Node]:
        """Return the chart and all charts below it, each before those below it."""
        found = [self]
        for child in self.children.values():
            if child.children:
                found += child.walk()
            else:
                found.append(child)
        return found

    def keep_numbers(self) -> None:
        """Have the parent keep the numbers that were used below a given id, as the chart goes.

        They are parts of idempotency keys: none may come again, below whatever is gone by now.
        """
        if not self.fixed or self.parent is None:
            return
        place, floors = numbered_under(self.id), self.parent.engine.invokes.floors
        used = [floors.get(place, 0)]
        for node in self.walk():
            used += [node.engine.invokes.spawned, *node.engine.invokes.floors.values()]
        floors[place] = max(used)
        self.parent.mark_moved()
