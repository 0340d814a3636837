"""DBOS Transact on SQLite, as shipped.

Measured: one step of a workflow that runs, which returns the new values; DBOS has recorded them
when the step returns, and a workflow that is recovered gets them from there. Starting the workflow
is not in. With many charts a step records the values of the one that changed, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter_ns

from dbos import DBOS

from bench.peers.protocol import Step, Values, serve


def _take(chart: int, values: Values) -> Step:
    return chart, values


take = DBOS.step()(_take)


def _work(steps: Sequence[Step]) -> list[int]:
    took_ns: list[int] = []
    for chart, values in steps:
        start_ns = perf_counter_ns()
        take(chart, values)
        took_ns.append(perf_counter_ns() - start_ns)
    return took_ns


work = DBOS.workflow()(_work)
FILES: list[str] = []


class Workflows:
    """A workflow for each turn, in one file: DBOS has one database a process."""

    def __init__(self, folder: Path, charts: Sequence[Values]) -> None:
        if not FILES:
            FILES.append(f"sqlite:///{folder / 'dbos.db'}")
            config = {"name": "bench", "system_database_url": FILES[0], "log_level": "ERROR"}
            DBOS(config=config)
            DBOS.launch()
        self._stored: list[Values] = list(charts)
        self._handles: list[str] = []
        self.measure(list(enumerate(charts)))

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Run a workflow whose steps these are."""
        handle = DBOS.start_workflow(work, list(steps))
        took_ns: list[int] = handle.get_result()
        self._handles.append(handle.get_workflow_id())
        return took_ns

    def stored(self) -> list[Values]:
        """Return the values that the newest step of each chart has recorded."""
        for workflow in self._handles:
            for step in DBOS.list_workflow_steps(workflow):
                chart, values = step["output"]
                self._stored[chart] = values
        return self._stored

    def close(self) -> None:
        """End what DBOS has running."""
        if FILES:
            FILES.clear()
            DBOS.destroy()


if __name__ == "__main__":
    serve("dbos", {"dbos": version("dbos")}, Workflows)
