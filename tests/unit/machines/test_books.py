"""The books of a run: whose a row is, what one save holds, and values that are nobody else's."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from statemachine import State, StateChart

from machines import Machine, effect
from machines.books import Books, Owner
from machines.opening import InlineWorker
from machines.run.run import Run
from snapshots import open_store
from snapshots.errors import EncodeError, InvalidKeyError, StorageReadOnlyError
from snapshots.store.sqlite import SqliteSnapshotStore
from snapshots.testing import ManualClock


def sign(key: str) -> list[str]:
    """Be the outside, which answers with a list."""
    return [key]


class Signing(StateChart):
    """A chart with one effect, whose ledgers are the subject."""

    signing = State(initial=True, invoke=effect(sign))
    waiting = State()
    over = State(final=True)
    done_invoke_signing = signing.to(waiting)
    end = waiting.to(over)


class Desk:
    """One run on a file, and its books as invocations have them."""

    def __init__(self, store: SqliteSnapshotStore) -> None:
        self.store = store
        self.machine = Machine(Signing)
        self.run = self._make()
        self.run.begin()
        self.run.wake()

    def _make(self) -> Run:
        worker, clock = InlineWorker(), ManualClock()
        return Run(self.store, self.machine, "r", {}, worker, clock=clock, verify=True)

    def restart(self) -> None:
        """Make the run again from its row."""
        stored = self.store.load("r")
        self.run = self._make()
        value = self.machine.codec.decode(stored.blob)
        self.run.restore(stored.header, value, restarted=True)

    def books(self, invoke: str = "job.1", path: str = "") -> Books:
        """Return the books of an invocation."""
        return self.run.books(Owner(path=path, invoke=invoke))

    def on_disk(self, ledger: str) -> Any:
        """Return a ledger as the row holds it."""
        return self.machine.codec.decode(self.store.load("r").blob).get(ledger)

    @property
    def saves(self) -> int:
        """How often the run was written."""
        return self.store.load("r").header.revision - 2**33 + 1


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """Return a run that waits, its effect done."""
    with open_store(tmp_path / "state.db", clock=ManualClock()) as store:
        yield Desk(store)


def test_a_row_belongs_to_the_invocation_by_default(desk: Desk) -> None:
    """Its key is the path of the chart and the id of the invocation; a given key goes before."""
    desk.books().admissions.record("h1")
    desk.books("job.1", "ship.2/box.1").admissions.record("h2")
    desk.books().admissions.record("h3", key="mine")
    desk.books().pushes.record("repo", commit="c", source="s")
    assert list(desk.on_disk("admissions")) == ["job.1", "ship.2/box.1/job.1", "mine"]
    assert [row["id"] for row in desk.on_disk("pushes")["repo"]] == ["job.1"]


def test_an_invocation_finds_its_own_admission_only(desk: Desk) -> None:
    """None before it recorded one, settled ones too, the same after a restart."""
    assert desk.books().admission is None
    desk.books().admissions.record("h1", offset=3)
    desk.restart()
    found = desk.books().admission
    assert found is not None
    assert (found.key, found.handle, found.offset, found.settled) == ("job.1", "h1", 3, False)
    assert desk.books("job.2").admission is None
    desk.books().admissions.settle()
    found = desk.books().admission
    assert found is not None
    assert found.settled


def test_without_an_invocation_a_key_must_be_given(desk: Desk) -> None:
    """The run itself has no key, and can name any."""
    books = desk.run.books()
    assert books.admission is None
    for act in (
        lambda: books.admissions.record("h"),
        books.admissions.get,
        lambda: books.admissions.advance(1),
        lambda: books.pushes.finish("repo"),
    ):
        with pytest.raises(InvalidKeyError, match="give a key of your own"):
            act()
    assert books.admissions.record("h", key="k").key == "k"


def test_notices_are_delivered_in_the_save_of_their_admission(desk: Desk) -> None:
    """One save holds both, and what another invocation took is not among them."""
    books, other = desk.books(), desk.books("job.2")
    books.notices.add("disk", "it was full")
    books.notices.add("repo", "it moved", "repo-1")
    assert [notice.text for notice in other.notices.take("repo-1")] == ["it was full", "it moved"]
    other.notices.release()
    assert [notice.text for notice in books.notices.take()] == ["it was full"]
    assert [notice.text for notice in other.notices.take("repo-1")] == ["it moved"]
    before = desk.saves
    books.admissions.record("h1")
    assert desk.saves == before + 1
    notices = desk.on_disk("notices")
    assert notices["disk"] == {"delivered": "job.1", "at": notices["disk"]["at"]}
    assert notices["repo"]["text"] == "it moved"
    assert books.notices.add("disk", "again") is False


def test_an_admission_that_carries_nothing_delivers_nothing(desk: Desk) -> None:
    """What was taken stays reserved for who took it."""
    books = desk.books()
    books.notices.add("disk", "it was full")
    books.notices.take()
    books.admissions.record("h1", carrying=False)
    assert "text" in desk.on_disk("notices")["disk"]
    assert desk.books("job.2").notices.take() == ()
    books.admissions.record("h2", key="next")
    assert desk.on_disk("notices")["disk"]["delivered"] == "next"


def test_a_save_that_fails_takes_back_admission_and_delivery(desk: Desk) -> None:
    """Both are as before, the reservation too; once the disk heals both are there."""
    books = desk.books()
    books.notices.add("disk", "it was full")
    books.notices.take()
    connection = desk.store.database.connection
    connection.pragma("query_only", True)
    with pytest.raises(StorageReadOnlyError):
        books.admissions.record("h1")
    connection.pragma("query_only", False)
    assert books.admission is None
    assert [notice.text for notice in books.notices.take()] == ["it was full"]
    assert desk.books("job.2").notices.take() == ()
    books.admissions.record("h1")
    assert desk.on_disk("notices")["disk"]["delivered"] == "job.1"
    assert desk.on_disk("admissions")["job.1"]["handle"] == "h1"


def test_values_are_copied_in_and_out(desk: Desk) -> None:
    """What a caller does to its own objects, or to those it was given, reaches no ledger."""
    books, mine = desk.books(), ["kept"]
    books.admissions.record(mine)
    books.notices.add("source", mine)
    books.picks.pick("p", "chain", mine)
    books.picks.reply("chain", mine)
    books.pushes.record("repo", commit="c", source="s", squashed=mine)
    books.pushes.finish("repo", mine)
    admission, newest = books.admission, books.pushes.newest("repo")
    assert admission is not None
    assert newest is not None
    given = [
        *(mine, admission.handle, newest.squashed, newest.answer),
        *(row.handle for row in books.admissions.open()),
        *(notice.text for notice in books.notices.take()),
        *(pick.offer for pick in books.picks.outstanding()),
        *books.picks.replies("p"),
        *(row.squashed for row in books.pushes.pairs("repo")),
    ]
    for value in given:
        value.append("changed")
    books.epochs.bump("c")
    for ledger in ("admissions", "notices", "picks", "pushes"):
        assert "changed" not in str(desk.on_disk(ledger))
    assert books.picks.answer("p") == (["kept"],)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (lambda b: b.admissions.record(object()), r"admissions\.job\.1\.handle"),
        (lambda b: b.admissions.record([1, {object()}], key="k"), r"admissions\.k\.handle\[1\]"),
        (lambda b: b.notices.add("s", object()), r"notices\.s\.text"),
        (lambda b: b.picks.pick("p", "c", object()), r"picks\.p\.offer"),
        (lambda b: b.picks.reply("c", object()), r"picks\.c\.replies"),
        (
            lambda b: b.pushes.record("x", commit="c", source="s", squashed=object()),
            r"pushes\.x\.squashed",
        ),
        (lambda b: b.pushes.finish("x", object()), r"pushes\.x\.answer"),
    ],
    ids=["handle", "in a handle", "text", "offer", "reply", "squashed", "answer"],
)
def test_a_value_that_cannot_be_kept_is_refused_by_its_ledger_and_name(
    desk: Desk, change: Callable[[Books], Any], path: str
) -> None:
    """Before anything has changed, and nothing is written."""
    before, kept = desk.store.load("r"), desk.run.as_stored().blob
    with pytest.raises(EncodeError, match=f"cannot save {path}"):
        change(desk.books())
    assert desk.store.load("r") == before
    assert desk.run.as_stored().blob == kept


def test_reading_never_saves(desk: Desk) -> None:
    """Nor does what is in memory only, what is not kept, and what is refused."""
    books = desk.books()
    books.admissions.record("h")
    books.notices.add("s", "text")
    books.picks.pick("p", "c", 1)
    books.pushes.record("x", commit="c", source="s")
    before = desk.saves
    assert (books.admission, books.admissions.get(), books.admissions.get("k")) == (
        books.admissions.open()[0],
        books.admissions.open()[0],
        None,
    )
    assert (books.epochs.current("c"), books.epochs.mint("c")) == (0, "c/0")
    assert books.epochs.is_current("c/0")
    assert len(books.notices.take()) == 1
    books.notices.release()
    assert books.notices.add("s", "again") is False
    assert (len(books.picks.outstanding("c")), books.picks.replies("p")) == (1, ())
    assert books.picks.reply("nothing", 1) is False
    assert (books.pushes.newest("y"), books.pushes.pairs("x", "job.1")) == (None, ())
    assert len(list(books.effects)) == len(books.effects) == 1
    with pytest.raises(InvalidKeyError, match="cannot go back"):
        books.admissions.record("h", offset=5) and books.admissions.advance(1)
    assert desk.saves == before + 1


def test_every_change_of_a_book_is_on_disk_when_it_returns(desk: Desk) -> None:
    """Each is one save."""
    books, before = desk.books(), desk.saves
    books.admissions.record("h")
    books.admissions.advance(3)
    assert desk.on_disk("admissions")["job.1"]["offset"] == 3
    books.admissions.settle()
    assert desk.on_disk("admissions")["job.1"]["settled"] is True
    assert books.epochs.bump("c") == 1 == desk.on_disk("epochs")["c"]
    books.notices.add("s", "text")
    assert "s" in desk.on_disk("notices")
    books.picks.pick("p", "c", 1)
    assert books.picks.reply("c", "r") is True
    assert desk.on_disk("picks")[0]["replies"] == ["r"]
    assert books.picks.answer("p") == ("r",)
    assert desk.on_disk("picks") is None
    books.pushes.record("x", commit="c", source="s", bundle=b"b")
    assert desk.on_disk("pushes")["x"][0]["bundle"] == b"b"
    books.pushes.finish("x", "merged")
    assert desk.on_disk("pushes")["x"][0]["answer"] == "merged"
    assert desk.saves == before + 9 + 1


def test_effects_can_be_read_and_not_changed(desk: Desk) -> None:
    """A row as it was when it was read; its values are copies."""
    (row,) = desk.books().effects
    assert (row.id, row.path, row.invoke, row.kind, row.key) == (
        "r/signing.1",
        "",
        "signing.1",
        "sign",
        "r/signing.1",
    )
    assert (row.status, row.attempt, row.idempotent, row.tail) == ("done", 1, False, None)
    assert desk.books().effects.get("r/signing.1") == row
    assert desk.books().effects.get("signing.1") is None
    with pytest.raises(dataclasses.FrozenInstanceError):
        row.status = "failed"  # type: ignore[misc]  # that it cannot be is the claim
