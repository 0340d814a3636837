"""What a hand-written chart brings along: its class, its script, and what it guards."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from statemachine import StateChart

from tools.charts.trace import TraceModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tools.charts.spec import Step

ROWS = (
    "configuration",
    "history",
    "model fields",
    "own attributes",
    "constructor arguments",
    "external queue",
    "timers",
    "pending invokes",
    "active invokes",
    "children",
    "status and started flags",
    "invoke counter",
    "root parallel is final",
    "turn in a tree",
    "engine kind",
    "document session",
    "weighted generator",
)
"""What a snapshot must hold; each row has at least one named chart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedChart:
    """A hand-written chart: a runner treats it as it does a specification.

    ``build`` makes the class anew, as a new process would. ``rebuild``, where it is given, makes
    the class that the process after a restart has, and ``is_refused`` says that rebuilding with
    it must raise. ``guards`` tells what is seen if the row is left out.
    """

    name: str
    row: str
    guards: str
    build: Callable[[], type[StateChart[Any]]]
    script: tuple[Step, ...]
    fields: Mapping[str, int] = field(default_factory=dict)
    start: Mapping[str, int] = field(default_factory=dict)
    reported: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    incomparable: tuple[str, ...] = ()
    rebuild: Callable[[], type[StateChart[Any]]] | None = None
    is_refused: bool = False

    @property
    def comparable_with_plain(self) -> bool:
        """Whether our engine must do exactly what the library's own does."""
        return not self.incomparable


def named(make: Callable[[], NamedChart], **parts: Any) -> NamedChart:
    """A named chart whose name and description are those of the function that makes it."""
    guards = " ".join((make.__doc__ or "").split())
    return NamedChart(name=make.__name__, guards=guards, **parts)


class Traced(StateChart[TraceModel]):
    """A chart that traces the states that it enters, and with which data."""

    def __init__(self, model: TraceModel | None = None) -> None:
        super().__init__(TraceModel() if model is None else model)

    def on_enter_state(self, state: Any, model: TraceModel, event: Any, data: Any = None) -> None:
        """Trace that a state is entered."""
        shown = "" if data is None else f" {data}"
        model.happened("enter", f"{state.id} by {event or 'nothing'}{shown}")
