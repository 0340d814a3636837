"""Rows of a ledger, of which most never change again.

A ledger that grows by a row for everything that a run does would make each save dearer than the
one before. Its settled rows are encoded once, and closed into chunks that a save only copies.
"""

from __future__ import annotations

from itertools import islice, takewhile
from typing import TYPE_CHECKING, Generic, TypeVar

from snapshots.layout.joining import array
from snapshots.limits import CHUNK_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

R = TypeVar("R")


def _leave(row: object) -> None:
    """Leave a row as it is."""


class Rows(Generic[R]):
    """Rows by key, of which those that are final never change again.

    A final row is encoded once. Whenever a row is added and `CHUNK_ROWS` of the open rows are
    final, the oldest so many are closed: their JSON is joined, and copied as one piece from then
    on. The order of the rows is that of their JSON: closed ones, then open ones. `in_order` keeps
    them in the order in which they were added, at the price that a row which never becomes final
    keeps those behind it open. `seal` is called with each row that is closed, and `unseal` if
    that is taken back.
    """

    __slots__ = (
        "_chunks",
        "_closed",
        "_closed_json",
        "_encoded",
        "_folded",
        "_in_order",
        "_is_final",
        "_open",
        "_seal",
        "_unseal",
    )

    def __init__(
        self,
        rows: Iterable[tuple[str, R]] = (),
        *,
        is_final: Callable[[R], bool],
        in_order: bool = False,
        seal: Callable[[R], None] = _leave,
        unseal: Callable[[R], None] = _leave,
    ) -> None:
        self._is_final, self._in_order = is_final, in_order
        self._seal, self._unseal = seal, unseal
        self._open = dict(rows)
        self._closed: dict[str, R] = {}
        self._chunks: list[bytes | None] = []
        """The JSON of each chunk without its brackets, None until somebody asks for it."""
        self._folded: list[bytes] = []
        self._closed_json: bytes | None = None
        """The closed rows as `closed_json` gave them last."""
        self._encoded: dict[str, bytes] = {}
        """The JSON of open rows that are final; who changes one all the same says `forget`."""
        # What was stored is not put into another order by being read.
        self._close(takewhile(self._is_final_key, self._open))

    def __len__(self) -> int:
        return len(self._closed) + len(self._open)

    def __contains__(self, key: str) -> bool:
        return key in self._open or key in self._closed

    def get(self, key: str) -> R | None:
        """Return a row, if there is one."""
        found = self._open.get(key)
        return found if found is not None else self._closed.get(key)

    @property
    def last(self) -> R | None:
        """The last row; of rows that are kept in order, the one that was added last."""
        for rows in (self._open, self._closed):
            if rows:
                return rows[next(reversed(rows))]
        return None

    @property
    def open(self) -> tuple[R, ...]:
        """The rows that are not closed, in their order; few, however many there are."""
        return (*self._open.values(),)

    @property
    def closed(self) -> int:
        """How many rows are closed: the first ones."""
        return len(self._closed)

    @property
    def unsettled(self) -> list[R]:
        """The open rows that were not final when they were encoded last, in any order."""
        opened = self._open
        return [opened[key] for key in opened.keys() - self._encoded.keys()]

    @property
    def all(self) -> tuple[R, ...]:
        """Every row, in their order. Another thread may close rows meanwhile."""
        opened = self._open
        return (*{**self._closed, **opened}.values(),)

    def add(self, key: str, row: R) -> None:
        """Add a row as the last one."""
        assert key not in self, f"row {key!r} is added twice"
        is_final = self._is_final_key
        self._close((takewhile if self._in_order else filter)(is_final, self._open))
        self._open = {**self._open, key: row}

    def change(self, key: str, row: R) -> None:
        """Put a row into the place of an open one."""
        assert key in self._open, f"row {key!r} cannot change: it is closed, or was never there"
        self.forget(key)
        self._open = {**self._open, key: row}

    def forget(self, key: str) -> None:
        """Encode an open row anew the next time: it was changed, though it had seemed final."""
        self._encoded.pop(key, None)

    def keep(self) -> Callable[[], None]:
        """Return what puts the rows back to how they are now; the rows themselves as they are."""
        opened, chunks = self._open, len(self._chunks)

        def undo() -> None:
            self._open = opened
            self._encoded.clear()
            del self._chunks[chunks:]
            if len(self._folded) > chunks:
                del self._folded[chunks:]
                self._closed_json = None
            while len(self._closed) > chunks * CHUNK_ROWS:
                _, row = self._closed.popitem()
                self._unseal(row)

        return undo

    def as_json(self, encode: Callable[[R, int], bytes]) -> bytes:
        """Return the rows as one JSON array.

        `encode` is called with a row and its place in the array, for those that may have changed
        and for final ones that it has not encoded yet.
        """
        rows: list[R] = []
        for number, chunk in enumerate(self._chunks):
            if chunk is None:
                rows = rows or list(self._closed.values())
                start = number * CHUNK_ROWS
                part = enumerate(rows[start : start + CHUNK_ROWS], start)
                self._chunks[number] = b",".join(encode(row, place) for place, row in part)
        parts = [chunk for chunk in self._chunks if chunk is not None]
        return array([*parts, *self._open_parts(encode)])

    def open_json(self, encode: Callable[[R, int], bytes]) -> bytes:
        """Return the rows that are not closed as one JSON array; see `as_json`."""
        return array(self._open_parts(encode))

    def closed_json(self, fold: Callable[[list[R]], bytes]) -> bytes:
        """Return the closed rows as one JSON array with an item for each chunk.

        `fold` makes that item of the rows of a chunk, once.
        """
        folded, count = self._folded, len(self._chunks)
        if len(folded) < count:
            rows = [*islice(self._closed.values(), len(folded) * CHUNK_ROWS, None)]
            for start in range(0, len(rows), CHUNK_ROWS):
                folded.append(fold(rows[start : start + CHUNK_ROWS]))
            self._closed_json = None
        if self._closed_json is None:
            self._closed_json = array(folded)
        return self._closed_json

    def _open_parts(self, encode: Callable[[R, int], bytes]) -> list[bytes]:
        parts = []
        for place, (key, row) in enumerate(self._open.items(), len(self._closed)):
            known = self._encoded.get(key)
            if known is None:
                known = encode(row, place)
                if self._is_final(row):
                    self._encoded[key] = known
            parts.append(known)
        return parts

    def _is_final_key(self, key: str) -> bool:
        return self._is_final(self._open[key])

    def _close(self, final: Iterable[str]) -> None:
        """Close as many whole chunks as these rows make, oldest first."""
        keys = list(final)
        count = len(keys) // CHUNK_ROWS * CHUNK_ROWS
        if not count:
            return
        closing = {key: self._open[key] for key in keys[:count]}
        for start in range(0, count, CHUNK_ROWS):
            chunk = [self._encoded.pop(key, None) for key in keys[start : start + CHUNK_ROWS]]
            known = [part for part in chunk if part is not None]
            self._chunks.append(b",".join(known) if len(known) == CHUNK_ROWS else None)
        for row in closing.values():
            self._seal(row)
        # In this order, so that who reads on another thread misses none.
        self._closed.update(closing)
        self._open = {key: row for key, row in self._open.items() if key not in closing}
