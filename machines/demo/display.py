"""The demo for people: lines while it works, a table and the verdict at the end."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from snapshots.inspection.printable import visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from machines.demo.killer import Progress
    from machines.demo.results import Check, Result
    from machines.demo.scenario import Deed

STYLES: Final = {"done": "green", "live": "cyan"}
OTHER_STYLE: Final = "red"
SETTLERS: Final = ("chart", "probe", "person", "nobody")
MARKS: Final = {True: ("holds", "green"), False: ("BROKEN", "bold red")}


def progress_table(progress: Progress, kills: int) -> RenderableType:
    """Return how far the runs are, to be drawn over and over."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", "status", "kills survived"):
        table.add_column(column)
    for run, status in progress.runs.items():
        survived = str(progress.survived[run])
        table.add_row(run, Text(status, STYLES.get(status, OTHER_STYLE)), survived)
    return Group(Text(f"{progress.kills} of {kills} kills", "bold"), table)


def result_table(result: Result) -> Table:
    """Return every deed of every run, counted on both sides of the wire."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in ("RUN", "MACHINE", "STATUS"):
        table.add_column(column, no_wrap=True)
    table.add_column("KILLS\nSURVIVED", justify="right")
    deed, left, seen, note = result.scenario.headings
    table.add_column(deed, overflow="fold")
    table.add_column(left, justify="right")
    table.add_column(seen, justify="right")
    table.add_column(note)
    for run in result.runs:
        style = STYLES.get(run.status, STYLES["done"] if run.is_right else OTHER_STYLE)
        status = Text(run.status, style)
        head: tuple[RenderableType, ...] = (run.run, run.machine, status, str(run.kills))
        for each in run.deeds or (None,):
            table.add_row(*head, *(_cells(each) if each is not None else ("none",)))
            head = ("", "", "", "")
    return table


def _cells(deed: Deed) -> tuple[RenderableType, ...]:
    name = Text(deed.kind)
    if deed.about:
        name.append(f", {deed.about}", "dim")
    style = OTHER_STYLE if deed.is_bad else ""
    return name, str(deed.left), Text(str(deed.seen), style), deed.note


def verdict(result: Result) -> RenderableType:
    """Return what was done, what was in doubt, and each claim with what was found against it."""
    lines = [
        Text(
            f"Kills: {result.kills}, in {result.took_s:.1f} s. Commands sent: {result.sends}, and"
            f" again after a kill: {result.repeats}; had got through before, and were not run"
            f" twice: {result.taken}."
        )
    ]
    if result.has_effects:
        lines.append(Text(_doubts(result)))
    lines += [Text(note) for note in result.notes]
    lines.append(Text())
    for check in result.checks:
        lines += _check_lines(check)
    return Group(*lines)


def _doubts(result: Result) -> str:
    happened = sum(doubt.had_happened for doubt, _ in result.doubts)
    by = Counter(who or "nobody" for _, who in result.doubts)
    settled = ", ".join(f"{by[who]} by {who}" for who in SETTLERS if by[who])
    return (
        f"Outcomes hidden: {len(result.doubts)}, of calls that had been accepted: {happened},"
        f" that had not: {len(result.doubts) - happened}. Settled: {settled or 'none'}."
    )


def _check_lines(check: Check) -> list[Text]:
    mark, style = MARKS[not check.found]
    lines = [Text.assemble((mark, style), f"  {len(check.found)} {check.claim}")]
    lines += [Text(f"        {found}") for found in check.shown()]
    return lines


def where_it_lies(result: Result, *, kept: bool) -> str:
    """Return the sentence that says where the file is and how to look at it."""
    path = str(result.file)
    shown = visible(path, chars_max=len(path))
    if not kept:
        file = f"DIR/{result.file.name}"
        return (
            f"The runs were in {shown}, which is removed now; keep it with"
            f" `snapshots demo --keep DIR`, and look at it with `snapshots runs {file}`"
            f" and `snapshots show RUN {file}`."
        )
    file = shlex.quote(shown)
    run = result.runs[0].run if result.runs else "RUN"
    whose = f"the {result.scenario.outside_name}'s"
    return (
        f"The runs are in {shown}, with {whose} log beside them; look at them with"
        f" `snapshots runs {file}` and `snapshots show {run} {file}`."
    )
