"""Events as the library's engines take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine.event import BoundEvent
from statemachine.event_data import TriggerData

from machines.engine.queues import Queued

if TYPE_CHECKING:
    from collections.abc import Mapping

    from statemachine import StateChart


def make_trigger(
    chart: StateChart[Any],
    event: str | None,
    name: str | None = None,
    *,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    send_id: str | None = None,
    internal: bool = False,
) -> TriggerData:
    """Return an event for a chart, without a delay, as `chart.send` would make it."""
    assert event is not None
    if name is None:
        known = getattr(type(chart), event, None)
        name = getattr(known, "name", None) or event
    bound = BoundEvent(event, name=name, internal=internal, _sm=chart)
    trigger = TriggerData(machine=chart, event=bound, send_id=send_id, args=args)
    trigger.kwargs = dict(kwargs or {})
    return trigger


def readdress(item: Queued, chart: StateChart[Any]) -> Queued:
    """Return a queued event for the chart that took the place of the one it was made for."""
    old = item.trigger
    assert old.event is not None
    trigger = make_trigger(
        chart,
        str(old.event),
        old.event.name,
        args=old.args,
        kwargs=old.kwargs,
        send_id=old.send_id,
    )
    trigger.future = old.future
    return Queued(item.at, item.seq, trigger, item.invoke, item.epoch)
