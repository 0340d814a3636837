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
DIFFERENCES_SHOWN_MAX: Final = 200
# Of one machine, and alike in what is said of them.
RUNS_ALIKE_SHOWN_MAX: Final = 200
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

# The console: what one process on one machine, looked at by a few people, needs.
CONSOLE_READERS_MAX: Final = 4
CONSOLE_WAITING_MAX: Final = 32
CONSOLE_READ_MS_MAX: Final = 2_000
CONSOLE_LISTENERS_MAX: Final = 32
CONSOLE_CONNECTIONS_MAX: Final = 96
# How long a request takes to arrive: a connection that is only opened holds a place.
CONSOLE_REQUEST_MS_MAX: Final = 10_000
CONSOLE_LOOK_MS: Final = 250
# A browser is told at most so often, and hears at least so often that the line is there.
CONSOLE_NEWS_MS: Final = 500
CONSOLE_BEAT_MS: Final = 15_000
CONSOLE_PAGE_ROWS: Final = 50
CONSOLE_MACHINES_MAX: Final = 200
CONSOLE_LEDGER_ROWS_MAX: Final = 100
CONSOLE_BODY_BYTES_MAX: Final = 64 * 1024
CONSOLE_FIELDS_MAX: Final = 20
CONSOLE_URL_CHARS_MAX: Final = 4_000
CONSOLE_TOKEN_CHARS_MIN: Final = 16
CONSOLE_TOKEN_CHARS_MAX: Final = 400
CONSOLE_TOKEN_FILE_BYTES_MAX: Final = 4_096
CONSOLE_HEADERS_BYTES_MAX: Final = 16 * 1024
# How long a wrong token takes: guesses come one after another.
CONSOLE_REFUSAL_MS: Final = 200
CONSOLE_OUTCOME_MS: Final = 3_000
CONSOLE_DOCUMENT_LINES_MAX: Final = 5_000
CONSOLE_PICTURES_MAX: Final = 64
CONSOLE_PICTURE_STATES_MAX: Final = 200
CONSOLE_PICTURE_EDGES_MAX: Final = 600
CONSOLE_CHARTS_DRAWN_MAX: Final = 12
CONSOLE_GRACE_S: Final = 2

# More charts in one picture than that are counted, not drawn: a pool's workers look alike.
PICTURE_CHARTS_MAX: Final = 24
# A longer name makes its state wider than the rest of its chart.
PICTURE_NAME_CHARS_MAX: Final = 60
# A chart of 200 states takes a second or two; what takes longer is given up.
RENDER_S_MAX: Final = 30.0

# Across runs: how many live runs a list of effects, timers or gates reads, and its rows.
SURVEYED_RUNS_MAX: Final = 10_000
SURVEYED_HEADERS_MAX: Final = 100_000
SURVEY_MS_MAX: Final = 60_000
SURVEY_ROWS_DEFAULT: Final = 100
SURVEY_ROWS_MAX: Final = 10_000
UNREADABLE_SHOWN_MAX: Final = 5
METER_MS: Final = 100

# How often a watcher looks for changes; and after a look that took long it waits so many times
# as long, so that it never takes more than a small share of a processor.
WATCH_POLL_MS: Final = 100
WATCH_REST_FACTOR: Final = 4
WATCH_TIMEOUT_S_MAX: Final = 7 * 86_400.0
# How many runs are followed, the newest, and of how many that changed the content is read.
WATCH_RUNS_MAX: Final = 10_000
WATCH_READ_RUNS_MAX: Final = 64
WATCH_TABLE_ROWS_MAX: Final = 100
# How long a shell waits for the ids that it completes, and how many it gets.
COMPLETION_MS_MAX: Final = 200
COMPLETION_RUNS_MAX: Final = 50
# After a slice of a sweep that took so long, it rests so many times as long: others write then.
SWEEP_REST_FACTOR: Final = 3
