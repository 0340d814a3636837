"""What a snapshot holds of a document's system variables: what they said, not the objects.

A document may assign `_event` or `_ioprocessors` to a variable of its data model (SCXML 5.10); the
objects behind them hold the machine itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from statemachine.io.system_variables import OriginTypeSCXML

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
