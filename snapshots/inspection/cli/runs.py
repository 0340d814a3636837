"""The command that lists runs: by status, machine and age, page by page, from headers alone."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from typing import Annotated, Final, cast

import typer

from snapshots.clock import SystemClock
from snapshots.inspection.cli.completing import complete_run
from snapshots.inspection.cli.options import (
    EXIT_NO,
    EXIT_OK,
    AsJson,
    File,
    OfMachine,
    opened,
)
from snapshots.inspection.limits import RUNS_LISTED_DEFAULT
from snapshots.inspection.queries.listing import RunFilter, RunPage, list_runs
from snapshots.inspection.spans import moment_ms
from snapshots.inspection.text.documents import runs_document, written
from snapshots.inspection.text.reports import runs_text
from snapshots.inspection.text.screen import rendered, screen_of, tell, write
from snapshots.limits import HEADERS_ROWS_MAX
from snapshots.records import Status


class RunStatus(StrEnum):
    """The statuses that a run can have, as the command line takes them."""

    LIVE = "live"
    DONE = "done"
    FAILED = "failed"
    ERROR = "error"
    CANCELLED = "cancelled"
    LOST = "lost"
    DRIFTED = "drifted"


Statuses = Annotated[
    list[RunStatus] | None,
    typer.Option("--status", help="Only runs in this status; may be given several times."),
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="WHEN",
        help="Only runs written since then: 90s, 5m, 2h, 3d ago, or a time like 2026-11-29T08:00.",
    ),
]
Until = Annotated[
    str | None,
    typer.Option("--until", metavar="WHEN", help="Only runs not written after then, as --since."),
]


def runs(
    file: File = None,
    *,
    status: Statuses = None,
    machine: OfMachine = None,
    since: Since = None,
    until: Until = None,
    waiting: Annotated[
        bool, typer.Option("--waiting", help="Only live runs that only wait, nothing in flight.")
    ] = False,
    busy: Annotated[
        bool,
        typer.Option("--busy", help="Only live runs with something queued, in flight or in doubt."),
    ] = False,
    overdue: Annotated[
        bool, typer.Option("--overdue", help="Only live runs with a timer that should have fired.")
    ] = False,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=HEADERS_ROWS_MAX - 1, help="At most so many runs.")
    ] = RUNS_LISTED_DEFAULT,
    behind: Annotated[
        str | None,
        typer.Option(
            "--after",
            metavar="RUN",
            help="Go on behind this run, the last one of the page before.",
            autocompletion=complete_run,
        ),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List runs, the newest first; no run's content is read.

    Exit code 1 says that no run matches the options. As JSON: now_ms, runs, more, and next, which
    is what --after takes for the page that follows, or null.
    """
    if waiting and busy:
        message = "--waiting and --busy leave no run: give one of them"
        raise typer.BadParameter(message)
    now_ms = SystemClock().now_ms()
    chosen = RunFilter(
        statuses=cast("tuple[Status, ...]", tuple(one.value for one in status or ())),
        machine=machine,
        since_ms=moment_of("--since", since, now_ms),
        until_ms=moment_of("--until", until, now_ms),
        parked=waiting if waiting or busy else None,
        due_before_ms=now_ms if overdue else None,
    )
    with opened(file) as stored:
        before = None if behind is None else stored.row_of(_given(behind))
        page = list_runs(stored, chosen, rows_max=limit, before_row=before)
    _show(page, now_ms=now_ms, is_first=behind is None, as_json=as_json)
    return EXIT_NO if not page.headers and not chosen.leaves_out_none else EXIT_OK


def _show(page: RunPage, *, now_ms: int, is_first: bool, as_json: bool) -> None:
    last = page.headers[-1].run_id if page.has_more else None
    if as_json:
        document = runs_document(page.headers, now_ms=now_ms, following=last)
        write(written(document), sys.stdout)
        return
    if not page.headers:
        write("no runs\n" if is_first else "no more runs\n", sys.stdout)
        return
    screen = screen_of(sys.stdout, os.environ)
    write(rendered(runs_text(page.headers, now_ms=now_ms, screen=screen), screen), sys.stdout)
    if last is not None:
        newest = "newest" if is_first else "next"
        count = len(page.headers)
        tell(
            f"the {count} {newest} are listed, there are more: add --after {last}, or raise --limit"
        )


def moment_of(name: str, text: str | None, now_ms: int) -> int | None:
    """Return the moment that an option names, or raise `BadParameter` for a text that is none."""
    if text is None:
        return None
    try:
        return moment_ms(text, now_ms=now_ms)
    except ValueError as error:
        message = f"{name}: {error}"
        raise typer.BadParameter(message) from error


def _given(run: str) -> str:
    if not run:
        message = "--after is empty"
        raise typer.BadParameter(message)
    return run


COMMANDS: Final = (runs,)
