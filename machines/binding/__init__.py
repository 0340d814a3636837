"""A chart to and from its snapshot: `capture(chart)` and `rebuild(Chart, snapshot)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar, overload

from statemachine import StateChart

from machines.binding.adopting import adopt
from machines.binding.capturing import tree_fields
from machines.binding.loose import Loose
from machines.binding.planting import make_child, plant
from machines.binding.rebuilding import grow, resume
from machines.definition import Chart, Machine, needs
from machines.engine.tree import Tree
from machines.errors import DefinitionError, DriftError, MachinesError
from machines.shape import drift, shape_bytes
from snapshots.clock import Clock, SystemClock
from snapshots.codec import load
from snapshots.errors import DecodeError, SnapshotsError
from snapshots.layout import join, unfold_blob

if TYPE_CHECKING:
    from collections.abc import Iterable

C = TypeVar("C", bound=StateChart[Any])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that decides how a chart behaves from here on, as bytes that nothing changes."""

    blob: bytes
    """UTF-8 JSON: machine, digest, shape, root, turn, clock."""

    def read(self) -> dict[str, Any]:
        """Return the snapshot as plain JSON values, for who wants to look into it."""
        value = load(self.blob)
        assert isinstance(value, dict)
        return unfold_blob(value, None)


def capture(
    chart: StateChart[Any],
    *,
    types: Iterable[type] = (),
    context: type | None = None,
    transient: Iterable[str] = (),
) -> Snapshot:
    """Return the snapshot of a chart at rest, of this package's engine or of the library's.

    `types` are classes that its values have, `context` the class of its model if it is not named
    in `StateChart[Model]`, `transient` the attributes that its constructor makes anew.

    Raises EncodeError for a value that could not come back, DefinitionError inside a macrostep and
    for what cannot be captured.
    """
    machine = Machine(
        type(chart), types=tuple(types), context=context, transient=frozenset(transient)
    )
    node = getattr(chart._engine, "node", None)
    if node is not None and node.parent is not None:
        raise DefinitionError(machine.name, "it is a child chart", "capture the root of its tree")
    missing = needs(type(chart)) if node is None else []
    if missing:
        raise DefinitionError(
            machine.name,
            f"its constructor needs {', '.join(missing)}, which the library does not keep",
            "give them defaults, or begin the chart with an input that has them",
        )
    tree = node.tree if node is not None else adopt(chart, SystemClock(), Loose(), make_child)
    if tree.running is not None:
        raise DefinitionError(
            machine.name, "it is inside a macrostep", "capture it when its send has returned"
        )
    for below in tree.root.walk() if tree.root is not None else ():
        below.mark_moved()  # what was changed by hand since its last macrostep counts too
    encode = machine.codec.encode
    fields = {
        "v": b"1",
        "machine": encode(machine.name),
        "digest": encode(machine.digest),
        "shape": shape_bytes(type(chart)),
    }
    return Snapshot(join(fields | tree_fields(tree, machine)))


@overload
def rebuild(
    chart: type[C],
    snapshot: Snapshot | bytes,
    *,
    types: Iterable[type] = (),
    context: type | None = None,
    clock: Clock | None = None,
) -> C: ...


@overload
def rebuild(
    chart: Machine,
    snapshot: Snapshot | bytes,
    *,
    types: Iterable[type] = (),
    context: type | None = None,
    clock: Clock | None = None,
) -> StateChart[Any]: ...


def rebuild(
    chart: Chart,
    snapshot: Snapshot | bytes,
    *,
    types: Iterable[type] = (),
    context: type | None = None,
    clock: Clock | None = None,
) -> StateChart[Any]:
    """Return a new chart that goes on where the captured one stopped.

    `chart` is its class, or a Machine, which knows types and context by itself. What was invoked
    starts again, timers keep their due time. A synchronous chart finishes a turn that was cut
    short before this returns; a chart with coroutine callbacks does so on the running loop.

    Raises DriftError if the class has another shape, DecodeError for bytes that are no snapshot,
    IllegalConfigurationError for a configuration that cannot be, DefinitionError for a chart that
    the library cannot make.
    """
    machine = (
        chart if isinstance(chart, Machine) else Machine(chart, types=tuple(types), context=context)
    )
    value = machine.codec.decode_blob(snapshot if isinstance(snapshot, bytes) else snapshot.blob)
    if not isinstance(value, dict) or not {"digest", "root"} <= value.keys():
        raise DecodeError(None, "it is no snapshot: it has no digest or no root")
    if value["digest"] != machine.digest:
        raise DriftError(None, machine.name, drift(value.get("shape"), machine.shape))
    tree = _loose_tree(clock)
    try:
        grow(tree, machine, value)
    except (SnapshotsError, MachinesError):
        raise
    except Exception as error:
        reason = f"it does not fit the chart ({type(error).__name__}: {error})"
        raise DecodeError(None, reason) from error
    resume(tree, restored=True)
    tree.keeper.wake()
    assert tree.root is not None
    return tree.root.chart


def start(
    chart: Chart,
    given: dict[str, Any] | None = None,
    *,
    clock: Clock | None = None,
) -> StateChart[Any]:
    """Return a new chart under the durable engine that belongs to no run, with an input."""
    machine = Machine.of(chart)
    tree = _loose_tree(clock)
    node = plant(tree, machine, given or {})
    tree.keeper.wake()
    return node.chart


def _loose_tree(clock: Clock | None) -> Tree:
    keeper = Loose()
    keeper.tree = tree = Tree(clock or SystemClock(), keeper, make_child)
    return tree
