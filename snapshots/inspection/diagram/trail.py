"""What the trail tells of a chart: how lately states were active, and by which transitions."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from snapshots.inspection.diagram.outline import OutlineEdge
    from snapshots.inspection.reports.records import TransitionReport

_NOW: Final = 3
_LATELY: Final = 2
_EARLIER: Final = 1
# How many of a chart's newest macrosteps count as lately.
_LATELY_STEPS: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The macrosteps of one chart, the oldest first, and the heat of each state that they name."""

    entries: tuple[TransitionReport, ...]
    heat: Mapping[str, int]

    def explained(
        self, edges: Sequence[OutlineEdge], parents: Mapping[str, str | None]
    ) -> tuple[Counter[int], frozenset[int]]:
        """Return how many macrosteps each transition explains, and which explain the newest.

        The trail keeps an event and two configurations, not the transitions themselves: one that
        reacts to the event in a state that was active, and leads to states that are active then,
        explains it. Of several the innermost do, as SCXML selects them (section 3.13).
        """
        taken: Counter[int] = Counter()
        last: frozenset[int] = frozenset()
        for entry in self.entries:
            last = _explaining(entry, edges, parents)
            taken.update(last)
        return taken, last


def steps_of(trail: Sequence[TransitionReport], path: str) -> Steps:
    """Return the macrosteps of the chart at `path`."""
    entries = tuple(entry for entry in trail if entry.node == path)
    heat: dict[str, int] = {}
    for age, entry in enumerate(reversed(entries)):
        earlier = _LATELY if age < _LATELY_STEPS else _EARLIER
        for name in (*entry.sources, *entry.targets):
            heat.setdefault(name, earlier if age else _NOW)
    return Steps(entries=entries, heat=heat)


def _explaining(
    entry: TransitionReport, edges: Sequence[OutlineEdge], parents: Mapping[str, str | None]
) -> frozenset[int]:
    before, after = frozenset(entry.sources), frozenset(entry.targets)
    found = [
        place
        for place, edge in enumerate(edges)
        if not edge.initial and edge.source in before and _reacts(edge, entry.event)
    ]
    # A target may be a history state, or be left again by a transition without an event.
    chosen = [place for place in found if after.issuperset(edges[place].targets)] or found
    outer = {above for place in chosen for above in _ancestors(edges[place].source, parents)}
    return frozenset(place for place in chosen if edges[place].source not in outer)


def _reacts(edge: OutlineEdge, event: str | None) -> bool:
    """Match names as SCXML does (section 3.12.1): by whole tokens, and `*` matches any."""
    if not event:
        return not edge.events
    return any(
        name in {event, "*"} or event.startswith(f"{name.removesuffix('.*')}.")
        for name in edge.events
    )


def _ancestors(name: str, parents: Mapping[str, str | None]) -> set[str]:
    found: set[str] = set()
    at = parents.get(name)
    while at is not None and at not in found:
        found.add(at)
        at = parents.get(at)
    return found
