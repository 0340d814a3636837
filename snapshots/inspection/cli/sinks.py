"""Where the bytes that a command makes go: standard output, or a file that only its owner reads."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import typer

from snapshots.database.errors import TargetExistsError
from snapshots.inspection.cli.options import EXIT_ERROR
from snapshots.inspection.copies.exporting import write_file
from snapshots.inspection.text.screen import leave, tell, write

if TYPE_CHECKING:
    from pathlib import Path

FORCE: Final = "--force"


def put(target: Path, data: bytes, *, beside: Path, is_forced: bool) -> None:
    """Write bytes to a file as `write_file` does, and say so; one that exists ends the command."""
    try:
        place = write_file(target, data, beside=beside, is_forced=is_forced)
    except TargetExistsError as error:
        tell(f"{error}, or give {FORCE}")
        raise typer.Exit(EXIT_ERROR) from error
    tell(f"{place!r}: {len(data)} bytes")


def pour(data: bytes) -> None:
    """Write bytes to standard output; a reader that has closed its end has seen enough."""
    sink: Any = getattr(sys.stdout, "buffer", None)
    if sink is None:  # a stream of text only, in a test or another program
        write(data.decode("utf-8", "backslashreplace"), sys.stdout)
        return
    try:
        sys.stdout.flush()
        sink.write(data)
        sink.flush()
    except OSError as error:
        leave(sys.stdout, error)
