"""Events as the library's engines take them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from statemachine import Event
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
    delay: float = 0,
) -> TriggerData:
    """Return an event for a chart as `chart.send` would make it, `delay` in ms."""
    assert event is not None
    if name is None and not internal and not delay:
        bound = _bound(chart, event)
    else:
        name = name or _name_of(chart, event)
        bound = BoundEvent(event, name=name, delay=delay, internal=internal, _sm=chart)
    data = dict(kwargs) if kwargs is not None else {}
    return TriggerData(machine=chart, event=bound, send_id=send_id, args=args, kwargs=data)


def _bound(chart: StateChart[Any], event: str) -> BoundEvent:
    """Return an event as it is sent to a chart; one that its class declares is made once."""
    engine: Any = vars(chart).get("_engine")
    kept: dict[str, BoundEvent] = getattr(engine, "events", {})
    bound = kept.get(event)
    if bound is None:
        bound = BoundEvent(event, name=_name_of(chart, event), _sm=chart)
        if isinstance(getattr(type(chart), event, None), Event):
            kept[event] = bound
    return bound


def _name_of(chart: StateChart[Any], event: str) -> str:
    known = getattr(type(chart), event, None)
    return getattr(known, "name", None) or event


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
