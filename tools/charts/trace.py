"""What a run of a chart shows, recorded so that two runs can be compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tools.charts.spec import Subject

Entry = tuple[str, str]
"""What happened (``enter``, ``exit``, ``before``, ``on``, ``after``, ``listen``, ``act``) and
where: a state or transition, the event's name, and the event's data where it has any."""


class TraceModel:
    """The model of a chart under test: whole numbers, a dict, and the list of what happened.

    The list is part of the model, so what a chart did before a restart is compared as well.
    """

    __snapshot_name__ = "trace-model"

    def __init__(self, **fields: int) -> None:
        self.trace: list[Entry] = []
        self.notes: dict[str, int] = {}
        vars(self).update(fields)

    def happened(self, kind: str, detail: str) -> None:
        """Add an entry."""
        self.trace.append((kind, detail))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Everything that two runs of one script must agree on, and some things they need not.

    ``entries`` are the root's, ``children`` those of each child chart by its path.
    ``configurations`` holds, per path, the sorted ids of the active states after each
    macrostep, repetitions dropped. ``results`` has the answer to each send, or the type of the
    exception. ``guards`` and ``ties`` are not compared: a restart may evaluate a guard again,
    and a tie is a moment at which a timeout and another timer were due together, whose order
    the library leaves to its threads.
    """

    entries: tuple[Entry, ...]
    children: tuple[tuple[str, tuple[Entry, ...]], ...] = ()
    configurations: tuple[tuple[str, tuple[tuple[str, ...], ...]], ...] = ()
    results: tuple[str, ...] = ()
    fields: tuple[tuple[str, str], ...] = ()
    is_terminated: bool = False
    guards: tuple[tuple[str, bool], ...] = ()
    ties: int = 0

    def difference(self, other: Trace) -> str | None:
        """The first thing that the other run shows differently, in words; None if nothing."""
        return next(self._differences(other), None)

    def _differences(self, other: Trace) -> Iterator[str]:
        yield from _unequal("entries", self.entries, other.entries)
        mine, theirs = dict(self.children), dict(other.children)
        for path in sorted(mine.keys() | theirs.keys()):
            yield from _unequal(f"entries of {path!r}", mine.get(path, ()), theirs.get(path, ()))
        here, there = dict(self.configurations), dict(other.configurations)
        for path in sorted(here.keys() | there.keys()):
            yield from _unequal(
                f"configurations of {path!r}", here.get(path, ()), there.get(path, ())
            )
        yield from _unequal("results", self.results, other.results)
        yield from _unequal("fields", self.fields, other.fields)
        if self.is_terminated != other.is_terminated:
            yield f"is_terminated: {self.is_terminated} and {other.is_terminated}"


def _unequal(what: str, mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> Iterator[str]:
    for place, (one, another) in enumerate(zip(mine, theirs, strict=False)):
        if one != another:
            yield f"{what}[{place}]: {one!r} and {another!r}"
            return
    if len(mine) != len(theirs):
        place = min(len(mine), len(theirs))
        longer = mine if len(mine) > len(theirs) else theirs
        missing = "the second" if longer is mine else "the first"
        yield f"{what}[{place}]: {longer[place]!r} is missing in {missing}"


@dataclass(slots=True)
class Recorder:
    """Collects a trace while a chart is driven, whatever engine drives it."""

    results: list[str] = field(default_factory=list)
    configurations: dict[str, list[tuple[str, ...]]] = field(default_factory=dict)
    ties: int = 0

    def settled(self, path: str, chart: Any) -> None:
        """Note the configuration of a chart between two macrosteps, if it is another one."""
        ids = tuple(sorted(state.id for state in chart.configuration))
        seen = self.configurations.setdefault(path, [])
        if ids and (not seen or seen[-1] != ids):
            seen.append(ids)

    def answered(self, result: object) -> None:
        """Note what a send returned."""
        self.results.append(repr(result))

    def failed(self, error: BaseException) -> None:
        """Note the exception that a send, or a step of the script, raised."""
        self.results.append(f"raises {type(error).__name__}")

    def finish(
        self,
        chart: Any,
        subject: Subject,
        *,
        children: dict[str, Any] | None = None,
        guards: list[tuple[str, bool]] | None = None,
    ) -> Trace:
        """The trace of a root chart, with the models of its child charts by path."""
        model = chart.model
        shown = [(name, repr(getattr(model, name, None))) for name in subject.reported]
        shown += [(f"chart.{name}", repr(getattr(chart, name))) for name in subject.attributes]
        return Trace(
            entries=tuple(getattr(model, "trace", ())),
            children=tuple(
                (path, tuple(getattr(below, "trace", ())))
                for path, below in sorted((children or {}).items())
            ),
            configurations=tuple(
                (path, tuple(seen)) for path, seen in sorted(self.configurations.items())
            ),
            results=tuple(self.results),
            fields=tuple(shown),
            is_terminated=chart.is_terminated,
            guards=tuple(guards or ()),
            ties=self.ties,
        )


def spawn_order(path: str, invoke: str) -> tuple[tuple[int, str], ...]:
    """A key that sorts the invocations of a tree of charts: by place, then by spawn number.

    It is made of ids that survive a restart, so that "the first outstanding one" is the same
    invocation before and after. Children come before what their parent invoked after them.
    """
    parts = [*path.split("/"), invoke] if path else [invoke]
    return tuple((_number(part), part) for part in parts)


def _number(invoke: str) -> int:
    last = invoke.rpartition(".")[2]
    return int(last) if last.isdigit() else 0
