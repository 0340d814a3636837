"""Every bound of this package, unit last."""

from __future__ import annotations

from typing import Final

KIB: Final = 1024
MIB: Final = 1024 * KIB

# Where revisions begin: in the files of earlier schemas too, whose column for them keeps one width
# from there on.
REVISION_FIRST: Final = 2**33
# 2100-01-01T00:00Z: what stands for the due time of a run without timers.
NO_TIMER_MS: Final = 4_102_444_800_000
RUN_ID_CHARS_MAX: Final = 200
BLOB_BYTES_MAX: Final = 16 * MIB
# What a write that ends a run may have beyond the bound above, so that it always fits.
BLOB_ENDING_BYTES_MAX: Final = 64 * KIB
FIND_RUNS_MAX: Final = 20
HEADERS_ROWS_MAX: Final = 1_000
LIVE_SLICE_ROWS: Final = 32
SURVEY_SLICE_ROWS: Final = 250
# Enough for the inner pages of a file with millions of runs: a survey reads each other page once.
SURVEY_CACHE_BYTES_MAX: Final = 256 * KIB
SWEEP_SLICE_ROWS: Final = 100
# A slice ends sooner where rows are long: a deletion walks through all pages of a row.
SWEEP_SLICE_BYTES: Final = 64 * KIB
RETENTION_DAYS: Final = 7
RETENTION_MS: Final = RETENTION_DAYS * 24 * 60 * 60 * 1000

MAILBOX_SLICE_ROWS: Final = 100
MAILBOX_DATA_BYTES_MAX: Final = MIB
MAILBOX_SETTLED_DAYS: Final = 1
MAILBOX_SETTLED_MS: Final = MAILBOX_SETTLED_DAYS * 24 * 60 * 60 * 1000
MAILBOX_SWEEP_ROWS: Final = 100
MAILBOX_DELIVERY_CHARS_MAX: Final = 200

# orjson gives up at 254 nested containers, and a tagged value takes two of them.
VALUE_DEPTH_MAX: Final = 100
# A blob's parts are encoded each by itself, and lie in others when it is read.
BLOB_DEPTH_MAX: Final = 2 * VALUE_DEPTH_MAX
# A value takes two bytes at least, so more of them never make a blob.
VALUES_MAX: Final = BLOB_BYTES_MAX // 2
ERROR_TEXT_BYTES_MAX: Final = KIB
CLASS_NAME_CHARS_MAX: Final = 200
# How much of a key is shown in the path of a refused value.
PATH_PART_CHARS_MAX: Final = 60
DELIVERIES_MAX: Final = 256

# Room for the path of a chart deep in a tree, with the invocation that a row belongs to.
LEDGER_KEY_CHARS_MAX: Final = 4_000
# Settled rows of a growing ledger are joined by so many, and never encoded again.
CHUNK_ROWS: Final = 64
# How many damaged runs an error names.
DAMAGE_SHOWN_MAX: Final = 10
# How many keys an error names where another key was expected.
KEYS_SHOWN_MAX: Final = 10
ADMISSIONS_OPEN_MAX: Final = 1_000
ADMISSIONS_SETTLED_MAX: Final = 64
CONVERSATIONS_MAX: Final = 10_000
# As many digits as a whole number of 63 bits has.
EPOCH_DIGITS_MAX: Final = 19
NOTICES_OPEN_MAX: Final = 1_000
NOTICES_DELIVERED_MAX: Final = 256
PICKS_MAX: Final = 1_000
PUSH_SLOTS_MAX: Final = 1_000

KEY_CHARS_MAX: Final = 200
KEY_BYTES_MAX: Final = 512
KEYED_VALUE_BYTES_MAX: Final = MIB
CARRY_PAYLOAD_BYTES_MAX: Final = MIB
LIST_ROWS_MAX: Final = 1_000
TTL_YEARS_MAX: Final = 10
TTL_MS_MAX: Final = TTL_YEARS_MAX * 366 * 24 * 60 * 60 * 1000
CONTRACT_VERSION_MAX: Final = 2**31 - 1
# How much of what a contract has against a value is told.
CONTRACT_DETAIL_CHARS_MAX: Final = 500
DECIDED_DAYS: Final = 30
DECIDED_TTL_MS: Final = DECIDED_DAYS * 24 * 60 * 60 * 1000
# A shorter lease has lapsed before its holder could have done anything under it.
LEASE_TTL_MS_MIN: Final = 10
# How long a call waits for a transaction of the same workspace before it says busy.
WORKSPACE_WAIT_MS_MAX: Final = 5_000
POSTGRES_CONNECTIONS_MAX: Final = 8
# How long a call waits for a connection, a new one or one that another thread has.
POSTGRES_CONNECT_MS_MAX: Final = 10_000
# How long a transaction may say nothing: the server then ends it, so that a process that was
# frozen, or cut off, does not keep its workspace from the others.
POSTGRES_SILENT_MS_MAX: Final = 30_000

# An artifact, a patch, the data of a fact: each by itself, encoded.
WORKSPACE_VALUE_BYTES_MAX: Final = MIB
HISTORY_BYTES_MAX: Final = 16 * MIB
HISTORY_ROWS_MAX: Final = 100
# Entities, and lines of the log, that one transaction writes.
TRANSACTION_ENTRIES_MAX: Final = 1_000
LOG_ROWS_MAX: Final = 1_000
# How many lines are read at a time where some are left out, or somebody follows.
LOG_SLICE_ROWS: Final = 100
CLAIM_TTL_MS: Final = 30_000
# How long a subscription waits before it looks again, if nothing has told it to.
LOG_POLL_MS: Final = 100
LOG_POLL_MS_MAX: Final = 60_000
# How long a listener waits before it connects again.
LISTEN_RETRY_MS: Final = 50
LISTEN_RETRY_MS_MAX: Final = 5_000

SQLITE_VERSION_MIN: Final = "3.51.3"
PAGE_BYTES: Final = 4 * KIB
PAGE_CACHE_BYTES_MAX: Final = 64 * MIB
# What a sweep fills of it; beyond that its pages take the place of older ones. When the cache has
# 2,048 pages SQLite looks at each of them, for some milliseconds, and again when it has doubled.
SWEEP_CACHE_PAGES_MAX: Final = 2_000
# How long one statement waits for a writer in another process before it says busy.
BUSY_TIMEOUT_MS: Final = 500
# How much is shown of what the host that holds a file says of itself.
HOLDER_CHARS_MAX: Final = 120
# How long opening waits for others that open or create the same file.
OPEN_PATIENCE_MS: Final = 10_000
OPEN_RETRY_MS_MAX: Final = 50
CHECKPOINT_PAGES: Final = 1_000
CHECKPOINT_CATCH_UPS_MAX: Final = 4
# What may be left of the log when the gate is closed to copy it.
CHECKPOINT_REST_PAGES: Final = 32
# A shorter log is not started anew.
WAL_RESTART_BYTES: Final = 4 * MIB
# How many commits lie between two restarts at least: each holds up a few of them, and a sweep,
# which logs much in few commits, is not to make that more.
WAL_RESTART_COMMITS: Final = 1_500
# From this length on the log is started anew however few they were.
WAL_LONG_BYTES: Final = 12 * MIB
# From this length on a writer waits for the checkpoint under way, and how long at most.
WAL_BYTES_MAX: Final = 37 * MIB // 2
WAL_FULL_WAIT_MS: Final = 1_000
CHECKPOINT_IDLE_MS: Final = 1_000
# An idle log below this is left alone: restarting it costs the next save a sync.
WAL_IDLE_BYTES: Final = MIB
# Who commits no more often before it closes is a visitor, who leaves the log to the file's owner.
VISIT_COMMITS_MAX: Final = 8
# How often a backup says how far it is, and how many of SQLite's own steps pass between looks.
BACKUP_PROGRESS_MS: Final = 100
BACKUP_PROGRESS_STEPS: Final = 500
# How often a backup tries to get its file while others remove what was left of earlier ones.
BACKUP_CREATE_TRIES_MAX: Final = 10
CANVAS_BYTES_MIN: Final = 3_800
"""From what length on a blob has room in it, so that its parts keep their places: a shorter one
lies in one page, which is logged whole anyway."""
OVERWRITTEN_BYTES_MIN: Final = 64 * KIB
"""From what length on only what changed of a blob is written: of a shorter one all of it is as
fast."""
TRAIL_ENTRIES_MAX: Final = 64
TRAIL_BYTES_MAX: Final = 2_400
TRAIL_EVENT_CHARS_MAX: Final = 200
