"""What several commands take and return: the file of the runs, one JSON document, exit codes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Final

import typer

from snapshots.inspection.queries import RunFile, open_run_file
from snapshots.inspection.screen import tell

FILE_VARIABLE: Final = "SNAPSHOTS_FILE"
FILE_DEFAULT: Final = "state.db"

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


def place_of(file: Path | None) -> Path:
    """Return the file that a command is about."""
    return file or Path(os.environ.get(FILE_VARIABLE) or FILE_DEFAULT)


def opened(file: Path | None) -> RunFile:
    """Open the file that a command is about, to be looked at; say so if it is a copy of it."""
    path = place_of(file)
    stored = open_run_file(path)
    if stored.is_copy:
        tell(f"{str(path)!r} cannot be opened where it lies: this is a copy of it and its -wal")
    return stored
