"""What other processes hand in for a run: accepted on disk, then settled once.

An entry's `kind` says what it asks for, its `data` is JSON, `value`s in the codec's form:

```
send      {"event": text, "data": {name: value, …}}
answer    {"gate": text, "event": text, "data": {name: value, …}}
resolve   {"effect": text, "attempt": number, one of "done": value, "failed": text, "again": true}
cancel    {"reason": text or null}
revive    {}
```

Its outcome is `taken`, `taken before` (an event whose delivery the run has had already) or
`refused: ` and the reason.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.clock import SystemClock
from snapshots.database.slices import fitting
from snapshots.errors import InvalidKeyError, LimitError
from snapshots.identifiers import check_row_id, check_storable
from snapshots.records import MailboxEntry, PendingEntry
from snapshots.store.reading import text_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from snapshots.clock import Clock
    from snapshots.database import Row
    from snapshots.store import SqliteSnapshotStore

TAKEN: Final = "taken"
TAKEN_BEFORE: Final = "taken before"
REFUSED: Final = "refused: "

PUT: Final = """
insert into mailbox (run_id, kind, data, delivery, created_ms) values (?, ?, ?, ?, ?)"""
# `indexed by`: what was settled is many times what is pending, and must not be walked over.
# Texts are cast, so that damaged UTF-8 in one entry hides no other.
PENDING: Final = """
select id, cast(run_id as blob), cast(kind as blob) from mailbox indexed by mailbox_pending
where outcome is null and id > ? order by id limit ?"""
ENTRY: Final = """
select id, cast(run_id as blob), cast(kind as blob), ifnull(substr(data, 1, ?), x''),
  cast(delivery as blob), created_ms, cast(outcome as blob), settled_ms
from mailbox where id = ?"""
SETTLE: Final = "update mailbox set outcome = ?, settled_ms = ? where id = ? and outcome is null"
SWEPT: Final = """
select length(data) from mailbox indexed by mailbox_settled where settled_ms < ?
order by settled_ms limit ?"""
SWEEP: Final = """
delete from mailbox where id in
  (select id from mailbox indexed by mailbox_settled where settled_ms < ?
   order by settled_ms limit ?)"""


class Mailbox:
    """The mailbox of one file, written through the store that has it open.

    Writes carry the store's term, if it holds one: a process that only hands something in does
    not. Inside `store.transaction()` they become part of it.
    """

    def __init__(self, store: SqliteSnapshotStore, *, clock: Clock | None = None) -> None:
        """Use the file of `store`, which closes it; by the wall clock unless a test turns one."""
        self._store = store
        self._database = store.database
        self._clock = clock or SystemClock()

    def put(self, run_id: str, kind: str, data: bytes, delivery: str | None = None) -> int:
        """Accept an entry, and return its number once it is on disk.

        Raises `LimitError` for more data than `MAILBOX_DATA_BYTES_MAX`, `InvalidKeyError` for an
        id that no run, or a delivery that no run's ledger could have, `FencedError` if the file
        has another owner than the store took it for.
        """
        check_row_id(run_id)
        check_storable(kind, "the kind of an entry")
        _require_delivery(delivery)
        if len(data) > limits.MAILBOX_DATA_BYTES_MAX:
            what, limit = "the size of the event in bytes", limits.MAILBOX_DATA_BYTES_MAX
            raise LimitError(what, limit, len(data), run_id)
        with self._database.writing(f"acceptance of an event for run {run_id!r}"):
            self._store.require_term()
            self._database.run(PUT, (run_id, kind, data, delivery, self._clock.now_ms()))
            return self._database.last_row()

    def pending(self, after: int = 0) -> list[PendingEntry]:
        """Return the oldest unsettled entries beyond `after`, at most `MAILBOX_SLICE_ROWS`.

        What they hold is not read.
        """
        bindings = (after, limits.MAILBOX_SLICE_ROWS)
        rows = self._database.rows("read the mailbox", PENDING, bindings)
        return [
            PendingEntry(entry=row[0], run_id=text_of(row[1]), kind=text_of(row[2])) for row in rows
        ]

    def entry(self, entry: int) -> MailboxEntry | None:
        """Return one entry, settled or not, None if there is none.

        Of data beyond `MAILBOX_DATA_BYTES_MAX`, which was not handed in here, one byte more than
        that is read.
        """
        bindings = (limits.MAILBOX_DATA_BYTES_MAX + 1, entry)
        row = self._database.row("read the mailbox", ENTRY, bindings)
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

    def sweep(self, before_ms: int, *, slice_rows: int = limits.MAILBOX_SWEEP_ROWS) -> int:
        """Delete a slice of the entries that were settled before `before_ms`: how many they were.

        One transaction; call it until it returns 0. A slice that would hold more than
        `SWEEP_SLICE_BYTES` has fewer rows. Raises `FencedError`.
        """
        database = self._database
        with database.writing("sweep of the mailbox"), database.recycling_pages():
            self._store.require_term()
            rows = fitting(database.rows("sweep", SWEPT, (before_ms, slice_rows)))
            database.run(SWEEP, (before_ms, rows))
            return database.changes()


def reason_of(outcome: str) -> str | None:
    """Return why an entry was refused, None if its outcome is another one."""
    return outcome.removeprefix(REFUSED) if outcome.startswith(REFUSED) else None


def _require_delivery(delivery: str | None) -> None:
    if delivery is None:
        return
    if not 0 < len(delivery) <= limits.MAILBOX_DELIVERY_CHARS_MAX:
        limit = limits.MAILBOX_DELIVERY_CHARS_MAX
        shown = delivery[:limit]
        raise InvalidKeyError(shown, f"a delivery's id is a text of 1 to {limit} characters")
    # False for control characters and for lone surrogates.
    if not delivery.isprintable():
        raise InvalidKeyError(delivery, "a delivery's id has printable characters only")


def _entry(row: Row) -> MailboxEntry:
    return MailboxEntry(
        entry=row[0],
        run_id=text_of(row[1]),
        kind=text_of(row[2]),
        data=row[3],
        delivery=None if row[4] is None else text_of(row[4]),
        created_ms=row[5],
        outcome=None if row[6] is None else text_of(row[6]),
        settled_ms=row[7],
    )
