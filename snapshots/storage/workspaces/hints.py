"""Who wants to be woken when a workspace changes, within one process."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from snapshots.storage.scopes import Scope


def place(scope: Scope) -> tuple[str, str]:
    """Return what tells a workspace from all others: tenant and workspace."""
    return scope.tenant, scope.workspace


class Hints:
    """The wishes to be woken that one storage knows; for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watches: dict[Hashable, list[HintWatch]] = {}

    def watch(self, where: Hashable, wake: Callable[[], None]) -> HintWatch:
        """Have `wake` called at each `ring` for that place."""
        watch = HintWatch(self, where, wake)
        with self._lock:
            self._watches.setdefault(where, []).append(watch)
        return watch

    def ring(self, where: Hashable) -> None:
        """Wake those who watch a place."""
        with self._lock:
            found = list(self._watches.get(where, ()))
        for watch in found:
            watch.wake()

    def ring_all(self) -> None:
        """Wake everybody."""
        with self._lock:
            found = [watch for watches in self._watches.values() for watch in watches]
        for watch in found:
            watch.wake()

    def drop(self, watch: HintWatch) -> None:
        """Forget a wish; one that is not known is none."""
        with self._lock:
            watches = self._watches.get(watch.where, [])
            if watch in watches:
                watches.remove(watch)
            if not watches:
                self._watches.pop(watch.where, None)

    def __len__(self) -> int:
        """How many wishes there are."""
        with self._lock:
            return sum(map(len, self._watches.values()))


class HintWatch:
    """One wish to be woken."""

    __slots__ = ("_hints", "wake", "where")

    def __init__(self, hints: Hints, where: Hashable, wake: Callable[[], None]) -> None:
        self._hints = hints
        self.where = where
        self.wake = wake

    def close(self) -> None:
        """See `Watch.close`."""
        self._hints.drop(self)
