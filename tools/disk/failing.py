"""A disk that fails at the n-th thing of a kind that is asked of it, once or from then on."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import apsw

from snapshots.database import Database, Transaction
from snapshots.errors import (
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageUnavailableError,
)
from tools.disk.recording import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tools.disk.watching import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What fails, what SQLite is told then, and what the caller is to be told.

    `lock` is no call of SQLite's: at the beginning of the n-th write another connection holds the
    file's write lock.
    """

    kind: str
    error: type[apsw.Error]
    expected: type[StorageError]
    lasts: bool = False
    """Whether it fails from then on, until it is mended."""

    def __str__(self) -> str:
        return f"{self.error.__name__} at {self.kind}{' and ever after' if self.lasts else ''}"


def _both(kind: str, error: type[apsw.Error], expected: type[StorageError]) -> tuple[Fault, ...]:
    return tuple(
        Fault(kind=kind, error=error, expected=expected, lasts=lasts) for lasts in (False, True)
    )


FAULTS: Final = (
    *_both("read", apsw.IOError, StorageUnavailableError),
    *_both("write", apsw.IOError, StorageUnavailableError),
    *_both("write", apsw.FullError, StorageFullError),
    *_both("sync", apsw.IOError, StorageUnavailableError),
    *_both("open", apsw.CantOpenError, StorageUnavailableError),
    *_both("truncate", apsw.IOError, StorageUnavailableError),
    *_both("delete", apsw.IOError, StorageUnavailableError),
    *_both("lock", apsw.BusyError, StorageBusyError),
)


class FailingDisk(Recording):
    """Fails as it is armed; what it did is in its log, as ever."""

    reads = True

    def __init__(self, folder: Path) -> None:
        """Begin whole."""
        super().__init__(folder, seed=0, slow=False)
        self._fault: Fault | None = None
        self._number = 0
        self._seen = 0
        self.hits = 0

    def arm(self, fault: Fault, number: int) -> None:
        """Fail at the `number`-th thing of the fault's kind from now on."""
        self._fault, self._number = fault, number
        self._seen = self.hits = 0

    def mend(self) -> None:
        """Fail no more."""
        self._fault = None

    def fails(self, kind: str) -> bool:
        """Count one thing of a kind, and say whether it is to fail."""
        fault = self._fault
        if fault is None or fault.kind != kind:
            return False
        self._seen += 1
        is_due = self._seen >= self._number if fault.lasts else self._seen == self._number
        self.hits += is_due
        return is_due

    def before(self, kind: Kind, path: str) -> None:
        """Raise what SQLite is to be told."""
        fault = self._fault
        if self.fails(kind):
            assert fault is not None
            message = f"{kind} of {path.rpartition('/')[2]!r} fails"
            raise fault.error(message)


class _QuietConnection(apsw.Connection):
    """Closes as SQLite does: what fails in there is passed over, the file being whole without it.

    The driver would raise what a VFS of Python raised; no other VFS can.
    """

    def close(self, force: bool = False) -> None:  # noqa: FBT001, FBT002 - the driver's
        """Close it."""
        with suppress(apsw.IOError, apsw.FullError, apsw.CantOpenError):
            super().close(force)


@contextmanager
def surviving_closings() -> Iterator[None]:
    """Have connections close although the disk fails."""
    driver: dict[str, Any] = vars(apsw)
    before = driver["Connection"]
    driver["Connection"] = _QuietConnection
    try:
        yield
    finally:
        driver["Connection"] = before


@contextmanager
def _locked(path: str, vfs: str) -> Iterator[None]:
    """Hold a file's write lock, as another process does."""
    other = apsw.Connection(path, vfs=vfs)
    try:
        other.execute("begin immediate")
        yield
    finally:
        other.close()


@contextmanager
def busy_at_times(disk: FailingDisk, vfs: str) -> Iterator[None]:
    """Have a write of the product find the file locked, where the disk says so."""
    enter, write = Transaction.__enter__, Database.write

    def entering(self: Transaction) -> None:
        database = self._database
        if disk.fails("lock"):
            with _locked(database.path, vfs):
                enter(self)
        else:
            enter(self)

    def writing(self: Database, *args: Any, **options: Any) -> int:
        if self._transaction.is_open or options.get("sync"):
            return write(self, *args, **options)
        if disk.fails("lock"):
            with _locked(self.path, vfs):
                return write(self, *args, **options)
        return write(self, *args, **options)

    places: tuple[tuple[type, str, Any, Any], ...] = (
        (Transaction, "__enter__", enter, entering),
        (Database, "write", write, writing),
    )
    for owner, name, _, other in places:
        setattr(owner, name, other)
    try:
        yield
    finally:
        for owner, name, original, _ in places:
            setattr(owner, name, original)
