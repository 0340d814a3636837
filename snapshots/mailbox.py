"""Events that other processes hand in for a run: accepted on disk, then settled once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.errors import LimitError
from snapshots.records import MailboxEntry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from snapshots.clock import Clock
    from snapshots.database import Row
    from snapshots.store import SqliteSnapshotStore

PUT: Final = """
insert into mailbox (run_id, kind, data, delivery, created_ms) values (?, ?, ?, ?, ?)"""
PENDING: Final = """
select id, run_id, kind, data, delivery, created_ms, outcome, settled_ms
from mailbox where id > ? and outcome is null order by id limit ?"""
ENTRY: Final = """
select id, run_id, kind, data, delivery, created_ms, outcome, settled_ms
from mailbox where id = ?"""
SETTLE: Final = "update mailbox set outcome = ?, settled_ms = ? where id = ? and outcome is null"


class Mailbox:
    """The mailbox of one file, written through the store that has it open.

    Writes carry the store's term, if it holds one: a process that only hands events in does
    not. Inside `store.transaction()` both become part of it.
    """

    def __init__(self, store: SqliteSnapshotStore, *, clock: Clock) -> None:
        """Use the file of `store`, which closes it."""
        self._store = store
        self._database = store.database
        self._clock = clock

    def put(self, run_id: str, kind: str, data: bytes, delivery: str | None = None) -> int:
        """Accept an event, and return its entry's number once it is on disk.

        Raises `LimitError` for more data than `MAILBOX_DATA_BYTES_MAX`, `FencedError` if the
        file has another owner than the store took it for.
        """
        if len(data) > limits.MAILBOX_DATA_BYTES_MAX:
            what, limit = "the size of the event in bytes", limits.MAILBOX_DATA_BYTES_MAX
            raise LimitError(what, limit, len(data), run_id)
        with self._database.writing(f"acceptance of an event for run {run_id!r}"):
            self._store.require_term()
            self._database.run(PUT, (run_id, kind, data, delivery, self._clock.now_ms()))
            return self._database.last_row()

    def pending(self, after: int = 0) -> list[MailboxEntry]:
        """Return the oldest unsettled entries beyond `after`, at most `MAILBOX_SLICE_ROWS`."""
        bindings = (after, limits.MAILBOX_SLICE_ROWS)
        return [_entry(row) for row in self._database.rows("read the mailbox", PENDING, bindings)]

    def entry(self, entry: int) -> MailboxEntry | None:
        """Return one entry, settled or not, None if there is none."""
        row = self._database.row("read the mailbox", ENTRY, (entry,))
        return None if row is None else _entry(row)

    def settle(self, entries: Iterable[int], outcome: str) -> int:
        """Give entries their outcome, and return how many had none before.

        Raises `FencedError` if the file has another owner than the store took it for.
        """
        settled, now = 0, self._clock.now_ms()
        with self._database.writing("settling of events"):
            self._store.require_term()
            for entry in entries:
                self._database.run(SETTLE, (outcome, now, entry))
                settled += self._database.changes()
        return settled


def _entry(row: Row) -> MailboxEntry:
    return MailboxEntry(
        entry=row[0],
        run_id=row[1],
        kind=row[2],
        data=row[3],
        delivery=row[4],
        created_ms=row[5],
        outcome=row[6],
        settled_ms=row[7],
    )
