"""How a save reaches its row: all of it in one statement, or what changed of a long one.

Each asks in its own transaction whether the run is live, at the revision that the writer knows,
in the term of the file's owner, and says whether it was. The run's id is compared because a row's
key is given again once the newest row has been swept.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from snapshots.heads import PACKED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from snapshots.database import Database
    from snapshots.records import RunHeader
    from snapshots.store.seam import Blob, Stretch

# They name no column that an index has, and while the blob keeps its length nothing of the row
# changes its width: SQLite then overwrites it where it lies.
SAVE: Final = """
update runs set head = ?, blob = ?
where id = ? and substr(head, 1, 16) = ? and run_id = ? and status = 'live'"""
SAVE_IN_TERM: Final = """
update runs set head = ?, blob = ?
where id = ? and substr(head, 1, 16) = ? and run_id = ? and status = 'live'
  and (select term from owner where id = 1) = ?"""

# The length of a blob is told without reading it. A head of another length is a damaged one: its
# row is written whole.
MAY_SAVE: Final = """
select iif(length(head) = 52, length(blob), null) from runs
where id = ? and substr(head, 1, 16) = ? and run_id = ? and status = 'live'"""
MAY_SAVE_IN_TERM: Final = """
select iif(length(head) = 52, length(blob), null) from runs
where id = ? and substr(head, 1, 16) = ? and run_id = ? and status = 'live'
  and (select term from owner where id = 1) = ?"""

END: Final = """
update runs set head = ?, blob = ?, status = ?, reason = ?, ended_ms = ?
where id = ? and substr(head, 1, 16) = ? and run_id = ? and status = 'live'"""
END_IN_TERM: Final = """
update runs set head = ?, blob = ?, status = ?, reason = ?, ended_ms = ?
where id = ? and substr(head, 1, 16) = ? and run_id = ? and status = 'live'
  and (select term from owner where id = 1) = ?"""

_BEGIN_PART: Final = "savepoint written_over"
_UNDO_PART: Final = "rollback to written_over"
_END_PART: Final = "release written_over"


def guard_of(header: RunHeader, term: int | None = None) -> tuple[object, ...]:
    """Return what a write compares: the row, the revision that it had, the run, and a term."""
    row, run_id, revision = header.row, header.run_id, PACKED % header.revision
    return (row, revision, run_id) if term is None else (row, revision, run_id, term)


def write_over(
    database: Database,
    header: RunHeader,
    term: int | None,
    values: tuple[bytes, Blob],
    changed: Sequence[Stretch],
    *,
    sync: bool,
) -> bool:
    """Write a live run's head, and its blob where it changed: all of it if its length did."""
    head, blob = values
    guard = guard_of(header, term)
    is_part = database.in_transaction
    with database.writing(f"save of run {header.run_id!r}", sync=sync):
        found = database.run(MAY_SAVE if term is None else MAY_SAVE_IN_TERM, guard).fetchall()
        if not found:
            return False
        if found[0][0] != len(blob):
            database.run(SAVE if term is None else SAVE_IN_TERM, values + guard)
            assert database.changes() == 1, "the same question found the row in this transaction"
            return True
        with _undone_on_error(database) if is_part else nullcontext():
            database.overwrite("runs", "head", header.row, ((0, head),))
            pieces = [(start, blob[start:end]) for start, end in changed]
            database.overwrite("runs", "blob", header.row, pieces)
    return True


@contextmanager
def _undone_on_error(database: Database) -> Iterator[None]:
    """Take back what an error leaves half written in a transaction that may be kept all the same.

    A statement does so by itself; several pieces do not.
    """
    database.run(_BEGIN_PART)
    try:
        yield
    except BaseException:
        # On some errors SQLite has ended the whole transaction already.
        if database.connection.in_transaction:
            database.run(_UNDO_PART)
            database.run(_END_PART)
        raise
    database.run(_END_PART)
