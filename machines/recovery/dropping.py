"""What goes with a state that is dropped from a decoded blob: all that it invoked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from machines.engine.invocations import given_id, numbered_under
from machines.names import path_below
from machines.recovery.blobs import (
    DONE,
    DOUBT,
    REGION_DONE,
    Value,
    charts_of,
    effect_id,
    is_within,
    parts_of,
    work_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


def drop_states(value: Value, path: str, states: Collection[str]) -> None:
    """Take states out of a chart of a blob, with what they invoked."""
    node = charts_of(value)[path]
    for name in ("configuration", "start"):
        if name in node:
            node[name] = [state for state in node[name] if state not in states]
    history = {
        key: [state for state in members if state not in states]
        for key, members in node.get("history", {}).items()
        if key not in states
    }
    if history:
        node["history"] = {key: members for key, members in history.items() if members}
    else:
        node.pop("history", None)
    if node.get("final") in states:
        del node["final"]
    said = {prefix + state for prefix in (DOUBT, REGION_DONE) for state in states}
    _keep_events(value, path, lambda event: event["event"] not in said)
    drop_work(value, path, {work["id"] for work in work_of(node) if work["state"] in states})


def drop_work(value: Value, path: str, invokes: Collection[str]) -> None:
    """Take invocations of a chart out of a blob, with the charts below and all that waits there.

    Rows of effects stay, without the outcome that nobody will hear of.
    """
    if not invokes:
        return
    _forget_work(charts_of(value)[path], invokes)
    gone = [path_below(path, invoke) for invoke in invokes]

    def is_below(at: str) -> bool:
        return any(is_within(at, above) for above in gone)

    def is_gone(part: Value) -> bool:
        return is_below(part["node"]) or (part["node"] == path and part.get("invoke") in invokes)

    for name in ("timers", "arrivals"):
        if name in value:
            value[name] = [part for part in value[name] if not is_gone(part)]
    for row in filter(is_gone, value.get("effects", ())):
        row.pop("tail", None)
    _end_turns(value, is_below)
    effects = {effect_id(value["run"], path, invoke) for invoke in invokes}
    _keep_events(value, path, lambda event: not _is_from(event, invokes, effects))


def _forget_work(node: Value, invokes: Collection[str]) -> None:
    _remember_numbers(node, invokes)
    for name in ("invokes", "pending"):
        if name in node:
            node[name] = [work for work in node[name] if work["id"] not in invokes]
    for invoke in invokes:
        node.get("children", {}).pop(invoke, None)


def _is_from(event: Value, invokes: Collection[str], effects: Collection[str]) -> bool:
    """Whether an event says what became of one of these invocations."""
    name, data = event["event"], event.get("kwargs", {})
    if event.get("invoke") in invokes or name in {DONE + invoke for invoke in invokes}:
        return True
    return name.startswith(DOUBT) and data.get("effect") in effects


def _keep_events(value: Value, path: str, wanted: Callable[[Value], bool]) -> None:
    """Keep those events that wait for a chart and are wanted."""
    node = charts_of(value)[path]
    if "queue" in node:
        node["queue"] = [event for event in node["queue"] if wanted(event)]
    if "arrivals" in value:
        value["arrivals"] = [
            arrival
            for arrival in value["arrivals"]
            if arrival["node"] != path or wanted(arrival["item"])
        ]


def _end_turns(value: Value, is_below: Callable[[str], bool]) -> None:
    turn = value.get("turn", [])
    if turn and is_below(turn[0]):
        value.pop("between", None)
    value["turn"] = [path for path in turn if not is_below(path)]


def _remember_numbers(node: Value, invokes: Collection[str]) -> None:
    """Keep the numbers that were used below given ids: they are parts of idempotency keys."""
    for key in node.get("children", {}).keys() & invokes:
        if given_id(key) is None and parts_of(key)[0]:
            continue
        floors = node.setdefault("floors", {})
        below = charts_of({"root": node["children"][key]}).values()
        highest = max(
            number
            for chart in below
            for number in (chart["spawned"], *chart.get("floors", {}).values())
        )
        place = numbered_under(key)
        floors[place] = max(floors.get(place, 0), highest)
