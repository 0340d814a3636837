"""Settled rows of effects as one object: nothing of them is lost, and a loop's take little."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from snapshots import DecodeError
from snapshots.layout import fold, unfold, unfold_blob

RUN = "0199aaaa-bbbb-7ccc-8ddd-eeeeeeeeeeee"


def row(number: int, **more: Any) -> dict[str, Any]:
    """Return a settled effect of a loop."""
    return {
        "id": f"{RUN}/charging.{number}",
        "kind": "charge",
        "status": "done",
        "attempt": 1,
        "at": 1_795_000_000_000 + 40 * number,
        **more,
    }


def test_a_loops_rows_take_a_tenth() -> None:
    """Ids in a series and times in small steps: the rest is said once."""
    rows = [row(number) for number in range(17, 81)]
    folded = fold(rows)
    assert unfold(folded, "settled[0]", None) == rows
    assert 10 * len(json.dumps(folded)) < len(json.dumps(rows))
    assert folded["ids"] == {"before": f"{RUN}/charging.", "first": 17}


def test_what_differs_is_kept_row_by_row() -> None:
    """An error here, a second attempt there, another kind, ids of two states in turn."""
    rows = [
        row(1, error={"type": "Refused", "message": "no"}, status="failed"),
        row(2, attempt=2, key="k"),
        row(3, idempotent=True) | {"id": f"{RUN}/child.1/polling.3", "node": "child.1"},
        row(4, offered=True, kind="ask"),
    ]
    assert unfold(fold(rows), "settled[0]", None) == rows


_TEXTS = st.text(max_size=6)
_ROWS = st.lists(
    st.fixed_dictionaries(
        {"id": st.sampled_from(["", "a", "r/a.", "r/a.1", "7"]).flatmap(
            lambda before: st.integers(0, 30).map(lambda n: f"{before}{n}")
        ), "at": st.integers(-5, 10**13)},
        optional={
            "status": st.sampled_from(["done", "failed"]),
            "attempt": st.sampled_from([0, 1, True, 1.0]),
            "error": st.dictionaries(_TEXTS, _TEXTS),
            "key": _TEXTS,
        },
    ),
    min_size=1,
    max_size=70,
)  # fmt: skip


@given(rows=_ROWS)
def test_unfolding_gives_the_rows_back(rows: list[dict[str, Any]]) -> None:
    """Whatever they hold, type for type, through JSON too."""
    again = unfold(json.loads(json.dumps(fold(rows))), "settled[0]", None)
    assert again == rows
    kinds = [{name: type(part) for name, part in one.items()} for one in again]
    assert kinds == [{name: type(part) for name, part in one.items()} for one in rows]


FOLDED = fold([row(1), row(2, error={"type": "X", "message": ""})])


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        {},
        {**FOLDED, "rows": 3},
        {**FOLDED, "rows": "2"},
        {**FOLDED, "at": [1]},
        {**FOLDED, "at": ["1", 2]},
        {**FOLDED, "ids": {"before": 7, "first": 1}},
        {**FOLDED, "ids": {"before": "", "each": ["a"]}},
        {**FOLDED, "names": {"error": []}},
        {**FOLDED, "names": 5},
        {**FOLDED, "more": 1},
        {**FOLDED, "rows": 10**9},
        {**FOLDED, "rows": 10**9, "ids": {"before": "r", "first": 1}},
        {**FOLDED, "rows": True},
        {**FOLDED, "same": {"id": "x"}},
        {**FOLDED, "names": {"at": [1, 2]}},
        {**FOLDED, "names": {"error": "ab"}},
        {**FOLDED, "ids": {"before": "r", "first": True}},
        {**FOLDED, "ids": {"before": "r", "each": "ab"}},
        {**FOLDED, "ids": {"before": "r", "each": [1, 2]}},
        {**FOLDED, "at": [1.5, 2]},
        {**FOLDED, "same": []},
    ],
)
def test_what_is_no_chunk_is_refused_by_its_place_and_run(damaged: Any) -> None:
    """Lengths that disagree, other types, names that nobody knows."""
    with pytest.raises(DecodeError, match=r"settled\[1\].*") as caught:
        unfold_blob({"settled": [FOLDED, damaged], "effects": []}, "run-1")
    assert "run-1" in str(caught.value)


def test_settled_effects_come_before_the_open_ones() -> None:
    """And a blob without any is the same value."""
    value = {"settled": [FOLDED], "effects": [row(3)], "step": 1}
    assert unfold_blob(value, None) == {
        "effects": [row(1), row(2, error={"type": "X", "message": ""}), row(3)],
        "step": 1,
    }
    assert unfold_blob({"step": 1}, None) == {"step": 1}
