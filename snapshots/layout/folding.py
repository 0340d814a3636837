"""What a blob holds otherwise than it is read: settled effects folded, timers in their charts.

A timer lies in the chart that it belongs to, which moves when that sets or drops it, so that a
save touches no other place.

A run that loops through an effect for years keeps a row of each pass. Sixty-four of them are one
object, which takes a tenth of their space: the names that all have with one value, the ids by
what they begin with, the times by the steps between them, and the rest name by name.
"""

from __future__ import annotations

import os
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

from snapshots.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Sequence

Value = dict[str, Any]


def fold(rows: Sequence[Value]) -> Value:
    """Return rows of a snapshot as one object, from which `unfold` makes them again.

    Each has an id and a time, and no name in it stands for None.
    """
    ids = [row["id"] for row in rows]
    # Character by character is what is wanted: ids are no paths.
    before = os.path.commonprefix(ids).rstrip("0123456789")  # noqa: RUF071 - see above
    numbers = [one.removeprefix(before) for one in ids]
    first = int(numbers[0]) if numbers[0].isdecimal() else None
    if first is not None and numbers == [str(first + n) for n in range(len(rows))]:
        named: Value = {"before": before, "first": first}
    else:
        named = {"before": before, "each": numbers}
    times = [row["at"] for row in rows]
    folded: Value = {
        "rows": len(rows),
        "ids": named,
        "at": [times[0], *(after - earlier for earlier, after in pairwise(times))],
    }
    names = dict.fromkeys(name for row in rows for name in row if name not in ("id", "at"))
    same = {name: rows[0].get(name) for name in names if _is_same(name, rows)}
    each = {name: [row.get(name) for row in rows] for name in names if name not in same}
    return folded | ({"same": same} if same else {}) | ({"names": each} if each else {})


def _is_same(name: str, rows: Sequence[Value]) -> bool:
    first = rows[0].get(name)
    # True is 1 to Python: types are compared too.
    return all(row.get(name) == first and type(row.get(name)) is type(first) for row in rows)


def unfold(folded: object, where: str, run_id: str | None) -> list[Value]:
    """Return the rows that `fold` made one object of, in their order.

    Raises DecodeError, which names the run and the place, for what is no such object.
    """
    try:
        return _unfolded(folded)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"{where} is no chunk of settled effects ({type(error).__name__}: {error})"
        raise DecodeError(run_id, reason) from error


def _unfolded(folded: Any) -> list[Value]:
    unknown = folded.keys() - {"rows", "ids", "at", "same", "names"}
    named, count, steps = folded["ids"], folded["rows"], folded["at"]
    same, each = folded.get("same", {}), folded.get("names", {})
    before, first = named["before"], named.get("first")
    unknown |= {"id", "at"} & (same.keys() | each.keys())
    # Nothing is made of a number before it is known to be that of what is there.
    if type(count) is not int or count != len(steps) or unknown:
        message = f"{count!r} rows, {len(steps)} times, and what does not belong: {sorted(unknown)}"
        raise ValueError(message)
    numbers = named["each"] if first is None else [str(first + n) for n in range(count)]
    if {len(numbers), *map(len, each.values())} != {count}:
        message = f"not {count} of each"
        raise ValueError(message)
    lists = (steps, numbers, *each.values())
    if any(type(part) is not list for part in lists) or not _are_of(before, first, steps, numbers):
        message = "a value of another kind than it must have"
        raise TypeError(message)
    rows = []
    for place, at in enumerate(accumulate(steps)):
        row = {"id": before + numbers[place], **same, "at": at}
        row |= {name: part[place] for name, part in each.items() if part[place] is not None}
        rows.append(row)
    return rows


def _are_of(before: Any, first: Any, steps: list[Any], numbers: list[Any]) -> bool:
    return (
        type(before) is str
        and (first is None or type(first) is int)
        and all(type(step) is int for step in steps)
        and all(type(number) is str for number in numbers)
    )


def unfold_blob(value: Value, run_id: str | None) -> Value:
    """Return a decoded blob as it is read: what is no blob, as it is.

    All effects are rows of `effects`, the settled ones first. All timers are in `timers`, each
    with its `node`, the nearest first. Raises DecodeError.
    """
    if type(value) is not dict:
        return value
    value = _with_timers(value, run_id)
    return _with_effects(value, run_id) if "settled" in value else value


def _with_timers(value: Value, run_id: str | None) -> Value:
    found: list[Value] = []
    root = _without_timers(value.get("root"), "", found, run_id)
    if not found:
        return value
    known = value.get("timers", [])
    try:
        timers = sorted([*known, *found], key=lambda timer: (timer["due"], timer["seq"]))
    except (KeyError, TypeError) as error:
        reason = f"a timer has no due time, or no number ({type(error).__name__}: {error})"
        raise DecodeError(run_id, reason) from error
    return {**value, "root": root, "timers": timers}


def _without_timers(node: Any, path: str, found: list[Value], run_id: str | None) -> Any:
    """Return a chart without the timers in it and below it, which are added to `found`."""
    if type(node) is not dict:
        return node
    changed: Value = {}
    if "timers" in node:
        timers = node["timers"]
        if type(timers) is not list or any(type(timer) is not dict for timer in timers):
            raise DecodeError(run_id, f"the timers of chart {path!r} are no list of mappings")
        found += [{**timer, "node": path} for timer in timers]
        node = {name: part for name, part in node.items() if name != "timers"}
    if type(below := node.get("children")) is dict:
        for key, child in below.items():
            inner = _without_timers(child, f"{path}/{key}" if path else key, found, run_id)
            if inner is not child:
                changed[key] = inner
        if changed:
            node = {**node, "children": {**below, **changed}}
    return node


def _with_effects(value: Value, run_id: str | None) -> Value:
    value = dict(value)
    chunks, opened = value.pop("settled"), value.get("effects", [])
    if type(chunks) is not list or type(opened) is not list:
        raise DecodeError(run_id, "settled, or effects, is no list")
    rows = [
        row
        for number, chunk in enumerate(chunks)
        for row in unfold(chunk, f"settled[{number}]", run_id)
    ]
    return value | {"effects": rows + opened}
