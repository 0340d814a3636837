"""The states of a chart as a tree, from its stored shape and the names of those that are active."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self, TypeVar

from snapshots.inspection.limits import CHART_DEPTH_MAX, STATE_DEPTH_MAX

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from snapshots.inspection.reports.fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class StateReport:
    """One state: `kind` is the shape's word ("atomic", "parallel", …), or "unknown" without one."""

    name: str
    kind: str
    initial: bool
    active: bool
    states: tuple[StateReport, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What a chart's stored shape says of its states and of the charts that it invokes."""

    name: str
    states: tuple[StateReport, ...]
    parents: Mapping[str, str | None]
    children: Mapping[str, Shape]


def read_shape(fields: Fields, depth: int = 0) -> Shape:
    """Read a shape as the `shapes` table holds it; raise `DecodeError` for what is none."""
    if depth > CHART_DEPTH_MAX:
        reason = f"charts nest deeper than {CHART_DEPTH_MAX}"
        raise fields.refuse(reason)
    states: dict[str, StateReport] = {}
    parents: dict[str, str | None] = {}
    for entry in fields.nested_list("states"):
        name = entry.text("name")
        states[name] = StateReport(
            name=name, kind=entry.text("kind"), initial=entry.flag("initial"), active=False
        )
        parents[name] = entry.optional_text("parent")
    return Shape(
        name=fields.text("name"),
        states=tuple(states.values()),
        parents=parents,
        children={
            key: read_shape(child, depth + 1) for key, child in fields.nested_by_key("children")
        },
    )


class Charted(Protocol):
    """What is known of a chart, and of those that it invokes by "<state>.<index>"."""

    @property
    def name(self) -> str:
        """Return the name of the chart's class."""

    @property
    def children(self) -> Mapping[str, Self]:
        """Return the charts that it invokes."""


C = TypeVar("C", bound=Charted)


def find_child(lineage: tuple[C, ...], name: str, state: str | None, index: int | None) -> C | None:
    """Return the shape of a child chart called `name`, or None if none is stored.

    `lineage` are the shapes of the charts above it, the nearest last. A shape keeps what a state
    invokes under "<state>.<index>", and leaves out a chart that invokes itself: its shape is the
    one above.
    """
    if not lineage:
        return None
    inner = lineage[-1].children
    placed = inner.get(f"{state}.{index}")
    if placed is not None:
        return placed
    candidates = (*inner.values(), *reversed(lineage))
    return next((shape for shape in candidates if shape.name == name), None)


def nest(shape: Shape | None, configuration: Collection[str]) -> tuple[StateReport, ...]:
    """Nest a chart's states by the shape, the active ones marked.

    Without a shape the active states come back as a flat list. An active state that the shape
    does not know is listed behind the others, and a state whose ancestors go round in a circle or
    are unknown is listed at the top, so that nothing that is active is ever left out.
    """
    active = frozenset(configuration)
    if shape is None:
        return tuple(_stray(name) for name in configuration)
    below = _by_parent(shape)
    tree = tuple(_branch(state, below, active) for state in below.get(None, ()))
    return tree + tuple(_stray(name) for name in configuration if name not in shape.parents)


def _by_parent(shape: Shape) -> dict[str | None, list[StateReport]]:
    below: dict[str | None, list[StateReport]] = {}
    for state in shape.states:
        parent = shape.parents[state.name]
        if not _reaches_top(state.name, shape.parents):
            parent = None
        below.setdefault(parent, []).append(state)
    return below


def _reaches_top(name: str, parents: Mapping[str, str | None]) -> bool:
    at: str | None = name
    for _ in range(STATE_DEPTH_MAX):
        if at is None:
            return True
        if at not in parents:
            return False
        at = parents[at]
    return False


def _branch(
    state: StateReport,
    below: Mapping[str | None, Iterable[StateReport]],
    active: Collection[str],
) -> StateReport:
    return StateReport(
        name=state.name,
        kind=state.kind,
        initial=state.initial,
        active=state.name in active,
        states=tuple(_branch(child, below, active) for child in below.get(state.name, ())),
    )


def _stray(name: str) -> StateReport:
    return StateReport(name=name, kind="unknown", initial=False, active=True)
