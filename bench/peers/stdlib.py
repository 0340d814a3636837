"""sqlite3 and json of Python's standard library: what one writes without any library.

Measured: new values in a plain dict, `json.dumps` of the whole state, and an upsert of the text in
a transaction of its own. The file has a write-ahead log and `synchronous=NORMAL`; there is no state
machine in it, so it is the least that a design with one JSON text a run costs in Python.
"""

from __future__ import annotations

import json
import platform
import sqlite3
from collections.abc import Sequence
from pathlib import Path

from bench.peers.protocol import Step, Values, serve, timed

UPSERT = """
insert into runs (id, state) values (1, ?) on conflict (id) do update set state = excluded.state"""


class Plain:
    """A state that is one dict, written whole."""

    def __init__(self, folder: Path, charts: Sequence[Values]) -> None:
        self._charts = list(charts)
        self._connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
        self._connection.execute("pragma journal_mode=wal")
        self._connection.execute("pragma synchronous=normal")
        self._connection.execute("create table runs (id integer primary key, state text not null)")
        self._save()

    def _save(self) -> None:
        self._connection.execute(UPSERT, (json.dumps({"charts": self._charts}),))

    def _tell(self, chart: int, values: Values) -> None:
        self._charts[chart] = values
        self._save()

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Change the dict and write it, each time."""
        return timed(steps, self._tell)

    def stored(self) -> list[Values]:
        """Return the values that the row holds."""
        ((text,),) = self._connection.execute("select state from runs")
        charts: list[Values] = json.loads(text)["charts"]
        return charts

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


if __name__ == "__main__":
    serve("sqlite3 + json", {"Python": platform.python_version()}, Plain)
