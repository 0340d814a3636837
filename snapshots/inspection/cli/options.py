"""What several commands take and return: the file of the runs, one JSON document, exit codes."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final

import typer

from snapshots.inspection.cli.completing import (
    FILE_DEFAULT,
    FILE_VARIABLE,
    complete_run,
    usual_place,
)
from snapshots.inspection.queries.files import RunFile, open_run_file
from snapshots.inspection.text.screen import tell

EXIT_OK: Final = 0
EXIT_NO: Final = 1
EXIT_ERROR: Final = 2
EXIT_INTERRUPTED: Final = 130

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help=f"File of the runs; else ${FILE_VARIABLE}, else ./{FILE_DEFAULT}.",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
Run = Annotated[
    str,
    typer.Argument(
        metavar="RUN",
        help="Id of a run, or the beginning of only one.",
        autocompletion=complete_run,
    ),
]
OptionalRun = Annotated[
    str | None,
    typer.Argument(
        metavar="RUN",
        help="Id of a run, or the beginning of only one; all live runs without it.",
        show_default=False,
        autocompletion=complete_run,
    ),
]
OfMachine = Annotated[
    str | None, typer.Option("--machine", metavar="NAME", help="Only runs of this machine.")
]
EXIT_CODES: Final = (
    "Exit codes: 0 all is well; 1 the answer is no: nothing fits, a refusal, a run that cannot be"
    " read; 2 an error, of which one line on stderr says what to do; 130 interrupted."
)


def place_of(file: Path | None) -> Path:
    """Return the file that a command is about."""
    return file or usual_place()


def require_run(run: str) -> None:
    """Refuse an empty RUN, which every id begins with."""
    if not run:
        message = "RUN is empty"
        raise typer.BadParameter(message)


def run_and_file(run: str | None, file: Path | None) -> tuple[str | None, Path | None]:
    """Tell a run from a file where a command takes both and either may be left out.

    One argument alone is a file if it has a slash in it or a file of that name lies here: no run
    that a host has started has a slash in its id.
    """
    if run is None or file is not None:
        return run, file
    require_run(run)
    with suppress(OSError, ValueError):  # what no path can be is no file
        if "/" in run or Path(run).is_file():
            return None, Path(run)
    return run, None


def opened(file: Path | None) -> RunFile:
    """Open the file that a command is about, to be looked at; say so if it is a copy of it."""
    path = place_of(file)
    stored = open_run_file(path)
    if stored.is_copy:
        tell(f"{str(path)!r} cannot be opened where it lies: this is a copy of it and its -wal")
    return stored
