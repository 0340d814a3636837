"""Apache Burr with its `SQLitePersister`, as shipped.

Measured: `application.step` of four actions in a ring, the action of whose turn it is takes the
values into the application's state, until the persister has saved that state: Burr does so after
each step. With many charts each one is a key of a mapping in the state.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from burr.core import ApplicationBuilder, State, action
from burr.core.persistence import SQLitePersister

from bench.peers.protocol import Step, Values, serve, timed

STATES = ("packing", "packed", "shipped", "returned")


def _take(state: State, chart: str, values: Values) -> State:
    return state.update(charts={**state["charts"], chart: values})


class Application:
    """One application, saved after each step."""

    def __init__(self, folder: Path, charts: Sequence[Values]) -> None:
        self._persister = SQLitePersister.from_values(str(folder / "burr.db"))
        self._persister.initialize()
        take = action(reads=["charts"], writes=["charts"])
        ring = zip(STATES, (*STATES[1:], STATES[0]), strict=True)
        self._application = (
            ApplicationBuilder()
            .with_actions(**{state: take(_take) for state in STATES})
            .with_transitions(*ring)
            .with_state(charts=dict(zip(self._names(charts), charts, strict=True)))
            .with_entrypoint(STATES[0])
            .with_identifiers(app_id="bench", partition_key="bench")
            .with_state_persister(self._persister)
            .build()
        )
        self.measure([(0, charts[0])])

    def _names(self, charts: Sequence[Values]) -> list[str]:
        return [f"chart{number:02}" for number in range(len(charts))]

    def _tell(self, chart: int, values: Values) -> None:
        self._application.step(inputs={"chart": f"chart{chart:02}", "values": values})

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Take the steps."""
        return timed(steps, self._tell)

    def stored(self) -> list[Values]:
        """Return the values of the newest state in the file."""
        found = self._persister.load("bench", "bench")
        charts: dict[str, Values] = found["state"]["charts"]
        return [charts[name] for name in sorted(charts)]

    def close(self) -> None:
        """Close the file."""
        self._persister.cleanup()


if __name__ == "__main__":
    serve("burr", {"apache-burr": version("apache-burr")}, Application)
