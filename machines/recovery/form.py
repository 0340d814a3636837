"""What a decoded blob must look like before anything is built from it.

A field that is missing where none may be, of another kind, or unknown, is refused: what a later
release added could not be kept, and a damaged name would lose what it names.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from machines.names import path_below
from snapshots.errors import DecodeError
from snapshots.ledgers.effects import whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Form = Callable[[Any, str], None]

SHOWN_CHARS_MAX: Final = 60


class _WrongFormError(Exception):
    """A part of the blob is not what it must be."""


def check_form(run_id: str, value: Any) -> None:
    """Raise DecodeError unless the value has the form of a run's blob."""
    try:
        _blob(value, "blob")
        _agree(value)
    except _WrongFormError as error:
        raise DecodeError(run_id, str(error)) from None


def _wrong(value: Any, where: str, expected: str) -> _WrongFormError:
    shown = repr(value)[:SHOWN_CHARS_MAX]
    return _WrongFormError(f"{where} is {shown}, expected {expected}")


def _kind(expected: str, *types: type) -> Form:
    def check(value: Any, where: str) -> None:
        # A bool is an int to Python, and to nobody else.
        if type(value) not in types:
            raise _wrong(value, where, expected)

    return check


def _one_of(*words: str) -> Form:
    def check(value: Any, where: str) -> None:
        if type(value) is not str or value not in words:
            raise _wrong(value, where, f"one of {', '.join(words)}")

    return check


def _each(form: Form) -> Form:
    def check(value: Any, where: str) -> None:
        _list(value, where)
        for index, part in enumerate(value):
            form(part, f"{where}[{index}]")

    return check


def _named(form: Form) -> Form:
    def check(value: Any, where: str) -> None:
        _mapping(value, where)
        for key, part in value.items():
            _text(key, f"a key of {where}")
            form(part, f"{where}.{key}")

    return check


def _record(must: Mapping[str, Form], may: Mapping[str, Form]) -> Form:
    def check(value: Any, where: str) -> None:
        _mapping(value, where)
        for key in must:
            if key not in value:
                raise _wrong(sorted(map(str, value)), where, f"a field {key!r} among them")
        for key, part in value.items():
            form = must.get(key) or may.get(key)
            if form is None:
                raise _wrong(key, f"a field of {where}", "one that this release knows")
            form(part, f"{where}.{key}")

    return check


def _any(value: Any, where: str) -> None:
    del value, where


_text: Final = _kind("a text", str)
_whole: Final = _kind("a whole number", int)
_flag: Final = _kind("true or false", bool)
_list: Final = _kind("a list", list)
_mapping: Final = _kind("a mapping", dict)
_texts: Final = _each(_text)

_queued: Final = _record(
    {"event": _text, "at": _whole, "seq": _whole},
    {
        "name": _text,
        "internal": _flag,
        "send_id": _text,
        "args": _list,
        "kwargs": _mapping,
        "invoke": _text,
        "epoch": _text,
    },
)
_marked: Final = _record(
    {"state": _text, "order": _whole, "id": _text},
    {"index": _whole, "kwargs": _mapping, "attempt": _whole},
)
_invoke: Final = _record(
    {
        "id": _text,
        "state": _text,
        "index": _whole,
        "kind": _one_of("call", "effect", "gate", "child", "timeout", "nursery"),
        "attempt": _whole,
    },
    {
        "kwargs": _mapping,
        "sent": _flag,
        "terminated": _flag,
        "cancelled": _flag,
        "key": _text,
        "events": _texts,
        "meta": _any,
        "approval": _text,
    },
)
_timer: Final = _record(
    {
        "id": _text,
        "node": _text,
        "due": _whole,
        "seq": _whole,
        "policy": _one_of("deadline", "remaining", "restart"),
    },
    {
        "event": _text,
        "name": _text,
        "send_id": _text,
        "args": _list,
        "kwargs": _mapping,
        "span": _whole,
        "invoke": _text,
    },
)
_effect: Final = _record(
    {
        "id": _text,
        "kind": _text,
        "status": _one_of("intent", "calling", "done", "failed", "unknown"),
        "attempt": _whole,
        "at": _whole,
    },
    {
        "node": _text,
        "invoke": _text,
        "key": _text,
        "idempotent": _flag,
        "tail": _any,
        "error": _any,
        "offered": _flag,
    },
)
_arrival: Final = _record({"node": _text, "item": _queued}, {"invoke": _text})
_clock: Final = _record({"seq": _whole, "stamp": _whole}, {})
_error: Final = _record({"type": _text, "message": _text}, {})


def _number(value: Any, where: str) -> None:
    _whole(value, where)
    if value < 0:
        raise _wrong(value, where, "a number from 0 on")


_admission: Final = _record(
    {"handle": _any, "offset": _number, "at": _whole},
    {"settled": _flag, "conversation": _text},
)
_notice: Final = _record({"at": _whole}, {"text": _any, "scope": _text, "delivered": _text})
_pick: Final = _record({"id": _text, "offer": _any, "at": _whole, "since": _number}, {})
_hold: Final = _record({"chain": _text, "picks": _each(_pick)}, {"replies": _list})
_push: Final = _record(
    {"id": _text, "commit": _text, "source": _text, "squashed": _any, "at": _whole},
    {"answer": _any, "finished": _flag, "bundle": _kind("bytes", bytes)},
)


def _move(value: Any, where: str) -> None:
    forms = (_whole, _text, _text, _texts, _texts)
    _list(value, where)
    if len(value) != len(forms):
        raise _wrong(value, where, "time, chart, event, from and to")
    for index, form in enumerate(forms):
        form(value[index], f"{where}[{index}]")


def _node(value: Any, where: str) -> None:
    _node_record(value, where)


_node_record: Final = _record(
    {
        "class": _text,
        "engine": _one_of("sync", "async"),
        "status": _one_of("active", "finished"),
        "started": _flag,
        "spawned": _whole,
    },
    {
        "floors": _named(_whole),
        "configuration": _texts,
        "start": _texts,
        "history": _named(_texts),
        "queue": _each(_queued),
        "pending": _each(_marked),
        "invokes": _each(_invoke),
        "final": _text,
        "context": _mapping,
        "model": _text,
        "attributes": _mapping,
        "init": _mapping,
        "state_field": _text,
        "shared": _mapping,
        "source": _text,
        "params": _mapping,
        "output": _any,
        "children": _named(_node),
    },
)
_blob: Final = _record(
    {
        "v": _whole,
        "run": _text,
        "machine": _text,
        "digest": _text,
        "input": _mapping,
        "step": _whole,
        "root": _node,
        "clock": _clock,
    },
    {
        "turn": _texts,
        "between": _flag,
        "arrivals": _each(_arrival),
        "timers": _each(_timer),
        "effects": _each(_effect),
        "admissions": _named(_admission),
        "epochs": _named(_number),
        "notices": _named(_notice),
        "picks": _each(_hold),
        "pushes": _named(_each(_push)),
        "deliveries": _texts,
        "trail": _each(_move),
        "error": _error,
    },
)


def _agree(blob: dict[str, Any]) -> None:
    """Refuse a blob whose parts contradict each other: something of it is lost."""
    turn = set(blob.get("turn", ()))
    if "between" in blob and not turn:
        raise _wrong([], "blob.turn", "the chart whose macrostep is over")
    charts = dict(_walk("", blob["root"]))
    _agree_on_numbers(blob, charts)
    _agree_on_timers(blob, charts)
    for row in map(whole, blob.get("effects", ())):
        expected = "/".join(p for p in (blob["run"], row["node"], row["invoke"]) if p)
        if row["id"] != expected:
            raise _wrong(row["id"], "the id of an effect", repr(expected))
    _agree_on_ledgers(blob)
    _agree_on_holds(blob.get("picks", ()))
    for path, node in charts.items():
        if node["status"] == "finished":
            continue
        if (node.get("queue") or node.get("pending")) and path not in turn:
            raise _wrong(sorted(turn), "blob.turn", f"the chart {path!r}, which has work queued")
        _agree_on_invokes(blob, path, node)


def _agree_on_numbers(blob: dict[str, Any], charts: dict[str, dict[str, Any]]) -> None:
    used = [timer["seq"] for timer in blob.get("timers", ())]
    used += [item["seq"] for node in charts.values() for item in node.get("queue", ())]
    if blob["clock"]["seq"] < max(used, default=0):
        raise _wrong(blob["clock"]["seq"], "blob.clock.seq", f"{max(used)} or more")


def _agree_on_timers(blob: dict[str, Any], charts: dict[str, dict[str, Any]]) -> None:
    for timer in blob.get("timers", ()):
        if timer["node"] not in charts:
            raise _wrong(timer["node"], "the chart of a timer", "one that is there")


def _agree_on_ledgers(blob: dict[str, Any]) -> None:
    """Refuse rows that their ledger would not have written: one of two has another's name."""
    _once([row["id"] for row in blob.get("effects", ())], "the id of an effect")
    for source, notice in blob.get("notices", {}).items():
        if ("text" in notice) is ("delivered" in notice):
            raise _wrong(sorted(notice), f"blob.notices.{source}", "either text or delivered")
    for slot, rows in blob.get("pushes", {}).items():
        _once([row["id"] for row in rows], f"the id of a push of {slot!r}")
        for row in rows[:-1]:
            if "bundle" in row:
                raise _wrong(row["id"], f"blob.pushes.{slot}", "a bundle at its newest push only")


def _agree_on_holds(holds: Sequence[dict[str, Any]]) -> None:
    _once([hold["chain"] for hold in holds], "the chain of a hold")
    _once([pick["id"] for hold in holds for pick in hold["picks"]], "the id of a pick")
    for hold in holds:
        replies = len(hold.get("replies", ()))
        for pick in hold["picks"]:
            if pick["since"] > replies:
                raise _wrong(pick["since"], "blob.picks: since", f"{replies} or less")


def _once(found: list[str], what: str) -> None:
    if len(set(found)) < len(found):
        ((twice, _),) = Counter(found).most_common(1)
        raise _wrong(twice, what, "each one once")


def _agree_on_invokes(blob: dict[str, Any], path: str, node: dict[str, Any]) -> None:
    kept = {
        "timeout": {(timer["node"], timer.get("invoke")) for timer in blob.get("timers", ())},
        "effect": {(row["node"], row["invoke"]) for row in map(whole, blob.get("effects", ()))},
        "child": {(path, key) for key in node.get("children", ())},
    }
    for invoke in node.get("invokes", ()):
        known = kept.get(invoke["kind"])
        if known is None or _has_ended(invoke):
            continue
        if (path, invoke["id"]) not in known:
            what = f"the {invoke['kind']} {invoke['id']!r} of chart {path!r}"
            raise _wrong(None, what, "something, since it has not ended")


def _has_ended(invoke: dict[str, Any]) -> bool:
    return any(invoke.get(flag) for flag in ("sent", "terminated", "cancelled"))


def _walk(path: str, node: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = [(path, node)]
    for key, below in node.get("children", {}).items():
        found += _walk(path_below(path, key), below)
    return found
