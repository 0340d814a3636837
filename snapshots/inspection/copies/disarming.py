"""A run's snapshot disarmed: whoever opens it calls nothing, and nothing in it moves by itself.

What a host would do at once, or later by the clock, is taken out of its hands:

- an effect that was to be called, or was being called, is in doubt, and says why; nobody waits
  for its outcome, so that neither a retry nor a probe nor `again` can call it;
- a plain invoke that was running, or was about to, has ended without an outcome;
- a chart that was invoked and had not begun does not begin;
- timers, and events that were queued, wait from `HELD_MS` on, in the order that they had;
- an approval's gate is a gate like any other, which no host announces.

States, models, gates, history and the other ledgers stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from snapshots.errors import DecodeError
from snapshots.ledgers.effects import whole
from snapshots.limits import NO_TIMER_MS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Value = dict[str, Any]

HELD_MS: Final = NO_TIMER_MS + 1
"""The first moment of what is held: a host whose clock is turned there lets all of it happen."""
REASON: Final = "Disarmed"

_TO_CALL: Final = {
    "intent": "it was about to be called",
    "calling": "its call was under way, and the original may have its outcome by now",
}
_ENDED: Final = ("sent", "terminated", "cancelled")
_OUTSIDE: Final = ("call", "effect")
_KEPT: Final = ("event", "name", "send_id", "args", "kwargs")
_DOUBT: Final = "error.indoubt."


@dataclass(slots=True)
class Disarmed:
    """What was disarmed: ids of effects and invokes, the latter by the paths of their charts.

    `queued` counts events that are held, `timers` the timers, `approvals` the gates that lost
    their key.
    """

    effects: list[str] = field(default_factory=list)
    invokes: list[str] = field(default_factory=list)
    not_begun: list[str] = field(default_factory=list)
    timers: int = 0
    queued: int = 0
    approvals: int = 0


def disarm(blob: Value, run_id: str) -> tuple[Value, Disarmed]:
    """Return an unfolded blob, which is changed, disarmed and under the id `run_id`; and how.

    Under another id the effects keep their former idempotency keys. Raises DecodeError for what
    is no blob.
    """
    former = str(blob.get("run"))
    try:
        return blob, _disarmed(blob, run_id)
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        reason = f"it is no snapshot that can be disarmed ({type(error).__name__}: {error})"
        raise DecodeError(former, reason) from error


def _disarmed(blob: Value, run_id: str) -> Disarmed:
    done = Disarmed()
    _doubt(blob, run_id, done)
    held: list[Value] = []
    if blob["root"].get("started") is not True:
        message = "its root chart has not begun"
        raise ValueError(message)
    for path, node in [*_charts("", blob["root"])]:
        _leave_out_unbegun(path, node, done)
    for path, node in _charts("", blob["root"]):
        _end_work(path, node, blob, done)
        held += _taken_from_queue(path, node)
    for arrival in blob.pop("arrivals", ()):
        held.append(_held(arrival["node"], arrival["item"]))
    blob.pop("turn", None)
    blob.pop("between", None)
    _hold(blob, held, done)
    blob["run"] = run_id
    return done


def _charts(path: str, node: Value) -> Iterator[tuple[str, Value]]:
    yield path, node
    for key, below in node.get("children", {}).items():
        yield from _charts(_below(path, key), below)


def _below(path: str, key: str) -> str:
    return f"{path}/{key}" if path else key


# -- effects --------------------------------------------------------------------------------------


def _doubt(blob: Value, run_id: str, done: Disarmed) -> None:
    """Leave no effect to be called, and give all of them the ids that they have in this run."""
    rows = []
    for stored in blob.get("effects", ()):
        row = whole(stored)
        said = _TO_CALL.get(row["status"])
        renamed = "/".join(part for part in (run_id, row["node"], row["invoke"]) if part)
        row = row | {"id": renamed}
        if said is not None:
            message = f"this is a fork of the run, which calls nothing: {said}"
            row |= {"status": "unknown", "error": {"type": REASON, "message": message}}
            done.effects.append(renamed)
        rows.append(row)
    if rows:
        blob["effects"] = rows


# -- what states invoked --------------------------------------------------------------------------


def _leave_out_unbegun(path: str, node: Value, done: Disarmed) -> None:
    """Take charts out that were made and have not run: what they enter first would be called."""
    children = node.get("children", {})
    for key in [key for key, below in children.items() if below.get("started") is not True]:
        del children[key]
        done.not_begun.append(_below(path, key))
        for invoke in node.get("invokes", ()):
            if invoke["id"] == key:
                invoke["terminated"] = True


def _end_work(path: str, node: Value, blob: Value, done: Disarmed) -> None:
    for invoke in node.get("invokes", ()):
        is_live = not any(invoke.get(flag) for flag in _ENDED)
        if is_live and invoke["kind"] in _OUTSIDE:
            invoke["terminated"] = True
            if invoke["kind"] == "call":
                done.invokes.append(_below(path, invoke["id"]))
        if invoke.pop("approval", None) is not None:
            done.approvals += 1
    effects = {(row["node"], row["invoke"]) for row in blob.get("effects", ())}
    for mark in node.pop("pending", ()):
        if "id" in mark:
            node.setdefault("invokes", []).append(_ended(mark))
        if (path, mark.get("id")) not in effects:
            done.not_begun.append(_below(path, mark.get("id") or mark["state"]))


def _ended(mark: Value) -> Value:
    """Return what was still to begin as an invocation that has ended.

    Of which kind it would have been is not in the snapshot. Of an effect that has ended nothing
    is made when the run is taken up, while a handler or a chart might be.
    """
    kept = {name: mark[name] for name in ("id", "state", "kwargs", "attempt") if name in mark}
    whole_mark = {"index": mark.get("index", 0), "kind": "effect", "terminated": True}
    return {"attempt": 1} | kept | whole_mark


# -- what would happen by itself ------------------------------------------------------------------


def _taken_from_queue(path: str, node: Value) -> list[Value]:
    items = node.pop("queue", [])
    if node.get("status") == "finished":
        return []
    return [_held(path, item) for item in items]


def _held(path: str, item: Mapping[str, Any]) -> Value:
    """Return a queued event as a timer that is not due yet."""
    kept = {name: item[name] for name in _KEPT if name in item}
    return {"id": f"{item['event']}.{item['seq']}", "node": path, "seq": item["seq"], **kept}


def _hold(blob: Value, queued: list[Value], done: Disarmed) -> None:
    """Set all that is held behind each other: what was queued, then timers by their due times."""
    charts = {path for path, _ in _charts("", blob["root"])}
    timers = [timer for timer in blob.get("timers", ()) if timer["node"] in charts]
    queued = [event for event in queued if event["node"] in charts]
    first = min((timer["due"] for timer in timers), default=0)
    events = sorted(queued, key=lambda event: int(event["seq"]))
    held = [
        event | {"due": HELD_MS + place, "policy": "deadline"} for place, event in enumerate(events)
    ]
    begin = HELD_MS + len(held)
    held += [
        timer | {"due": begin + timer["due"] - first, "policy": "deadline"} for timer in timers
    ]
    for event in held:
        _rename(event, blob)
    done.queued, done.timers = len(queued), len(timers)
    blob.pop("timers", None)
    if held:
        blob["timers"] = held


def _rename(event: Value, blob: Value) -> None:
    """Have an event that tells of an effect in doubt name it by its id in this run."""
    effect = event.get("kwargs", {}).get("effect")
    if not str(event.get("event", "")).startswith(_DOUBT) or not isinstance(effect, str):
        return
    known = {row["key"]: row["id"] for row in blob.get("effects", ())}
    kwargs = event["kwargs"] | {"effect": known.get(effect, effect)}
    event["kwargs"] = kwargs
