"""The floor: an upsert of ready bytes, as many as the state has as JSON, through apsw.

Measured: one autocommitted `insert … on conflict do update` on a file set up as the store's is. The
bytes are made beforehand and all fresh; their number varies by 5 % around that of the state.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import apsw

from bench.peers.protocol import Step, Values, serve
from bench.raw import raw_upsert
from bench.turns import turn_of


class Raw:
    """Writes bytes over one row."""

    def __init__(self, folder: Path, charts: Sequence[Values]) -> None:
        self._opened = ExitStack()
        size = len(json.dumps(charts, separators=(",", ":")))
        self._arm = self._opened.enter_context(raw_upsert(folder / "raw.db", size))

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Write as often as there are steps."""
        return turn_of(self._arm, len(steps))()

    def stored(self) -> None:
        """Return nothing, since bytes are no values; those of the last write must be there."""
        self._arm.check()

    def close(self) -> None:
        """Close the file."""
        self._opened.close()


if __name__ == "__main__":
    serve("raw", {"apsw": apsw.apsw_version(), "SQLite": apsw.sqlite_lib_version()}, Raw)
