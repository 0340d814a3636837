"""Two reports beside each other: equal where nothing says otherwise, and each place by its path."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots.inspection.reports.differences import Difference, differences
from snapshots.inspection.reports.reading import read_report
from snapshots.inspection.text.differences import (
    DIFFERENCES_SHOWN_MAX,
    differences_document,
    differences_text,
)
from snapshots.inspection.text.screen import Screen, rendered
from snapshots.limits import REVISION_FIRST
from snapshots.testing import START_MS
from tests.unit.snapshots.inspection.stored_runs import (
    MACHINE,
    RUN,
    encoded,
    header,
    run_of,
    run_value,
)

SCREEN = Screen(columns=400, is_colored=False, is_ascii=True)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "b", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz$"), inner),
    max_leaves=12,
)


def report(value: dict[str, Any] | None = None, **changes: Any) -> Any:
    """Return the report of a run with this blob."""
    blob = encoded(run_value() if value is None else value)
    return read_report(header(**changes), blob, None, now_ms=START_MS)


def found(value: dict[str, Any], **changes: Any) -> list[tuple[str, str, str, Any, Any]]:
    """Return where a run differs from that of the fixtures."""
    return [
        (one.part, one.where, one.kind, one.first, one.second)
        for one in differences(report(), report(value, **changes))
    ]


def changed(*path: Any, to: Any) -> dict[str, Any]:
    """Return the blob of the fixtures with one place of it changed."""
    value = copy.deepcopy(run_value())
    at: Any = value
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = to
    return value


def test_a_run_does_not_differ_from_itself() -> None:
    """Nor from a copy of it under another id, written at another time, saved more often."""
    assert differences(report(), report()) == []
    text = json.dumps(run_value()).replace(RUN, "other").replace(str(START_MS), str(START_MS + 9))
    others = {"run_id": "other", "revision": REVISION_FIRST + 70, "updated_ms": 9, "due_ms": 8}
    assert found(json.loads(text), **others) == []


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (
            changed("root", "context", "note", to="heavy"),
            ("context", "note", "changed", "fragile", "heavy"),
        ),
        (changed("root", "context", "more", to=[1]), ("context", "more", "added", None, [1])),
        (
            changed("root", "context", to={"note": "fragile"}),
            ("context", "amount", "removed", {"$": "decimal", "v": "1.20"}, None),
        ),
        (
            changed("root", "context", "amount", "v", to="1.2"),
            *[("context", "amount", "changed", {"$": "decimal", "v": "1.20"})],
        ),
        (
            changed("root", "children", "asking.2", "context", "tries", to=3),
            ("context", "asking.2: tries", "changed", 2, 3),
        ),
        (changed("root", "children", to={}), ("charts", "asking.2", "removed", "Payment", None)),
        (changed("step", to=18), ("step", "", "changed", 17, 18)),
        (changed("input", "amount", to=12.0), ("input", "amount", "changed", 12, 12.0)),
        (
            changed("root", "configuration", 3, to="closed"),
            ("configuration", "review", "removed", "review", None),
        ),
        (
            changed("root", "history", "before", to=[]),
            ("history", "before[0]", "removed", "asking", None),
        ),
        (
            changed("root", "invokes", 2, "events", to=["approve"]),
            ("invokes", "review.3.events[1]", "removed", "reject", None),
        ),
        (
            changed("effects", 1, "status", to="done"),
            ("effects", "/asking.1.status", "changed", "unknown", "done"),
        ),
        (changed("timers", 1, "policy", to="restart"), ("timers", "remind.policy", "changed")),
        (changed("arrivals", to=[]), ("queue", "asking.2/late", "removed")),
        (changed("admissions", "asking.3", "offset", to=13), ("admissions", "asking.3.offset")),
        (changed("epochs", "chat", to=3), ("epochs", "chat", "changed", 2, 3)),
        (changed("notices", "build", "text", to="green"), ("notices", "build.text", "changed")),
        (changed("picks", 0, "picks", 0, "offer", to=[]), ("picks", "chat[0].offer[0]", "removed")),
        (changed("pushes", "slot", 0, "commit", to="x"), ("pushes", "slot[0].commit", "changed")),
        (changed("deliveries", 1, to="evt-9"), ("deliveries", "evt-81", "removed", "evt-81", None)),
        (changed("trail", to=[]), ("trail", "[0]", "removed")),
        (changed("trail", 0, 2, to="ran"), ("trail", "[0]", "changed")),
    ],
)
def test_each_place_is_named_by_its_path(value: dict[str, Any], expected: tuple[Any, ...]) -> None:
    """With what stands there in both: of one kind, an int is no float."""
    first, *rest = found(value)
    assert first[: len(expected)] == expected
    assert len(rest) <= 1


def test_what_a_header_says_is_compared_but_for_ids_and_times() -> None:
    """Machine, shape, status and reason."""
    changes = {"machine": "other", "digest": "d", "status": "lost", "reason": "gone"}
    value = run_value(machine="other")
    assert found(value, **changes) == [
        ("machine", "", "changed", MACHINE, "other"),
        ("shape", "", "changed", "3f2a9c01b7de", "d"),
        ("status", "", "changed", "live", "lost"),
        ("reason", "", "added", None, "gone"),
    ]


def test_a_value_of_a_class_is_compared_attribute_by_attribute() -> None:
    """While one of another class is another value, as a whole."""
    money = {"$": "object", "class": "Money", "v": {"amount": 1, "unit": "EUR"}}
    before = changed("root", "context", "price", to=money)
    after = changed("root", "context", "price", to=money | {"v": {"amount": 2, "unit": "EUR"}})
    (one,) = differences(report(before), report(after))
    assert (one.where, one.first, one.second) == ("price.amount", 1, 2)
    other = changed("root", "context", "price", to=money | {"class": "Cents"})
    (one,) = differences(report(before), report(other))
    assert one.where == "price"


@given(PLAIN, PLAIN)
def test_two_values_differ_exactly_if_they_are_not_the_same(first: Any, second: Any) -> None:
    """Whatever they are: and the other way round the same places differ."""
    one, two = (report(changed("root", "context", to={"v": value})) for value in (first, second))
    there, back = differences(one, two), differences(two, one)
    assert (not there) is (json.dumps(first, sort_keys=True) == json.dumps(second, sort_keys=True))
    assert [part.where for part in there] == [part.where for part in back] or len(there) > 1
    assert {part.where for part in there} == {part.where for part in back}


def test_a_document_has_raw_values_and_says_whether_they_are_equal() -> None:
    """For a program that asks what differs."""
    there = differences(report(), report(changed("epochs", "chat", to=3)))
    assert differences_document("a", "b", there) == {
        "first": "a",
        "second": "b",
        "equal": False,
        "differences": [
            {"part": "epochs", "where": "chat", "kind": "changed", "first": 2, "second": 3}
        ],
    }


def test_a_text_says_what_changed_and_is_bounded() -> None:
    """One line a difference, the trail in words; what is left out is counted."""
    there = differences(report(), report(changed("trail", 0, 2, to="ran")))
    text = rendered(differences_text("a", "b", there, screen=SCREEN), SCREEN)
    assert "1 difference from a to b" in text
    assert "go, cart -> working, paying" in text
    assert "-> ran, cart" in text
    many = [Difference(part="context", where=str(n), kind="added", second=n) for n in range(900)]
    text = rendered(differences_text("a", "b", many, screen=SCREEN), SCREEN)
    assert text.count("added") == DIFFERENCES_SHOWN_MAX
    assert f"{900 - DIFFERENCES_SHOWN_MAX} more are not shown" in text


def test_nothing_out_of_a_blob_is_obeyed_by_a_terminal() -> None:
    """Names, keys and values of either run appear as escapes."""
    evil = "\x1b]0;owned\x07\u202e"
    there = differences(report(), report(run_of(evil, RUN) | {"machine": MACHINE}))
    text = rendered(differences_text(evil, "b", there, screen=SCREEN), SCREEN)
    assert len(there) > 20
    assert all(line.isprintable() for line in text.split("\n"))
