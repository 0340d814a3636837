"""System variables that a loaded document keeps as data: stored by what they say, not as objects.

A document may assign `_event` or `_ioprocessors` to a variable of its data model (SCXML 5.10). The
objects behind them hold the machine itself; a snapshot holds records, and a rebuilt chart gets
views of its own machine again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statemachine.io.system_variables import EventDataWrapper, IOProcessor, OriginTypeSCXML

from machines.tree import Node, make_trigger
from snapshots.codec import persistent


@persistent("scxml.event")
@dataclass(frozen=True, slots=True, kw_only=True)
class EventRecord:
    """What `_event` said when it was kept."""

    event: str
    internal: bool
    send_id: str | None
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@persistent("scxml.ioprocessors")
@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorRecord:
    """That `_ioprocessors`, or one of them, was kept."""


DOCUMENT_TYPES: tuple[type, ...] = (EventRecord, ProcessorRecord, OriginTypeSCXML)


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
    trigger = value._trigger_data  # noqa: SLF001 - pinned
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
        None,
        value.args,
        value.kwargs,
        value.send_id,
        internal=value.internal,
    )
    return EventDataWrapper(trigger_data=trigger)
