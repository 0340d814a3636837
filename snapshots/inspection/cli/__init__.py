"""The command `snapshots`: the way in, which says so where the extra `cli` is missing."""

from __future__ import annotations

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


def main() -> None:
    """Run the command of this process's arguments and exit with its code.

    0 is well, 1 a negative answer, 2 an error, of which one line on stderr says what to do.
    """
    sys.exit(run(sys.argv[1:]))


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


if __name__ == "__main__":
    main()
