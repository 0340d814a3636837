"""The whole of a stored shape: nested states, what they invoke, transitions, charts below."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from snapshots.codec import load
from snapshots.errors import DecodeError
from snapshots.inspection.reports.fields import Fields, kind_of, names
from snapshots.inspection.reports.states import Shape, read_shape
from snapshots.inspection.reports.values import readable
from snapshots.layout import unfold_blob

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class OutlineEdge:
    """One transition; of a name and its spelling with underscores `events` holds the name."""

    source: str
    events: tuple[str, ...]
    targets: tuple[str, ...]
    internal: bool
    initial: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Outline:
    """A chart without a run; what states invoke and their values are given by state."""

    name: str
    shape: Shape
    invokes: Mapping[str, tuple[str, ...]]
    values: Mapping[str, str]
    edges: tuple[OutlineEdge, ...]
    children: Mapping[str, Outline]


def read_outline(data: bytes, run_id: str | None = None) -> Outline:
    """Read a shape as the `shapes` table holds it; `run_id` names the run in what is raised.

    Raises `DecodeError` for bytes that are no shape, with the path of what is wrong.
    """
    try:
        fields = Fields(unfold_blob(load(data), run_id or ""), "shape", run_id)
        return _outline(fields, read_shape(fields), run_id)
    except DecodeError as error:
        reason = f"the stored shape of its chart cannot be read: {error.reason}"
        raise DecodeError(run_id, reason) from error


def _outline(fields: Fields, shape: Shape, run_id: str | None) -> Outline:
    states = list(fields.nested_list("states"))
    entries = enumerate(fields.entries("transitions"))
    return Outline(
        name=shape.name,
        shape=shape,
        invokes={state.text("name"): state.names("invokes") for state in states},
        values={state.text("name"): readable(state.value("value")) for state in states},
        edges=tuple(_edge(entry, place, run_id) for place, entry in entries),
        children={
            key: _outline(child, shape.children[key], run_id)
            for key, child in fields.nested_by_key("children")
        },
    )


def _edge(entry: object, place: int, run_id: str | None) -> OutlineEdge:
    path = f"shape.transitions[{place}]"
    match entry:
        case [str() as source, str() as events, targets, bool() as internal, bool() as initial]:
            return OutlineEdge(
                source=source,
                events=_spelled(events.split()),
                targets=names(targets, f"{path}[2]", run_id),
                internal=internal,
                initial=initial,
            )
        case _:
            reason = f"{path} is {kind_of(entry)}, expected [source, events, targets, flag, flag]"
            raise DecodeError(run_id, reason)


def _spelled(events: list[str]) -> tuple[str, ...]:
    """Leave out a name that only spells the dots of another one as underscores."""
    dotted = {event.replace(".", "_") for event in events if "." in event}
    return tuple(event for event in events if "." in event or event not in dotted)
