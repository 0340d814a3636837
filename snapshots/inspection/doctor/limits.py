"""Bounds of an examination, unit last."""

from __future__ import annotations

from typing import Final

# How long an examination that is not deep spends on each long question.
CHECK_MS_MAX: Final = 5_000
ROWS_MS_MAX: Final = 10_000
ROWS_MAX: Final = 10_000
# A deep one takes as long as it takes; this is beyond any file that can be.
DEEP_MS_MAX: Final = 7 * 86_400_000
IDS_SLICE_ROWS: Final = 1_000
# How many of one kind are kept in a finding, and how many of them are shown.
ITEMS_MAX: Final = 1_000
ITEMS_SHOWN_MAX: Final = 5
FAULTS_MAX: Final = 20

# What the log may take of the disk, several times over: saves stop when there is no more.
DISK_BYTES_MIN: Final = 64 * 1024 * 1024
# A host looks at its mailbox and its timers several times a second.
PATIENCE_MS: Final = 60_000
# A reader that is seen twice so long apart is no short question.
READER_LOOK_S: Final = 0.2
PROCESS_NAME_CHARS_MAX: Final = 60
LOCK_FILE_BYTES_MAX: Final = 400
