"""A blob disarmed: what of it would move by itself, and what of it stays."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest

from machines.recovery.form import check_form
from snapshots.errors import DecodeError
from snapshots.inspection.copies.disarming import HELD_MS, disarm
from tests.unit.snapshots.inspection.stored_runs import RUN, effect, root_node, run_value


def value(**changes: Any) -> dict[str, Any]:
    """Return a blob whose ids are those that a run writes."""
    rows = [
        effect(name, status) | {"id": f"{RUN}/{name}", "key": f"{RUN}/{name}"}
        for name, status in (("asking.1", "calling"), ("asking.0", "done"), ("asking.3", "intent"))
    ]
    found = run_value(**{"effects": rows, **changes})
    found["root"]["pending"] = [{"state": "review", "order": 3, "id": "review.6", "index": 1}]
    for invoke in found["root"]["invokes"]:
        invoke.setdefault("attempt", 1)
    return copy.deepcopy(found)


def test_what_would_move_is_taken_out_and_all_else_stays() -> None:
    """Queue, arrivals, pending work and turns are gone; states, models and ledgers are not."""
    before = value()
    after, told = disarm(copy.deepcopy(before), RUN)
    assert not after.keys() & {"arrivals", "turn", "between"}
    assert not after["root"].keys() & {"queue", "pending"}
    for name in ("input", "step", "admissions", "epochs", "notices", "picks", "pushes", "trail"):
        assert after[name] == before[name]
    for name in ("configuration", "history", "context", "children"):
        assert after["root"][name] == before["root"][name]
    assert (told.queued, told.timers) == (2, 2)
    assert told.effects == [f"{RUN}/asking.1", f"{RUN}/asking.3"]
    assert told.invokes == ["review.4"]
    assert told.not_begun == ["review.6"]


def test_work_outside_has_ended_and_gates_and_charts_are_as_they_were() -> None:
    """What lives in the snapshot alone goes on waiting: nothing would be called for it."""
    after, _ = disarm(value(), RUN)
    ended = {invoke["id"]: invoke.get("terminated", False) for invoke in after["root"]["invokes"]}
    assert ended == {
        "asking.1": True,
        "asking.2": False,
        "review.3": False,
        "review.4": True,
        "review.5": False,
        "review.6": True,
    }


def test_events_are_held_before_timers_each_in_their_order() -> None:
    """Timers keep what lies between them, and none follows a policy that would move it."""
    after, _ = disarm(value(), RUN)
    held = [(timer.get("event"), timer["due"] - HELD_MS) for timer in after["timers"]]
    assert held == [("pay", 0), ("late", 1), (None, 2 + 645_000), ("remind", 2)]
    assert {timer["policy"] for timer in after["timers"]} == {"deadline"}
    assert after["timers"][0]["kwargs"] == {"n": 4}
    assert after["timers"][0]["name"] == "Pay"


def test_a_chart_that_has_not_begun_does_not_begin() -> None:
    """What it would enter first could be a call: it is left out, and its invocation has ended."""
    before = value()
    before["root"]["children"]["asking.2"]["started"] = False
    before["root"]["children"]["asking.2"]["queue"] = [{"event": "__initial__", "at": 1, "seq": 8}]
    after, told = disarm(before, RUN)
    assert after["root"]["children"] == {}
    assert told.not_begun == ["asking.2", "review.6"]
    assert told.queued == 1, "what was for that chart is gone with it"
    assert told.timers == 1
    (invoke,) = (one for one in after["root"]["invokes"] if one["id"] == "asking.2")
    assert invoke["terminated"] is True


def test_an_event_of_a_doubt_names_the_effect_by_its_new_id() -> None:
    """Whoever takes it, and settles what it names, finds the row."""
    before = value()
    doubt = {"event": "error.indoubt.asking", "at": 1, "seq": 4}
    before["root"]["queue"] = [doubt | {"kwargs": {"effect": f"{RUN}/asking.1", "error": None}}]
    after, _ = disarm(before, "other")
    assert after["timers"][0]["kwargs"]["effect"] == "other/asking.1"
    assert {row["id"] for row in after["effects"]} == {
        *("other/asking.0", "other/asking.1", "other/asking.3"),
    }
    assert after["run"] == "other"


@pytest.mark.parametrize(
    "blob",
    [
        {},
        {"run": "a", "root": None},
        {"run": "a", "root": {"started": False}},
        {"run": "a", "root": {"started": True, "queue": [7]}},
        {"run": "a", "root": {"started": True}, "effects": [{"id": 7}]},
        {"run": "a", "root": {"started": True, "pending": [{}]}},
        {"run": "a", "root": {"started": True}, "timers": [{"node": "", "due": "x"}]},
    ],
)
def test_what_is_no_blob_is_refused_by_name(blob: dict[str, Any]) -> None:
    """The error names the run and what was found, whatever the blob lacks."""
    with pytest.raises(DecodeError, match="disarmed"):
        disarm(blob, "a")


def test_blobs_with_any_part_replaced_are_disarmed_or_refused() -> None:
    """No other error than a DecodeError, wherever the damage is."""
    chance, refused = random.Random(5), 0
    for _ in range(400):
        blob = value()
        at: Any = blob
        for _ in range(chance.choice((1, 2, 3, 4))):
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = chance.choice(keys)
            inner = at[key]
            if not isinstance(inner, dict | list) or chance.random() < 0.3:
                at[key] = chance.choice((None, 7, "x", [], {}, True, [None], {"a": 1}))
                break
            at = inner
        try:
            disarm(blob, "other")
        except DecodeError:
            refused += 1
    assert 10 < refused < 390


def test_a_real_blob_keeps_the_form_that_a_restore_asks_for() -> None:
    """Disarming takes nothing that must be there, and adds nothing that is not known."""
    root = root_node(
        pending=[{"state": "review", "order": 3, "id": "review.6"}],
        invokes=[
            {"id": "asking.1", "state": "asking", "index": 0, "kind": "effect", "attempt": 1},
            {"id": "late.2", "state": "asking", "index": 1, "kind": "timeout", "attempt": 1},
        ],
        children={},
        queue=[{"event": "pay", "name": "Pay", "at": 5, "seq": 3, "kwargs": {"n": 4}}],
    )
    timer = {
        "id": "late.2",
        "node": "",
        "due": 9,
        "seq": 2,
        "policy": "restart",
        "invoke": "late.2",
    }
    row = {"id": f"{RUN}/asking.1", "kind": "charge", "status": "calling", "attempt": 1, "at": 1}
    changes = {"root": root, "timers": [timer], "effects": [row], "arrivals": []}
    blob = run_value(clock={"seq": 9, "stamp": 1}, **changes)
    blob["pushes"] = {"slot": [blob["pushes"]["slot"][0] | {"squashed": None}]}
    check_form(RUN, blob)
    after, _ = disarm(copy.deepcopy(blob), RUN)
    check_form(RUN, after)
