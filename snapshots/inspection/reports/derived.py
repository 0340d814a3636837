"""What follows from a header or a report: numbers, charts, moves and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from snapshots.heads import UNFINDABLE, UNKNOWN_MS
from snapshots.limits import REVISION_FIRST

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.inspection.reports.records import NodeReport, TransitionReport, WaitReport
    from snapshots.records import RunHeader


def saves_of(header: RunHeader) -> int | None:
    """Return how often a run was saved, its first save included; None if its row cannot say."""
    return None if header.revision == UNFINDABLE else header.revision - REVISION_FIRST + 1


def updated_of(header: RunHeader) -> int | None:
    """Return when a run was saved last, in Unix milliseconds; None if its row cannot say."""
    return None if header.updated_ms == UNKNOWN_MS else header.updated_ms


def every_chart(node: NodeReport) -> Iterator[NodeReport]:
    """Yield a chart and all below it, each before those that it invokes."""
    yield node
    for child in node.children:
        yield from every_chart(child)


def moved(step: TransitionReport) -> tuple[list[str], list[str]]:
    """Return the states that a macrostep left and those that it entered."""
    before, after = step.sources, step.targets
    gone = [name for name in before if name not in after]
    return gone, [name for name in after if name not in before]


def address(gate: WaitReport) -> str:
    """Return what names a gate and no other of its run: its key, after the path of its chart.

    A key that a gate was not given names the chart already.
    """
    key = gate.key or ""
    usual = f"{gate.node}/{gate.state}" if gate.node else gate.state
    return key if key == usual or not gate.node else f"{gate.node}/{key}"
