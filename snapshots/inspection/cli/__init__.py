"""The command `snapshots`: the way in, which says so where the extra `cli` is missing."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXTRA: Final = frozenset({"typer", "rich"})
_MISSING: Final = (
    "snapshots: the command line needs an extra that is not installed here:"
    ' pip install "machine-snapshots[cli]"\n'
)
_EXIT_ERROR: Final = 2
_EXIT_INTERRUPTED: Final = 130


def main() -> None:
    """Run the command of this process's arguments and exit with its code.

    0 is well, 1 a negative answer, 2 an error, of which one line on stderr says what to do.
    """
    _open_closed_streams()
    try:
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # while modules are loaded: from then on a command answers it
        code = _EXIT_INTERRUPTED
    sys.exit(code)


def _open_closed_streams() -> None:
    """Put the null device where standard streams were closed (`>&-`).

    A file of runs, or a copy of one, would get their number, and then what is printed.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # it gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            stream = open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
            setattr(sys, name, stream)


def run(arguments: Sequence[str]) -> int:
    """Run the command that `arguments` name and return its exit code."""
    try:
        from snapshots.inspection.cli.app import call  # noqa: PLC0415 - it needs the extra
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _EXTRA:
            raise
        sys.stderr.write(_MISSING)
        return _EXIT_ERROR
    return call(arguments)
