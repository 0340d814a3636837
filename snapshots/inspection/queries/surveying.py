"""What many live runs wait for at once: their effects, timers and gates, read run by run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from snapshots.errors import DecodeError
from snapshots.inspection.limits import (
    SURVEY_MS_MAX,
    SURVEYED_HEADERS_MAX,
    SURVEYED_RUNS_MAX,
)
from snapshots.inspection.queries.listing import RunFilter, list_runs
from snapshots.inspection.reports.reading import read_report
from snapshots.limits import HEADERS_ROWS_MAX, NO_TIMER_MS
from snapshots.store.reading import header_of

if TYPE_CHECKING:
    from snapshots.inspection.queries.files import RunFile
    from snapshots.inspection.reports.records import RunReport
    from snapshots.records import RunHeader

T = TypeVar("T")
Progress = Callable[[int, int], None]

_MS_PER_S: Final = 1_000

# One run a statement: a list of thousands keeps no page of the log from being copied.
READ: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, runs.head, blob
from runs where id = ? and status = 'live'"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(Generic[T]):
    """Something that a run has, and whose it is."""

    run: RunHeader
    item: T


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey(Generic[T]):
    """What was found in the runs that were read.

    `unreadable` has the reasons, by run, of those whose content is none. `is_whole` says that no
    run was left out for a bound: of runs that are read, or of time.
    """

    rows: list[Row[T]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    runs_read: int = 0
    is_whole: bool = True


def survey(
    file: RunFile,
    chosen: RunFilter,
    parts: Callable[[RunReport], Iterator[T]],
    *,
    now_ms: int,
    progress: Progress,
) -> Survey[T]:
    """Return what `parts` finds in the newest live runs of `chosen`, each read by itself.

    At most `SURVEYED_RUNS_MAX` are read, for `SURVEY_MS_MAX`; `progress` is told how many of how
    many. A run that ends meanwhile is left out. Raises `StorageError` where the file fails.
    """
    headers, is_whole = _headers(file, chosen, SURVEYED_RUNS_MAX)
    return _read(file, headers, parts, now_ms=now_ms, progress=progress, is_whole=is_whole)


def survey_timers(
    file: RunFile,
    chosen: RunFilter,
    parts: Callable[[RunReport], Iterator[T]],
    *,
    now_ms: int,
    runs_max: int,
    progress: Progress,
) -> Survey[T]:
    """Return what `parts` finds in the `runs_max` live runs of `chosen` whose timers are nearest.

    A header says when the first timer of its run is due, so that no other run need be read.
    """
    headers, is_whole = _headers(file, chosen, SURVEYED_HEADERS_MAX)
    headers.sort(key=lambda header: header.due_ms)
    is_whole = is_whole and len(headers) <= runs_max
    nearest = headers[:runs_max]
    return _read(file, nearest, parts, now_ms=now_ms, progress=progress, is_whole=is_whole)


def having_timers(machine: str | None, *, before_ms: int | None = None) -> RunFilter:
    """Return the filter of live runs that have a timer, or one that is due before a moment."""
    before = NO_TIMER_MS if before_ms is None else min(before_ms, NO_TIMER_MS)
    return RunFilter(machine=machine, due_before_ms=before)


def _headers(file: RunFile, chosen: RunFilter, headers_max: int) -> tuple[list[RunHeader], bool]:
    """Return the newest headers of `chosen`, in slices, and whether these are all."""
    headers: list[RunHeader] = []
    while True:
        rows_max = min(HEADERS_ROWS_MAX, headers_max - len(headers))
        before = headers[-1].row if headers else None
        page = list_runs(file, chosen, rows_max=rows_max, before_row=before)
        headers += page.headers
        if not page.has_more or len(headers) == headers_max:
            return headers, not page.has_more


def _read(
    file: RunFile,
    headers: list[RunHeader],
    parts: Callable[[RunReport], Iterator[T]],
    *,
    now_ms: int,
    progress: Progress,
    is_whole: bool,
) -> Survey[T]:
    end_s = time.monotonic() + SURVEY_MS_MAX / _MS_PER_S
    rows: list[Row[T]] = []
    unreadable: dict[str, str] = {}
    done = 0
    for done, header in enumerate(headers, start=1):
        try:
            report = _report(file, header.row, now_ms)
        except DecodeError as error:
            unreadable[header.run_id] = error.reason
        else:
            if report is not None:
                rows += [Row(run=report.header, item=item) for item in parts(report)]
        progress(done, len(headers))
        if time.monotonic() > end_s:
            break
    is_whole = is_whole and done == len(headers)
    return Survey(rows=rows, unreadable=unreadable, runs_read=done, is_whole=is_whole)


def _report(file: RunFile, row: int, now_ms: int) -> RunReport | None:
    found = file.ask("read run", READ, (row,))
    if not found:
        return None
    return read_report(header_of(found[0]), found[0][-1], None, now_ms=now_ms)
