"""States renamed in a decoded blob: wherever their names, and ids made of them, occur."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from machines.engine.invocations import SPAWNED
from machines.names import path_below
from machines.recovery.blobs import (
    DONE,
    DOUBT,
    REGION_DONE,
    UnfitError,
    Value,
    charts_of,
    effect_id,
    parts_of,
    work_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from machines.migrations import Renames


def rename_states(value: Value, renames: Mapping[str, Renames]) -> None:
    """Rename states of the charts of a blob: `renames` by the path of the chart.

    The rows of effects must have all their fields. A state without a new name keeps its own.
    Raises UnfitError for states that would become one while both have invoked something, and for
    ids that would not be different any more.
    """
    _Renaming(value, renames).apply()


class _Renaming:
    """One renaming, which knows the charts of the blob as they were before it."""

    def __init__(self, value: Value, renames: Mapping[str, Renames]) -> None:
        self.value = value
        self.charts = charts_of(value)
        self.renames = renames
        self.given = {
            (path, work["id"])
            for path, node in self.charts.items()
            for work in work_of(node)
            if parts_of(work["id"])[0] != work["state"]
        }
        """Invocations whose ids were given and only look as if they were numbered."""
        self.effects: dict[str, str] = {}
        """Ids of effects as they were → as they are."""

    def state(self, path: str, name: str) -> str:
        return self.renames.get(path, {}).get(name) or name

    def invoke(self, path: str, invoke: str) -> str:
        state, rest = parts_of(invoke)
        is_named = state and (path, invoke) not in self.given
        return self.state(path, state) + rest if is_named else invoke

    def path(self, path: str) -> str:
        """Rename the path of a chart or of an invocation; below a chart that is gone it stays."""
        at, parts = "", []
        for part in path.split("/") if path else ():
            parts.append(self.invoke(at, part) if at in self.charts else part)
            at = path_below(at, part)
        return "/".join(parts)

    def apply(self) -> None:
        for path, node in self.charts.items():
            _refuse_merged_work(path, node, self.renames.get(path, {}))
        # What is named by a path comes first: charts are found by their old ones.
        self._rename_effects()
        for timer in self.value.get("timers", ()):
            self._rename_event(timer["node"], timer)
            if "invoke" in timer:
                timer["id"] = self.invoke(timer["node"], timer["id"])
            timer["node"] = self.path(timer["node"])
        for arrival in self.value.get("arrivals", ()):
            self._rename_event(arrival["node"], arrival["item"])
            self._rename_invoke(arrival["node"], arrival)
            arrival["node"] = self.path(arrival["node"])
        if "turn" in self.value:
            self.value["turn"] = [self.path(path) for path in self.value["turn"]]
        self._rename_keys()
        for path, node in self.charts.items():
            self._rename_chart(path, node)

    def _rename_effects(self) -> None:
        for row in self.value.get("effects", ()):
            old = row["id"]
            self._rename_invoke(row["node"], row)
            row["node"] = self.path(row["node"])
            row["id"] = effect_id(self.value["run"], row["node"], row["invoke"])
            self.effects[old] = row["id"]
        if len(set(self.effects.values())) < len(self.effects):
            message = "two effects would have one id"
            raise UnfitError(message)

    def _rename_keys(self) -> None:
        """Rename what ledgers call by an invocation: admissions, and the ids of pushes."""
        value = self.value
        if "admissions" in value:
            value["admissions"] = {self.path(k): row for k, row in value["admissions"].items()}
        for notice in value.get("notices", {}).values():
            if "delivered" in notice:
                notice["delivered"] = self.path(notice["delivered"])
        for rows in value.get("pushes", {}).values():
            for row in rows:
                row["id"] = self.path(row["id"])

    def _rename_invoke(self, path: str, part: Value) -> None:
        if "invoke" in part:
            part["invoke"] = self.invoke(path, part["invoke"])

    def _rename_event(self, path: str, event: Value) -> None:
        """Rename what an event that waits for the chart at a path says of states."""
        self._rename_invoke(path, event)
        old = event.get("event")
        if old is None:
            return
        event["event"] = new = self._event_name(path, old)
        if event.get("name") == old:
            event["name"] = new
        data: dict[str, Any] = event.get("kwargs", {})
        if isinstance(data.get("_invokeid"), str):
            data["_invokeid"] = self.invoke(path, data["_invokeid"])
        if old.startswith(DOUBT) and "effect" in data:
            data["effect"] = self.effects.get(data["effect"], data["effect"])

    def _event_name(self, path: str, event: str) -> str:
        for prefix in (DONE, DOUBT, REGION_DONE):
            if event.startswith(prefix):
                said = event.removeprefix(prefix)
                known = said in self.renames.get(path, {}) or prefix != DONE
                return prefix + (self.state(path, said) if known else self.invoke(path, said))
        return event

    def _rename_chart(self, path: str, node: Value) -> None:
        self._rename_states(path, node)
        for event in node.get("queue", ()):
            self._rename_event(path, event)
        if "floors" in node:
            node["floors"] = _highest(node["floors"], lambda key: self._floor(path, key))
        for work in work_of(node):
            self._rename_work(path, work)
        _refuse_same(path, [work["id"] for work in work_of(node)])
        if "children" in node:
            children = {self.invoke(path, key): below for key, below in node["children"].items()}
            node["children"] = children

    def _rename_states(self, path: str, node: Value) -> None:
        def renamed(names: list[str]) -> list[str]:
            return list(dict.fromkeys(self.state(path, name) for name in names))

        for name in ("configuration", "start"):
            if name in node:
                node[name] = renamed(node[name])
        if "history" in node:
            kept = node["history"].items()
            node["history"] = {self.state(path, key): renamed(members) for key, members in kept}
        if "final" in node:
            node["final"] = self.state(path, node["final"])

    def _rename_work(self, path: str, work: Value) -> None:
        old = work["state"]
        work["state"] = new = self.state(path, old)
        work["id"] = self.invoke(path, work["id"])
        if work.get("key") == path_below(path, old):
            work["key"] = path_below(self.path(path), new)

    def _floor(self, path: str, key: str) -> str:
        """Rename where the numbers below a nursery's children are kept."""
        state = key.removesuffix(SPAWNED)
        return self.state(path, state) + SPAWNED if state != key else key


def _highest(floors: Mapping[str, int], renamed: Callable[[str], str]) -> dict[str, int]:
    found: dict[str, int] = defaultdict(int)
    for key, highest in floors.items():
        found[renamed(key)] = max(found[renamed(key)], highest)
    return dict(found)


def _refuse_merged_work(path: str, node: Value, renames: Renames) -> None:
    """Refuse two states that become one while both are active and have invoked something."""
    busy: dict[str, set[str]] = defaultdict(set)
    for work in work_of(node):
        busy[renames.get(work["state"]) or work["state"]].add(work["state"])
    for new, old in busy.items():
        if len(old) > 1:
            listed = " and ".join(map(repr, sorted(old)))
            message = f"{listed} of {_named(path)} have invoked something, and would be one {new!r}"
            raise UnfitError(message)


def _refuse_same(path: str, ids: list[str]) -> None:
    if len(set(ids)) < len(ids):
        message = f"two invocations of {_named(path)} would have one id: {sorted(ids)!r}"
        raise UnfitError(message)


def _named(path: str) -> str:
    return f"the chart at {path!r}" if path else "the root chart"
