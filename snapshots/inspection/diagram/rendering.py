"""Runs Graphviz: the program of the extra, or the `dot` that is on the path."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from snapshots.errors import ExtraNotInstalledError, SnapshotsError
from snapshots.inspection.limits import REASON_CHARS_MAX, RENDER_S_MAX
from snapshots.inspection.printable import visible

EXTRA: Final = "console"
PROGRAM: Final = "graphviz-pure"
FALLBACK: Final = "dot"

_NOT_RANKED: Final = "init_rank"


class DrawingError(SnapshotsError):
    """Graphviz drew nothing.

    Fields: `program`; `detail`, what it said of it.
    """

    def __init__(self, program: str, detail: str) -> None:
        self.program = program
        self.detail = detail
        super().__init__(
            f"{program!r} drew no picture: {detail or 'it said nothing'};"
            " ask for DOT, and draw that elsewhere"
        )


def graphviz(dot: str, form: str) -> bytes:
    """Return DOT drawn as `form` ("svg", "png").

    Raises `ExtraNotInstalledError` where no Graphviz is found, `DrawingError` where it fails.
    """
    program = _program()
    data = dot.encode()
    try:
        return _drawn(program, data, f"-T{form}")
    except DrawingError as error:
        # Of edges that lead in and out of nested clusters Graphviz sometimes makes a circle that
        # it cannot rank ("trouble in init_rank"). Its other way to rank can, and is less pretty.
        if _NOT_RANKED not in error.detail:
            raise
        return _drawn(program, data, f"-T{form}", "-Gnewrank=true")


def _drawn(program: str, data: bytes, *options: str) -> bytes:
    try:
        done = subprocess.run(  # noqa: S603 - a program found by its own name, and no shell
            [program, *options],
            input=data,
            capture_output=True,
            check=False,
            timeout=RENDER_S_MAX,
        )
    except subprocess.TimeoutExpired as error:
        detail = f"it took more than {RENDER_S_MAX} s"
        raise DrawingError(program, detail) from error
    except OSError as error:
        raise DrawingError(program, str(error)) from error
    if done.returncode or not done.stdout:
        said = done.stderr.decode(errors="replace").strip()
        raise DrawingError(program, visible(said, chars_max=REASON_CHARS_MAX))
    return done.stdout


def _program() -> str:
    # A virtual environment that is not activated has its programs beside its interpreter.
    for folder in (str(Path(sys.executable).parent), sysconfig.get_path("scripts"), None):
        found = shutil.which(PROGRAM, path=folder)
        if found is not None:
            return found
    found = shutil.which(FALLBACK)
    if found is None:
        raise ExtraNotInstalledError(EXTRA, "drawing SVG and PNG")
    return found
