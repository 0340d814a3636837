"""A workspace's log on one iterator: what is there already, then what comes, without a gap."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from snapshots import limits
from snapshots.storage.workspaces.rules import delivered_to

if TYPE_CHECKING:
    from collections.abc import Callable

    from snapshots.storage.scopes import Scope
    from snapshots.storage.workspaces.forms import Forms
    from snapshots.storage.workspaces.protocols import Storage, Watch
    from snapshots.storage.workspaces.records import LogEntry

_MS_PER_S: Final = 1_000


class Follower:
    """A place in the log, and what was read behind it and not handed out yet."""

    def __init__(
        self, storage: Storage, scope: Scope, forms: Forms, *, after_seq: int, thread: str | None
    ) -> None:
        """Stand behind `after_seq` in the log of `scope`."""
        self._storage = storage
        self._scope = scope
        self._forms = forms
        self._thread = thread
        self._read_to = after_seq
        self._buffer: deque[LogEntry] = deque()

    @property
    def seq(self) -> int:
        """How far the log was handed out: where a later follower would go on."""
        return self._buffer[0].seq - 1 if self._buffer else self._read_to

    def pop(self) -> LogEntry | None:
        """Hand out the next entry that was read, None if none is left."""
        return self._buffer.popleft() if self._buffer else None

    def look(self) -> bool:
        """Read on in the storage, and return whether there was anything, for this thread or not."""
        rows = self._storage.log(self._scope, after_seq=self._read_to, limit=limits.LOG_SLICE_ROWS)
        if not rows:
            return False
        assert rows[0].seq == self._read_to + 1, "the log has no holes"
        self._buffer += [self._forms.entry(row) for row in rows if delivered_to(row, self._thread)]
        self._read_to = rows[-1].seq
        return True

    def watch(self, wake: Callable[[], None]) -> Watch:
        """Have `wake` called when it may be worth to look; see `Storage.watch`."""
        return self._storage.watch(self._scope, wake)


class Subscription:
    """An iterator over the log behind a seq, that waits at its end and goes on.

    It looks again when the storage gives a hint, and every `poll_ms` in any case, so a hint that
    is missing costs time and no entry. It belongs to one thread, but for `stop`, which ends it
    from any other. In a `with` block it is stopped at the end.
    """

    def __init__(self, follower: Follower, *, poll_ms: int) -> None:
        """Go on where `follower` stands; `Workspace.subscribe` makes one."""
        self._follower = follower
        self._poll_ms = poll_ms
        self._news = threading.Event()
        self._is_stopped = False
        self._watch = follower.watch(self._news.set)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> LogEntry:
        """Return the next entry, waiting for it; StopIteration once it is stopped."""
        while not self._is_stopped:
            found = self._follower.pop()
            if found is not None:
                return found
            # Cleared before the look: what comes behind the look sets it again.
            self._news.clear()
            if not self._follower.look() and not self._is_stopped:
                self._news.wait(self._poll_ms / _MS_PER_S)
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def seq(self) -> int:
        """How far the log was handed out: where a later subscription would go on."""
        return self._follower.seq

    def take(self) -> list[LogEntry]:
        """Return all that is there now, without waiting; at most `LOG_ROWS_MAX` entries."""
        taken: list[LogEntry] = []
        while len(taken) < limits.LOG_ROWS_MAX and not self._is_stopped:
            found = self._follower.pop()
            if found is not None:
                taken.append(found)
            elif not self._follower.look():
                break
        return taken

    def stop(self) -> None:
        """End the iteration, wherever it waits; a second time is harmless."""
        self._is_stopped = True
        self._watch.close()
        self._news.set()
