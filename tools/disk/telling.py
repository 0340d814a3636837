"""Has a history told of what the product does: methods of it are wrapped while a block is open."""

from __future__ import annotations

from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, Final

from machines.run.run import Run
from snapshots.database import Database, Transaction
from snapshots.database.checkpoints import Checkpoints
from snapshots.store.sqlite import SqliteSnapshotStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tools.disk.history import History
    from tools.disk.watching import WatchedVfs

    Wrapped = Callable[[History, str, Any], Any]


def _committed(history: History, vfs: str, original: Any) -> Any:
    """SQLite's own hook, which it calls at each commit: its rows are read there and then."""

    def committed(self: Checkpoints, connection: Any, name: str, pages: int) -> int:
        history.committed(connection.filename, vfs)
        result: int = original(self, connection, name, pages)
        return result

    return committed


def _left(history: History, _vfs: str, original: Any) -> Any:
    def leave(self: Transaction, *error: Any) -> None:
        sync = self.sync
        original(self, *error)
        if sync and error[0] is None:
            history.must_last("its save was synced")

    return leave


def _put(history: History, _vfs: str, original: Any) -> Any:
    def put(self: Run, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        assert self.header is not None
        history.truth[self.run_id, self.header.revision] = self.as_value()

    return put


def _marked(history: History, _vfs: str, original: Any) -> Any:
    def mark(self: SqliteSnapshotStore, header: Any, *args: Any) -> Any:
        marked = original(self, header, *args)
        held = history.truth[header.run_id, header.revision]
        history.truth[header.run_id, marked.revision] = held
        return marked

    return mark


def _opened(history: History, _vfs: str, original: Any) -> Any:
    def make(self: Database, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        if self.checkpoints is not None:
            history.opened()

    return make


def _closed(history: History, _vfs: str, original: Any) -> Any:
    def close(self: Database) -> None:
        is_last_use = self.checkpoints is not None and not self._is_closed
        if is_last_use:
            history.closes()
        original(self)
        if is_last_use:
            history.closed()

    return close


_SEAMS: Final[tuple[tuple[type, str, Wrapped], ...]] = (
    (Checkpoints, "committed", _committed),
    (Transaction, "__exit__", _left),
    (Run, "put", _put),
    (SqliteSnapshotStore, "mark", _marked),
    (Database, "__init__", _opened),
    (Database, "close", _closed),
)


@contextmanager
def told(history: History, vfs: WatchedVfs) -> Iterator[None]:
    """Have a history told of all that the product does in the block."""
    originals = [vars(owner)[name] for owner, name, _ in _SEAMS]
    for (owner, name, wrapped), original in zip(_SEAMS, originals, strict=True):
        setattr(owner, name, wraps(original)(wrapped(history, vfs.base, original)))
    try:
        yield
    finally:
        for (owner, name, _), original in zip(_SEAMS, originals, strict=True):
            setattr(owner, name, original)
        history.closes()
