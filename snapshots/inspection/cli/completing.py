"""What a shell may complete: ids of runs out of the file that a command would look at."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from snapshots.errors import SnapshotsError
from snapshots.inspection.limits import COMPLETION_MS_MAX, COMPLETION_RUNS_MAX
from snapshots.inspection.queries.browsing import ids_of
from snapshots.inspection.queries.files import open_run_file

FILE_VARIABLE: Final = "SNAPSHOTS_FILE"
FILE_DEFAULT: Final = "state.db"


def usual_place() -> Path:
    """Return the file that a command is about if none is named."""
    return Path(os.environ.get(FILE_VARIABLE) or FILE_DEFAULT)


def complete_run(incomplete: str) -> list[tuple[str, str]]:
    """Return ids that begin with what was typed, the newest first, each with a few words on it.

    Of the usual file only, since the one that stands behind the id is not typed yet. Nothing is
    said where there is none, and nothing is waited for: a shell asks at each press of a key.
    """
    if not usual_place().is_file():
        return []
    try:
        with open_run_file(usual_place(), read_ms_max=COMPLETION_MS_MAX) as file:
            # The order of ids is that of time: the newest are most often meant.
            found = ids_of(file, incomplete, rows_max=COMPLETION_RUNS_MAX)
    except (SnapshotsError, OSError):
        return []
    # A shell takes words: what could be more than one, or be obeyed, is left out.
    return [
        (run, f"{status} {machine}") for run, machine, status in found if _is_word(run + machine)
    ]


def _is_word(text: str) -> bool:
    return text.isascii() and text.replace("-", "").replace("_", "").replace(".", "").isalnum()
