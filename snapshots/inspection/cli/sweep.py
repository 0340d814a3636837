"""The command that deletes what is old, where no host does, or says what would go."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from snapshots.clock import SystemClock
from snapshots.database.holding import holder_of
from snapshots.inspection.cli.meter import Meter
from snapshots.inspection.cli.options import EXIT_NO, EXIT_OK, AsJson, File, opened, place_of
from snapshots.inspection.printable import moment, size, visible
from snapshots.inspection.spans import SPAN_FORM, span_ms
from snapshots.inspection.sweeping import Old, Swept, TakenOverError, old_of
from snapshots.inspection.sweeping import sweep as swept_from
from snapshots.inspection.text.documents import record_document, written
from snapshots.inspection.text.screen import rendered, screen_of, tell, write
from snapshots.inspection.text.typeset import ledger
from snapshots.limits import RETENTION_DAYS
from snapshots.opening import open_store

if TYPE_CHECKING:
    from pathlib import Path

_DAYS: Final = f"{RETENTION_DAYS} days"


def sweep(
    file: File = None,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would go; nothing is written.")
    ] = False,
    ahead: Annotated[
        str | None,
        typer.Option("--ahead", metavar="SPAN", help="With --dry-run: what would go in 2d, 12h, …"),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Delete what is old, where no host does.

    That is: runs that ended more than a week ago, mail that was settled more than a day ago, and
    values and leases that have expired. A live run is never deleted, and nothing chooses another
    age. A host does this by itself, at its start and every hour: exit code 1 says that one holds
    the file. As JSON: runs, mail, stored (values and leases) and refused; with --dry-run at_ms,
    runs, mail, values and leases.
    """
    if ahead is not None and not dry_run:
        message = f"--ahead goes with --dry-run: a run is there for {_DAYS}, whoever sweeps"
        raise typer.BadParameter(message)
    now_ms = SystemClock().now_ms() + _span(ahead)
    # Read first, since opening to write would create a file that is missing.
    with opened(file) as stored:
        old = old_of(stored, now_ms=now_ms)
    if dry_run:
        _show(old, now_ms=now_ms, as_json=as_json)
        return EXIT_OK
    return _sweep(place_of(file), old, as_json=as_json)


COMMANDS: Final = (sweep,)


def _sweep(place: Path, old: Old, *, as_json: bool) -> int:
    holder = holder_of(place)
    if holder is not None:
        return _refuse(f"{holder} holds the file and sweeps it by itself", None, as_json=as_json)
    try:
        with open_store(place) as store, Meter("sweep") as meter:
            swept = swept_from(store, expected=old.run_count, progress=meter.show)
    except TakenOverError as error:
        return _refuse(str(error), error.swept, as_json=as_json)
    if as_json:
        write(written({**record_document(swept), "refused": None}), sys.stdout)
    else:
        write(f"swept {_said(swept)}\n", sys.stdout)
    return EXIT_OK


def _refuse(reason: str, runs: int | None, *, as_json: bool) -> int:
    if as_json:
        document = {"runs": runs or 0, "mail": 0, "stored": 0, "refused": reason}
        write(written(document), sys.stdout)
    tell(f"refused: {reason}")
    return EXIT_NO


def _said(swept: Swept) -> str:
    return f"{swept.runs} runs, {swept.mail} entries of mail, {swept.stored} values and leases"


def _show(old: Old, *, now_ms: int, as_json: bool) -> None:
    if as_json:
        write(written({"at_ms": now_ms, **record_document(old)}), sys.stdout)
        return
    beside = f"{old.mail} entries of mail, {old.values} values, {old.leases} leases"
    total = f"would sweep {old.run_count} runs, {beside}\n"
    if old.runs:
        screen = screen_of(sys.stdout, os.environ)
        names = ("MACHINE", "STATUS", "RUNS", "BYTES", "ENDED")
        rows = [
            (
                visible(found.machine),
                found.status,
                str(found.count),
                size(found.bytes),
                f"{moment(found.first_ended_ms)} to {moment(found.last_ended_ms)}",
            )
            for found in old.runs
        ]
        write(rendered(ledger(names, rows, screen), screen), sys.stdout)
    write(total, sys.stdout)


def _span(text: str | None) -> int:
    if text is None:
        return 0
    try:
        return span_ms(text)
    except ValueError as error:
        message = f"--ahead: expected {SPAN_FORM}"
        raise typer.BadParameter(message) from error
