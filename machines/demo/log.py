"""The log of the process outside, read as it grows: what really happened."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from machines.demo.outside.book import ONCE
from snapshots.codec import load

if TYPE_CHECKING:
    from pathlib import Path


class Log:
    """Everything that the process outside wrote down, in its order."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0
        self._entries: list[dict[str, Any]] = []

    def entries(self) -> list[dict[str, Any]]:
        """Return every entry so far, whatever it tells of."""
        if self._path.exists():
            with self._path.open("rb") as stream:
                stream.seek(self._read_bytes)
                whole = stream.read().rpartition(b"\n")[0]
            if whole:
                self._read_bytes += len(whole) + 1
                self._entries += [load(line) for line in whole.split(b"\n")]
        return self._entries

    def accepted(self) -> list[dict[str, Any]]:
        """Return every request to do something that was accepted."""
        return [entry for entry in self.entries() if "key" in entry]

    def notes(self, what: str) -> list[dict[str, Any]]:
        """Return the entries that tell of something else."""
        return [entry for entry in self.entries() if entry.get("note") == what]

    def seen(self) -> Counter[tuple[str, str]]:
        """Return how often each thing was accepted for each key."""
        return Counter((entry["what"], entry["key"]) for entry in self.accepted())

    def reference(self, what: str, key: str) -> str | None:
        """Return the reference of what was done for a key."""
        return self._told(what, key, "reference")

    def subject(self, what: str, key: str) -> str | None:
        """Return what it was said to be about."""
        return self._told(what, key, "subject")

    def _told(self, what: str, key: str, field: str) -> str | None:
        for entry in self.accepted():
            if entry["what"] == what and entry["key"] == key:
                return str(entry[field])
        return None

    def repeated(self) -> list[str]:
        """Return what happened again although it may happen only once, whatever its key was."""
        happened = Counter((e["what"], e["subject"]) for e in self.accepted() if e["what"] in ONCE)
        return [
            f"{what} of {subject}: {times} times"
            for (what, subject), times in happened.items()
            if times > 1
        ]
