"""A program to be measured that keeps its charts in a file of JSON; it can be told to misbehave."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.protocol import Step, Values, serve, timed

MODE = sys.argv[1] if len(sys.argv) > 1 else "good"


class Kept:
    """The charts, written whole."""

    def __init__(self, folder: Path, charts: Sequence[Values]) -> None:
        assert list(folder.iterdir()) == []
        print("a library that prints")  # noqa: T201 - what libraries print must not be an answer
        self._file = folder / "charts.json"
        self._charts = list(charts)
        self._write()

    def _write(self) -> None:
        self._file.write_text(json.dumps(self._charts), encoding="utf-8")

    def _tell(self, chart: int, values: Values) -> None:
        self._charts[chart] = values
        self._write()

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Do the steps, or what this one does instead."""
        if MODE == "raises":
            message = "the disk is on fire"
            raise OSError(message)
        if MODE == "dies":
            sys.exit("I cannot go on")
        if MODE == "forgets":
            return [1 for _ in steps]
        return timed(steps, self._tell)[1 if MODE == "skips" else 0 :]

    def stored(self) -> list[Values]:
        """Return what the file holds."""
        charts: list[Values] = json.loads(self._file.read_text(encoding="utf-8"))
        return charts

    def close(self) -> None:
        """Leave a sign that it was ended, and not killed."""
        self._file.with_name("closed").touch()


if __name__ == "__main__":
    if MODE == "babbles":
        print("good morning", flush=True)  # noqa: T201 - it is no answer
    elif MODE == "is refused":
        sys.exit("no module named peer")
    serve("fake", {"fake": "1.0"}, Kept)
