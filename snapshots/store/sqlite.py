"""The store of runs on one SQLite file: the writes, each one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Self

from snapshots import limits
from snapshots.database.slices import fitting
from snapshots.errors import (
    FencedError,
    LimitError,
    RevisionConflictError,
    RunExistsError,
    RunNotFoundError,
)
from snapshots.heads import pack_head, unpack_head
from snapshots.identifiers import check_row_id, check_storable, new_run_id, readable
from snapshots.records import RunHeader
from snapshots.store import copying, reading, saving

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from snapshots.clock import Clock
    from snapshots.database import Database
    from snapshots.database.backup import Backup, Progress
    from snapshots.records import LiveRows, Owner, Status, StoredRun, StoreStats
    from snapshots.store.seam import Blob, Stretch

MARK: Final = """
update runs set head = ?, status = ?, reason = ?, ended_ms = ?
where id = ? and substr(head, 1, 16) = ? and run_id = ?"""
MIGRATE: Final = """
update runs set head = ?, digest = ?, status = ?, reason = null, ended_ms = ?, blob = ?
where id = ? and substr(head, 1, 16) = ? and run_id = ?"""
KEEP_SHAPE: Final = """
insert into shapes (digest, machine, shape) values (?, ?, ?) on conflict (digest) do nothing"""

CREATE: Final = """
insert into runs (run_id, machine, digest, status, reason, created_ms, ended_ms, head, blob)
values (?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (run_id) do nothing"""
SWEPT: Final = """
select length(blob) from runs indexed by runs_ended where status <> 'live' and ended_ms < ?
order by ended_ms limit ?"""
SWEEP: Final = """
delete from runs where id in
  (select id from runs indexed by runs_ended where status <> 'live' and ended_ms < ?
   order by ended_ms limit ?)"""
TAKE_OVER: Final = """
insert into owner (id, term, holder) values (1, 1, ?)
on conflict (id) do update set term = term + 1, holder = excluded.holder"""
_IN_MEMORY: Final = ":memory:"
_new: Final = tuple.__new__
"""Makes a header of its fields, as `_make` does by a call of Python's: each save makes one."""
_MACHINE: Final = "select machine from runs where run_id = ?"
_ACTUAL: Final = "select head, status from runs where id = ? and run_id = ?"


class SqliteSnapshotStore:
    """A `SnapshotStore` on one SQLite file; `snapshots.open_store` makes it."""

    def __init__(self, database: Database, *, clock: Clock) -> None:
        """Use `database`, whose schema is current, and close it in the end."""
        self.database = database
        self.is_lent = False
        """See `SnapshotStore.is_lent`; `lend` sets it."""
        self.lent_for: tuple[str, str] | None = None
        """Tenant and workspace of the storage's transaction that is open on this connection."""
        is_kept = database.path != _IN_MEMORY
        self.identity = database.path if is_kept else f"{_IN_MEMORY}{new_run_id(clock)}"
        """See `SnapshotStore.identity`."""
        self._clock = clock
        self._term: int | None = None

    def __repr__(self) -> str:
        return f"<SqliteSnapshotStore {self.path!r} term={self._term}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def path(self) -> str:
        """The file's absolute path, or `:memory:`."""
        return self.database.path

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open on the connection; see `SnapshotStore.in_transaction`."""
        return self.database.in_transaction

    @property
    def term(self) -> int | None:
        """The term that writes carry, None before `take_over`."""
        return self._term

    def create(
        self,
        *,
        run_id: str,
        machine: str,
        digest: str,
        shape: bytes,
        blob: Blob,
        due_ms: int = limits.NO_TIMER_MS,
        parked: bool = False,
        status: Status = "live",
        reason: str | None = None,
        now_ms: int | None = None,
    ) -> RunHeader:
        """Store a new run and the shape of its machine; see `SnapshotStore.create`."""
        check_row_id(run_id)
        check_storable(machine, "the name of a machine")
        check_storable(digest, "a digest")
        _require_size(run_id, len(blob), status)
        now = self._clock.now_ms() if now_ms is None else now_ms
        ended = None if status == "live" else now
        head = pack_head(limits.REVISION_FIRST, now, due_ms, parked=parked)
        reason = None if reason is None else readable(reason)
        values = (run_id, machine, digest, status, reason, now, ended, head, blob)
        database = self.database
        with database.writing(f"creation of run {run_id!r}"):
            self.require_term()
            database.run(CREATE, values)
            if database.changes() == 0:
                self._raise_exists(run_id, machine)
            row = database.last_row()
            database.run(KEEP_SHAPE, (digest, machine, shape))
        return RunHeader(
            row=row,
            run_id=run_id,
            machine=machine,
            digest=digest,
            status=status,
            reason=reason,
            revision=limits.REVISION_FIRST,
            created_ms=now,
            updated_ms=now,
            ended_ms=ended,
            due_ms=due_ms,
            parked=parked,
        )

    def save(
        self,
        header: RunHeader,
        blob: Blob,
        *,
        status: Status = "live",
        reason: str | None = None,
        due_ms: int = limits.NO_TIMER_MS,
        parked: bool = False,
        sync: bool = False,
        changed: Sequence[Stretch] | None = None,
    ) -> RunHeader:
        """Write a live run's state over the one that `header` names; see `SnapshotStore.save`."""
        if len(blob) > limits.BLOB_BYTES_MAX:
            _require_size(header.run_id, len(blob), status)
        row, run_id, machine, digest, _, kept, revision, created, _, ended, _, _ = header
        database, term, now = self.database, self._term, self._clock.now_ms()
        head = pack_head(revision + 1, now, due_ms, parked=parked)
        assert status != "live" or reason is None, "only a save that ends a run has a reason"
        if status == "live" and changed is not None and len(blob) >= limits.OVERWRITTEN_BYTES_MIN:
            is_written = saving.write_over(database, header, term, (head, blob), changed, sync=sync)
        else:
            values: tuple[object, ...] = (head, blob)
            text = saving.SAVE if term is None else saving.SAVE_IN_TERM
            if status != "live":
                ended, kept = now, reason
                values = (head, blob, status, reason, now)
                text = saving.END if term is None else saving.END_IN_TERM
            bindings = values + saving.guard_of(header, term)
            is_written = database.write("save of run", run_id, text, bindings, sync=sync) == 1
        if not is_written:
            with database.writing(f"save of run {run_id!r}"):
                self._raise_conflict(header)
        # fmt: off
        fields = (
            row, run_id, machine, digest, status, kept, revision + 1, created, now, ended,
            due_ms, parked,
        )
        # fmt: on
        return _new(RunHeader, fields)

    def mark(self, header: RunHeader, status: Status, reason: str | None) -> RunHeader:
        """Change a run's status alone; see `SnapshotStore.mark`."""
        reason = None if reason is None else readable(reason)
        now = self._clock.now_ms()
        ended = None if status == "live" else now
        head = pack_head(header.revision + 1, now, header.due_ms, parked=header.parked)
        database = self.database
        with database.writing(f"marking of run {header.run_id!r}"):
            self.require_term()
            database.run(MARK, (head, status, reason, ended, *saving.guard_of(header)))
            if database.changes() != 1:
                self._raise_conflict(header)
        return header._replace(
            status=status,
            reason=reason,
            revision=header.revision + 1,
            updated_ms=now,
            ended_ms=ended,
        )

    def migrate(
        self,
        header: RunHeader,
        blob: Blob,
        *,
        machine: str,
        digest: str,
        shape: bytes,
        due_ms: int = limits.NO_TIMER_MS,
        parked: bool = False,
        status: Status = "live",
    ) -> RunHeader:
        """Write a run that now has another shape; see `SnapshotStore.migrate`."""
        check_storable(machine, "the name of a machine")
        check_storable(digest, "a digest")
        _require_size(header.run_id, len(blob), status)
        now = self._clock.now_ms()
        ended = None if status == "live" else now
        head = pack_head(header.revision + 1, now, due_ms, parked=parked)
        database = self.database
        with database.writing(f"migration of run {header.run_id!r}"):
            self.require_term()
            database.run(MIGRATE, (head, digest, status, ended, blob, *saving.guard_of(header)))
            if database.changes() != 1:
                self._raise_conflict(header)
            database.run(KEEP_SHAPE, (digest, machine, shape))
        return header._replace(
            digest=digest,
            status=status,
            reason=None,
            revision=header.revision + 1,
            updated_ms=now,
            ended_ms=ended,
            due_ms=due_ms,
            parked=parked,
        )

    def load(self, run_id: str) -> StoredRun:
        """Return one run by its whole id, or raise `RunNotFoundError`."""
        return reading.load(self.database, run_id)

    def find(self, prefix: str) -> tuple[str, ...]:
        """Return the first run ids that start with `prefix`, in order."""
        return reading.find(self.database, prefix)

    def resolve(self, prefix: str) -> str:
        """Return the one run id that `prefix` means; see `SnapshotStore.resolve`."""
        return reading.resolve(self.database, prefix)

    def live(self) -> Iterator[StoredRun]:
        """Yield the live runs by row; see `SnapshotStore.live`."""
        return reading.live(self.database)

    def live_at(self, row: int) -> StoredRun | None:
        """Return the live run of a row, None if there is none any more."""
        return reading.live_at(self.database, row)

    def survey(self) -> Iterator[LiveRows]:
        """Yield all live rows without blobs; see `SnapshotStore.survey`."""
        return reading.survey(self.database)

    def headers(
        self, status: Status | None = None, limit: int = 100, before_row: int | None = None
    ) -> list[RunHeader]:
        """Return headers, newest row first; see `SnapshotStore.headers`."""
        return reading.headers(self.database, status, limit, before_row)

    def shape(self, digest: str) -> bytes | None:
        """Return the shape that was stored under `digest`, None if there is none."""
        return reading.shape(self.database, digest)

    def sweep(self, *, slice_rows: int = limits.SWEEP_SLICE_ROWS) -> int:
        """Delete a slice of the runs that ended a week ago; see `SnapshotStore.sweep`."""
        database = self.database
        with database.writing("sweep"), database.recycling_pages():
            self.require_term()
            before_ms = self._clock.now_ms() - limits.RETENTION_MS
            rows = fitting(database.rows("sweep", SWEPT, (before_ms, slice_rows)))
            database.run(SWEEP, (before_ms, rows))
            return database.changes()

    def owner(self) -> Owner | None:
        """Return who owns the file now, None if nobody ever took it."""
        return reading.owner(self.database)

    def take_over(self, holder: str) -> int:
        """Raise the term in the name of `holder`; see `SnapshotStore.take_over`."""
        check_storable(holder, "the name of a holder")
        database = self.database
        with database.transaction("takeover"):
            database.run(TAKE_OVER, (holder,))
            owner = reading.owner(database)
        assert owner is not None, "the row was just written"
        self._term = owner.term
        return owner.term

    def transaction(self, *, sync: bool = False) -> AbstractContextManager[None]:
        """Return a context whose writes commit together; see `SnapshotStore.transaction`."""
        return self.database.transaction("transaction", sync=sync)

    def lend(self, workspace: tuple[str, str] | None) -> None:
        """Note which storage's transaction has begun on this connection, None at its end."""
        self.lent_for = workspace
        self.is_lent = workspace is not None

    def stats(self) -> StoreStats:
        """Return the file's sizes, and the longest wait for a checkpoint."""
        return self.database.stats()

    def backup(self, target: str | os.PathLike[str], *, progress: Progress | None = None) -> Backup:
        """Copy the file to a new one at `target`; see `SnapshotStore.backup`."""
        self.database.require_usable("backup")
        return copying.backup(self.path, target, progress=progress)

    def close(self) -> None:
        """Close the file; a second time is harmless."""
        self.database.close()

    def require_term(self) -> None:
        """Raise `FencedError` if the file's term is not this store's: in a transaction.

        For every write but a save, which asks with its guard (`snapshots.store.saving`). No other
        process can raise the term between this and the end of the transaction.
        """
        if self._term is None:
            return
        owner = reading.owner(self.database)
        if owner is None or owner.term != self._term:
            raise FencedError(
                self.path, owner.term if owner else 0, owner.holder if owner else None
            )

    def _raise_exists(self, run_id: str, machine: str) -> None:
        row = self.database.row("create", _MACHINE, (run_id,))
        assert row is not None, "the id was in use in this transaction"
        raise RunExistsError(run_id, same_machine=row[0] == machine, same_input=None)

    def _raise_conflict(self, header: RunHeader) -> None:
        """Say why a guarded write has found no row: in its transaction, so that it is true."""
        self.require_term()
        row = self.database.row("compare revisions", _ACTUAL, (header.row, header.run_id))
        if row is None:
            raise RunNotFoundError(header.run_id, self.path)
        actual = unpack_head(row[0])[0]
        raise RevisionConflictError(header.run_id, header.revision, actual, status=row[1])


def _require_size(run_id: str, size: int, status: Status) -> None:
    """Raise `LimitError` for a blob that is too long; one that ends a run may be longer."""
    slack = 0 if status == "live" else limits.BLOB_ENDING_BYTES_MAX
    limit = limits.BLOB_BYTES_MAX + slack
    if size > limit:
        what = "the size of the blob in bytes"
        raise LimitError(what, limit, size, run_id)
