"""`machines.draw`: a chart's picture in one line, without a file and without a host."""

from __future__ import annotations

import pytest
from statemachine import State, StateChart

import machines
from machines.charts.fulfilment import Fulfilment
from snapshots.errors import ExtraNotInstalledError
from snapshots.inspection.diagram import rendering


class Order(StateChart):
    """An order that is packed in two steps."""

    class packing(State.Compound):  # noqa: N801 - a state's id
        boxed = State(initial=True)
        sealed = State(final=True)
        seal = boxed.to(sealed)

    paid = State(initial=True)
    gone = State(final=True)
    pack = paid.to(packing)
    done_state_packing = packing.to(gone)


class Watched(StateChart):
    """A chart that starts its callbacks on an event loop only."""

    off = State(initial=True)
    on = State(final=True)
    go = off.to(on)

    async def on_go(self) -> None:
        """Make the chart one for a loop."""


def test_a_class_is_drawn_with_nothing_lit() -> None:
    """States, transitions and charts below are there, and none of them is active."""
    svg = machines.draw(Order)
    assert svg.startswith("<svg ")
    assert "atomic state boxed" in svg
    assert "transition seal from boxed to sealed" in svg
    assert "; active" not in svg


def test_a_live_chart_is_drawn_where_it_stands() -> None:
    """Its active states are lit, those around them too."""
    chart = Order()
    assert "statechart Order; active: paid" in machines.draw(chart)
    chart.send("pack")
    assert "statechart Order; active: packing, boxed" in machines.draw(chart)


def test_a_chart_that_has_not_started_is_drawn_unlit() -> None:
    """An asynchronous chart has no active state before its first step."""
    assert "statechart Watched<" in machines.draw(Watched())


def test_charts_below_are_drawn_beside_it() -> None:
    """What a chart invokes is known from its class."""
    text = machines.draw(Fulfilment, form="mermaid")
    assert text.startswith("stateDiagram-v2")
    assert text.count('state "Shipment') == 2
    assert text == machines.draw(Fulfilment, form="mermaid")


def test_dot_and_mermaid_need_no_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only SVG does, and says which extra has it."""
    for name in ("PROGRAM", "FALLBACK"):
        monkeypatch.setattr(rendering, name, "no-such-program-here")
    assert machines.draw(Order, form="dot").startswith("digraph")
    with pytest.raises(ExtraNotInstalledError):
        machines.draw(Order)
