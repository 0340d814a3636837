"""System variables that a document keeps as data: records when stored, views in a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine.io.system_variables import EventDataWrapper, IOProcessor

from machines.engine.triggers import make_trigger
from machines.system_variables import EventRecord, ProcessorRecord

if TYPE_CHECKING:
    from machines.engine.nodes import Node


def stored(fields: dict[str, Any]) -> dict[str, Any]:
    """Return a document's data with records in place of system variables."""
    return {key: _to_record(value) for key, value in fields.items()}


def revived(fields: dict[str, Any], node: Node) -> dict[str, Any]:
    """Return a document's data with views of its machine in place of records."""
    return {key: _from_record(value, node) for key, value in fields.items()}


def _to_record(value: Any) -> Any:
    if isinstance(value, IOProcessor):
        return ProcessorRecord()
    if not isinstance(value, EventDataWrapper):
        return value
    trigger = value._trigger_data
    return EventRecord(
        event=str(trigger.event),
        internal=bool(trigger.event and trigger.event.internal),
        send_id=trigger.send_id,
        args=trigger.args,
        kwargs={key: v for key, v in trigger.kwargs.items() if key != "_invoke_session"},
    )


def _from_record(value: Any, node: Node) -> Any:
    if isinstance(value, ProcessorRecord):
        assert node.shared is not None
        processor = IOProcessor(node.shared.cells.interpreter, node.chart)
        node.shared.processor = node.shared.processor or processor
        return node.shared.processor
    if not isinstance(value, EventRecord):
        return value
    trigger = make_trigger(
        node.chart,
        value.event,
        args=value.args,
        kwargs=value.kwargs,
        send_id=value.send_id,
        internal=value.internal,
    )
    return EventDataWrapper(trigger_data=trigger)
