"""The head of a row: the four numbers that every save changes, as one value of fixed width.

SQLite overwrites a part of a value where it lies (https://sqlite.org/c3ref/blob_open.html), and
does so in a row of 10 MB for the price of the pages that change; an update of one column makes the
whole row anew, compares it with what is there, and takes a hundred times as long. Only blobs and
texts can be overwritten, no integers, and not in a table with generated columns. So these numbers
are written out: a save of a long row changes its head and what differs of its blob, and nothing
else.

    0000008589934593 0001764460800123 0004102444800000 1
    revision         updated_ms       due_ms           parked
"""

from __future__ import annotations

from typing import Final

from snapshots.limits import NO_TIMER_MS

HEAD_BYTES: Final = 52
PACKED: Final = b"%016d"
"""How a number stands in a head."""
NUMBER_MIN: Final = -(10**15) + 1
NUMBER_MAX: Final = 10**16 - 1

# In SQL, where one of them is compared with what `packed` makes; places count from one there.
#   revision    substr(head, 1, 16)
#   updated_ms  substr(head, 18, 16)
#   due_ms      substr(head, 35, 16)
#   parked      substr(head, 52)

# A file before the sixth schema has columns for the numbers. It may only be read: what names
# the one reads the other there.
HEADS_SINCE_SCHEMA: Final = 6
HEAD: Final = "runs.head"
HEAD_OF_COLUMNS: Final = """cast(printf('%016d %016d %016d %d', runs.revision,
  runs.updated_ms, min(runs.due_ms, 9999999999999999), runs.parked) as blob)"""

UNFINDABLE: Final = 0
"""The revision of a row whose head is damaged where the revision stands: no save finds that."""
UNKNOWN_MS: Final = 0
"""When a row whose head is damaged was written last."""
_PARKED: Final = b"1"
_REVISION_BYTES: Final = 16


def pack_head(revision: int, updated_ms: int, due_ms: int, *, parked: bool) -> bytes:
    """Return a head, always `HEAD_BYTES` long: a time that is wider is the last that is not."""
    head = b"%016d %016d %016d %d" % (revision, updated_ms, due_ms, parked)
    if len(head) != HEAD_BYTES:
        updated_ms, due_ms = (max(NUMBER_MIN, min(at, NUMBER_MAX)) for at in (updated_ms, due_ms))
        head = b"%016d %016d %016d %d" % (revision, updated_ms, due_ms, parked)
        # What is written over a row is compared with no rule of the table.
        assert len(head) == HEAD_BYTES, f"{head!r}: revision {revision!r}, parked {parked!r}"
    return head


def packed(value: int) -> bytes:
    """Return a number as it stands in a head, to compare it with one there."""
    return PACKED % value


def unpack_head(head: bytes) -> tuple[int, int, int, bool]:
    """Return revision, updated_ms, due_ms and parked.

    A damaged head, which a disk can make of one, hides nothing else of its row, and no other row.
    Where the revision still stands in it the next save makes the head anew; else it is
    `UNFINDABLE`. Such a run does not only wait: that would leave its timers to the head.
    """
    try:
        revision, updated_ms, due_ms, parked = head.split()
        found = int(revision), int(updated_ms), int(due_ms), parked == _PARKED
    except ValueError:
        found = _revision_of(head), UNKNOWN_MS, NO_TIMER_MS, False
    if found[0] <= UNFINDABLE or head[:_REVISION_BYTES] != packed(found[0]):
        return UNFINDABLE, UNKNOWN_MS, NO_TIMER_MS, False
    return found


def _revision_of(head: bytes) -> int:
    try:
        return int(head[:_REVISION_BYTES])
    except ValueError:
        return UNFINDABLE


def is_sound(head: bytes) -> bool:
    """Whether a head is one that `pack_head` makes."""
    revision, updated_ms, due_ms, parked = unpack_head(head)
    return revision > 0 and head == pack_head(revision, updated_ms, due_ms, parked=parked)
