"""The command that serves the console."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from snapshots.errors import ExtraNotInstalledError, StorageError
from snapshots.inspection.cli.options import EXIT_OK, File, opened, place_of
from snapshots.inspection.limits import CONSOLE_TOKEN_FILE_BYTES_MAX
from snapshots.inspection.text.screen import tell, write

PORT_DEFAULT: Final = 8_321
_PORT_MAX: Final = 65_535
_EXTRA: Final = frozenset({"starlette", "uvicorn", "h11", "jinja2", "markupsafe"})


def console(
    file: File = None,
    *,
    port: Annotated[
        int, typer.Option("--port", min=0, max=_PORT_MAX, help="Port to listen on; 0: any free.")
    ] = PORT_DEFAULT,
    token: Annotated[
        str | None,
        typer.Option("--token", metavar="TOKEN", help="Let who knows it answer and settle."),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="PATH", help="The same, the token read from a file."),
    ] = None,
) -> int:
    """Serve pages about the file on 127.0.0.1, until Ctrl-C.

    They only look, unless there is a token: then gates can be answered and effects in doubt be
    settled by who enters it.
    """
    if token is not None and token_file is not None:
        message = "give one of --token and --token-file"
        raise typer.BadParameter(message)
    try:
        from snapshots.inspection.console.serving import serve  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        extra, needed_for = "console", "the console"
        raise ExtraNotInstalledError(extra, needed_for) from error
    # What is wrong with the file is told here, and not on the first page.
    opened(file).close()
    secret = token if token_file is None else _read_token(token_file)
    try:
        serve(place_of(file), port=port, token=secret, told=_tell_address)
    except KeyboardInterrupt:
        tell("the console has ended")
    return EXIT_OK


COMMANDS: Final = (console,)


def _tell_address(address: str) -> None:
    write(f"{address}\n", sys.stdout)
    sys.stdout.flush()


def _read_token(path: Path) -> str:
    operation = "read the token"
    try:
        with path.open("rb") as stream:
            data = stream.read(CONSOLE_TOKEN_FILE_BYTES_MAX + 1)
        return data.decode("ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no ASCII"
        hint = "expected a file that holds the token and nothing else"
        raise StorageError(operation, str(path), hint, detail=why or "") from error
