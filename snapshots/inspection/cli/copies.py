"""The commands that take one run out of a file: as a document, or as a file to debug against."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from snapshots.clock import SystemClock
from snapshots.inspection.cli.options import (
    EXIT_NO,
    EXIT_OK,
    AsJson,
    File,
    Run,
    opened,
    place_of,
    require_run,
)
from snapshots.inspection.cli.sinks import FORCE, pour, put
from snapshots.inspection.copies import forking
from snapshots.inspection.copies.exporting import export_document
from snapshots.inspection.printable import visible
from snapshots.inspection.text.documents import written
from snapshots.inspection.text.screen import write


def export(
    run: Run,
    file: File = None,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Write it to a new file.")
    ] = None,
    force: Annotated[bool, typer.Option(FORCE, help="Replace the file if it exists.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="The bytes of its blob as they are, and nothing else.")
    ] = False,
) -> int:
    """Print one run as one JSON document: its row, all that its blob holds, its chart's shape.

    The document is what is stored: values that should not leave the machine go with it. It has
    format, exported_ms, run, row, unreadable, blob, shape, mail. Exit code 1 says that the blob
    cannot be read, and is in the document as bytes (raw, in base64).
    """
    require_run(run)
    _require_sink(output, is_raw=raw, is_forced=force)
    with opened(file) as stored:
        found = stored.find(run)
    if raw:
        _put(found.blob, file, output, is_forced=force)
        return EXIT_OK
    document = export_document(found, now_ms=SystemClock().now_ms())
    data = written(document).encode()
    code = EXIT_OK if document["unreadable"] is None else EXIT_NO
    _put(data, file, output, is_forced=force)
    return code


def _require_sink(output: Path | None, *, is_raw: bool, is_forced: bool) -> None:
    if output is None and is_forced:
        message = f"{FORCE} is for --output"
        raise typer.BadParameter(message)
    if output is None and is_raw and sys.stdout.isatty():
        message = "--raw writes bytes as they are, which no terminal should get: give --output"
        raise typer.BadParameter(message)


def _put(data: bytes, file: Path | None, output: Path | None, *, is_forced: bool) -> None:
    if output is None:
        pour(data)
    else:
        put(output, data, beside=place_of(file), is_forced=is_forced)


def fork(
    run: Run,
    target: Annotated[Path, typer.Argument(metavar="TARGET", help="New file to put it in.")],
    file: File = None,
    new_id: Annotated[
        str | None, typer.Option("--as", metavar="ID", help="Its id there, if not the same.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Copy one run to a new file in which nothing of it is called, to debug against.

    What was to be called, or was being called, is in doubt there; plain invokes have ended;
    timers and queued events are held. What waits in the mailbox is not copied. TARGET must not
    exist. As JSON: path, run, source_run, status, in_doubt, ended, not_begun, timers_held,
    events_held, approvals, mail_left.
    """
    require_run(run)
    made = forking.fork(place_of(file), run, target, run_id=new_id)
    if as_json:
        write(written(_document(made)), sys.stdout)
    else:
        write(f"{visible(made.path, chars_max=len(made.path))}: {_said(made)}\n", sys.stdout)
    return EXIT_OK


def _said(made: forking.Fork) -> str:
    told, parts = made.disarmed, [f"run {visible(made.run_id)} ({made.status})"]
    for count, one, many in (
        (len(told.effects), "effect in doubt", "effects in doubt"),
        (len(told.invokes), "invoke ended", "invokes ended"),
        (len(told.not_begun), "invoke not begun", "invokes not begun"),
        (told.timers, "timer held", "timers held"),
        (told.queued, "queued event held", "queued events held"),
        (told.approvals, "approval made a plain gate", "approvals made plain gates"),
        (made.mail_left, "entry of the mailbox left behind", "entries of the mailbox left behind"),
    ):
        if count:
            parts.append(f"{count} {one if count == 1 else many}")
    return ", ".join(parts)


def _document(made: forking.Fork) -> dict[str, Any]:
    told = made.disarmed
    return {
        "path": made.path,
        "run": made.run_id,
        "source_run": made.source_run_id,
        "status": made.status,
        "in_doubt": told.effects,
        "ended": told.invokes,
        "not_begun": told.not_begun,
        "timers_held": told.timers,
        "events_held": told.queued,
        "approvals": told.approvals,
        "mail_left": made.mail_left,
    }


COMMANDS: Final = (export, fork)
