"""The commands that list what runs wait for: effects, timers and gates, of one run or of all."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

import typer

from snapshots.clock import SystemClock
from snapshots.errors import DecodeError
from snapshots.inspection.cli.meter import Meter
from snapshots.inspection.cli.options import (
    EXIT_NO,
    EXIT_OK,
    AsJson,
    File,
    OfMachine,
    OptionalRun,
    opened,
    run_and_file,
)
from snapshots.inspection.limits import (
    SURVEY_ROWS_DEFAULT,
    SURVEY_ROWS_MAX,
    UNREADABLE_SHOWN_MAX,
)
from snapshots.inspection.queries.listing import RunFilter
from snapshots.inspection.queries.surveying import Row, Survey, having_timers, survey, survey_timers
from snapshots.inspection.reports.derived import address
from snapshots.inspection.reports.reading import read_report
from snapshots.inspection.reports.records import EffectReport, RunReport, TimerReport, WaitReport
from snapshots.inspection.spans import span_ms
from snapshots.inspection.text.documents import record_document, written
from snapshots.inspection.text.ledgers import effects_text, gates_text, timers_text
from snapshots.inspection.text.screen import Screen, rendered, screen_of, tell, write

if TYPE_CHECKING:
    from rich.console import RenderableType

    from snapshots.codec import Plain
    from snapshots.inspection.queries.files import RunFile

T = TypeVar("T")


class EffectState(StrEnum):
    """The states of an effect, as the command line takes them; a row calls `doubt` unknown."""

    DOUBT = "doubt"
    CALLING = "calling"
    INTENT = "intent"
    FAILED = "failed"
    DONE = "done"


# In the order in which they are listed: what needs a person comes first.
_STATUSES: Final = {
    EffectState.DOUBT: "unknown",
    EffectState.CALLING: "calling",
    EffectState.INTENT: "intent",
    EffectState.FAILED: "failed",
    EffectState.DONE: "done",
}
_PLACES: Final = {status: place for place, status in enumerate(_STATUSES.values())}
_OPEN: Final = (EffectState.DOUBT, EffectState.CALLING, EffectState.INTENT)

Limit = Annotated[
    int, typer.Option("--limit", min=1, max=SURVEY_ROWS_MAX, help="At most so many rows.")
]


def effects(
    run: OptionalRun = None,
    file: File = None,
    *,
    state: Annotated[
        list[EffectState] | None,
        typer.Option("--state", help="Only effects in this state; may be given several times."),
    ] = None,
    machine: OfMachine = None,
    limit: Limit = SURVEY_ROWS_DEFAULT,
    as_json: AsJson = False,
) -> int:
    """List effects, those in doubt first.

    Then those that are calling, to be called (intent), failed, done. Of all live runs, only those
    whose outcome is open, unless --state says otherwise. Exit code 1 says that nothing fits
    --state or --machine, or that RUN cannot be read. As JSON: now_ms, effects (each with its run
    and machine), more, unreadable, runs_read, whole.
    """
    run, file = run_and_file(run, file)
    asked = tuple(state or ()) or (tuple(EffectState) if run is not None else _OPEN)
    statuses = {_STATUSES[one] for one in asked}
    # A run that only waits has no effect whose outcome is open, and need not be read.
    parked = False if set(asked) <= set(_OPEN) else None

    def parts(report: RunReport) -> Iterator[EffectReport]:
        return (effect for effect in report.effects if effect.status in statuses)

    def text(rows: Sequence[Row[EffectReport]], now_ms: int, screen: Screen) -> RenderableType:
        return effects_text(rows, now_ms=now_ms, screen=screen)

    listing = _Listing(
        name="effects",
        parts=parts,
        order=lambda effect: (_PLACES[effect.status], -(effect.at_ms or 0)),
        text=text,
        document=record_document,
        chosen=RunFilter(statuses=("live",), machine=machine, parked=parked),
        is_filtered=bool(state) or machine is not None,
    )
    return _tell(listing, run, file, limit=limit, as_json=as_json)


def timers(
    run: OptionalRun = None,
    file: File = None,
    *,
    within: Annotated[
        str | None,
        typer.Option("--within", metavar="SPAN", help="Only timers due within 90s, 5m, 2h, …"),
    ] = None,
    overdue: Annotated[
        bool, typer.Option("--overdue", help="Only timers that should have fired by now.")
    ] = False,
    machine: OfMachine = None,
    limit: Limit = SURVEY_ROWS_DEFAULT,
    as_json: AsJson = False,
) -> int:
    """List timers, overdue ones first, then the nearest.

    Exit code 1 says that nothing fits --within, --overdue or --machine, or that RUN cannot be
    read. As JSON: now_ms, timers (each with its run and machine), more, unreadable, runs_read,
    whole.
    """
    run, file = run_and_file(run, file)
    ahead_ms = 0 if overdue else _span("--within", within)

    def parts(report: RunReport) -> Iterator[TimerReport]:
        return (timer for timer in report.timers if ahead_ms is None or timer.left_ms < ahead_ms)

    def text(rows: Sequence[Row[TimerReport]], now_ms: int, screen: Screen) -> RenderableType:
        del now_ms  # a timer's report counts from it already
        return timers_text(rows, screen)

    before_ms = None if ahead_ms is None else SystemClock().now_ms() + ahead_ms
    listing = _Listing(
        name="timers",
        parts=parts,
        order=lambda timer: timer.due_ms,
        text=text,
        document=record_document,
        chosen=having_timers(machine, before_ms=before_ms),
        is_filtered=ahead_ms is not None or machine is not None,
        is_nearest_first=True,
    )
    return _tell(listing, run, file, limit=limit, as_json=as_json)


def gates(
    run: OptionalRun = None,
    file: File = None,
    *,
    accepts: Annotated[
        str | None,
        typer.Option("--accepts", metavar="EVENT", help="Only gates that accept this event."),
    ] = None,
    machine: OfMachine = None,
    limit: Limit = SURVEY_ROWS_DEFAULT,
    as_json: AsJson = False,
) -> int:
    """List open gates, and what they accept.

    GATE is the address that `answer` takes. The parameters of an event are in its chart's code,
    not in the file. Exit code 1 says that nothing fits --accepts or --machine, or that RUN cannot
    be read. As JSON: now_ms, gates (each with its run and machine), more, unreadable, runs_read,
    whole.
    """
    run, file = run_and_file(run, file)

    def parts(report: RunReport) -> Iterator[WaitReport]:
        gates = (wait for wait in report.waits if wait.kind == "gate")
        return (gate for gate in gates if accepts is None or accepts in gate.events)

    def text(rows: Sequence[Row[WaitReport]], now_ms: int, screen: Screen) -> RenderableType:
        del now_ms  # a gate has no time
        return gates_text(rows, screen)

    listing = _Listing(
        name="gates",
        parts=parts,
        order=lambda _: 0,
        text=text,
        document=_gate_document,
        chosen=RunFilter(statuses=("live",), machine=machine),
        is_filtered=accepts is not None or machine is not None,
    )
    return _tell(listing, run, file, limit=limit, as_json=as_json)


COMMANDS: Final = (effects, timers, gates)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listing(Generic[T]):
    """What one of the commands lists: which parts of which runs, in which order, shown how."""

    name: str
    parts: Callable[[RunReport], Iterator[T]]
    order: Callable[[T], Any]
    text: Callable[[Sequence[Row[T]], int, Screen], RenderableType]
    document: Callable[[T], dict[str, Plain]]
    chosen: RunFilter
    is_filtered: bool
    is_nearest_first: bool = False


def _tell(
    listing: _Listing[T], run: str | None, file: Path | None, *, limit: int, as_json: bool
) -> int:
    now_ms = SystemClock().now_ms()
    with opened(file) as stored:
        if run is not None:
            found = _of_one(stored, listing, run, now_ms)
        else:
            found = _of_all(stored, listing, limit, now_ms)
    rows = sorted(found.rows, key=lambda row: listing.order(row.item))
    has_more = len(rows) > limit
    if as_json:
        write(written(_document(listing, found, rows[:limit], now_ms, has_more)), sys.stdout)
    else:
        _show(listing, rows[:limit], now_ms)
        _tell_what_is_missing(listing, found, limit, has_more=has_more)
    is_unread = run is not None and bool(found.unreadable)
    return EXIT_NO if is_unread or (listing.is_filtered and not rows) else EXIT_OK


def _of_one(stored: RunFile, listing: _Listing[T], run: str, now_ms: int) -> Survey[T]:
    found = stored.find(run)
    header = found.header
    try:
        report = read_report(header, found.blob, None, now_ms=now_ms)
    except DecodeError as error:
        return Survey(unreadable={header.run_id: error.reason}, runs_read=1)
    return Survey(rows=[Row(run=header, item=item) for item in listing.parts(report)], runs_read=1)


def _of_all(stored: RunFile, listing: _Listing[T], limit: int, now_ms: int) -> Survey[T]:
    with Meter(listing.name) as meter:
        if not listing.is_nearest_first:
            return survey(stored, listing.chosen, listing.parts, now_ms=now_ms, progress=meter.show)
        # One more than is shown tells whether there are more.
        return survey_timers(
            stored,
            listing.chosen,
            listing.parts,
            now_ms=now_ms,
            runs_max=limit + 1,
            progress=meter.show,
        )


def _document(
    listing: _Listing[T], found: Survey[T], rows: Sequence[Row[T]], now_ms: int, has_more: bool
) -> Plain:
    listed = [
        {"run": row.run.run_id, "machine": row.run.machine, **listing.document(row.item)}
        for row in rows
    ]
    unreadable = [{"run": run, "reason": reason} for run, reason in found.unreadable.items()]
    return {
        "now_ms": now_ms,
        listing.name: listed,
        "more": has_more,
        "unreadable": unreadable,
        "runs_read": found.runs_read,
        "whole": found.is_whole,
    }


def _show(listing: _Listing[T], rows: Sequence[Row[T]], now_ms: int) -> None:
    if not rows:
        write(f"no {listing.name}\n", sys.stdout)
        return
    screen = screen_of(sys.stdout, os.environ)
    write(rendered(listing.text(rows, now_ms, screen), screen), sys.stdout)


def _tell_what_is_missing(
    listing: _Listing[T], found: Survey[T], limit: int, *, has_more: bool
) -> None:
    if has_more:
        tell(f"the first {limit} {listing.name} are listed, there are more: raise --limit")
    elif not found.is_whole:
        hint = "choose a --machine or name a RUN"
        tell(f"only {found.runs_read} live runs were read, there are more: {hint}")
    for run, reason in list(found.unreadable.items())[:UNREADABLE_SHOWN_MAX]:
        tell(f"run {run!r} cannot be read: {reason}")
    left = len(found.unreadable) - UNREADABLE_SHOWN_MAX
    if left > 0:
        tell(f"{left} more runs cannot be read")


def _gate_document(gate: WaitReport) -> dict[str, Plain]:
    kept = ("node", "id", "state", "key", "events", "meta")
    document = record_document(gate)
    return {"address": address(gate), **{name: document[name] for name in kept}}


def _span(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    try:
        return span_ms(text)
    except ValueError as error:
        message = f"{name}: {error}"
        raise typer.BadParameter(message) from error
