"""The charts and invocations in a decoded blob, and how their ids are put together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from machines.engine.invocations import SPAWNED
from machines.errors import MachinesError
from machines.names import path_below

if TYPE_CHECKING:
    from collections.abc import Iterator

Value = dict[str, Any]

DONE = "done.invoke."
DOUBT = "error.indoubt."
REGION_DONE = "done.state."


class UnfitError(MachinesError):
    """A snapshot does not fit; its message is the reason, for who knows the run."""


def charts_of(value: Value) -> dict[str, Value]:
    """Return the charts of a blob by their paths, each before those below it."""
    return dict(_walk("", value["root"]))


def _walk(path: str, node: Value) -> Iterator[tuple[str, Value]]:
    yield path, node
    for key, below in node.get("children", {}).items():
        yield from _walk(path_below(path, key), below)


def is_within(path: str, above: str) -> bool:
    """Whether a path is that of a chart, or of one below it."""
    return not above or path == above or path.startswith(f"{above}/")


def parts_of(invoke: str) -> tuple[str, str]:
    """Return the state in an invocation's id, and the rest; no state for an id that was given."""
    state, spawned, given = invoke.partition(SPAWNED)
    if spawned:
        return state, spawned + given
    state, dot, number = invoke.rpartition(".")
    return (state, dot + number) if number.isdecimal() else ("", invoke)


def work_of(node: Value) -> list[Value]:
    """Return what the states of a chart have invoked, begun or not."""
    return [*node.get("invokes", ()), *node.get("pending", ())]


def is_waited_for(charts: dict[str, Value], path: str, invoke: str) -> bool:
    """Whether a chart still waits for the outcome of what it invoked, or is about to."""
    node = charts.get(path)
    if node is None or node["status"] == "finished":
        return False
    found = next((work for work in work_of(node) if work["id"] == invoke), None)
    return found is not None and not has_ended(found)


def has_ended(work: Value) -> bool:
    """Whether nothing of an invocation is still to come."""
    return any(work.get(flag) for flag in ("sent", "terminated", "cancelled"))


def effect_id(run_id: str, path: str, invoke: str) -> str:
    """Return the id of the effect that an invocation is."""
    return "/".join(part for part in (run_id, path, invoke) if part)
