"""What it costs to take a chart apart and to build it again, small and with 40 states."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
from statemachine import StateChart

from bench.charts import ROUND, STATES, Forty, Parcel, Small
from machines import Snapshot, capture, rebuild

if TYPE_CHECKING:
    from bench.beside import Arm, Beside

pytest_plugins = ("bench.beside",)

Event = tuple[str, dict[str, Any]]


class Captures:
    """Captures a chart of the library's own engine, each time in another state."""

    def __init__(self, name: str, chart: StateChart[Any], events: tuple[Event, ...]) -> None:
        self.name = name
        self._chart = chart
        self._events = events
        self._sent = 0
        self._snapshot: Snapshot | None = None

    def prepare(self) -> None:
        """Lead the chart one state on."""
        event, data = self._events[self._sent % len(self._events)]
        self._chart.send(event, **data)
        self._sent += 1

    def act(self) -> None:
        """Take its snapshot."""
        self._snapshot = capture(self._chart)

    def check(self) -> None:
        """Assert that the snapshot holds the chart's state and model."""
        assert self._snapshot is not None
        root = self._snapshot.read()["root"]
        assert root["configuration"] == [state.id for state in self._chart.configuration]
        fields = vars(self._chart.model).copy()
        del fields[self._chart.state_field]
        assert root.get("context", {}) == fields


class Rebuilds:
    """Builds a chart from a snapshot of it."""

    def __init__(self, name: str, chart: StateChart[Any], event: Event) -> None:
        self.name = name
        self._original = chart
        self._snapshot = capture(chart)
        self._event = event
        self._rebuilt: StateChart[Any] | None = None

    def prepare(self) -> None:
        """Do nothing: a snapshot never changes."""

    def act(self) -> None:
        """Build a new chart."""
        self._rebuilt = rebuild(type(self._original), self._snapshot)

    def check(self) -> None:
        """Assert that the new chart is where the first one is, and goes where that one goes."""
        event, data = self._event
        assert self._rebuilt is not None
        for chart in (self._original, self._rebuilt):
            chart.send(event, **data)
        assert self._rebuilt is not self._original
        assert capture(self._rebuilt).read()["root"] == capture(self._original).read()["root"]


class Constructions:
    """Makes a chart of the library from nothing."""

    def __init__(self, chart: type[StateChart[Any]], model: type | None = None) -> None:
        self.name = "plain construction of it"
        self._class = chart
        self._model = model
        self._made: StateChart[Any] | None = None

    def prepare(self) -> None:
        """Do nothing."""

    def act(self) -> None:
        """Make one."""
        self._made = self._class(self._model() if self._model is not None else None)

    def check(self) -> None:
        """Assert that it entered its initial state."""
        assert self._made is not None
        assert [state.initial for state in self._made.configuration] == [True]


def small() -> StateChart[Any]:
    """Return a small chart that has packed."""
    chart = Small(Parcel())
    chart.send("pack", boxes=3)
    return chart


def forty() -> StateChart[Any]:
    """Return a chart of 40 states in its second one."""
    chart = Forty()
    assert len(type(chart).states) == STATES
    chart.send("step")
    return chart


def small_captures() -> Captures:
    """Return the captures of a small chart."""
    return Captures("capture of the small chart", small(), (*ROUND[1:], ROUND[0]))


@pytest.mark.benchmark(group="capture")
def test_capture_of_the_small_chart(alone: Callable[[Arm, int], None]) -> None:
    """`capture` of the small chart."""
    alone(small_captures(), 300)


@pytest.mark.benchmark(group="capture")
def test_capture_of_40_states(beside: Beside) -> None:
    """`capture` of a chart of 40 states, beside that of the small one."""
    ours = Captures("capture of 40 states", forty(), (("step", {}),))
    beside(ours, small_captures(), rounds=300)


@pytest.mark.benchmark(group="rebuild")
def test_rebuild_of_the_small_chart(beside: Beside) -> None:
    """`rebuild` of the small chart, beside making one with the library."""
    ours = Rebuilds("rebuild of the small chart", small(), ROUND[1])
    beside(ours, Constructions(Small, Parcel), rounds=300)


@pytest.mark.benchmark(group="rebuild")
def test_rebuild_of_40_states(beside: Beside) -> None:
    """`rebuild` of a chart of 40 states, beside making one with the library."""
    ours = Rebuilds("rebuild of 40 states", forty(), ("step", {}))
    beside(ours, Constructions(Forty), rounds=200)
