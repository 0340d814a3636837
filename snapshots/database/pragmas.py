"""Each setting of a connection: a function that says why, and reads back what it set."""

from __future__ import annotations

from typing import Final

import apsw

from snapshots import limits
from snapshots.errors import StorageError

# Pragmas go through `Connection.pragma` and never through `execute`: SQLite runs several of
# them while it prepares them, so one from the statement cache would do nothing.

_SET_UP: Final = "set up"
# What SQLite counts for a page of its cache, with what it notes of it.
_HELD_PAGE_BYTES: Final = limits.PAGE_BYTES + 256
_SYNCHRONOUS_NORMAL: Final = 1
_SYNCHRONOUS_FULL: Final = 2


def _verify(connection: apsw.Connection, name: str, expected: object, hint: str) -> None:
    """Compare a setting with what was asked for: SQLite ignores what it cannot do."""
    actual = connection.pragma(name)
    if actual != expected:
        said = f"{name} is {actual!r}, expected {expected!r}"
        raise StorageError(_SET_UP, connection.filename, hint, detail=said)


def wait_briefly_for_other_processes(connection: apsw.Connection) -> None:
    """Let a statement outlast another process's commit instead of failing at once.

    Briefly, because the caller may be an event loop, and because SQLite's handler sleeps
    1, 2, 5, 10 … ms between its tries, however early the lock is released.
    """
    connection.set_busy_timeout(limits.BUSY_TIMEOUT_MS)
    _verify(connection, "busy_timeout", limits.BUSY_TIMEOUT_MS, "the waiting time is not taken")


def never_wait(connection: apsw.Connection) -> None:
    """Take busy for an answer: for a connection that checkpoints.

    RESTART and TRUNCATE hold the write lock while they wait for readers, so a checkpoint
    that waits would make every writer wait with it.
    """
    connection.set_busy_timeout(0)
    _verify(connection, "busy_timeout", 0, "the waiting time is not taken")


def is_wal(connection: apsw.Connection) -> bool:
    """Ask for a write-ahead log and say whether the file has one now.

    Readers and the one writer then do not wait for each other, and a commit costs no sync.
    SQLite answers with the mode in force and no error where it cannot switch, for instance
    while another connection has the file open in rollback mode.
    """
    return bool(connection.pragma("journal_mode", "wal") == "wal")


def sync_at_checkpoints(connection: apsw.Connection) -> None:
    """`synchronous=NORMAL`: a commit survives the process, a checkpoint survives power.

    With a write-ahead log a power loss then leaves an exact prefix of the commits
    (https://sqlite.org/pragma.html#pragma_synchronous).
    """
    connection.pragma("synchronous", "normal")
    _verify(connection, "synchronous", _SYNCHRONOUS_NORMAL, "this level of syncing is not taken")


def sync_at_commit(connection: apsw.Connection) -> None:
    """`synchronous=FULL`: the next commit syncs the log, and with it all commits before.

    It has no effect inside a transaction, so it is set before BEGIN.
    """
    connection.pragma("synchronous", "full")
    _verify(connection, "synchronous", _SYNCHRONOUS_FULL, "this level of syncing is not taken")


def never_map_the_file(connection: apsw.Connection) -> None:
    """`mmap_size=0`: an I/O error is then an error code, and not a SIGBUS of the process."""
    connection.pragma("mmap_size", 0)
    _verify(connection, "mmap_size", 0, "the file must not be mapped")


def cut_a_restarted_log(connection: apsw.Connection) -> None:
    """`journal_size_limit`: a log that outgrew its cap is cut when it starts anew."""
    connection.pragma("journal_size_limit", limits.WAL_BYTES_MAX)
    hint = "the write-ahead log must be bounded"
    _verify(connection, "journal_size_limit", limits.WAL_BYTES_MAX, hint)


def never_checkpoint_in_a_commit(connection: apsw.Connection) -> None:
    """`wal_autocheckpoint=0`: else every 1,000th page makes one commit wait for two syncs."""
    connection.wal_autocheckpoint(0)
    _verify(connection, "wal_autocheckpoint", 0, "checkpoints must stay out of commits")


def keep_live_pages(connection: apsw.Connection) -> None:
    """`cache_size`: hold the pages of the live runs, since an overwrite reads them first.

    Memory is taken only as pages are used. A negative value counts KiB.
    """
    kib = limits.PAGE_CACHE_BYTES_MAX // limits.KIB
    connection.pragma("cache_size", -kib)
    _verify(connection, "cache_size", -kib, "the page cache must be bounded")


def keep_few_pages(connection: apsw.Connection) -> None:
    """`cache_size`: hold no more than a survey of the file needs, and let go of what is more."""
    kib = limits.SURVEY_CACHE_BYTES_MAX // limits.KIB
    connection.pragma("cache_size", -kib)


def recycle_pages(connection: apsw.Connection) -> None:
    """`cache_size`: hold no more pages than are held now, or than a sweep may fill.

    What is read next then takes the place of what nobody has used for the longest time.
    """
    held_bytes, _ = connection.status(apsw.SQLITE_DBSTATUS_CACHE_USED)
    # What is held counts a page that is none; and SQLite holds one more than it is asked to.
    held = held_bytes // _HELD_PAGE_BYTES - 2
    connection.pragma("cache_size", max(held, limits.SWEEP_CACHE_PAGES_MAX))


def use_small_pages(connection: apsw.Connection) -> None:
    """`page_size=4096` for a file that is still empty: the log takes whole pages.

    A save of a long row logs the pages that differ, so larger pages log more.
    """
    connection.pragma("page_size", limits.PAGE_BYTES)


def keep_temporary_data_in_memory(connection: apsw.Connection) -> None:
    """`temp_store=memory`: no content of a run in files that live outside the database."""
    connection.pragma("temp_store", "memory")
    _verify(connection, "temp_store", 2, "temporary data must stay in memory")


def distrust_the_schema(connection: apsw.Connection) -> None:
    """`trusted_schema=off`: a file cannot make this program call functions of its choice."""
    connection.pragma("trusted_schema", False)  # noqa: FBT003 - the pragma's own value
    _verify(connection, "trusted_schema", 0, "the schema must not be trusted")


def only_read(connection: apsw.Connection) -> None:
    """`query_only`: a second lock on the door of a connection that was opened to read."""
    connection.pragma("query_only", True)  # noqa: FBT003 - the pragma's own value
    _verify(connection, "query_only", 1, "the connection must not write")
