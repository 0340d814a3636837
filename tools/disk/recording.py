"""What a disk was given, in order and with its bytes."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Final

from tools.disk.watching import Op, Watcher

if TYPE_CHECKING:
    from pathlib import Path

SYNC_S: Final = 0.002
"""How long a sync takes at most: time for others to write in."""


class Recording(Watcher):
    """A log of all that is done to the files of a folder, and what they held before."""

    def __init__(self, folder: Path, seed: int, *, slow: bool = True) -> None:
        """Begin with the files that lie in the folder: they are taken to be on the disk."""
        self.before_it = {str(path): path.read_bytes() for path in sorted(folder.iterdir())}
        self.log: list[Op] = []
        self._lock = threading.Lock()
        self._rng = random.Random(seed)
        self._sync_s = SYNC_S if slow else 0.0

    def began(self) -> int:
        """Return how long the log is, and let the time pass that a sync takes."""
        length = len(self.log)
        if self._sync_s:
            time.sleep(self._rng.random() * self._sync_s)
        return length

    def after(self, op: Op) -> None:
        """Append to the log."""
        with self._lock:
            self.log.append(op)


class Liar(Recording):
    """A disk that says of every sync that it is done, and does none."""

    def after(self, op: Op) -> None:
        """Note all but syncs."""
        if op.kind not in ("sync", "folder"):
            super().after(op)
