"""Pictures that the tests compare with files; run as a module it writes those files anew."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from snapshots.inspection import RunReport, read_report
from snapshots.inspection.diagram import (
    Picture,
    compare,
    picture_of,
    picture_of_shape,
    to_dot,
    to_mermaid,
)
from snapshots.testing import START_MS
from tests.unit.snapshots.inspection.stored_runs import (
    PAYMENT_SHAPE,
    RUN,
    SECOND,
    SHAPE,
    encoded,
    header,
    run_value,
    state,
)

FOLDER: Final = Path(__file__).parent / "diagrams"
NOW_MS: Final = START_MS + 60 * SECOND


def placed(name: str, parent: str | None = None, kind: str = "atomic", **changes: Any) -> Any:
    """Return one state of a stored shape that is not initial unless it says so."""
    return state(name, parent, kind) | {"initial": False} | changes


def shape_of(*states: Any, transitions: Any = (), children: Any = None, name: str = "C") -> Any:
    """Return a stored shape."""
    return {
        "name": name,
        "states": list(states),
        "transitions": [[*edge, False, False] for edge in transitions],
        "children": children or {},
    }


NESTED: Final = shape_of(
    placed("idle", initial=True),
    placed("outer", kind="compound"),
    placed("first", "outer", initial=True),
    placed("inner", "outer", "compound"),
    placed("x", "inner", initial=True),
    placed("y", "inner", "final"),
    placed("again", "outer", "history-shallow"),
    placed("deeply", "outer", "history-deep"),
    placed("over", kind="final"),
    transitions=[
        ("idle", "dive", ["y"]),
        ("idle", "enter", ["again"]),
        ("idle", "done.invoke.idle done_invoke_idle", ["outer"]),
        ("first", "", ["inner"]),
        ("inner", "loop", ["inner"]),
        ("outer", "inward", ["first"]),
        ("outer", "leave", ["over"]),
        ("x", "stay", []),
        ("x", "up", ["outer"]),
    ],
    name="Nested",
)
WAITING: Final = shape_of(
    placed("cart", initial=True),
    placed("asking", invokes=["gate:approve reject", "timeout:late"]),
    placed("done", kind="final"),
    transitions=[
        ("cart", "pay", ["asking"]),
        ("asking", "approve", ["done"]),
        ("asking", "remind", ["asking"]),
        ("asking", "late", ["cart"]),
    ],
    name="Waiting",
)
WAITING_RUN: Final[dict[str, Any]] = {
    "v": 1,
    "run": RUN,
    "machine": "checkout",
    "root": {
        "class": "Waiting",
        "status": "active",
        "started": True,
        "configuration": ["asking"],
        "invokes": [
            {
                "id": "asking.0",
                "state": "asking",
                "index": 0,
                "kind": "gate",
                "key": "k",
                "events": ["approve", "reject"],
                "meta": {"role": "editor"},
            },
            {"id": "asking.1", "state": "asking", "index": 1, "kind": "timeout", "due": 1},
        ],
    },
    "timers": [
        {"id": "t1", "node": "", "due": NOW_MS + 250 * SECOND, "event": "remind"},
        {"id": "t2", "node": "", "due": NOW_MS - SECOND, "event": "late", "invoke": "asking.1"},
    ],
    "trail": [
        [START_MS, "", "", [], ["cart"]],
        [START_MS + SECOND, "", "pay", ["cart"], ["asking"]],
    ],
}


def report_of(value: object, shape: object = SHAPE) -> RunReport:
    """Read a JSON structure as the blob of a run."""
    return read_report(header(), encoded(value), encoded(shape), now_ms=NOW_MS)


def drawn(value: object, shape: object = SHAPE) -> Picture:
    """Return the picture of a run whose blob and shape are given as JSON structures."""
    return picture_of(report_of(value, shape), encoded(shape))


def changed_shape() -> Any:
    """Return the shape of the stored run as a later release has it."""
    later = deepcopy(SHAPE)
    later["states"] = [entry for entry in later["states"] if entry["name"] != "cart"]
    later["states"].append(placed("basket", initial=True))
    later["states"][1] |= {"invokes": ["effect"]}
    later["transitions"] = [["basket", "go", ["working"], False, False]]
    later["children"] = {"asking.1": PAYMENT_SHAPE}
    return later


def samples() -> dict[str, Picture]:
    """Return every picture that lies in a file, by the file's name."""
    return {
        "stored": drawn(run_value()),
        "nested": picture_of_shape(encoded(NESTED)),
        "waiting": drawn(WAITING_RUN, WAITING),
        "drift": compare(drawn(run_value()), encoded(changed_shape())),
    }


def texts() -> dict[str, str]:
    """Return the text of every file by its name."""
    found = {}
    for name, picture in samples().items():
        found[f"{name}.dot"] = to_dot(picture)
        found[f"{name}.mmd"] = to_mermaid(picture)
    return found


if __name__ == "__main__":
    for file, text in texts().items():
        (FOLDER / file).write_text(text, encoding="utf-8")
