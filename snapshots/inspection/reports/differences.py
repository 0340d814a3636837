"""Two stored runs beside each other: what differs, by path, without what differs in any case.

Run ids, times and revisions are no differences: an effect is compared by its place in the run, a
timer by what it sends, the trail by where it led.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final, Literal

from snapshots.inspection.reports.derived import every_chart

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from snapshots.inspection.reports.records import EffectReport, NodeReport, RunReport

Kind = Literal["changed", "added", "removed"]

ROOT: Final = "(root)"
_NOTHING: Final = object()
# Values of these kinds are one thing: a part of them says nothing by itself.
_OPENED: Final = ("object", "tuple")
_AT: Final = "at"
_CHART_END: Final = ": "


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One place where two runs differ.

    `part` is what it belongs to ("context", "effects", …), `where` its path below that, with the
    path of its chart in front where that is not the root. `first` and `second` are raw JSON
    values, None beside `added` and `removed`.
    """

    part: str
    where: str
    kind: Kind
    first: Any = None
    second: Any = None


def differences(first: RunReport, second: RunReport) -> list[Difference]:
    """Return where two runs differ, in the order in which a run is shown; empty if nowhere.

    A value that only the first has is `removed`, one that only the second has `added`.
    """
    one, two = _identity(first), _identity(second)
    found = [part for name in one for part in _values(name, "", one[name], two[name])]
    found += _charts(first, second)
    for part in ("timers", "effects", "queue"):
        found += _parted(part, _LEDGERS[part](first), _LEDGERS[part](second))
    names = dict.fromkeys([*first.ledgers, *second.ledgers])
    for name in names:
        one, two = (_timeless(report.ledgers.get(name, {})) for report in (first, second))
        found += _parted(name, one, two)
    found += _members("deliveries", "", first.deliveries, second.deliveries)
    found += _trails(first, second)
    return found


def _identity(report: RunReport) -> dict[str, Any]:
    header = report.header
    return {
        "machine": header.machine,
        "shape": header.digest,
        "status": header.status,
        "reason": header.reason,
        "step": report.step,
        "input": report.input,
        "error": report.error,
    }


def _parted(part: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    yield from _values(part, "", dict(first), dict(second))


# -- charts ---------------------------------------------------------------------------------------


def _charts(first: RunReport, second: RunReport) -> Iterator[Difference]:
    one, two = (
        {chart.path: chart for chart in every_chart(report.root)} for report in (first, second)
    )
    for path in dict.fromkeys([*one, *two]):
        before, after = one.get(path), two.get(path)
        if before is None or after is None:
            name = (before or after).name  # type: ignore[union-attr]  # it is in one of the two
            yield _only("charts", path or ROOT, before and name, after and name)
        else:
            yield from _chart(path, before, after)


def _chart(path: str, first: NodeReport, second: NodeReport) -> Iterator[Difference]:
    for part in ("name", "engine", "status", "started", "model"):
        before, after = getattr(first, part), getattr(second, part)
        yield from _values("charts", _join(path or ROOT, part), before, after)
    yield from _members("configuration", path, first.configuration, second.configuration)
    for part in ("history", "context", "attributes", "output", "error"):
        before, after = _plain(getattr(first, part)), _plain(getattr(second, part))
        yield from _values(part, _in_chart(path), before, after)
    yield from _values("invokes", _in_chart(path), _invokes(first), _invokes(second))


def _invokes(node: NodeReport) -> dict[str, Any]:
    """Return what a chart's states have invoked and what has not ended, by id."""
    return {
        invoke.id or str(invoke.state): {
            "kind": invoke.kind,
            "key": invoke.key,
            "events": list(invoke.events),
            "meta": invoke.meta,
        }
        for invoke in node.invokes
        if invoke.outstanding
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return {key: _plain(value[key]) for key in value} if isinstance(value, dict) else value


def _members(
    part: str, path: str, first: Sequence[str], second: Sequence[str]
) -> Iterator[Difference]:
    """Compare names whose order says nothing."""
    for name in first:
        if name not in second:
            yield Difference(part=part, where=_join(path, name), kind="removed", first=name)
    for name in second:
        if name not in first:
            yield Difference(part=part, where=_join(path, name), kind="added", second=name)


# -- ledgers --------------------------------------------------------------------------------------


def _timers(report: RunReport) -> dict[str, Any]:
    return _numbered(
        (
            _join(timer.node, timer.invoke or timer.event or timer.id),
            {"event": timer.event, "policy": timer.policy, "kwargs": timer.kwargs},
        )
        for timer in report.timers
    )


def _effects(report: RunReport) -> dict[str, Any]:
    begin = f"{report.header.run_id}/"
    return {
        effect.id.removeprefix(begin): _effect(effect, begin)
        for effect in sorted(report.effects, key=lambda effect: (effect.at_ms or 0, effect.id))
    }


def _effect(effect: EffectReport, begin: str) -> dict[str, Any]:
    names = ("kind", "status", "attempt", "idempotent", "tail", "error")
    told = {name: getattr(effect, name) for name in names}
    return told | {"key": (effect.key or "").removeprefix(begin)}


def _queue(report: RunReport) -> dict[str, Any]:
    return _numbered(
        (_join(event.node, event.event or ""), {"args": event.args, "kwargs": event.kwargs})
        for event in report.queue
    )


def _numbered(pairs: Iterator[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs by name, a name that comes again with its number behind it."""
    found: dict[str, Any] = {}
    counts: dict[str, int] = {}
    for name, value in pairs:
        counts[name] = counts.get(name, 0) + 1
        found[name if counts[name] == 1 else f"{name} #{counts[name]}"] = value
    return found


_LEDGERS: Final = {"timers": _timers, "effects": _effects, "queue": _queue}


def _timeless(ledger: Mapping[str, Any]) -> dict[str, Any]:
    """Return a ledger's rows without the times at which they were written."""
    return {key: _without_time(row) for key, row in ledger.items()}


def _without_time(row: Any) -> Any:
    if isinstance(row, list):
        return [_without_time(part) for part in row]
    if isinstance(row, dict):
        return {key: part for key, part in row.items() if key != _AT}
    return row


def _trails(first: RunReport, second: RunReport) -> Iterator[Difference]:
    """Say where two trails part: what comes behind that differs in any case."""
    one, two = (
        [[step.node, step.event or "", *map(list, (step.sources, step.targets))] for step in trail]
        for trail in (first.trail, second.trail)
    )
    for place, (before, after) in enumerate(zip_longest(one, two, fillvalue=_NOTHING)):
        if before != after:
            yield _only("trail", f"[{place}]", *(_or_none(step) for step in (before, after)))
            return


# -- values ---------------------------------------------------------------------------------------


def _values(part: str, where: str, first: Any, second: Any) -> Iterator[Difference]:
    """Compare two raw values; where both are of one kind with parts, part by part."""
    one, two = _parts(first), _parts(second)
    if one is not None and two is not None and _frame(first) == _frame(second):
        for key in dict.fromkeys([*one, *two]):
            below = _step(where, key)
            before, after = one.get(key, _NOTHING), two.get(key, _NOTHING)
            if before is _NOTHING or after is _NOTHING:
                kind: Kind = "added" if before is _NOTHING else "removed"
                sides = {"first": _or_none(before), "second": _or_none(after)}
                yield Difference(part=part, where=below, kind=kind, **sides)
            else:
                yield from _values(part, below, before, after)
    elif not _is_equal(first, second):
        yield _only(part, where, first, second)


def _only(part: str, where: str, first: Any, second: Any) -> Difference:
    kind: Kind = "added" if first is None else "removed" if second is None else "changed"
    return Difference(part=part, where=where, kind=kind, first=first, second=second)


def _or_none(value: Any) -> Any:
    return None if value is _NOTHING else value


def _parts(value: Any) -> dict[Any, Any] | None:
    """Return a value's parts by name or place; None for one that is compared as a whole."""
    if isinstance(value, list):
        return dict(enumerate(value))
    if not isinstance(value, dict):
        return None
    if "$" not in value:
        return value
    inner = value.get("v") if value["$"] in _OPENED else None
    return _parts(inner) if isinstance(inner, list) or _is_plain(inner) else None


def _is_plain(value: Any) -> bool:
    return isinstance(value, dict) and "$" not in value


def _frame(value: Any) -> Any:
    """Return what two values must have in common to be compared part by part."""
    if isinstance(value, dict) and "$" in value:
        return {key: part for key, part in value.items() if key != "v"}
    return type(value)


def _is_equal(first: Any, second: Any) -> bool:
    """Whether two raw values are the same, and of the same kind: 1 is neither 1.0 nor true."""
    if type(first) is not type(second):
        return False
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(
            _is_equal(first[key], second[key]) for key in first
        )
    if isinstance(first, list):
        return len(first) == len(second) and all(map(_is_equal, first, second))
    return bool(first == second)


def _join(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _step(where: str, key: Any) -> str:
    if isinstance(key, int):
        return f"{where}[{key}]"
    return f"{where}.{key}" if where and not where.endswith(_CHART_END) else f"{where}{key}"


def _in_chart(path: str) -> str:
    return f"{path}{_CHART_END}" if path else ""
