"""Stored runs as other code would have written them, for the tests that read them."""

from __future__ import annotations

import json
from typing import Any, Final

from snapshots import SqliteSnapshotStore
from snapshots.limits import NO_TIMER_MS, REVISION_FIRST
from snapshots.records import RunHeader
from snapshots.testing import START_MS

RUN: Final = "0199b1c2-7e1c-7b1e-9b3f-3a2b1c0d9e8f"
MACHINE: Final = "checkout"
DIGEST: Final = "3f2a9c01b7de"
SECOND: Final = 1_000


def state(name: str, parent: str | None = None, kind: str = "atomic") -> dict[str, Any]:
    """Return one state of a stored shape."""
    return {
        "name": name,
        "value": name,
        "parent": parent,
        "kind": kind,
        "initial": name == "cart",
        "invokes": [],
    }


PAYMENT_SHAPE: Final[dict[str, Any]] = {
    "name": "Payment",
    "states": [state("wait"), state("paid", kind="final")],
    "transitions": [],
    "children": {},
}
SHAPE: Final[dict[str, Any]] = {
    "name": "Checkout",
    "states": [
        state("cart"),
        state("working", kind="parallel"),
        state("paying", "working", "compound"),
        state("asking", "paying"),
        state("before", "paying", "history-deep"),
        state("review", "working"),
        state("closed", kind="final"),
    ],
    "transitions": [["cart", "go", ["working"], False, False]],
    "children": {"asking.1": PAYMENT_SHAPE},
}


def header(**changes: Any) -> RunHeader:
    """Return the header of a live run that was created and saved five seconds later."""
    fields: dict[str, Any] = {
        "row": 1,
        "run_id": RUN,
        "machine": MACHINE,
        "digest": DIGEST,
        "status": "live",
        "reason": None,
        "revision": REVISION_FIRST + 1,
        "created_ms": START_MS,
        "updated_ms": START_MS + 5 * SECOND,
        "ended_ms": None,
        "due_ms": NO_TIMER_MS,
        "parked": False,
    }
    return RunHeader(**(fields | changes))


def root_node(**changes: Any) -> dict[str, Any]:
    """Return a chart in two regions: one with an effect and a child chart, one with a gate."""
    return {
        "class": "Checkout",
        "engine": "async",
        "status": "active",
        "started": True,
        "configuration": ["working", "paying", "asking", "review"],
        "history": {"before": ["asking"]},
        "context": {"amount": {"$": "decimal", "v": "1.20"}, "note": "fragile"},
        "queue": [{"event": "pay", "name": "Pay", "at": START_MS, "seq": 3, "kwargs": {"n": 4}}],
        "pending": [{"state": "review", "order": 3}],
        "invokes": [
            {"id": "asking.1", "state": "asking", "index": 0, "kind": "effect", "attempt": 1},
            {"id": "asking.2", "state": "asking", "index": 1, "kind": "child", "attempt": 1},
            {
                "id": "review.3",
                "state": "review",
                "index": 0,
                "kind": "gate",
                "attempt": 1,
                "key": "approval",
                "events": ["approve", "reject"],
                "meta": {"role": "editor"},
            },
            {"id": "review.4", "state": "review", "index": 1, "kind": "call", "attempt": 2},
            {"id": "review.5", "state": "review", "index": 2, "kind": "call", "sent": True},
        ],
        "children": {
            "asking.2": {
                "class": "Payment",
                "engine": "sync",
                "status": "active",
                "started": True,
                "configuration": ["wait"],
                "context": {"tries": 2},
            }
        },
        "spawned": 5,
        **changes,
    }


def effect(name: str, status: str, **changes: Any) -> dict[str, Any]:
    """Return a row of the ledger of effects."""
    return {
        "id": f"{RUN}//{name}",
        "node": "",
        "invoke": name,
        "kind": "charge",
        "key": f"{RUN}//{name}",
        "status": status,
        "attempt": 1,
        "at": START_MS + SECOND,
        **changes,
    }


def run_value(**changes: Any) -> dict[str, Any]:
    """Return the blob of a run with something in every ledger, as a JSON structure."""
    return {
        "v": 1,
        "run": RUN,
        "machine": MACHINE,
        "digest": DIGEST,
        "input": {"amount": 12},
        "step": 17,
        "root": root_node(),
        "turn": [""],
        "arrivals": [{"node": "asking.2", "item": {"event": "late", "at": START_MS, "seq": 9}}],
        "timers": [
            {"id": "t2", "node": "asking.2", "due": START_MS + 900 * SECOND, "seq": 2},
            {
                "id": "t1",
                "node": "",
                "event": "remind",
                "due": START_MS + 255 * SECOND,
                "seq": 1,
                "policy": "remaining",
            },
        ],
        "effects": [
            effect("asking.0", "done", idempotent=True, key="k1", tail={"ok": True}),
            effect("asking.1", "unknown"),
            effect("asking.3", "intent"),
            effect("asking.4", "calling"),
        ],
        "deliveries": ["evt-80", "evt-81"],
        "admissions": {"asking.3": {"handle": "job-7", "offset": 12, "at": START_MS}},
        "epochs": {"chat": 2},
        "notices": {"build": {"text": "it is red", "scope": "", "at": START_MS}},
        "picks": [
            {
                "chain": "chat",
                "picks": [{"id": "colour", "offer": ["red"], "at": START_MS, "since": 0}],
                "replies": ["none of them"],
            }
        ],
        "pushes": {"slot": [{"id": "asking.3", "commit": "abc", "source": "def", "at": START_MS}]},
        "trail": [[START_MS, "", "go", ["cart"], ["working", "paying", "asking", "review"]]],
        **changes,
    }


def run_of(text: str, run_id: str) -> dict[str, Any]:
    """Return a blob in which every text, name and key that can be is `text`."""
    chart = {"class": text, "engine": text, "status": text, "configuration": [text]}
    gate = {"id": text, "state": text, "kind": "gate", "key": text, "events": [text, {text: 1}]}
    root = chart | {
        "history": {text: [text]},
        "context": {text: {"$": text, "v": text, text: text}},
        "attributes": {text: {"$": "object", "class": text, "v": {text: text}}},
        "output": {"$": "enum", "class": text, "v": text},
        "invokes": [gate | {"meta": text}, {"id": text, "state": text, "kind": text}],
        "queue": [{"event": text, "kwargs": {text: text}}],
        "children": {text: chart},
    }
    row = {"id": text, "kind": text, "key": text, "error": text, "tail": text}
    return {
        "v": 1,
        "run": run_id,
        "machine": text,
        "input": {text: text},
        "turn": [text],
        "root": root,
        "timers": [{"id": text, "node": text, "event": text, "due": 1, "policy": text}],
        "effects": [row | {"status": "unknown"}],
        "error": {"type": text, "message": text},
        "admissions": {text: {text: text}},
        "epochs": {text: text},
        "notices": {text: text},
        "picks": [{"chain": text, "picks": [{text: text}], "replies": [text]}],
        "pushes": {text: [text]},
        "trail": [[1, text, text, [text], [text]]],
    }


def encoded(value: object) -> bytes:
    """Return the bytes of a JSON structure."""
    return json.dumps(value).encode()


def add(store: SqliteSnapshotStore, run_id: str = RUN, **changes: Any) -> RunHeader:
    """Create a run as the fixtures describe it."""
    fields: dict[str, Any] = {
        "run_id": run_id,
        "machine": MACHINE,
        "digest": DIGEST,
        "shape": encoded(SHAPE),
        "blob": encoded(run_value(run=run_id)),
    }
    return store.create(**(fields | changes))
