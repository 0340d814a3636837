"""The contract of a storage: one small protocol per capability, and the bundle of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from snapshots import limits

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from types import TracebackType

    from snapshots.storage.rows import CarryRecord, KeyedEntry, Lease, StorageStats
    from snapshots.storage.scopes import Scope
    from snapshots.storage.workspaces.protocols import Storage


class Transactions(Protocol):
    """What every capability of a backend shares: writes that commit together."""

    def transaction(self, scope: Scope) -> AbstractContextManager[object]:
        """Return a context whose calls commit together at its end, or not at all.

        It has the workspace of `scope` to itself from the moment it begins: what it reads stays
        so until it has written. All calls of this thread on this backend take part, whatever
        the capability; they must be for the same tenant and workspace, else it is an
        `OtherWorkspaceError`. If the block raises, nothing that it wrote is left. Transactions
        do not nest. No user code that waits and no `await` belongs inside. On SQLite it becomes
        a part of `store.transaction()` where one is open, and ends with it; a run that was saved
        before is not saved again inside it (`OpenTransactionError`).

        Entering raises `StorageBusyError` if another one does not end in time, and
        `NestedTransactionError` inside another one of this thread on this backend. That error
        and `OtherWorkspaceError` are `AssertionError`s too.
        """
        ...


class KeyedStates(Transactions, Protocol):
    """Values under keys, each for ever or for a time.

    A key is a text of 1 to `KEY_CHARS_MAX` characters and at most `KEY_BYTES_MAX` bytes of UTF-8,
    without NUL and lone surrogates, else `InvalidKeyError`; equal texts are equal keys, nothing
    is folded. A value is up to `KEYED_VALUE_BYTES_MAX` bytes, none included, else `LimitError`.

    Every verb decides by one rule whether a key is there: it was put, and its `expires_ms` is
    None or greater than now. At that very millisecond it is gone, for all of them alike. Now is
    read inside the transaction of the call, behind whatever it had to wait for.

    `ttl_ms` is a time to live in milliseconds, None for ever: `InvalidTtlError` if it is less than
    1, `LimitError` above `TTL_MS_MAX`. Each call is one transaction, or a part of the one that
    its thread is in. Every method may raise a `StorageError`, and then has changed nothing.
    """

    def get(self, scope: Scope, key: str) -> bytes | None:
        """Return the value of a key, None if it is not there."""
        ...

    def exists(self, scope: Scope, key: str) -> bool:
        """Return whether a key is there."""
        ...

    def put(self, scope: Scope, key: str, value: bytes, *, ttl_ms: int | None = None) -> None:
        """Store a value, over whatever the key had; its time to live starts anew, or ends."""
        ...

    def put_if_absent(
        self, scope: Scope, key: str, value: bytes, *, ttl_ms: int | None = None
    ) -> bool:
        """Store a value if the key is not there, and return whether it was stored.

        Of any number of callers at once, on a key that is absent or has expired, one gets True.
        """
        ...

    def replace(self, scope: Scope, key: str, value: bytes) -> bool:
        """Store a value over the one of a key that is there, and return whether it was there.

        The key expires when it would have: its time to live neither ends nor starts anew.
        """
        ...

    def delete(self, scope: Scope, key: str) -> bool:
        """Remove a key, and return whether it was there."""
        ...

    def list(
        self,
        scope: Scope,
        prefix: str = "",
        *,
        after: str | None = None,
        limit: int = limits.LIST_ROWS_MAX,
    ) -> list[KeyedEntry]:
        """Return the first `limit` keys that start with `prefix`, in the order of code points.

        `after` continues a list behind a key, which need not be there any more. No character of
        a prefix has another meaning than itself. Raises `LimitError` for more than
        `LIST_ROWS_MAX`; a prefix may be empty, else it is held to what a key is held to.
        """
        ...


class Leases(Transactions, Protocol):
    """Names that one holder has at a time, until a moment: locks that outlive nobody.

    A lease is held while `expires_ms` is greater than now. Whoever holds it must stop before that
    moment, or `renew` it; whoever writes under it calls `require` in the transaction of the
    write, so that a holder that was stalled writes nothing over its successor. Names are
    held to what keys are held to, a holder's name too, though it may be empty. `ttl_ms` is at least
    `LEASE_TTL_MS_MIN`, else `InvalidTtlError`, and at most `TTL_MS_MAX`, else `LimitError`.
    Every method may raise a `StorageError`, and then has changed nothing.
    """

    def acquire(self, scope: Scope, name: str, *, ttl_ms: int, holder: str = "") -> Lease | None:
        """Claim a name that nobody holds, None if somebody does, the same holder included.

        The token is 1 at the first claim of a name and one more at each later one; once the name
        was swept, it is greater than every token that the name ever had.
        """
        ...

    def renew(self, lease: Lease, *, ttl_ms: int) -> Lease:
        """Return the lease as it is held from now on, for `ttl_ms` from now, with the same token.

        Raises `LeaseLostError` if it has expired, even if nobody else has claimed the name, was
        released, or belongs to a later claim.
        """
        ...

    def release(self, lease: Lease) -> bool:
        """End a lease, and return whether it was still held; one of an old token ends nothing."""
        ...

    def require(self, lease: Lease) -> None:
        """Raise `LeaseLostError` unless the lease is held: inside a transaction of its workspace.

        Until that transaction ends nobody else can claim the name. Outside of one it is an
        `AssertionError`, since what it says could be false before the next statement.
        """
        ...

    def read(self, scope: Scope, name: str) -> Lease | None:
        """Return the lease that holds a name now, None if nobody does."""
        ...


class CarryStates(Transactions, Protocol):
    """State that schedules carry from run to run: compared and swapped by revision.

    What the bytes mean, and under which contract, is the caller's affair. Keys are held to
    what keys of keyed state are held to. Every method may raise a `StorageError`, and then has
    changed nothing.
    """

    def load(self, scope: Scope, key: str) -> CarryRecord | None:
        """Return what was saved last, None if nothing was, or if it was cleared."""
        ...

    def save(
        self,
        scope: Scope,
        key: str,
        *,
        contract_version: int,
        payload: bytes,
        expected_revision: int,
    ) -> CarryRecord:
        """Store a payload of up to `CARRY_PAYLOAD_BYTES_MAX` bytes over the expected revision.

        An `expected_revision` of 0 creates. The record that is returned has a revision of
        exactly one more. Raises `RevisionConflictError`, with `expected` and `actual` (None where
        nothing is stored), if another revision is stored; `LimitError` for a longer payload.
        """
        ...

    def clear(self, scope: Scope, key: str) -> None:
        """Remove what is stored, if anything is: the next save creates, with revision 1."""
        ...


class Backend(Transactions, Protocol):
    """One open storage: its capabilities, on one file or database, and its end.

    `memory:` and PostgreSQL are for any thread, SQLite for the one that opened it. Each row
    that is seen belongs to the scope that was asked for. After `close()` every call raises
    `StorageClosedError`, in a forked child of the opener `StorageForkedError`.
    """

    @property
    def path(self) -> str:
        """What errors name: the file, or the address of the database without its password."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether no call waits for a server, so that an event loop may make it in place."""
        ...

    @property
    def keyed(self) -> KeyedStates:
        """Keyed state."""
        ...

    @property
    def leases(self) -> Leases:
        """Leases."""
        ...

    @property
    def carry(self) -> CarryStates:
        """Carry state."""
        ...

    @property
    def workspaces(self) -> Storage:
        """Workspaces, for `snapshots.storage.workspaces.Workspaces`."""
        ...

    def sweep(self, *, slice_rows: int = limits.SWEEP_SLICE_ROWS) -> int:
        """Delete up to `slice_rows` expired keys and leases of all scopes: how many they were.

        Call it until it returns 0: a slice of long values has fewer rows. What it deletes was
        gone already for every verb.
        """
        ...

    def stats(self) -> StorageStats:
        """Return the sizes of the storage."""
        ...

    def close(self) -> None:
        """Close what this handle has opened; a second time is harmless."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None: ...
