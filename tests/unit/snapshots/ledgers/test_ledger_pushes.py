"""The ledger of pushes: every row whole, and one bundle for a slot at most."""

from __future__ import annotations

import json
from typing import Any

import pytest

from snapshots.codec import Codec
from snapshots.errors import EncodeError, InvalidKeyError, LimitError
from snapshots.ledgers.pushes import Push, Pushes
from snapshots.limits import CHUNK_ROWS, PUSH_SLOTS_MAX


def push(ledger: Pushes, push_id: str, slot: str = "repo", **fields: Any) -> Push:
    """Record a push with what every one has."""
    values = {"commit": f"c-{push_id}", "source": f"s-{push_id}", "squashed": [push_id]}
    return ledger.record(slot, push_id, at_ms=1, **{**values, **fields})


def bundles(ledger: Pushes, slot: str = "repo") -> dict[str, bytes]:
    """Return the bundles that a slot keeps, by the push."""
    return {row.id: row.bundle for row in ledger.pairs(slot) if row.bundle is not None}


def test_an_empty_ledger_has_no_pushes() -> None:
    """A slot that nothing was published from has no newest push and nothing to send."""
    ledger = Pushes()
    assert (len(ledger), ledger.newest("repo"), ledger.pairs("repo"), ledger.as_value()) == (
        0,
        None,
        (),
        {},
    )
    assert ledger.as_json(Codec()) == b"{}"


def test_a_row_keeps_what_was_published_whole() -> None:
    """Commit, source, squashed and bundle; the answer once it is there."""
    ledger = Pushes()
    push(ledger, "p1", bundle=b"pack", squashed={"a": (1, 2)})
    stored = {"id": "p1", "commit": "c-p1", "source": "s-p1", "squashed": {"a": (1, 2)}, "at": 1}
    assert ledger.as_value() == {"repo": [{**stored, "bundle": b"pack"}]}
    ledger.finish("repo", "p1", {"merged": True})
    assert ledger.as_value() == {"repo": [{**stored, "answer": {"merged": True}, "finished": True}]}


def test_a_bundle_is_kept_by_the_newest_push_only_until_it_is_finished() -> None:
    """The next push takes it away from the former, and the end of its sync from itself."""
    ledger = Pushes()
    push(ledger, "p1", bundle=b"1")
    push(ledger, "other", slot="docs", bundle=b"d")
    assert bundles(ledger) == {"p1": b"1"}
    push(ledger, "p2", bundle=b"2")
    assert bundles(ledger) == {"p2": b"2"}
    push(ledger, "p3")
    assert bundles(ledger) == {}
    push(ledger, "p4", bundle=b"4")
    ledger.finish("repo", "p4")
    assert bundles(ledger) == {}
    assert bundles(ledger, "docs") == {"other": b"d"}


def test_a_push_sends_every_earlier_one_whole_and_in_order() -> None:
    """Before it is recorded all of them, afterwards those before it."""
    ledger = Pushes()
    for n in range(3):
        push(ledger, f"p{n}")
    ledger.finish("repo", "p1", "merged")
    assert [row.id for row in ledger.pairs("repo")] == ["p0", "p1", "p2"]
    assert [(row.id, row.answer) for row in ledger.pairs("repo", before="p2")] == [
        ("p0", None),
        ("p1", "merged"),
    ]
    assert ledger.pairs("repo", before="p0") == ()
    with pytest.raises(InvalidKeyError, match="no such push: slot 'repo' has 'p2' as its newest"):
        ledger.pairs("repo", before="p9")
    with pytest.raises(InvalidKeyError, match="no such push: slot 'docs' has none"):
        ledger.pairs("docs", before="p1")


def test_pairs_keep_their_order_around_a_push_that_never_finishes() -> None:
    """However many finished pushes are closed, none overtakes one that is not."""
    ledger = Pushes()
    names = [f"p{n}" for n in range(4 * CHUNK_ROWS)]
    for name in names:
        push(ledger, name)
        if name != f"p{CHUNK_ROWS + 3}":
            ledger.finish("repo", name, name)
    assert [row.id for row in ledger.pairs("repo")] == names
    assert [row["id"] for row in json.loads(ledger.as_json(Codec()))["repo"]] == names
    newest = ledger.newest("repo")
    assert newest is not None
    assert newest.id == names[-1]


def test_an_answer_is_given_once() -> None:
    """A push that is finished keeps its answer; one that is not there cannot be finished."""
    ledger = Pushes()
    push(ledger, "p1")
    ledger.finish("repo", "p1", "merged")
    with pytest.raises(InvalidKeyError, match="is finished, and keeps its answer"):
        ledger.finish("repo", "p1", "refused")
    with pytest.raises(InvalidKeyError, match="no such push"):
        ledger.finish("repo", "p2")
    with pytest.raises(InvalidKeyError, match="no such push"):
        ledger.finish("docs", "p1")
    assert ledger.pairs("repo")[0].answer == "merged"


def test_a_push_is_recorded_once_in_its_slot() -> None:
    """The same id again is refused, also when the first is closed; another slot may have it."""
    ledger = Pushes()
    for n in range(CHUNK_ROWS + 1):
        push(ledger, f"p{n}")
        ledger.finish("repo", f"p{n}")
    for again in ("p0", f"p{CHUNK_ROWS}"):
        with pytest.raises(InvalidKeyError, match="slot 'repo' has this push already"):
            push(ledger, again)
    push(ledger, "p0", slot="docs")


def test_a_refused_push_leaves_the_bundle_where_it_was() -> None:
    """Nothing has changed after a refusal."""
    ledger = Pushes()
    push(ledger, "p1", bundle=b"1")
    with pytest.raises(InvalidKeyError):
        push(ledger, "p1", bundle=b"2")
    with pytest.raises(InvalidKeyError, match="its bundle is a str, expected bytes"):
        push(ledger, "p2", bundle="2")
    assert bundles(ledger) == {"p1": b"1"}


@pytest.mark.parametrize("name", ["slot", "push_id", "commit", "source"])
def test_names_are_printable_texts(name: str) -> None:
    """What no row could keep is refused by what it is."""
    for bad in ("", "a\nb", 3):
        with pytest.raises(InvalidKeyError, match=f"the ({name.removesuffix('_id')}|id) of a push"):
            push(Pushes(), **{"push_id": "p", name: bad})


def test_slots_have_a_bound() -> None:
    """One past it is refused; those that are there go on."""
    ledger = Pushes()
    for n in range(PUSH_SLOTS_MAX):
        push(ledger, "p", slot=f"s{n}")
    with pytest.raises(LimitError, match="is 1001, expected at most 1000"):
        push(ledger, "p", slot="more")
    push(ledger, "p2", slot="s0")


def test_a_ledger_comes_back_byte_identical() -> None:
    """Restored and saved at any moment nothing has changed, values type for type."""
    ledger, codec = Pushes(), Codec()
    for n in range(150):
        push(ledger, f"p{n}", slot=f'repo "{n % 2}"', squashed=(n,), bundle=b"x")
        if n not in (3, 90):
            ledger.finish(f'repo "{n % 2}"', f"p{n}", {n})
        stored = ledger.as_json(codec)
        again = Pushes.of(codec.decode(stored))
        assert again.as_json(codec) == stored == codec.encode(ledger.as_value(), root="pushes")
    assert again.as_value() == ledger.as_value()


@pytest.mark.parametrize("count", [1, CHUNK_ROWS - 1, CHUNK_ROWS, CHUNK_ROWS + 1])
def test_a_change_can_be_taken_back(count: int) -> None:
    """Pushes, their bundles and new slots are as they were, also if rows were closed meanwhile."""
    ledger, codec = Pushes(), Codec()
    for n in range(count):
        push(ledger, f"p{n}")
        ledger.finish("repo", f"p{n}")
    push(ledger, "last", bundle=b"b")
    before, undo, changes = ledger.as_json(codec), ledger.keep(), ledger.changes
    push(ledger, "next", bundle=b"c")
    ledger.finish("repo", "last", "wrong")
    push(ledger, "p", slot="docs")
    ledger.as_json(codec)
    undo()
    assert ledger.as_json(codec) == before
    assert ledger.changes > changes + 3
    assert bundles(ledger) == {"last": b"b"}
    ledger.finish("repo", "last", "right")
    assert json.loads(ledger.as_json(codec))["repo"][-1]["answer"] == "right"


def test_a_value_that_cannot_be_stored_is_refused_with_its_place() -> None:
    """The path says slot, row and field."""
    ledger = Pushes()
    push(ledger, "p1")
    push(ledger, "p2", squashed=[object()])
    with pytest.raises(EncodeError, match=r"pushes.repo\[1\].squashed\[0\]"):
        ledger.as_json(Codec())
