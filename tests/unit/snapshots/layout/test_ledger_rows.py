"""Rows of which most never change again: encoded once, closed by 64, and put back if need be."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

import pytest

from snapshots.layout import Rows, array, mapping
from snapshots.limits import CHUNK_ROWS


@dataclass
class Row:
    """A row that counts nothing itself; the encoder does."""

    name: str
    final: bool = True


@dataclass
class Encoder:
    """Encodes rows as their names and counts how often each was."""

    times: Counter[str] = field(default_factory=Counter)
    places: dict[str, int] = field(default_factory=dict)

    def __call__(self, row: Row, place: int) -> bytes:
        self.times[row.name] += 1
        self.places[row.name] = place
        return json.dumps([row.name, row.final], separators=(",", ":")).encode()


def made(names: list[str], *, in_order: bool = False, final: bool = True) -> Rows[Row]:
    """Return rows that were added one after the other."""
    rows: Rows[Row] = Rows(is_final=lambda row: row.final, in_order=in_order)
    for name in names:
        rows.add(name, Row(name, final))
    return rows


def names_in(rows: Rows[Row]) -> list[str]:
    """Return the names of the rows as their JSON has them, which is also their own order."""
    found = [name for name, _ in json.loads(rows.as_json(Encoder()))]
    assert found == [row.name for row in rows.all]
    return found


def numbered(count: int) -> list[str]:
    """Return so many names."""
    return [f"r{n}" for n in range(count)]


@pytest.mark.parametrize("count", [0, 1, CHUNK_ROWS, CHUNK_ROWS + 1, 3 * CHUNK_ROWS + 5])
def test_rows_are_one_array_in_their_order(count: int) -> None:
    """However many are closed, the JSON is a flat list, with each row's place told."""
    rows, encode = made(numbered(count)), Encoder()
    assert json.loads(rows.as_json(encode)) == [[name, True] for name in numbered(count)]
    assert encode.places == {name: place for place, name in enumerate(numbered(count))}
    assert (len(rows), len(rows.all)) == (count, count)


def test_a_chunk_is_closed_when_the_next_row_comes() -> None:
    """Sixty-four final rows stay open until another is added; then they are no longer open."""
    rows = made(numbered(CHUNK_ROWS))
    assert len(rows.open) == CHUNK_ROWS
    rows.add("next", Row("next"))
    assert [row.name for row in rows.open] == ["next"]
    assert (rows.get("r0"), rows.get("next")) == (Row("r0"), Row("next"))
    assert "r0" in rows
    assert "nothing" not in rows


def test_a_final_row_is_encoded_once() -> None:
    """Neither closing nor a later save encodes it again; an open row is encoded each time."""
    rows, encode = made([]), Encoder()
    rows.add("open", Row("open", final=False))
    for name in numbered(3 * CHUNK_ROWS):
        rows.add(name, Row(name))
        rows.as_json(encode)
    assert {encode.times[name] for name in numbered(3 * CHUNK_ROWS)} == {1}
    assert encode.times["open"] == 3 * CHUNK_ROWS


def test_a_row_in_doubt_for_ever_does_not_stop_closing() -> None:
    """It stays behind, and the final ones around it are closed ahead of it."""
    rows = made([])
    rows.add("doubt", Row("doubt", final=False))
    for name in numbered(2 * CHUNK_ROWS):
        rows.add(name, Row(name))
    assert len(rows.open) == 1 + CHUNK_ROWS
    assert names_in(rows) == [
        *numbered(CHUNK_ROWS),
        "doubt",
        *numbered(2 * CHUNK_ROWS)[CHUNK_ROWS:],
    ]


def test_rows_in_order_stay_in_order() -> None:
    """There a row that is not final keeps those behind it open, and none overtakes it."""
    rows = made(numbered(CHUNK_ROWS), in_order=True)
    rows.add("doubt", Row("doubt", final=False))
    for name in numbered(3 * CHUNK_ROWS)[CHUNK_ROWS:]:
        rows.add(name, Row(name))
    assert names_in(rows) == [
        *numbered(CHUNK_ROWS),
        "doubt",
        *numbered(3 * CHUNK_ROWS)[CHUNK_ROWS:],
    ]
    assert len(rows.open) == 1 + 2 * CHUNK_ROWS


@pytest.mark.parametrize("in_order", [False, True])
def test_reading_rows_puts_them_into_no_other_order(in_order: bool) -> None:
    """Restored from their list they give the same JSON, and go on as if nothing had happened."""
    rows = made(numbered(70), in_order=in_order)
    rows.add("doubt", Row("doubt", final=False))
    for name in numbered(190)[70:]:
        rows.add(name, Row(name))
        again: Rows[Row] = Rows(
            [(row.name, row) for row in rows.all],
            is_final=lambda row: row.final,
            in_order=in_order,
        )
        assert again.as_json(Encoder()) == rows.as_json(Encoder())
        again.add("more", Row("more"))
        undo = rows.keep()
        rows.add("more", Row("more"))
        assert again.as_json(Encoder()) == rows.as_json(Encoder())
        undo()


def test_restored_rows_are_encoded_once_when_they_are_first_saved() -> None:
    """The first save after a restart encodes them all, the next one none."""
    rows: Rows[Row] = Rows([(n, Row(n)) for n in numbered(200)], is_final=lambda row: row.final)
    encode = Encoder()
    first = rows.as_json(encode)
    assert rows.as_json(encode) == first
    assert set(encode.times.values()) == {1}
    assert len(encode.times) == 200


def test_what_was_closed_is_told() -> None:
    """`seal` gets each row once, as it is closed, and `unseal` if that is taken back."""
    sealed: list[str] = []
    rows: Rows[Row] = Rows(
        is_final=lambda row: row.final,
        seal=lambda row: sealed.append(row.name),
        unseal=lambda row: sealed.remove(row.name),
    )
    for name in numbered(2 * CHUNK_ROWS):
        rows.add(name, Row(name))
    assert sealed == numbered(CHUNK_ROWS)
    undo = rows.keep()
    rows.add("more", Row("more"))
    assert sealed == numbered(2 * CHUNK_ROWS)
    undo()
    assert sealed == numbered(CHUNK_ROWS)


def test_a_closed_row_cannot_be_changed_or_added_again() -> None:
    """Both are mistakes of the ledger, never of a user."""
    rows = made(numbered(CHUNK_ROWS + 1))
    with pytest.raises(AssertionError, match="'r0' cannot change"):
        rows.change("r0", Row("r0", final=False))
    with pytest.raises(AssertionError, match="'r0' is added twice"):
        rows.add("r0", Row("r0"))


@pytest.mark.parametrize("before", [0, 5, CHUNK_ROWS, CHUNK_ROWS + 5])
def test_rows_can_be_put_back(before: int) -> None:
    """Rows that were added, changed, dropped and closed since are as they were, JSON included."""
    rows, encode = made(numbered(before)), Encoder()
    rows.add("last", Row("last", final=False))
    was = rows.as_json(encode)
    undo = rows.keep()
    rows.change("last", Row("last"))
    for n in range(2 * CHUNK_ROWS):
        rows.add(f"new{n}", Row(f"new{n}"))
        rows.as_json(encode)
    undo()
    assert rows.as_json(encode) == was
    assert (len(rows), rows.last) == (before + 1, Row("last", final=False))
    rows.change("last", Row("last"))
    assert json.loads(rows.as_json(encode))[-1] == ["last", True]


def test_the_last_row_is_found_whether_it_is_closed_or_not() -> None:
    """The newest row of all, None without any."""
    assert made([]).last is None
    assert made(["a", "b"]).last == Row("b")
    assert Rows([(n, Row(n)) for n in numbered(64)], is_final=lambda row: row.final).last == Row(
        "r63"
    )


def test_a_mapping_has_any_keys() -> None:
    """Keys that others chose are escaped; those of nothing make nothing."""
    keys = ['"', "\\", "é", "\u2028", ""]
    assert json.loads(mapping(dict.fromkeys(keys, b"1"))) == dict.fromkeys(keys, 1)
    assert (mapping({}), array([])) == (b"{}", b"[]")
