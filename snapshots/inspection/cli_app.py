"""The command line: the commands that look at a file, and what becomes of an error in any."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from enum import StrEnum
from importlib import metadata
from typing import Annotated, Final

import typer
from typer.main import get_command

from snapshots.clock import SystemClock
from snapshots.errors import DecodeError, EncodeError
from snapshots.inspection import cli_files, cli_mail
from snapshots.inspection.cli_commands import Commands, packages
from snapshots.inspection.cli_options import (
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_NO,
    EXIT_OK,
    AsJson,
    File,
    opened,
)
from snapshots.inspection.document import (
    run_document,
    runs_document,
    unreadable_document,
    written,
)
from snapshots.inspection.limits import RUNS_LISTED_DEFAULT
from snapshots.inspection.queries import FoundRun
from snapshots.inspection.reading import read_report
from snapshots.inspection.screen import PROGRAM, rendered, screen_of, tell, write
from snapshots.inspection.text import run_text, runs_text, unreadable_text
from snapshots.limits import HEADERS_ROWS_MAX

DISTRIBUTION: Final = "machine-snapshots"
TRACEBACK_VARIABLE: Final = "SNAPSHOTS_TRACEBACK"

app = typer.Typer(
    name=PROGRAM,
    cls=Commands,
    add_completion=False,
    # Help is then plain text as well, whatever the stream.
    rich_markup_mode=None,
    help="Look at stored runs of state machines, on the live file or a copy of it, and hand in"
    " what a host is to do with them.",
)


class RunStatus(StrEnum):
    """The statuses that a run can have, as the command line takes them."""

    LIVE = "live"
    DONE = "done"
    FAILED = "failed"
    ERROR = "error"
    CANCELLED = "cancelled"
    LOST = "lost"
    DRIFTED = "drifted"


def call(arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name and return its exit code; nothing is raised.

    Whatever goes wrong becomes one line on stderr and code 2. A command that returns a number
    returns its exit code.
    """
    try:
        code = get_command(app).main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last one who can answer
        if os.environ.get(TRACEBACK_VARIABLE):
            traceback.print_exception(error)
        tell(_line(error))
        return EXIT_ERROR
    return code if isinstance(code, int) else EXIT_OK


def _line(error: Exception) -> str:
    """Say in a line what went wrong and what to do."""
    usage = getattr(error, "format_message", None)
    if callable(usage):
        return _usage_line(error, str(usage()))
    # What a package raises from its own tree of errors is written for its reader.
    if type(error).__module__.partition(".")[0] in packages():
        return str(error)
    told = f"{type(error).__name__}: {error}"
    return f"unexpected error, set {TRACEBACK_VARIABLE}=1 to see where: {told}"


def _usage_line(error: Exception, message: str) -> str:
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else PROGRAM
    # A group that is called without a command gives its whole help as the message, or none.
    is_help = not message or "\n" in message
    what = "a command is missing" if is_help else message.rstrip(".")
    return f"{what}; see {path} --help"


def _print_version(value: bool) -> None:
    if value:
        try:
            version = metadata.version(DISTRIBUTION)
        except metadata.PackageNotFoundError:
            version = "(not installed: run from its sources)"
        write(f"{DISTRIBUTION} {version}\n", sys.stdout)
        raise typer.Exit


@app.callback(invoke_without_command=True)
def start(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Print the help where no command is named."""
    assert not version, "printing it ends the program"
    if ctx.invoked_subcommand is None:
        write(f"{ctx.get_help()}\n", sys.stdout)


@app.command()
def runs(
    file: File = None,
    status: Annotated[
        RunStatus | None, typer.Option("--status", help="Only runs in this status.")
    ] = None,
    machine: Annotated[
        str | None, typer.Option("--machine", help="Only runs of this machine.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=HEADERS_ROWS_MAX - 1, help="At most so many runs.")
    ] = RUNS_LISTED_DEFAULT,
    as_json: AsJson = False,
) -> int:
    """List runs, the newest first. Exit code 1 says that no run matches the options."""
    chosen = None if status is None else status.value
    with opened(file) as stored:
        # One more than is shown tells whether there are more.
        found = stored.headers(status=chosen, machine=machine, limit=limit + 1)
    headers, has_more = found[:limit], len(found) > limit
    now_ms = SystemClock().now_ms()
    if as_json:
        write(written(runs_document(headers, now_ms=now_ms, has_more=has_more)), sys.stdout)
    elif headers:
        screen = screen_of(sys.stdout, os.environ)
        write(rendered(runs_text(headers, now_ms=now_ms, screen=screen), screen), sys.stdout)
        if has_more:
            tell(f"the {limit} newest are listed, there are more: --limit shows them")
    else:
        write("no runs\n", sys.stdout)
    is_filtered = status is not None or machine is not None
    return EXIT_NO if is_filtered and not headers else EXIT_OK


@app.command()
def show(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="Id of a run, or the beginning of only one.")
    ],
    file: File = None,
    as_json: AsJson = False,
) -> int:
    """Show one run: its charts, what it waits for, its ledgers.

    Exit code 1 says that only its header can be read.
    """
    if not run:
        message = "RUN is empty"
        raise typer.BadParameter(message)
    with opened(file) as stored:
        found = stored.find(run)
    text, code = _told(found, as_json=as_json)
    write(text, sys.stdout)
    return code


def _told(found: FoundRun, *, as_json: bool) -> tuple[str, int]:
    """Return the text that shows a run, and the exit code that goes with it."""
    now_ms = SystemClock().now_ms()
    screen = screen_of(sys.stdout, os.environ)
    try:
        report = read_report(found.header, found.blob, found.shape, now_ms=now_ms, mail=found.mail)
        if as_json:
            return written(run_document(report)), EXIT_OK
        return rendered(run_text(report, screen=screen), screen), EXIT_OK
    except (DecodeError, EncodeError) as error:
        header, reason = found.header, error.reason
    if as_json:
        return written(unreadable_document(header, reason, now_ms=now_ms)), EXIT_NO
    return rendered(unreadable_text(header, reason, now_ms=now_ms), screen), EXIT_NO


for _command in (*cli_files.COMMANDS, *cli_mail.COMMANDS):
    app.command()(_command)
