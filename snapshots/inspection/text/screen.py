"""What a stream can show, and renderables as the text for it: plain unless it is a terminal."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from typing import TYPE_CHECKING, Final, TextIO

from rich.console import Console

from snapshots.errors import SnapshotsError
from snapshots.inspection.limits import (
    COLUMNS_MAX,
    COLUMNS_MIN,
    COLUMNS_UNKNOWN,
    LINE_CHARS_MAX,
)
from snapshots.inspection.printable import visible

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import RenderableType

PROGRAM: Final = "snapshots"

_DRAWN: Final = "●○├─└│"


class OutputError(SnapshotsError):
    """What a command prints cannot be written; what it has done before is done. Field: `reason`."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return (
            f"the output cannot be written ({self.reason}): make room or send it elsewhere;"
            " what the command was to do besides is done"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """What can be shown: how many columns, whether in color, whether in more than ASCII.

    A stream that is no terminal has so many columns that nothing is ever wrapped: a program or a
    file reads it, line by line.
    """

    columns: int
    is_colored: bool
    is_ascii: bool


def screen_of(stream: TextIO, environ: Mapping[str, str]) -> Screen:
    """Look at a stream, and at `COLUMNS` and `NO_COLOR` (https://no-color.org)."""
    is_terminal = stream.isatty()
    return Screen(
        columns=_columns(stream, environ, is_terminal=is_terminal),
        is_colored=is_terminal and not is_dumb(environ) and not environ.get("NO_COLOR"),
        is_ascii=not _can_draw(stream.encoding),
    )


def is_dumb(environ: Mapping[str, str]) -> bool:
    """Whether a terminal says that it obeys no escape sequence."""
    return environ.get("TERM", "") in {"", "dumb"}


def rendered(renderable: RenderableType, screen: Screen) -> str:
    """Return the text of a renderable, with escape sequences only on a colored screen."""
    console = Console(
        file=StringIO(),
        width=screen.columns,
        force_terminal=screen.is_colored,
        color_system="standard" if screen.is_colored else None,
        no_color=not screen.is_colored,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )
    with console.capture() as captured:
        console.print(renderable, overflow="fold")
    return "".join(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def write(text: str, stream: TextIO) -> bool:
    """Write `text`; what the stream's encoding cannot say appears as an escape.

    A reader that has closed its end, `head` for one, has seen what it wanted: then it is False.
    Raises OutputError for a stream that takes nothing, on a full disk for one.
    """
    encoding = stream.encoding or "ascii"
    try:
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        stream.flush()
    except OSError as error:
        leave(stream, error)
        return False
    return True


def leave(stream: TextIO, error: OSError) -> None:
    """Write no more to a stream that has failed, so that the end of the program finds it well.

    Raises OutputError, unless its reader has closed its end and so has seen what it wanted.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
    if not isinstance(error, BrokenPipeError):
        raise OutputError(error.strerror or str(error)) from error


def tell(message: str) -> None:
    """Write one line to stderr, whatever the message holds; where that fails, nobody is told."""
    line = f"{PROGRAM}: {visible(message, chars_max=LINE_CHARS_MAX)}\n"
    try:
        sys.stderr.write(line)
    except OSError as error:
        with suppress(OutputError):
            leave(sys.stderr, error)


def _columns(stream: TextIO, environ: Mapping[str, str], *, is_terminal: bool) -> int:
    asked = environ.get("COLUMNS", "")
    if asked.isdecimal() and int(asked) > 0:
        columns = int(asked)
    elif not is_terminal:
        return COLUMNS_MAX
    else:
        try:
            columns = os.get_terminal_size(stream.fileno()).columns
        except (OSError, ValueError):
            columns = 0
    return min(max(columns or COLUMNS_UNKNOWN, COLUMNS_MIN), COLUMNS_MAX)


def _can_draw(encoding: str | None) -> bool:
    try:
        _DRAWN.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
