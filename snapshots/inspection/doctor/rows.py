"""Checks of the runs one by one: whether each can be read, what is in doubt, what stands still."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from snapshots.errors import DecodeError, StorageError
from snapshots.heads import UNFINDABLE, is_sound
from snapshots.inspection.doctor.findings import Finding, well
from snapshots.inspection.doctor.limits import (
    IDS_SLICE_ROWS,
    ITEMS_MAX,
    ROWS_MAX,
    ROWS_MS_MAX,
)
from snapshots.inspection.limits import REASON_CHARS_MAX
from snapshots.inspection.printable import relative, visible
from snapshots.inspection.queries.files import TooLongError
from snapshots.inspection.reports.derived import every_chart
from snapshots.inspection.reports.reading import read_report
from snapshots.store.reading import header_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.inspection.queries.files import RunFile
    from snapshots.inspection.reports.records import RunReport

Progress = Callable[[int, int], None]

LIVE_IDS: Final = """
select id from runs indexed by runs_live where status = 'live' and id > ? order by id limit ?"""
ALL_IDS: Final = "select id from runs where id > ? order by id limit ?"
# One run a statement: the log is not kept from being copied meanwhile.
READ: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, runs.head, blob
from runs where id = ?"""

_HEAD: Final = 8
_MS_PER_S: Final = 1_000
_OF_THEMSELVES: Final = ("intent", "calling")


@dataclass(slots=True)
class Looked:
    """What was found in the runs that were read; each list is bounded, its number is not."""

    read: int = 0
    is_whole: bool = True
    unreadable: list[str] = field(default_factory=list)
    unreadable_count: int = 0
    doubts: list[str] = field(default_factory=list)
    doubts_count: int = 0
    asleep: list[str] = field(default_factory=list)
    asleep_count: int = 0
    broken_off: str = ""


def look(stored: RunFile, *, is_deep: bool, now_ms: int, progress: Progress) -> Looked:
    """Read the live runs, finished ones too if `is_deep`, within bounds of number and time.

    `progress` is told how many of how many were read. Never raises for what is damaged: where
    even the list of runs breaks off, `broken_off` says why.
    """
    looked = Looked()
    counts = stored.counts()
    expected = counts.live + counts.ended if is_deep else counts.live
    rows_max = expected + IDS_SLICE_ROWS if is_deep else ROWS_MAX
    end_s = time.monotonic() + ROWS_MS_MAX / _MS_PER_S
    try:
        for row in _ids(stored, is_deep=is_deep):
            if not is_deep and (looked.read >= rows_max or time.monotonic() > end_s):
                looked.is_whole = False
                break
            _look_at(stored, row, looked, now_ms)
            progress(looked.read, expected)
    except TooLongError:
        looked.is_whole = False
    except StorageError as error:
        looked.broken_off = error.detail or str(error)
    return looked


def _ids(stored: RunFile, *, is_deep: bool) -> Iterator[int]:
    last = 0
    while rows := stored.ask("list runs", ALL_IDS if is_deep else LIVE_IDS, (last, IDS_SLICE_ROWS)):
        for (row,) in rows:
            yield row
        last = rows[-1][0]


def _look_at(stored: RunFile, row: int, looked: Looked, now_ms: int) -> None:
    looked.read += 1
    try:
        found = stored.ask("read run", READ, (row,))
        if not found:  # swept in this moment
            return
        header = header_of(found[0])
        if not is_sound(found[0][_HEAD]):
            _unreadable(looked, header.run_id, _damage(header.revision))
            return
        report = read_report(header, found[0][-1], None, now_ms=now_ms)
    except DecodeError as error:
        _unreadable(looked, row if error.run_id is None else error.run_id, error.reason)
        return
    except StorageError as error:
        _unreadable(looked, row, error.detail or str(error))
        return
    if header.status == "live":
        _look_into(report, looked, now_ms)


def _damage(revision: int) -> str:
    if revision == UNFINDABLE:
        return "its head is damaged: no save would find the row"
    return "its head is damaged: the next save makes it anew"


def _unreadable(looked: Looked, run: str | int, reason: str) -> None:
    name = visible(run) if isinstance(run, str) else f"row {run}"
    _note(looked.unreadable, f"{name}: {visible(reason, chars_max=REASON_CHARS_MAX)}")
    looked.unreadable_count += 1


def _look_into(report: RunReport, looked: Looked, now_ms: int) -> None:
    header = report.header
    for effect in report.effects:
        if effect.status == "unknown":
            looked.doubts_count += 1
            since = relative((effect.at_ms or header.updated_ms) - now_ms)
            _note(looked.doubts, f"{visible(effect.id)}: intended {since}")
    if header.parked and (why := _moves(report)):
        looked.asleep_count += 1
        _note(looked.asleep, f"{visible(header.run_id)}: {why}")


def _moves(report: RunReport) -> str:
    """Say what a run has to do whose row says that it only waits; empty if that is true."""
    if report.queue:
        return "an event is queued"
    if any(not invoke.started for node in every_chart(report.root) for invoke in node.invokes):
        return "something that a state invokes is to begin"
    if any(effect.status in _OF_THEMSELVES for effect in report.effects):
        return "an effect is under way"
    due_ms = min((timer.due_ms for timer in report.timers), default=None)
    if due_ms is not None and due_ms < report.header.due_ms:
        return "a timer is due earlier than its row says"
    return ""


def _note(items: list[str], item: str) -> None:
    if len(items) < ITEMS_MAX:
        items.append(item)


# -- findings -------------------------------------------------------------------------------------


def findings(looked: Looked, *, is_deep: bool) -> Iterator[Finding]:
    """Yield what was found in the runs."""
    yield _readable(looked, is_deep=is_deep)
    yield _doubts(looked)
    if looked.asleep:
        yield Finding(
            check="parked",
            verdict="problem",
            told=f"{looked.asleep_count} runs have work, and their rows say that they only wait",
            remedy="send each any event, or read it with host.read: it is built then, and goes on",
            items=tuple(looked.asleep),
            count=looked.asleep_count,
        )


def _readable(looked: Looked, *, is_deep: bool) -> Finding:
    which = "runs" if is_deep else "live runs"
    if looked.broken_off:
        return Finding(
            check="runs",
            verdict="problem",
            told=f"after {looked.read} {which} no more can be listed: {visible(looked.broken_off)}",
            remedy="stop the host, keep a copy of the file and its -wal, and restore a backup",
            items=tuple(looked.unreadable),
            count=looked.unreadable_count,
        )
    if looked.unreadable:
        return Finding(
            check="runs",
            verdict="problem",
            told=f"{looked.unreadable_count} of {looked.read} {which} cannot be read",
            remedy=(
                "keep the bytes of each (snapshots export --raw), and take its row from a backup;"
                " all others go on"
            ),
            items=tuple(looked.unreadable),
            count=looked.unreadable_count,
        )
    if not looked.is_whole:
        return Finding(
            check="runs",
            verdict="warning",
            told=f"the first {looked.read} {which} can be read, there are more",
            remedy="run doctor --deep, which reads all of them",
        )
    rest = "" if is_deep else "; --deep reads finished ones too"
    return well("runs", f"all {looked.read} {which} can be read{rest}")


def _doubts(looked: Looked) -> Finding:
    if not looked.doubts:
        return well("in doubt", "no effect of a live run is in doubt")
    count = looked.doubts_count
    return Finding(
        check="in doubt",
        verdict="warning",
        told="1 effect is in doubt" if count == 1 else f"{count} effects are in doubt",
        remedy="find out what became of each, and settle it: snapshots resolve RUN EFFECT",
        items=tuple(looked.doubts),
        count=count,
    )
