"""LangGraph, whose checkpointer is langgraph-checkpoint-sqlite's `SqliteSaver`, as shipped.

Measured: `graph.invoke` on one thread, where one node takes the values into the graph's state,
until the saver has the checkpoint. `durability="exit"` has one checkpoint written for each
invocation, the least that it offers. With many charts each one is a key of the state, and so a
channel of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph

from bench.peers.protocol import Step, Values, serve, timed


def _take(state: dict[str, Any]) -> dict[str, Any]:
    """Keep the values that came: the state's other keys stay."""
    told: dict[str, Any] = state["told"]
    return told


class Graph:
    """One thread of a graph with a single node."""

    def __init__(self, folder: Path, charts: Sequence[Values]) -> None:
        self._names = [f"chart{number:02}" for number in range(len(charts))]
        keys: dict[str, Any] = dict.fromkeys((*self._names, "told"), dict)
        graph = StateGraph(TypedDict("State", keys))  # type: ignore[operator]  # keys made here
        graph.add_node("take", _take)
        graph.add_edge(START, "take")
        graph.add_edge("take", END)
        self._opened = SqliteSaver.from_conn_string(str(folder / "langgraph.db"))
        self._graph = graph.compile(checkpointer=self._opened.__enter__())
        self._thread = {"configurable": {"thread_id": "1"}}
        self._invoke(dict(zip(self._names, charts, strict=True)))

    def _invoke(self, told: dict[str, Values]) -> None:
        self._graph.invoke({"told": told}, self._thread, durability="exit")

    def measure(self, steps: Sequence[Step]) -> list[int]:
        """Invoke the graph, each time with the new values of one chart."""
        names = self._names
        return timed(steps, lambda chart, values: self._invoke({names[chart]: values}))

    def stored(self) -> list[Values]:
        """Return the values of the thread's newest checkpoint."""
        state = self._graph.get_state(self._thread).values
        return [state[name] for name in self._names]

    def close(self) -> None:
        """Close the file."""
        self._opened.__exit__(None, None, None)


if __name__ == "__main__":
    serve(
        "langgraph",
        {name: version(name) for name in ("langgraph", "langgraph-checkpoint-sqlite")},
        Graph,
    )
