"""A picture of a chart class, or of a live chart with its active states lit, without any file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from machines.names import names_of
from machines.shape import shape_bytes

if TYPE_CHECKING:
    from statemachine import StateChart

Form = Literal["svg", "dot", "mermaid"]


def draw(chart: StateChart[Any] | type[StateChart[Any]], *, form: Form = "svg") -> str:
    """Return a chart as SVG, as DOT or as Mermaid text, the charts that it invokes beside it.

    Of a class its states, transitions and what they invoke are drawn; of an instance its active
    states are lit as well. The same chart gives the same text. SVG needs Graphviz: raises
    `ExtraNotInstalledError` where none is found (the extra "console" has one), `DrawingError`
    where it fails.
    """
    # Most programs draw nothing, and start without what it takes.
    from snapshots.inspection import diagram  # noqa: PLC0415 - see above

    kind = chart if isinstance(chart, type) else type(chart)
    active = () if isinstance(chart, type) else names_of(kind).active(chart)
    picture = diagram.picture_of_shape(shape_bytes(kind), active=active)
    forms = {"svg": diagram.to_svg, "dot": diagram.to_dot, "mermaid": diagram.to_mermaid}
    return forms[form](picture)
