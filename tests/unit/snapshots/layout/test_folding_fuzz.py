"""What is read as a blob: any JSON at all unfolds, or is refused by a typed error."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from snapshots.errors import DecodeError
from snapshots.layout import fold, unfold_blob

NAMES = st.sampled_from(
    [
        *("settled", "effects", "timers", "root", "children", "kid", "due", "seq", "node"),
        *("rows", "ids", "at", "same", "names", "before", "first", "each", "id"),
    ]
)
NUMBERS = st.integers(-3, 40) | st.floats(allow_nan=False, allow_infinity=False)
ANY = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=5),
    max_leaves=25,
)
TIMERS = st.lists(
    st.fixed_dictionaries({"due": st.integers(0, 9), "id": st.text(max_size=2)}), max_size=3
)
TREES: Any = st.recursive(
    st.fixed_dictionaries({"class": st.just("c")}, optional={"timers": TIMERS}),
    lambda inner: st.fixed_dictionaries(
        {"class": st.just("c"), "children": st.dictionaries(st.sampled_from("abc"), inner)},
        optional={"timers": TIMERS},
    ),
    max_leaves=6,
)


@settings(max_examples=150)
@given(value=st.dictionaries(NAMES, ANY, max_size=5) | ANY)
def test_any_json_unfolds_or_is_refused(value: Any) -> None:
    """A blob is what a disk gives; and reading it leaves it as it was."""
    before = json.dumps(value)
    said = "run-1"
    try:
        unfold_blob(value, "run-1")
    except DecodeError as error:
        said = str(error)
    assert "run-1" in said
    assert json.dumps(value) == before


@settings(max_examples=60)
@given(chunk=st.dictionaries(NAMES, ANY, max_size=6), place=NAMES, part=ANY)
def test_a_damaged_chunk_unfolds_or_is_refused(
    chunk: dict[str, Any], place: str, part: Any
) -> None:
    """Of a whole one with a part replaced, and of what only looks like one."""
    whole = fold([{"id": f"r/a.{n}", "at": 10 + n, "status": "done"} for n in range(5)])
    for damaged in (chunk, {**whole, place: part}, {**whole, "ids": {**whole["ids"], place: part}}):
        try:
            found = unfold_blob({"settled": [damaged], "effects": []}, "run-1")["effects"]
        except DecodeError:
            continue
        assert all(type(row) is dict and {"id", "at"} <= row.keys() for row in found)


def number(tree: dict[str, Any], path: str, seq: list[int]) -> list[dict[str, Any]]:
    """Give the timers of a tree their numbers; return them as they are to be read."""
    found = []
    for timer in tree.get("timers", ()):
        seq[0] += 1
        timer["seq"] = seq[0]
        found.append({**timer, "node": path})
    for key, below in tree.get("children", {}).items():
        found += number(below, f"{path}/{key}" if path else key, seq)
    return found


def without(tree: dict[str, Any]) -> dict[str, Any]:
    """Return a tree without its timers."""
    kept = {name: part for name, part in tree.items() if name != "timers"}
    if "children" in kept:
        kept["children"] = {key: without(below) for key, below in kept["children"].items()}
    return kept


@settings(max_examples=60)
@given(tree=TREES)
def test_the_timers_of_all_charts_come_out_nearest_first(tree: dict[str, Any]) -> None:
    """Each once, with the path of its chart, and the charts are as they were without them."""
    tree = json.loads(json.dumps(tree))
    expected = number(tree, "", [0])
    found = unfold_blob({"root": tree}, None)
    ordered = sorted(expected, key=lambda timer: (timer["due"], timer["seq"]))
    assert found.get("timers", []) == ordered
    assert without(found["root"]) == without(tree)
    assert not expected or found["root"] == without(tree)
