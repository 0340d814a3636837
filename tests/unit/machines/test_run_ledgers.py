"""The ledgers of a run together: their forms in a blob, and tails that a crash left behind."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from machines.recovery.form import check_form
from machines.run.ledgers import Ledgers
from snapshots.codec import Codec
from snapshots.errors import DecodeError

LEDGERS: dict[str, Any] = {
    "effects": [
        {"id": "r/a.1", "kind": "k", "status": "done", "attempt": 1, "at": 1},
        {"id": "r/a.2", "kind": "k", "key": "x", "status": "unknown", "attempt": 1, "at": 1},
    ],
    "admissions": {
        "job": {"handle": {"id": 1}, "offset": 3, "at": 1},
        "talk": {"handle": None, "offset": 0, "settled": True, "conversation": "c", "at": 1},
    },
    "epochs": {"c": 2},
    "notices": {
        "disk": {"text": "full", "scope": "s", "at": 1},
        "told": {"delivered": "job", "at": 1},
    },
    "picks": [
        {
            "chain": "c",
            "picks": [{"id": "p", "offer": 1, "at": 1, "since": 1}],
            "replies": ["a", "b"],
        },
        {"chain": "d", "picks": [{"id": "q", "offer": None, "at": 1, "since": 0}]},
    ],
    "pushes": {
        "repo": [
            {
                "id": "p1",
                "commit": "c",
                "source": "s",
                "squashed": [1],
                "answer": "ok",
                "finished": True,
                "at": 1,
            },
            {"id": "p2", "commit": "c", "source": "s", "squashed": None, "at": 1, "bundle": b"b"},
        ]
    },
}
VALUES = ("handle", "text", "offer", "squashed", "answer", "replies")
"""Fields that hold what users gave, whatever it is; of replies it is the items."""


def blob(**changes: Any) -> dict[str, Any]:
    """Return the blob of a run with something in every ledger, as the codec decodes it."""
    root = {"class": "C", "engine": "sync", "status": "active", "started": True, "spawned": 2}
    fields = {"v": 1, "run": "r", "machine": "C", "digest": "d", "input": {}, "step": 1}
    clock = {"seq": 1, "stamp": 1}
    return {**fields, "root": root, "clock": clock, **copy.deepcopy(LEDGERS), **changes}


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every field that is not a user's own."""
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, part in children:
        if key in VALUES and path:
            if key == "replies":
                yield (*path, key)
            continue
        yield (*path, key)
        if isinstance(part, dict | list):
            yield from places(part, (*path, key))


def changed(path: tuple[Any, ...], part: Any) -> dict[str, Any]:
    """Return a blob with one field of its ledgers replaced, or taken out if that is `...`."""
    value = blob()
    inner: Any = value
    for key in path[:-1]:
        inner = inner[key]
    if part is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = part
    return value


def test_every_ledger_has_a_form() -> None:
    """A blob with all of them is taken, and comes back as it was."""
    check_form("r", blob())
    codec = Codec()
    ledgers = Ledgers.of(blob())
    fields = ledgers.cold(codec).copy()
    ledgers.add_hot(fields, codec)
    assert fields == {name: codec.encode(value) for name, value in LEDGERS.items()}
    assert ledgers.in_full(codec) == fields


def test_a_change_of_any_ledger_is_looked_for() -> None:
    """While none has changed the parts of the last save are given again, and then they are not."""
    codec = Codec()
    ledgers = Ledgers.of(blob())
    every = [*ledgers._books, ("deliveries", ledgers.deliveries)]
    assert {name for name, _ in ledgers._books} == LEDGERS.keys() - {"effects"}
    for name, ledger in every:
        before = ledgers.cold(codec)
        assert ledgers.cold(codec) is before
        ledger.changes += 1
        assert ledgers.cold(codec) is not before, name


@pytest.mark.parametrize("path", list(places(LEDGERS)), ids=lambda p: ".".join(map(str, p)))
def test_a_field_of_a_ledger_has_one_kind(path: tuple[Any, ...]) -> None:
    """Null, 7, a text, a list or a mapping where another kind belongs: refused with its place."""
    inner: Any = blob()
    for key in path:
        inner = inner[key]
    for wrong in (None, 7, "x", [], {}):
        if type(wrong) is not type(inner):
            with pytest.raises(DecodeError):
                check_form("r", changed(path, wrong))


@pytest.mark.parametrize(
    ("path", "part"),
    [
        (("effects", 1, "id"), "r/a.1"),
        (("admissions", "job", "offset"), -1),
        (("admissions", "job", "settled"), 1),
        (("admissions", "job", "more"), 1),
        (("admissions", "job", "handle"), ...),
        (("epochs", "c"), -1),
        (("epochs", "c"), True),
        (("notices", "disk", "delivered"), "job"),
        (("notices", "disk", "text"), ...),
        (("notices", "told", "delivered"), ...),
        (("picks", 0, "picks", 0, "since"), 3),
        (("picks", 0, "picks", 0, "since"), -1),
        (("picks", 1, "chain"), "c"),
        (("picks", 1, "picks", 0, "id"), "p"),
        (("picks", 0, "replies"), ...),
        (("pushes", "repo", 1, "id"), "p1"),
        (("pushes", "repo", 0, "bundle"), b"old"),
        (("pushes", "repo", 1, "bundle"), "text"),
        (("pushes", "repo", 1, "squashed"), ...),
    ],
    ids=str,
)
def test_what_no_ledger_would_have_written_is_refused(path: tuple[Any, ...], part: Any) -> None:
    """Two rows of one name, a number that cannot be, a bundle too many, a text that is told."""
    with pytest.raises(DecodeError):
        check_form("r", changed(path, part))


def test_an_older_row_with_every_field_is_taken() -> None:
    """What slim rows leave out may be there."""
    row = {"node": "", "invoke": "a.1", "key": "r/a.1", **LEDGERS["effects"][0]}
    check_form("r", blob(effects=[row]))
    found = Ledgers.of(blob(effects=[row])).effects.open_json(Codec())
    assert found == Codec().encode(LEDGERS["effects"][:1])


@pytest.mark.parametrize("where", ["queue", "arrivals", "a child's queue", "nowhere"])
def test_a_tail_goes_after_a_restart_unless_its_event_waits(where: str) -> None:
    """The process that saved a transition may die before its next save: the tail goes with ours."""
    path = "c.1" if where == "a child's queue" else ""
    name = "/".join(part for part in ("r", path, "a.1") if part)
    row = {"id": name, "kind": "k", "status": "done", "attempt": 1, "at": 1, "tail": "long"}
    event = {"event": "done.invoke.a.1", "at": 1, "seq": 1}
    value = blob(effects=[{"node": path, **row} if path else row])
    root = value["root"]
    if where == "queue":
        root["queue"] = [event]
    elif where == "arrivals":
        value["arrivals"] = [{"node": "", "invoke": "a.1", "item": event}]
    elif where == "a child's queue":
        root["children"] = {"c.1": {**root, "queue": [event]}}
    ledgers = Ledgers.of(value)
    before = ledgers.effects.open_json(Codec())
    assert b"long" in before, "loading changes nothing"
    ledgers.drop_spent_tails()
    after = ledgers.effects.open_json(Codec())
    assert (b"long" in after) is (where != "nowhere")


def test_an_ended_invocation_gives_back_what_it_took() -> None:
    """A notice that it took and did not deliver is there for the next one."""
    ledgers = Ledgers.of(blob())
    assert len(ledgers.notices.take("c.1/a.1", "s")) == 1
    ledgers.release("", "a.1")
    assert ledgers.notices.take("other", "s") == ()
    ledgers.release("c.1", "a.1")
    assert len(ledgers.notices.take("other", "s")) == 1
