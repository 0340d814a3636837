"""The command line: the commands that look at a file, and what becomes of an error in any."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import metadata
from typing import Annotated, Final

import typer
from typer.main import get_command

from snapshots.inspection.cli import (
    console,
    files,
    ledgers,
    mail,
    runs,
    show,
    sweep,
    watch,
)
from snapshots.inspection.cli.copies import COMMANDS as COPIES
from snapshots.inspection.cli.doctor import COMMANDS as DOCTOR
from snapshots.inspection.cli.entry_points import Commands, packages
from snapshots.inspection.cli.options import (
    EXIT_CODES,
    EXIT_ERROR,
    EXIT_INTERRUPTED,
    EXIT_OK,
)
from snapshots.inspection.text.screen import PROGRAM, tell, write

DISTRIBUTION: Final = "machine-snapshots"
TRACEBACK_VARIABLE: Final = "SNAPSHOTS_TRACEBACK"

app = typer.Typer(
    name=PROGRAM,
    cls=Commands,
    # Help is then plain text as well, whatever the stream.
    rich_markup_mode=None,
    help="Look at stored runs of state machines, on the live file or a copy of it, and hand in"
    " what a host is to do with them.",
    epilog=EXIT_CODES,
)


def call(arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name and return its exit code; nothing is raised.

    Whatever goes wrong becomes one line on stderr and code 2. A command that returns a number
    returns its exit code.
    """
    try:
        code = get_command(app).main(args=list(arguments), prog_name=PROGRAM, standalone_mode=False)
    except (KeyboardInterrupt, typer.Abort):
        return EXIT_INTERRUPTED
    except SystemExit as ended:  # how a shell's completion ends
        return ended.code if isinstance(ended.code, int) else EXIT_OK
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
    # The second is what the library that checks values puts before each of ours.
    what = "a command is missing" if is_help else message.rstrip(".").replace("Value error, ", "")
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


for _command in (
    *runs.COMMANDS,
    *show.COMMANDS,
    *watch.COMMANDS,
    *ledgers.COMMANDS,
    *files.COMMANDS,
    *DOCTOR,
    *COPIES,
    *mail.COMMANDS,
    *sweep.COMMANDS,
    *console.COMMANDS,
):
    app.command()(_command)
