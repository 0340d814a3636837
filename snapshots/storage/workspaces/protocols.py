"""The contract of a storage of workspaces: one protocol, with a transaction for writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from snapshots.storage.rows import Lease
    from snapshots.storage.scopes import Scope
    from snapshots.storage.workspaces.rows import Batch, EntityKind, EntityRow, HistoryRow, LogRow


class Transaction(Protocol):
    """One workspace while nobody else writes to it: reads, and writes that are staged.

    Reads see what is staged. Nothing of it is stored before the block ends normally; an
    exception leaves entities, log and history as they were. It is of no use after its block:
    every method then raises `StorageClosedError`.
    """

    @property
    def now_ms(self) -> int:
        """The time at which the transaction began, read once the workspace was locked."""
        ...

    @property
    def seq(self) -> int:
        """The newest seq of the log, what is staged included; 0 for an empty log."""
        ...

    def entity(self, kind: EntityKind, key: str) -> EntityRow | None:
        """Return one entity as it is now, None if there is none."""
        ...

    def stage(self, batch: Batch) -> None:
        """Stage entities, lines of the log and history, all of them or none.

        Each entity's revision is 1 for a new one, else one more than what is there; the lines
        go on where `seq` is; each segment of history has the seq of a line that is staged with
        it. Anything else is a bug of the caller, and asserted. Raises `LimitError` for more
        entities, or more lines, than `TRANSACTION_ENTRIES_MAX` in one transaction.
        """
        ...

    def require(self, lease: Lease) -> None:
        """Raise `LeaseLostError` unless the lease is held, by its token, at this moment.

        Nobody else can acquire it before this transaction has ended.
        """
        ...


class Watch(Protocol):
    """A wish to be woken; whoever made it closes it."""

    def close(self) -> None:
        """Wake nobody any more; a second time is harmless."""
        ...


class Storage(Protocol):
    """Workspaces, each found by the tenant and the workspace of a `Scope`.

    A workspace is there as soon as somebody writes to it; read before, it is empty. Scopes never
    see each other. What can fail raises a `StorageError`, and then has changed nothing; after
    `close()` of what the storage belongs to it is `StorageClosedError`. Texts are ordered by
    their code points.
    """

    def transaction(self, scope: Scope) -> AbstractContextManager[Transaction]:
        """Return a context that has one workspace for itself from the moment it is entered.

        What is read in it cannot change before it ends, in whatever process: others wait. At a
        normal end everything staged is stored at once, whole; on an exception nothing is. They
        do not nest: `NestedTransactionError`, which is an `AssertionError`. Calls of this thread
        on other capabilities of the same backend take part, keyed state for one.
        """
        ...

    def seq(self, scope: Scope) -> int:
        """Return the newest seq of the log, 0 for an empty one."""
        ...

    def entity(self, scope: Scope, kind: EntityKind, key: str) -> EntityRow | None:
        """Return one entity, None if there is none."""
        ...

    def entities(
        self,
        scope: Scope,
        kind: EntityKind,
        *,
        label: str | None = None,
        after: str = "",
        limit: int,
    ) -> list[EntityRow]:
        """Return up to `limit` entities by key, from the first key behind `after`.

        With `label` only those that have it.
        """
        ...

    def log(self, scope: Scope, *, after_seq: int, limit: int) -> list[LogRow]:
        """Return up to `limit` lines of the log, from the first one behind `after_seq`.

        Only what is committed, so that a follower sees nothing that is taken back: from within
        a transaction of this thread it raises `StorageError`.
        """
        ...

    def delivered(
        self, scope: Scope, thread: str, *, after_seq: int, limit: int, newest: bool = False
    ) -> list[LogRow]:
        """Return up to `limit` lines that are delivered to a thread, in order, as `log`.

        Which they are says `rules.delivered_to`. They are the first ones behind `after_seq`, with
        `newest` the last ones. It costs as much as what it returns, however long the log is.
        """
        ...

    def history(
        self, scope: Scope, thread: str, *, after_seq: int, limit: int, run: str | None = None
    ) -> list[HistoryRow]:
        """Return up to `limit` segments of a thread by seq, from the first behind `after_seq`.

        With `run` only those of that run.
        """
        ...

    def acquire_lease(self, scope: Scope, name: str, *, ttl_ms: int, holder: str) -> Lease | None:
        """Return a lease with a token of its own, None while somebody holds that name.

        Raises `InvalidTtlError` for a time to live that no lease may have.
        """
        ...

    def renew_lease(self, lease: Lease, *, ttl_ms: int) -> Lease:
        """Return the lease with `ttl_ms` from now on; `LeaseLostError` if it is not held."""
        ...

    def release_lease(self, lease: Lease) -> bool:
        """Give a lease up: whether it was held until now."""
        ...

    def lease(self, scope: Scope, name: str) -> Lease | None:
        """Return the lease of that name if somebody holds it now."""
        ...

    def watch(self, scope: Scope, wake: Callable[[], None]) -> Watch:
        """Have `wake` called, in any thread, soon after something is stored in a workspace.

        A hint: calls may be missing, late or needless, so whoever waits must look by itself too.
        `wake` returns at once and does not raise.
        """
        ...
