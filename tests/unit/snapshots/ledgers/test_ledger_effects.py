"""The ledger of effects: slim rows, each settled one encoded once, and none lost on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from snapshots.codec import Codec
from snapshots.layout import unfold_blob
from snapshots.ledgers.effects import EffectRow, Effects, whole
from snapshots.limits import CHUNK_ROWS

RUN = "run-1"


class Counting(Codec):
    """A codec that counts what it is asked to encode, by the path that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: Counter[str] = Counter()

    def encode(self, value: object, *, root: str = "value", omit: Any = ()) -> bytes:
        self.asked[root] += 1
        return super().encode(value, root=root, omit=omit)


def row(n: int, status: str = "done", *, path: str = "", **fields: Any) -> EffectRow:
    """Return the row of the n-th call of a looping effect."""
    invoke = f"paying.{n}"
    name = "/".join(part for part in (RUN, path, invoke) if part)
    values: dict[str, Any] = {"kind": "charge", "key": name, "idempotent": False, "at_ms": n}
    return EffectRow(name, path, invoke, status=status, **{**values, **fields})  # type: ignore[arg-type]  # statuses are literals


def stored(ledger: Effects, codec: Codec) -> bytes:
    """Return the ledger as a blob holds it: what is settled and closed, then what is open."""
    return b'{"settled":%b,"effects":%b}' % (ledger.closed_json(codec), ledger.open_json(codec))


def rows_in(ledger: Effects, codec: Codec) -> list[dict[str, Any]]:
    """Return the rows that a blob holds of the ledger, in their order."""
    value = unfold_blob(codec.decode(stored(ledger, codec)), None)
    assert value["effects"] == ledger.as_value()
    return list(value["effects"])


def test_an_empty_ledger_has_nothing_outstanding() -> None:
    """Nothing is found in it, and it is an empty list."""
    ledger = Effects()
    assert (len(ledger), list(ledger), ledger.outstanding) == (0, [], False)
    assert (ledger.get("x"), ledger.of_invoke("", "x")) == (None, None)
    assert stored(ledger, Codec()) == b'{"settled":[],"effects":[]}'


def test_a_row_leaves_out_what_its_id_says() -> None:
    """No empty node, no key that is the id, no invocation that the id ends with."""
    assert row(3).as_value() == {
        "id": "run-1/paying.3",
        "kind": "charge",
        "status": "done",
        "attempt": 0,
        "at": 3,
    }


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"path": "ship.1"},
        {"path": "a.1/b.2"},
        {"key": "order-7"},
        {"idempotent": True, "offered": True},
        {"tail": {"a": [1]}, "attempt": 2},
        {"status": "failed", "error": {"type": "OSError", "message": "gone"}},
    ],
    ids=str,
)
def test_a_row_comes_back_equal(fields: dict[str, Any]) -> None:
    """From its slim form, and from one with every field, as an earlier release wrote it."""
    made = row(7, **fields)
    assert EffectRow.of(made.as_value()) == made
    full = whole(made.as_value())
    assert {"id", "node", "invoke", "key"} <= full.keys()
    assert (full["node"], full["invoke"], full["key"]) == (made.path, made.invoke, made.key)
    assert EffectRow.of(full) == made


def test_an_invocation_that_a_document_named_with_a_slash_is_kept() -> None:
    """Its last part alone would be another name, so the row says it."""
    made = EffectRow("run-1/a/b", "", "a/b", "k", "run-1/a/b", False, 1)
    assert made.as_value()["invoke"] == "a/b"
    assert EffectRow.of(made.as_value()) == made


def test_an_effect_in_doubt_is_outstanding_however_many_are_settled() -> None:
    """One among thousands is found, and closing goes on around it."""
    ledger, codec = Effects(), Counting()
    ledger.intend(row(0, "unknown"))
    for n in range(1, 1_001):
        ledger.intend(row(n))
    assert ledger.outstanding
    stored(ledger, codec)
    codec.asked.clear()
    stored(ledger, codec)
    assert sum(codec.asked.values()) == 1
    doubt = ledger.get("run-1/paying.0")
    assert doubt is not None
    doubt.status = "failed"
    assert not ledger.outstanding


def test_pass_10000_encodes_what_pass_100_did() -> None:
    """Each pass of a loop encodes its own row, at each of its saves, and folds none but once."""
    ledger, codec, asked = Effects(), Counting(), []
    for n in range(10_000):
        made = row(n, "intent")
        ledger.intend(made)
        stored(ledger, codec)
        made.status, made.tail = "done", "paid"
        stored(ledger, codec)
        made.tail = None
        stored(ledger, codec)
        asked.append(sum(codec.asked.values()))
        codec.asked.clear()
    assert asked[100] == asked[9_999] == 3
    assert sum(asked) == 3 * 10_000 + ledger.closed // CHUNK_ROWS
    assert len(rows_in(ledger, codec)) == 10_000
    assert len(stored(ledger, codec)) < 10 * 10_000


def test_a_tail_keeps_a_row_open() -> None:
    """An outcome that nobody reacted to may not be closed: its tail is still to go."""
    ledger = Effects()
    first = row(0, tail="kept")
    for made in (first, *(row(n) for n in range(1, 2 * CHUNK_ROWS))):
        ledger.intend(made)
    first.tail = None
    assert rows_in(ledger, Codec())[CHUNK_ROWS]["id"] == first.id


def test_a_closed_row_can_never_change() -> None:
    """Who tries is stopped: the change would reach no disk."""
    ledger = Effects(row(n) for n in range(CHUNK_ROWS))
    closed = ledger.get("run-1/paying.0")
    assert closed is not None
    with pytest.raises(AssertionError, match=r"'run-1/paying.0' is closed, .* tail can never be 1"):
        closed.tail = 1
    assert closed.tail is None
    with pytest.raises(AssertionError, match="status can never be 'unknown'"):
        closed.status = "unknown"


def test_a_terminal_write_leaves_closed_rows_alone_and_can_be_taken_back() -> None:
    """Tails go and calls become unknown; if it fails, both are there again, in the JSON too."""
    ledger, codec = Effects(row(n) for n in range(CHUNK_ROWS)), Codec()
    calling, told = row(100, "calling", attempt=1), row(101, tail="paid")
    ledger.intend(calling)
    ledger.intend(told)
    before = stored(ledger, codec)
    undo = ledger.close()
    assert (calling.status, told.tail) == ("unknown", None)
    assert stored(ledger, codec) != before
    undo()
    assert (calling.status, told.tail) == ("calling", "paid")
    assert stored(ledger, codec) == before


def test_a_withdrawn_intent_can_be_taken_back() -> None:
    """Its row says failed only if that was saved; withdrawn again it says the newer reason."""
    ledger, codec = Effects(), Codec()
    ledger.intend(row(0, "intent"))
    undo = ledger.withdraw("", "paying.0", {"type": "A", "message": "first"})
    assert rows_in(ledger, codec)[0]["error"]["message"] == "first"
    undo()
    assert rows_in(ledger, codec)[0]["status"] == "intent"
    undo = ledger.withdraw("", "paying.0", {"type": "A", "message": "first"})
    stored(ledger, codec)
    undo()
    ledger.withdraw("", "paying.0", {"type": "A", "message": "second"})
    assert rows_in(ledger, codec)[0]["error"]["message"] == "second"
    ledger.withdraw("", "paying.0", {"type": "A", "message": "third"})
    ledger.withdraw("", "paying.9", {"type": "A", "message": "third"})
    assert rows_in(ledger, codec)[0]["error"]["message"] == "second"


def test_an_intent_whose_save_failed_is_taken_back() -> None:
    """It is nowhere, and can be intended again."""
    ledger = Effects()
    ledger.intend(row(0, "intent"))()
    assert (list(ledger), ledger.of_invoke("", "paying.0")) == ([], None)
    ledger.intend(row(0, "intent"))
    assert len(ledger) == 1


def test_rows_that_were_closed_for_an_intent_are_open_again_if_it_is_taken_back() -> None:
    """Their order is that of the last save, and a terminal write may go over them."""
    ledger, codec = Effects(), Codec()
    ledger.intend(row(0, "unknown"))
    for n in range(1, CHUNK_ROWS + 1):
        ledger.intend(row(n))
    before = stored(ledger, codec)
    undo = ledger.intend(row(100, "intent"))
    assert stored(ledger, codec) != before
    undo()
    assert stored(ledger, codec) == before
    first = ledger.get("run-1/paying.1")
    assert first is not None
    first.offered = False
    ledger.close()
    assert stored(ledger, codec) == before


def test_a_ledger_comes_back_byte_identical() -> None:
    """Restored and saved, at any moment of a loop with calls in doubt, nothing has changed."""
    ledger, codec = Effects(), Codec()
    for n in range(300):
        ledger.intend(row(n, "unknown" if n in (0, 70, 71, 200) else "done", path="c.1"))
        held = stored(ledger, codec)
        again = Effects.of(unfold_blob(codec.decode(held), None)["effects"])
        assert stored(again, codec) == held


def test_a_tail_that_cannot_be_stored_is_refused_with_its_place() -> None:
    """The path says which row it is, as if all had been encoded together."""
    ledger = Effects(row(n) for n in range(70))
    ledger.intend(row(70, tail=object()))
    with pytest.raises(Exception, match=r"cannot save effects\[70\].tail of type object"):
        stored(ledger, Codec())
