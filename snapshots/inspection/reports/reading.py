"""Reads a run's blob into a `RunReport`, strictly, and without the code of its chart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.codec import load
from snapshots.errors import DecodeError
from snapshots.inspection.limits import CHART_DEPTH_MAX
from snapshots.inspection.reports.fields import Fields, kind_of, names
from snapshots.inspection.reports.records import (
    EffectReport,
    InvokeReport,
    NodeReport,
    QueuedEvent,
    RunReport,
    TimerReport,
    TransitionReport,
    WaitReport,
)
from snapshots.inspection.reports.states import Shape, find_child, nest, read_shape
from snapshots.layout import unfold_blob

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.inspection.reports.records import MailReport
    from snapshots.records import RunHeader

BLOB_VERSION: Final = 1

# What needs a person comes first; within one status the ledger's own order is kept.
_EFFECT_ORDER: Final = {"unknown": 0, "calling": 1, "intent": 2, "failed": 3, "done": 4}
_WAITING_EFFECTS: Final = ("unknown", "calling", "intent")
# Gates have a section of their own, the others a ledger row, a place in the tree or a timer.
_NOT_PLAIN: Final = ("gate", "effect", "child", "timeout", "nursery")


def read_report(
    header: RunHeader,
    blob: bytes,
    shape: bytes | None,
    *,
    now_ms: int,
    mail: tuple[MailReport, ...] = (),
) -> RunReport:
    """Read a run's blob into a report; its `mail` is read already.

    `shape` is what the `shapes` table holds for the header's digest; where it is None, or cannot
    be read, charts are shown by their active states alone.

    Raises:
        DecodeError: the blob is no JSON, is of another run or of a format that this release does
            not know, or has a field of the wrong kind, which is named by its path.
    """
    fields = Fields(_load(header, blob), "", header.run_id)
    _check_identity(header, fields)
    root = _node(fields.nested("root"), "", _lineage(header, shape), 0)
    nodes = tuple(_walk(root))
    timers = _timers(fields, now_ms)
    effects = tuple(_effect(entry) for entry in fields.nested_list("effects"))
    arrivals = tuple(
        _queued(entry.nested("item"), entry.text("node"))
        for entry in fields.nested_list("arrivals")
    )
    return RunReport(
        header=header,
        now_ms=now_ms,
        step=fields.optional_whole("step"),
        input=fields.value("input"),
        error=fields.value("error"),
        turn=fields.names("turn"),
        root=root,
        waits=tuple(_waits(nodes, effects, timers)) if header.status == "live" else (),
        effects=tuple(sorted(effects, key=lambda effect: _EFFECT_ORDER[effect.status])),
        timers=timers,
        queue=tuple(event for node in nodes for event in node.queue) + arrivals,
        children=nodes[1:],
        trail=tuple(_trail(fields, header.run_id)),
        deliveries=fields.names("deliveries"),
        mail=mail,
        ledgers=_ledgers(fields),
    )


def _ledgers(fields: Fields) -> dict[str, dict[str, object]]:
    found = {name: fields.mapping(name) for name in ("admissions", "epochs", "notices", "pushes")}
    holds = fields.nested_list("picks")
    found["picks"] = {hold.text("chain"): hold.value("picks") for hold in holds}
    return {name: ledger for name, ledger in found.items() if ledger}


def _check_identity(header: RunHeader, fields: Fields) -> None:
    version = fields.whole("v")
    if version != BLOB_VERSION:
        reason = f"this release reads format {BLOB_VERSION}; install the one that wrote it"
        raise DecodeError(header.run_id, reason, version)
    for name, expected in (("run", header.run_id), ("machine", header.machine)):
        found = fields.text(name)
        if found != expected:
            reason = f"{name} is {found!r}, expected {expected!r}: the bytes of another row"
            raise DecodeError(header.run_id, reason, version)


def _load(header: RunHeader, data: bytes) -> object:
    try:
        return unfold_blob(load(data), header.run_id)
    except DecodeError as error:
        raise DecodeError(header.run_id, error.reason) from error


def _lineage(header: RunHeader, shape: bytes | None) -> tuple[Shape, ...]:
    if shape is None:
        return ()
    try:
        return (read_shape(Fields(_load(header, shape), "shape", header.run_id)),)
    except DecodeError:
        # The run itself is readable without its shape, and the report says that it is not shaped.
        return ()


def _node(fields: Fields, path: str, lineage: tuple[Shape, ...], depth: int) -> NodeReport:
    """Read one chart, whose own shape is the last of `lineage`, and the charts below it."""
    if depth > CHART_DEPTH_MAX:
        reason = f"charts nest deeper than {CHART_DEPTH_MAX}"
        raise fields.refuse(reason)
    configuration = fields.names("configuration")
    invokes = tuple(_invokes(fields))
    return NodeReport(
        path=path,
        name=fields.text("class"),
        engine=fields.optional_text("engine"),
        status=fields.text("status"),
        started=fields.flag("started"),
        configuration=configuration,
        shaped=bool(lineage),
        states=nest(lineage[-1] if lineage else None, configuration),
        history=fields.names_by_key("history"),
        model=fields.optional_text("model"),
        context=fields.value("context"),
        attributes=fields.value("attributes"),
        output=fields.value("output"),
        error=fields.value("error"),
        invokes=invokes,
        queue=tuple(_queued(entry, path) for entry in fields.nested_list("queue")),
        children=tuple(_children(fields, path, invokes, lineage, depth)),
    )


def _children(
    fields: Fields,
    path: str,
    invokes: tuple[InvokeReport, ...],
    lineage: tuple[Shape, ...],
    depth: int,
) -> Iterator[NodeReport]:
    places = {invoke.id: (invoke.state, invoke.index) for invoke in invokes}
    for key, child in fields.nested_by_key("children"):
        shape = find_child(lineage, child.text("class"), *places.get(key, (None, None)))
        below = (*lineage, shape) if shape is not None else ()
        yield _node(child, f"{path}/{key}" if path else key, below, depth + 1)


def _invokes(fields: Fields) -> Iterator[InvokeReport]:
    for entry in fields.nested_list("invokes"):
        yield _invoke(entry, kind=entry.text("kind"), started=True)
    for entry in fields.nested_list("pending"):
        yield _invoke(entry, kind=entry.optional_text("kind") or "call", started=False)


def _invoke(entry: Fields, *, kind: str, started: bool) -> InvokeReport:
    return InvokeReport(
        id=entry.text("id") if started else entry.optional_text("id"),
        state=entry.optional_text("state"),
        index=entry.optional_whole("index"),
        kind=kind,
        kwargs=entry.value("kwargs"),
        attempt=entry.optional_whole("attempt"),
        started=started,
        sent=entry.flag("sent"),
        terminated=entry.flag("terminated"),
        cancelled=entry.flag("cancelled"),
        due_ms=entry.optional_whole("due"),
        key=entry.optional_text("key"),
        events=entry.entries("events"),
        meta=entry.value("meta"),
    )


def _queued(entry: Fields, path: str) -> QueuedEvent:
    return QueuedEvent(
        node=path,
        event=entry.optional_text("event"),
        internal=entry.flag("internal"),
        send_id=entry.optional_text("send_id"),
        args=entry.value("args"),
        kwargs=entry.value("kwargs"),
        at_ms=entry.optional_whole("at"),
    )


def _timers(fields: Fields, now_ms: int) -> tuple[TimerReport, ...]:
    found = []
    for entry in fields.nested_list("timers"):
        due_ms = entry.whole("due")
        timer = TimerReport(
            id=entry.text("id"),
            node=entry.optional_text("node") or "",
            event=entry.optional_text("event"),
            send_id=entry.optional_text("send_id"),
            due_ms=due_ms,
            left_ms=due_ms - now_ms,
            policy=entry.optional_text("policy") or "deadline",
            invoke=entry.optional_text("invoke"),
            args=entry.value("args"),
            kwargs=entry.value("kwargs"),
        )
        found.append((due_ms, entry.optional_whole("seq") or 0, timer))
    return tuple(timer for _, _, timer in sorted(found, key=lambda row: row[:2]))


def _effect(entry: Fields) -> EffectReport:
    status = entry.text("status")
    if status not in _EFFECT_ORDER:
        reason = f"status is {status!r}, expected one of {', '.join(_EFFECT_ORDER)}"
        raise entry.refuse(reason)
    name = entry.text("id")
    return EffectReport(
        id=name,
        node=entry.optional_text("node") or "",
        # A row leaves out what its id says.
        invoke=entry.optional_text("invoke") or name.rpartition("/")[2],
        kind=entry.optional_text("kind") or "",
        key=entry.optional_text("key") or name,
        status=status,
        attempt=entry.optional_whole("attempt") or 0,
        idempotent=entry.flag("idempotent"),
        at_ms=entry.optional_whole("at"),
        tail=entry.value("tail"),
        error=entry.value("error"),
    )


def _trail(fields: Fields, run_id: str) -> Iterator[TransitionReport]:
    for index, entry in enumerate(fields.entries("trail")):
        path = f"trail[{index}]"
        match entry:
            case [at_ms, str() as node, (str() | None) as event, sources, targets] if (
                type(at_ms) is int
            ):
                yield TransitionReport(
                    at_ms=at_ms,
                    node=node,
                    event=event,
                    sources=names(sources, f"{path}[3]", run_id),
                    targets=names(targets, f"{path}[4]", run_id),
                )
            case _:
                reason = f"{path} is {kind_of(entry)}, expected [time, path, event, from, to]"
                raise DecodeError(run_id, reason)


def _walk(node: NodeReport) -> Iterator[NodeReport]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _waits(
    nodes: tuple[NodeReport, ...],
    effects: tuple[EffectReport, ...],
    timers: tuple[TimerReport, ...],
) -> Iterator[WaitReport]:
    outstanding = [
        (node.path, invoke) for node in nodes for invoke in node.invokes if invoke.outstanding
    ]
    for path, invoke in outstanding:
        if invoke.kind == "gate":
            yield WaitReport(
                kind="gate",
                node=path,
                id=invoke.id,
                state=invoke.state,
                key=invoke.key,
                events=invoke.events,
                meta=invoke.meta,
            )
    for effect in sorted(effects, key=lambda effect: _EFFECT_ORDER[effect.status]):
        if effect.status in _WAITING_EFFECTS:
            yield WaitReport(
                kind="effect", node=effect.node, id=effect.id, status=effect.status, key=effect.key
            )
    for path, invoke in outstanding:
        if invoke.kind not in _NOT_PLAIN:
            status = None if invoke.started else "starting"
            yield WaitReport(
                kind="invoke", node=path, id=invoke.id, state=invoke.state, status=status
            )
    for timer in timers:
        yield WaitReport(
            kind="timer",
            node=timer.node,
            id=timer.id,
            events=() if timer.event is None else (timer.event,),
            due_ms=timer.due_ms,
            left_ms=timer.left_ms,
        )
