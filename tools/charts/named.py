"""Hand-written charts, one for each thing that a snapshot must hold.

Each is run by a script, with a restart at every boundary. Left out of the snapshot, the thing that
the chart guards shows as a difference in its trace, which the chart's docstring describes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.charts.named_documents import (
    child_document,
    first_event_raised,
    initialised_flag,
    session_id,
    turn_in_a_tree,
)
from tools.charts.named_states import (
    configuration_order,
    constructor_arguments,
    deep_history,
    engine_kind,
    finished_flag,
    history,
    model_fields,
    own_attributes,
    root_parallel_is_final,
    weighted_generator,
)
from tools.charts.named_work import (
    active_invokes,
    children,
    done_sent_flag,
    external_queue,
    invoke_counter,
    pending_invokes,
    send_ids,
    started_flag,
    timeouts,
    timers,
)
from tools.charts.subject import ROWS, NamedChart

if TYPE_CHECKING:
    from collections.abc import Callable

MAKERS: tuple[Callable[[], NamedChart], ...] = (
    configuration_order,
    history,
    deep_history,
    model_fields,
    own_attributes,
    constructor_arguments,
    external_queue,
    timers,
    send_ids,
    timeouts,
    pending_invokes,
    active_invokes,
    done_sent_flag,
    children,
    child_document,
    finished_flag,
    started_flag,
    invoke_counter,
    root_parallel_is_final,
    turn_in_a_tree,
    engine_kind,
    session_id,
    initialised_flag,
    first_event_raised,
    weighted_generator,
)


def named_charts() -> dict[str, NamedChart]:
    """All named charts by their names, in the order of the rows that they guard."""
    charts = [make() for make in MAKERS]
    return {chart.name: chart for chart in charts}


__all__ = ["MAKERS", "ROWS", "NamedChart", "named_charts"]
