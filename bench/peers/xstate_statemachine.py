"""xstate-statemachine with its `SQLiteStore`, as shipped.

Measured: `interpreter.send` of an event to a machine of four states in a ring, whose action takes
the values into the context, then `save_interpreter` with the version that it saved last. The
interpreter stays in memory. With many charts each one is a key of a mapping in the context.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from xstate_statemachine import MachineLogic, SyncInterpreter, create_machine
from xstate_statemachine.persistence import SQLiteStore, save_interpreter

from bench.peers.protocol import Step, Values, serve, timed

STATES = ("packing", "packed", "shipped", "returned")
KEY = "bench"


def _take(_interpreter: Any, context: dict[str, Any], event: Any, _action: Any) -> None:
    context["charts"][event.payload["chart"]] = event.payload["values"]


class Machine:
    """One machine, saved after each event."""

    def __init__(self, folder: Path, charts: Sequence[Values]) -> None:
        ring = zip(STATES, (*STATES[1:], STATES[0]), strict=True)
        config = {
            "id": "ring",
            "initial": STATES[0],
            "context": {"charts": {str(place): values for place, values in enumerate(charts)}},
            "states": {one: {"on": {"GO": {"target": to, "actions": "take"}}} for one, to in ring},
        }
        machine = create_machine(config, logic=MachineLogic(actions={"take": _take}))
        self._store = SQLiteStore(folder / "xstate.db")
        self._interpreter = SyncInterpreter(machine)
        self._interpreter.start()
        self._version = save_interpreter(self._store, KEY, self._interpreter)

    def _tell(self, chart: int, values: Values) -> None:
        self._interpreter.send("GO", chart=str(chart), values=values)
        self._version = save_interpreter(
            self._store, KEY, self._interpreter, expected_version=self._version
        )

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Send the events, and save after each."""
        return timed(steps, self._tell)

    def stored(self) -> list[Values]:
        """Return the values of the snapshot in the file."""
        snapshot = self._store.load(KEY).snapshot
        value = json.loads(snapshot) if isinstance(snapshot, str) else snapshot
        charts: dict[str, Values] = value["context"]["charts"]
        return list(charts.values())

    def close(self) -> None:
        """Close the file."""
        self._store.close()


if __name__ == "__main__":
    serve("xstate-statemachine", {"xstate-statemachine": version("xstate-statemachine")}, Machine)
