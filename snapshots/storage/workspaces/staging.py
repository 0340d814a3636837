"""What one transaction has read and staged, in memory until its end: for every backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from snapshots import limits
from snapshots.errors import LimitError, StorageClosedError
from snapshots.storage.workspaces.rows import Batch

if TYPE_CHECKING:
    from snapshots.storage.rows import Lease
    from snapshots.storage.workspaces.rows import EntityKind, EntityRow, HistoryRow, LogRow


_BEHIND_THE_END: Final = "the use of a transaction behind its end"


class Ground(Protocol):
    """What a transaction stands on: the stored state of one workspace, locked."""

    def entity(self, kind: EntityKind, key: str) -> EntityRow | None:
        """Return a stored entity, None if there is none."""
        ...

    def require(self, lease: Lease) -> None:
        """Raise `LeaseLostError` unless the lease is held; nobody can acquire it meanwhile."""
        ...


class Staging:
    """A `Transaction` whose writes are one `Batch`, which a backend applies at its end."""

    def __init__(self, ground: Ground, *, seq: int, now_ms: int, path: str) -> None:
        """Begin on a locked workspace whose log ends at `seq`; `path` is for errors."""
        self._ground = ground
        self._path = path
        self._now_ms = now_ms
        self._seen: dict[tuple[EntityKind, str], EntityRow | None] = {}
        self._written: dict[tuple[EntityKind, str], EntityRow] = {}
        self._log: list[LogRow] = []
        self._history: list[HistoryRow] = []
        self._seq = seq
        self._is_over = False

    @property
    def now_ms(self) -> int:
        """See `Transaction.now_ms`."""
        return self._now_ms

    @property
    def seq(self) -> int:
        """See `Transaction.seq`."""
        return self._seq

    def entity(self, kind: EntityKind, key: str) -> EntityRow | None:
        """See `Transaction.entity`."""
        self._require_open()
        found = self._written.get((kind, key))
        if found is not None:
            return found
        # Nobody else can write, so what was read once is still true.
        if (kind, key) not in self._seen:
            self._seen[kind, key] = self._ground.entity(kind, key)
        return self._seen[kind, key]

    def stage(self, batch: Batch) -> None:
        """See `Transaction.stage`."""
        self._require_open()
        self._require_order(batch)
        written = self._written | {(row.kind, row.key): row for row in batch.entities}
        _require_room("entities", len(written))
        _require_room("lines of the log", len(self._log) + len(batch.log))
        self._written = written
        self._log += batch.log
        self._history += batch.history
        self._seq += len(batch.log)

    def require(self, lease: Lease) -> None:
        """See `Transaction.require`."""
        self._require_open()
        self._ground.require(lease)

    def finish(self) -> Batch:
        """End the transaction, and return what it has staged."""
        self._require_open()
        self._is_over = True
        return Batch(
            entities=tuple(self._written.values()),
            log=tuple(self._log),
            history=tuple(self._history),
        )

    def abandon(self) -> None:
        """End the transaction without a trace; after `finish` it does nothing."""
        self._is_over = True

    def _require_open(self) -> None:
        if self._is_over:
            raise StorageClosedError(_BEHIND_THE_END, self._path)

    def _require_order(self, batch: Batch) -> None:
        for row in batch.entities:
            found = self.entity(row.kind, row.key)
            expected = 1 if found is None else found.revision + 1
            assert row.revision == expected, f"{row.kind} {row.key!r} goes to revision {expected}"
        first, last = self._seq + 1, self._seq + len(batch.log)
        seqs = [row.seq for row in batch.log]
        assert seqs == list(range(first, last + 1)), f"the log goes on at {first}, found {seqs}"
        for segment in batch.history:
            assert first <= segment.seq <= last, "history belongs to a fact that is staged with it"


def _require_room(what: str, count: int) -> None:
    if count > limits.TRANSACTION_ENTRIES_MAX:
        told = f"the number of {what} in one transaction"
        raise LimitError(told, limits.TRANSACTION_ENTRIES_MAX, count)
