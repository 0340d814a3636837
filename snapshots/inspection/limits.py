"""Bounds of what inspection reads and shows, unit last."""

from __future__ import annotations

from typing import Final

# A question to a live file that takes longer is a question too wide.
READ_MS_MAX: Final = 5_000
# How many of SQLite's own steps pass between two looks at the clock.
PROGRESS_STEPS: Final = 1_000
RUNS_LISTED_DEFAULT: Final = 50

CHART_DEPTH_MAX: Final = 64
STATE_DEPTH_MAX: Final = 64

NAME_CHARS_MAX: Final = 120
VALUE_CHARS_MAX: Final = 400
LINE_CHARS_MAX: Final = 2_000
VALUE_DEPTH_SHOWN_MAX: Final = 24
LEDGER_ROWS_SHOWN_MAX: Final = 20
# Below this a wrapped last column is harder to read than a line of its own.
LAST_COLUMN_CHARS_MIN: Final = 24

COLUMNS_MIN: Final = 20
COLUMNS_UNKNOWN: Final = 80
# Wider than any line, so that what a program reads is not wrapped.
COLUMNS_MAX: Final = 100_000
# From here on every column of the list of runs has room beside a run id of 36 characters.
LIST_COLUMNS_MIN: Final = 120
REASON_CHARS_MAX: Final = 1_000

# How long a command waits for what a host makes of its entry, and how often it looks.
WAIT_S_DEFAULT: Final = 5.0
WAIT_S_MAX: Final = 86_400.0
OUTCOME_POLL_MS: Final = 50
# How much of what was handed in for a run is shown.
MAIL_ROWS_MAX: Final = 100
