"""Checkpoints of the write-ahead log, done by a thread so that no save waits for a sync."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import apsw

from snapshots import limits
from snapshots.database.places import LOG_AND_INDEX, wal_bytes
from snapshots.database.translation import translate
from snapshots.errors import StorageError, StorageUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_MS_PER_S: Final = 1_000
_OK: Final = apsw.SQLITE_OK
# What SQLite itself uses where there is one: it leaves out times, which would cost a journal.
_SYNC: Final = getattr(os, "fdatasync", os.fsync)


class Gate:
    """What a transaction passes and a checkpoint may close.

    A writer takes `room` for its transaction; a checkpoint takes both. While one closes the gate,
    which `is_closing` says, writers come through `turnstile`: without that a busy one would take
    the room again before the thread wakes.
    """

    __slots__ = ("is_closing", "room", "turnstile")

    def __init__(self) -> None:
        self.is_closing = False
        self.turnstile = threading.Lock()
        self.room = threading.Lock()

    def enter(self) -> None:
        """Take the room, which the writer gives back at the end of its transaction."""
        if self.is_closing:
            self.turnstile.acquire()
            self.turnstile.release()
        self.room.acquire()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Let the transaction that is under way end, and none begin before the block does."""
        with self.turnstile:
            self.is_closing = True
            try:
                with self.room:
                    yield
            finally:
                self.is_closing = False


class Checkpoints:
    """Copies one file's log back into the file, beside its writer.

    SQLite tells `committed` of each commit. Once `CHECKPOINT_PAGES` were written since the
    last attempt, the thread runs a PASSIVE checkpoint, for which nobody waits, and
    then syncs the file: SQLite syncs it only in a checkpoint that reaches the log's end,
    and that one would pay for all before it. Where the next attempt would find more than
    `WAL_RESTART_BYTES`, and `WAL_RESTART_COMMITS` were made since the log began or it would be
    longer than `WAL_LONG_BYTES`, the thread goes on until little is left, closes the gate and
    runs a last PASSIVE, which reaches the end, so that the next commit starts the log anew. A
    reader may keep it from that; saves go on, and it is tried again. A writer that is
    faster than the disk waits at `WAL_BYTES_MAX` until the attempt under way has ended.
    A log that nobody has added to for a while is cut to nothing.

    An error is kept for the next save, which calls `admit`, or the closing. Each time the thread
    wakes it also looks whether the file is still where it was, as nothing tells a writer when it
    is moved or removed: what is saved then is gone with the last connection. While it is not,
    every save is refused.
    """

    def __init__(self, path: str, connection: apsw.Connection, gate: Gate, descriptor: int) -> None:
        """Prepare for the file at `path`; `descriptor` is open on it and stays so.

        `connection` has read the file before, and only checkpoints use it.
        """
        self._path = path
        self._descriptor = descriptor
        self._gate = gate
        self._connection = connection
        parts = (path, *(f"{path}{part}" for part in LOG_AND_INDEX))
        self._parts = [(part, os.stat(part)) for part in parts]  # noqa: PTH116 - on text
        self._page_bytes: int = connection.pragma("page_size")
        # A log that an earlier process left counts as written and not yet looked at. This is
        # an upper bound: what lies behind the log's end may be left from before it restarted.
        self._pages = wal_bytes(path) // self._page_bytes
        self._pages_attempted = 0
        self._pages_copied = 0
        self._commits = 0
        self._commits_before = 0  # how many there were when the log began
        self._is_full = self._is_awaited = False
        self._is_held = False
        self.is_resting = False
        self._is_stopping = False
        self._wake = threading.Event()
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: StorageError | None = None
        self._absence: StorageError | None = None
        """What says that the file is gone: untrue once it is back."""
        self.count = 0
        self.longest_stall_ns = 0

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="snapshots-checkpoints", daemon=True)
        self._thread.start()

    def committed(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        """Note a commit, as SQLite's WAL hook: `pages` is the length of the log now."""
        self._commits += 1
        if pages < self._pages:  # the log was started anew
            self._commits_before = self._commits - 1
            self._pages_attempted = self._pages_copied = 0
            self._is_held = False
        self._pages = pages
        if not self._is_held and pages * self._page_bytes >= limits.WAL_BYTES_MAX:
            self._is_full = True
        if self.is_resting or pages - self._pages_attempted >= limits.CHECKPOINT_PAGES:
            self._wake.set()
        return _OK

    def admit(self) -> None:
        """Let a writer begin: raise what has failed, and wait if the log is full."""
        if self._failure is not None:
            self.raise_failure()
        if self._is_full:
            self._wait_for_an_attempt()

    def raise_failure(self) -> None:
        """Raise what went wrong since the last call; that the file is gone, until it is back."""
        failure = self._failure
        if failure is None:
            return
        if failure is not self._absence:
            self._failure = None
        elif self._is_in_place():
            self._failure = None
            return
        raise failure

    def close(self) -> None:
        """Stop the thread, empty the log if nobody else uses it, close the connection.

        Who has committed no more than `VISIT_COMMITS_MAX` times leaves the log to those who
        have the file open, and syncs it: to empty it would hold up their saves, as it is done
        under the writer's lock and makes their next commit wait for the disk. If nobody has,
        SQLite empties it as the last connection closes. The gate must be open, and the writer
        in no transaction.
        """
        self._is_stopping = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        try:
            if self._failure is self._absence:
                self._failure = None  # unless it is true now, and matters
            if self._commits and not self._is_in_place():
                self._failure = self._absence = self._gone()
            elif self._commits > limits.VISIT_COMMITS_MAX:
                self._guard(self.truncate)
            elif self._commits:
                self._guard(self._sync_log)
        finally:
            self._connection.close()

    def advance(self) -> None:
        """Copy what is new in the log; if it is long, let the next commit start it anew."""
        before = self._pages_attempted = self._pages
        is_whole = self._copy()
        # As much as came during this attempt will come during the next one.
        if not self._is_worth_restarting(2 * self._pages - before):
            return
        # What was written during the sync is copied behind the gate: let it be little.
        left = self._pages - self._pages_copied
        for _ in range(limits.CHECKPOINT_CATCH_UPS_MAX):
            if not is_whole or left <= limits.CHECKPOINT_REST_PAGES:
                break
            before, is_whole = left, self._copy()
            left = self._pages - self._pages_copied
            if 2 * left > before:  # the writer is as fast as the disk
                break
        # A reader that pins the log keeps it from starting anew, and closing the gate would
        # only make saves wait.
        if is_whole:
            self._copy_behind_gate(apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _is_worth_restarting(self, pages: int) -> bool:
        """Whether a log of so many pages is worth the stall of starting it anew."""
        length = pages * self._page_bytes
        if length > limits.WAL_LONG_BYTES:
            return True
        commits = self._commits - self._commits_before
        return length > limits.WAL_RESTART_BYTES and commits >= limits.WAL_RESTART_COMMITS

    def truncate(self) -> None:
        """Copy the whole log and cut it to no bytes, if nobody else reads or writes now."""
        self._pages_attempted = self._pages
        if self._copy():
            self._copy_behind_gate(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _sync_log(self) -> None:
        """Sync the log as it lies there: no lock is needed, and nobody waits."""
        try:
            # SQLite has no locks on this file that closing a descriptor could drop.
            descriptor = os.open(f"{self._path}-wal", os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # it was emptied and removed: all of it is in the file
            return
        try:
            _SYNC(descriptor)
        finally:
            os.close(descriptor)

    def _copy(self) -> bool:
        """Run a PASSIVE and sync the file: whether it has about reached the log's end.

        It has not if a reader pins the log, or if another process is checkpointing, which
        serves as well. A save that is under way keeps it from the last few pages.
        """
        try:
            pages, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.BusyError:
            self._is_held = True
            return False
        _SYNC(self._descriptor)
        self._pages_copied = copied
        self.count += 1
        self._is_held = pages - copied > limits.CHECKPOINT_REST_PAGES
        return not self._is_held

    def _copy_behind_gate(self, mode: int) -> None:
        """Checkpoint while no save of this process runs, and note how long they waited."""
        closed_ns = time.monotonic_ns()
        with self._gate.closed():
            try:
                pages, _ = self._connection.wal_checkpoint(mode=mode)
            except apsw.BusyError:
                pages = None  # another process reads or writes: normal, and tried again
            if pages == 0:
                self._pages = self._pages_attempted = self._pages_copied = 0
                self._commits_before = self._commits
            # If the next commit does not start the log anew, somebody else is in the way.
            self._is_held = pages != 0
            self._pages_attempted = self._pages
        self.longest_stall_ns = max(self.longest_stall_ns, time.monotonic_ns() - closed_ns)

    def _wait_for_an_attempt(self) -> None:
        """Have the writer wait until the attempt under way has ended, well or not."""
        self._is_full, self._is_awaited = False, True
        start_ns = time.monotonic_ns()
        self._ended.clear()
        self._wake.set()
        self._ended.wait(limits.WAL_FULL_WAIT_MS / _MS_PER_S)
        self.longest_stall_ns = max(self.longest_stall_ns, time.monotonic_ns() - start_ns)

    def _run(self) -> None:
        """Wait for work until the handle is closed: the body of the thread."""
        commits_seen = -1
        while True:
            timed_out = not self._wake.wait(self._patience_s(commits_seen))
            self._wake.clear()
            if self._is_stopping:
                return
            is_due = self._pages - self._pages_attempted >= limits.CHECKPOINT_PAGES
            if not self._is_in_place():
                self._failure = self._absence = self._gone()
            elif is_due or self._is_awaited:
                self._guard(self.advance)
                self._is_awaited = False
            elif timed_out and commits_seen == self._commits and self._is_long:
                self._guard(self.truncate)
            commits_seen = self._commits
            self._ended.set()

    def _patience_s(self, commits_seen: int) -> float | None:
        """How long to wait: for ever, until a commit wakes the thread, if all is at rest."""
        self.is_resting = True  # before looking, so that a commit that is not seen wakes us
        if commits_seen == self._commits and not self._is_long:
            return None
        self.is_resting = False
        return limits.CHECKPOINT_IDLE_MS / _MS_PER_S

    @property
    def _is_long(self) -> bool:
        """Whether the log is worth cutting when nobody adds to it."""
        return bool(self._pages * self._page_bytes >= limits.WAL_IDLE_BYTES)

    def _is_in_place(self) -> bool:
        """Whether file, log and index are where they were opened, as far as one can see."""
        try:
            return all(os.path.samestat(os.stat(part), was) for part, was in self._parts)  # noqa: PTH116 - on text
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True

    def _gone(self) -> StorageError:
        hint = (
            "what was saved since then may end with this process: put what is missing back before"
            " that, or end it and open what is there now"
        )
        detail = "it, its -wal or its -shm was moved, removed or replaced while it was open"
        return StorageUnavailableError("save", self._path, hint, detail=detail)

    def _guard(self, work: Callable[[], None]) -> None:
        """Do `work`, and keep what it raises: nobody waits for this thread's errors."""
        try:
            work()
        except apsw.Error as error:
            self._failure = translate(error, "checkpoint", self._path)
            self._failure.__cause__ = error
        except OSError as error:
            hint = "the disk refused to sync; saves so far are in the log"
            self._failure = StorageUnavailableError(
                "checkpoint", self._path, hint, detail=str(error)
            )
            self._failure.__cause__ = error
        except Exception as error:  # noqa: BLE001 - kept and raised by the next save or close
            hint = "an unexpected error, which is a bug; please report it"
            self._failure = StorageError("checkpoint", self._path, hint, detail=repr(error))
            self._failure.__cause__ = error
