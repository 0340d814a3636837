"""The demo for people: lines while it works, a table and the verdict at the end."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from rich.console import RenderableType

    from machines.demo.killer import Progress
    from machines.demo.results import Check, EffectResult, Result, RunResult

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


def result_table(runs: Iterable[RunResult]) -> Table:
    """Return every effect of every run, counted on both sides of the wire."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for column in ("RUN", "MACHINE", "STATUS"):
        table.add_column(column, no_wrap=True)
    table.add_column("KILLS\nSURVIVED", justify="right")
    table.add_column("EFFECT", overflow="fold")
    table.add_column("LEFT", justify="right")
    table.add_column("SEEN", justify="right")
    table.add_column("IN DOUBT,\nSETTLED BY")
    for run in runs:
        status = Text(run.status, STYLES.get(run.status, OTHER_STYLE))
        head: tuple[RenderableType, ...] = (run.run, run.machine, status, str(run.kills))
        for effect in run.effects or (None,):
            table.add_row(*head, *(_cells(effect) if effect is not None else ("none",)))
            head = ("", "", "", "")
    return table


def _cells(effect: EffectResult) -> tuple[RenderableType, ...]:
    name = Text(effect.kind)
    if effect.about:
        name.append(f", {effect.about}", "dim")
    # Seen twice is seen once too often, unless the receiver does one key once.
    style = OTHER_STYLE if effect.is_once and effect.seen > 1 else ""
    settled = Counter(effect.settled_by)
    told = ", ".join(by if n == 1 else f"{by} ({n})" for by, n in settled.items())
    return name, str(effect.left), Text(str(effect.seen), style), told


def verdict(result: Result) -> RenderableType:
    """Return what was done, what was in doubt, and each claim with what was found against it."""
    happened = sum(doubt.had_happened for doubt, _ in result.doubts)
    by = Counter(who or "nobody" for _, who in result.doubts)
    settled = ", ".join(f"{by[who]} by {who}" for who in SETTLERS if by[who])
    lines = [
        Text(
            f"Kills: {result.kills}, in {result.took_s:.1f} s. Commands sent: {result.sends}, and"
            f" again after a kill: {result.repeats}; had got through before, and were not run"
            f" twice: {result.taken}."
        ),
        Text(
            f"Outcomes hidden: {len(result.doubts)}, of calls that had been accepted: {happened},"
            f" that had not: {len(result.doubts) - happened}. Settled: {settled or 'none'}."
        ),
        Text(),
    ]
    for check in result.checks:
        lines += _check_lines(check)
    return Group(*lines)


def _check_lines(check: Check) -> list[Text]:
    mark, style = MARKS[not check.found]
    lines = [Text.assemble((mark, style), f"  {len(check.found)} {check.claim}")]
    lines += [Text(f"        {found}") for found in check.shown()]
    return lines


def where_it_lies(result: Result, *, kept: bool) -> str:
    """Return the sentence that says where the file is and how to look at it."""
    if not kept:
        file = f"DIR/{result.file.name}"
        return (
            f"The runs were in {result.file}, which is removed now; keep it with"
            f" `snapshots demo --keep DIR`, and look at it with `snapshots runs {file}`"
            f" and `snapshots show RUN {file}`."
        )
    file = shlex.quote(str(result.file))
    run = result.runs[0].run if result.runs else "RUN"
    return (
        f"The runs are in {result.file}, with the receiver's log beside them; look at them with"
        f" `snapshots runs {file}` and `snapshots show {run} {file}`."
    )
