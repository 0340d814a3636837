"""What each page shows, asked of an open file: plain values for the templates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from snapshots.errors import DecodeError, EncodeError
from snapshots.inspection.console.pictures import differences, one_side
from snapshots.inspection.console.raw import lines_of
from snapshots.inspection.diagram import compare, picture_of, picture_of_shape
from snapshots.inspection.limits import (
    CONSOLE_CHARTS_DRAWN_MAX,
    CONSOLE_DOCUMENT_LINES_MAX,
    CONSOLE_LEDGER_ROWS_MAX,
    CONSOLE_MACHINES_MAX,
    CONSOLE_PAGE_ROWS,
)
from snapshots.inspection.queries.browsing import machines_of, newest_shape, search_runs, shape_of
from snapshots.inspection.queries.listing import RunFilter, list_runs
from snapshots.inspection.reports.derived import address, moved, saves_of, updated_of
from snapshots.inspection.reports.reading import read_report
from snapshots.inspection.text.documents import run_document, unreadable_document, written
from snapshots.limits import NO_TIMER_MS

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.codec import Plain
    from snapshots.inspection.console.pictures import Drawing, Drawings
    from snapshots.inspection.diagram import Picture
    from snapshots.inspection.queries.files import FoundRun, RunFile
    from snapshots.inspection.reports.records import RunReport, TransitionReport
    from snapshots.records import RunHeader, Status

T = TypeVar("T")

_OPEN_EFFECTS: Final = frozenset({"unknown", "calling", "intent"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the list is asked for; empty texts and None choose all."""

    query: str = ""
    status: Status | None = None
    machine: str = ""
    before: int | None = None

    def linked(self, **changes: object) -> dict[str, object]:
        """Return the parameters of a link to this list with `changes`, those that say something."""
        named = {"q": self.query, "status": self.status, "machine": self.machine}
        return {name: value for name, value in (named | changes).items() if value}


def list_view(file: RunFile, asked: Asked, *, now_ms: int) -> dict[str, Any]:
    """Return what the list of runs shows: a page of headers, the file's counts, its machines."""
    machine = asked.machine or None
    if asked.query:
        page = search_runs(
            file, asked.query, status=asked.status, machine=machine, rows_max=CONSOLE_PAGE_ROWS
        )
    else:
        chosen = RunFilter(statuses=(asked.status,) if asked.status else (), machine=machine)
        page = list_runs(file, chosen, rows_max=CONSOLE_PAGE_ROWS, before_row=asked.before)
    older = page.headers[-1].row if page.has_more and not asked.query else None
    return {
        "asked": asked,
        "rows": [_row(header) for header in page.headers],
        "has_more": page.has_more,
        "older": older,
        "counts": file.counts(),
        "sizes": file.sizes(),
        "machines": machines_of(file, rows_max=CONSOLE_MACHINES_MAX),
        "now_ms": now_ms,
        "is_copy": file.is_copy,
    }


def _row(header: RunHeader) -> dict[str, Any]:
    has_timer = header.status == "live" and header.due_ms != NO_TIMER_MS
    return {
        "header": header,
        "saves": saves_of(header),
        "updated_ms": updated_of(header),
        "due_ms": header.due_ms if has_timer else None,
    }


def run_view(
    file: RunFile, run_id: str, drawings: Drawings, *, now_ms: int, entry: int | None = None
) -> dict[str, Any]:
    """Return what the page of a run shows; `entry` is what was just handed in for it.

    A run whose content cannot be read has `report` None, and the `reason`.
    """
    found = file.find(run_id)
    header = found.header
    view: dict[str, Any] = {
        "header": header,
        "saves": saves_of(header),
        "updated_ms": updated_of(header),
        "now_ms": now_ms,
        "is_copy": file.is_copy,
        "entry": entry,
        "told": next((mail for mail in found.mail if mail.entry == entry), None),
    }
    newest = newest_shape(file, header.machine)
    view["newest_digest"] = newest.digest if newest is not None else None
    try:
        report = _report(found, now_ms)
        picture = _picture(report, found.shape)
    except DecodeError as error:
        return view | {"report": None, "reason": error.reason}
    return view | _content(report, picture, drawings)


def _content(report: RunReport, picture: Picture, drawings: Drawings) -> dict[str, Any]:
    charts = list(picture.every_picture())
    doubtful = [effect for effect in report.effects if effect.status == "unknown"]
    return {
        "report": report,
        "reason": None,
        "drawings": _drawn(charts[:CONSOLE_CHARTS_DRAWN_MAX], drawings),
        "picture": picture,
        "doubtful": doubtful,
        "waits": report.waits[:CONSOLE_LEDGER_ROWS_MAX],
        "address": address,
        "effects": _shown_effects(report),
        "trail": [_moved(step) for step in report.trail[::-1][:CONSOLE_LEDGER_ROWS_MAX]],
        "children": report.children[:CONSOLE_LEDGER_ROWS_MAX],
        "rows_max": CONSOLE_LEDGER_ROWS_MAX,
    }


def _moved(step: TransitionReport) -> dict[str, Any]:
    """Return a step of the trail with the states that it left and those that it entered."""
    gone, entered = moved(step)
    return {"step": step, "left": gone, "entered": entered}


def _report(found: FoundRun, now_ms: int) -> RunReport:
    return read_report(found.header, found.blob, found.shape, now_ms=now_ms, mail=found.mail)


def _picture(report: RunReport, shape: bytes | None) -> Picture:
    try:
        return picture_of(report, shape)
    except DecodeError:
        # A damaged shape: the run itself is readable without it.
        return picture_of(report, None)


def _drawn(charts: list[Picture], drawings: Drawings) -> list[Drawing]:
    return [drawings.draw(chart, prefix=f"chart{number}x") for number, chart in enumerate(charts)]


def _shown_effects(report: RunReport) -> tuple[Any, ...]:
    """Return the effects that need something, then the newest of those that do not."""
    waiting = [effect for effect in report.effects if effect.status in _OPEN_EFFECTS]
    settled = [effect for effect in report.effects if effect.status not in _OPEN_EFFECTS]
    room = max(CONSOLE_LEDGER_ROWS_MAX - len(waiting), 0)
    return tuple(waiting[:CONSOLE_LEDGER_ROWS_MAX]) + tuple(settled[::-1][:room])


def drift_view(file: RunFile, run_id: str, drawings: Drawings, *, now_ms: int) -> dict[str, Any]:
    """Return what the page of a run's drift shows: its shape, and its machine's newest one."""
    found = file.find(run_id)
    header = found.header
    old, new = shape_of(file, header.digest), newest_shape(file, header.machine)
    view: dict[str, Any] = {"header": header, "now_ms": now_ms, "old": old, "new": new}
    if old is None or new is None:
        return view | {"reason": "the shape of this run, or of its machine, is not stored"}
    try:
        then = _marked(found, old.shape, now_ms)
        compared = compare(then, picture_of_shape(new.shape))
    except DecodeError as error:
        return view | {"reason": error.reason}
    return view | {
        "reason": None,
        "differences": differences(compared),
        "sides": [
            _drawn_side(replace(one_side(compared, "new"), title=then.title), drawings, "old"),
            # No run is in it: it has states that this run would be in, and no status.
            _drawn_side(replace(one_side(compared, "gone"), status=""), drawings, "new"),
        ],
    }


def _marked(found: FoundRun, shape: bytes, now_ms: int) -> Picture:
    """Return the old shape with what is active in the run, if the run can be read."""
    try:
        return picture_of(_report(found, now_ms), shape)
    except DecodeError:
        return picture_of_shape(shape)


def _drawn_side(picture: Picture, drawings: Drawings, side: str) -> list[Drawing]:
    charts = list(picture.every_picture())[:CONSOLE_CHARTS_DRAWN_MAX]
    return [drawings.draw(chart, prefix=f"{side}{place}x") for place, chart in enumerate(charts)]


def document_of(file: RunFile, run_id: str, *, now_ms: int) -> str:
    """Return all that is known of a run as one line of JSON."""
    return _documented(file, run_id, now_ms, written)[1]


def raw_view(file: RunFile, run_id: str, *, now_ms: int) -> dict[str, Any]:
    """Return the same document in lines, the first of them."""
    header, (lines, has_more) = _documented(
        file,
        run_id,
        now_ms,
        lambda document: lines_of(document, lines_max=CONSOLE_DOCUMENT_LINES_MAX),
    )
    return {"header": header, "lines": lines, "has_more": has_more, "now_ms": now_ms}


def _documented(
    file: RunFile, run_id: str, now_ms: int, make: Callable[[Plain], T]
) -> tuple[RunHeader, T]:
    found = file.find(run_id)
    try:
        return found.header, make(run_document(_report(found, now_ms)))
    except (DecodeError, EncodeError) as error:
        reason = error.reason
    return found.header, make(unreadable_document(found.header, reason, now_ms=now_ms))
