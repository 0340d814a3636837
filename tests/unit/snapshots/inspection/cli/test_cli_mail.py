"""The commands that hand something in: what is accepted, what is refused at once, what is said."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from snapshots import Mailbox, SqliteSnapshotStore, limits, open_store
from snapshots.errors import StorageError
from snapshots.inspection.cli import run
from snapshots.records import MailboxEntry
from tests.unit.snapshots.inspection.stored_runs import (
    RUN,
    add,
    effect,
    encoded,
    run_value,
)

AT_ONCE = ("--wait", "0")
SEND = ("send", RUN, "pay")


class Said:
    """What a command printed, and its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def call(path: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return what runs a command on the file of the test."""

    def called(*arguments: str) -> Said:
        code = run([*arguments, str(path)])
        said = capsys.readouterr()
        assert "Traceback" not in said.err
        assert said.err.count("\n") <= 1
        return Said(code, said.out, said.err)

    return called


def entries(store: SqliteSnapshotStore) -> list[MailboxEntry]:
    """Return what waits in the mailbox of a file."""
    mailbox = Mailbox(store)
    found = [mailbox.entry(waiting.entry) for waiting in mailbox.pending()]
    return [entry for entry in found if entry is not None]


@contextmanager
def a_host(path: Path, outcome: str) -> Iterator[None]:
    """Settle the first entry that comes, from another thread with a connection of its own."""

    def settle() -> None:
        with open_store(path) as store:
            mailbox = Mailbox(store)
            for _ in range(2_000):
                if waiting := mailbox.pending():
                    mailbox.settle([waiting[0].entry], outcome)
                    return
                time.sleep(0.002)

    thread = threading.Thread(target=settle)
    thread.start()
    try:
        yield
    finally:
        thread.join()


# -- what is handed in --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "kind", "content"),
    [
        (("send", RUN, "pay"), "send", {"event": "pay", "data": {}}),
        (
            ("send", RUN, "pay", "--data", '{"card": {"$": "tuple", "v": [1, null]}}'),
            "send",
            {"event": "pay", "data": {"card": {"$": "tuple", "v": [1, None]}}},
        ),
        (
            ("answer", RUN, "approval", "approve", "--data", '{"note": "ok"}'),
            "answer",
            {"gate": "approval", "event": "approve", "data": {"note": "ok"}},
        ),
        (
            ("resolve", RUN, "/asking.1", "--done", '{"receipt": 7}'),
            "resolve",
            {"effect": f"{RUN}//asking.1", "attempt": 1, "done": {"receipt": 7}},
        ),
        (
            ("resolve", RUN, f"{RUN}//asking.1", "--done", "null"),
            "resolve",
            {"effect": f"{RUN}//asking.1", "attempt": 1, "done": None},
        ),
        (
            ("resolve", RUN, "/asking.4", "--failed", "it is not in the book"),
            "resolve",
            {"effect": f"{RUN}//asking.4", "attempt": 1, "failed": "it is not in the book"},
        ),
        (
            ("resolve", RUN, "/asking.1", "--again"),
            "resolve",
            {"effect": f"{RUN}//asking.1", "attempt": 1, "again": True},
        ),
        (("cancel", RUN), "cancel", {"reason": None}),
        (("cancel", RUN, "--reason", "too late"), "cancel", {"reason": "too late"}),
    ],
)
def test_each_command_hands_in_what_it_says(
    store: SqliteSnapshotStore,
    call: Any,
    arguments: tuple[str, ...],
    kind: str,
    content: dict[str, Any],
) -> None:
    """One entry, for the whole id of the run."""
    said = call(*arguments, *AT_ONCE)
    (entry,) = entries(store)
    assert (entry.run_id, entry.kind, entry.delivery) == (RUN, kind, None)
    assert json.loads(entry.data) == content
    assert (said.code, said.err) == (0, "")
    assert said.out == f"accepted as {entry.entry}; it waits for a host\n"


@pytest.mark.parametrize("status", ["lost", "drifted", "error"])
def test_a_run_that_was_set_aside_can_be_revived(path: Path, call: Any, status: str) -> None:
    """There is nothing to say of it but its name."""
    with open_store(path) as store:
        add(store, status=status)
        assert call("revive", RUN, *AT_ONCE).code == 0
        (entry,) = entries(store)
    assert (entry.run_id, entry.kind, json.loads(entry.data)) == (RUN, "revive", {})


def test_a_run_may_be_abbreviated_and_the_event_has_a_delivery(
    store: SqliteSnapshotStore, call: Any
) -> None:
    """What stands in the file is the whole id: later another run may begin so."""
    assert call("send", RUN[:9], "pay", "--delivery", "evt-1", *AT_ONCE).code == 0
    (entry,) = entries(store)
    assert (entry.run_id, entry.delivery) == (RUN, "evt-1")


def test_the_file_may_be_named_by_the_variable(
    store: SqliteSnapshotStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for every other command."""
    monkeypatch.setenv("SNAPSHOTS_FILE", str(path))
    assert run([*SEND, *AT_ONCE]) == 0
    assert len(entries(store)) == 1


# -- what is said of the outcome ----------------------------------------------------------------


@pytest.mark.parametrize("outcome", ["taken", "taken before"])
def test_an_event_that_was_taken_is_said_to_be_so(
    store: SqliteSnapshotStore, path: Path, call: Any, outcome: str
) -> None:
    """On stdout, with code 0."""
    with a_host(path, outcome):
        said = call(*SEND, "--wait", "20")
    assert (said.code, said.out, said.err) == (0, f"{outcome}\n", "")


def test_a_refusal_is_told_with_its_reason(
    store: SqliteSnapshotStore, path: Path, call: Any
) -> None:
    """On stderr, in one line, with code 1."""
    with a_host(path, "refused: it is shut\n\x1b[31mand bolted"):
        said = call(*SEND, "--wait", "20")
    assert (said.code, said.out) == (1, "")
    assert said.err == "snapshots: refused: it is shut\\n\\x1b[31mand bolted\n"


@pytest.mark.parametrize(
    ("outcome", "code", "told", "reason"),
    [
        ("taken", 0, "taken", None),
        ("taken before", 0, "taken before", None),
        ("refused: it is shut", 1, "refused", "it is shut"),
        (None, 0, "waiting", None),
    ],
)
def test_an_outcome_as_json_has_the_promised_names(
    store: SqliteSnapshotStore,
    path: Path,
    call: Any,
    *,
    outcome: str | None,
    code: int,
    told: str,
    reason: str | None,
) -> None:
    """One document on stdout, whatever the outcome."""
    if outcome is None:
        said = call(*SEND, "--json", *AT_ONCE)
    else:
        with a_host(path, outcome):
            said = call(*SEND, "--json", "--wait", "20")
    document = json.loads(said.out)
    assert said.code == code
    assert document == {"run": RUN, "entry": 1, "outcome": told, "reason": reason}


def test_a_refusal_at_once_is_a_document_too(store: SqliteSnapshotStore, call: Any) -> None:
    """Without an entry, since there is none."""
    said = call("revive", RUN, "--json")
    document = json.loads(said.out)
    assert said.code == 1
    assert (document["entry"], document["outcome"]) == (None, "refused")
    assert "nothing to revive" in document["reason"]


def test_an_outcome_that_is_none_of_ours_is_shown_not_obeyed(
    path: Path, store: SqliteSnapshotStore, call: Any
) -> None:
    """A terminal does what an escape sequence says, whoever has written that into the file."""
    del store
    with a_host(path, "taken\x1b[2J"):
        said = call(*SEND, "--wait", "20")
    assert (said.code, said.out) == (0, "taken\\x1b[2J\n")


def test_who_is_interrupted_is_told_that_the_entry_stays(
    store: SqliteSnapshotStore, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C ends the waiting, and takes nothing back."""

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    said = call(*SEND)
    assert (said.code, said.out) == (130, "")
    assert "accepted as 1; it stays so" in said.err
    assert len(entries(store)) == 1


def test_who_cannot_look_for_the_outcome_is_told_that_the_entry_stays(
    store: SqliteSnapshotStore, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk fails once the entry is there: it is not to be handed in a second time."""

    def unreadable(self: Mailbox, entry: int) -> None:
        operation, hint = "read the mailbox", "look at the disk"
        raise StorageError(operation, store.path, hint)

    monkeypatch.setattr(Mailbox, "entry", unreadable)
    said = call(*SEND)
    assert (said.code, said.out) == (2, "")
    assert "read the mailbox failed" in said.err
    assert "accepted as 1 before, and it stays so; look at the disk" in said.err
    monkeypatch.undo()
    assert len(entries(store)) == 1


# -- what is refused at once --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("send", "nobody", "pay"), "'nobody' is not in"),
        (("send", "", "pay"), "RUN is empty"),
        (("send", RUN, ""), "EVENT is empty"),
        (("answer", RUN, "", "approve"), "GATE is empty"),
        (("resolve", RUN, "", "--again"), "EFFECT is empty"),
        (("send", RUN, "pay", "--data", "{"), "--data is not JSON"),
        (("send", RUN, "pay", "--data", "amount=3"), """as in '{"amount": 12}'"""),
        (("send", RUN, "pay", "--data", "\udcff"), "--data is"),
        (("send", RUN, "pay", "--data", ""), "--data is not JSON"),
        (("send", RUN, "pay", "--data", "[1]"), "--data is no object"),
        (("send", RUN, "pay", "--data", "7"), "--data is no object"),
        (("send", RUN, "pay", "--data", "[" * 2_000), "--data is not JSON"),
        (("send", RUN, "pay\udcff"), "cannot save"),
        (("send", RUN, "pay", "--wait", "-1"), "--wait"),
        (("send", RUN, "pay", "--wait", "soon"), "--wait"),
        (("send", RUN, "pay", "--delivery", ""), "a delivery's id"),
        (("send", RUN, "pay", "--delivery", "a\nb"), "printable"),
        (("resolve", RUN, "/asking.1"), "exactly one of --done, --failed and --again"),
        (("resolve", RUN, "/asking.1", "--done", "1", "--again"), "exactly one"),
        (("resolve", RUN, "/asking.1", "--done", "1", "--failed", "no"), "exactly one"),
        (("resolve", RUN, "/asking.1", "--done", "yes"), "--done is not JSON"),
        (("resolve", RUN, "/asking.1", "--done", "yes"), """write it as in '"a text"'"""),
        (("resolve", RUN, "/asking.1", "--failed", ""), "--failed is empty"),
        (("cancel", RUN, "--reason", ""), "--reason is empty"),
    ],
)
def test_what_is_wrong_about_a_command_is_an_error(
    store: SqliteSnapshotStore, call: Any, arguments: tuple[str, ...], part: str
) -> None:
    """One line, code 2, nothing on stdout, and nothing is handed in."""
    said = call(*arguments)
    assert (said.code, said.out) == (2, "")
    assert part in said.err
    assert entries(store) == []


def test_an_id_that_fits_several_runs_is_an_error(store: SqliteSnapshotStore, call: Any) -> None:
    """The line lists some of them."""
    add(store, f"{RUN}-2")
    said = call("cancel", RUN[:9])
    assert said.code == 2
    assert f"{RUN}-2" in said.err
    assert entries(store) == []
    assert call("cancel", RUN, *AT_ONCE).code == 0
    assert [entry.run_id for entry in entries(store)] == [RUN]


def test_more_data_than_an_entry_may_have_is_an_error(
    store: SqliteSnapshotStore, call: Any
) -> None:
    """It is named with its limit."""
    data = json.dumps({"text": "x" * limits.MAILBOX_DATA_BYTES_MAX})
    said = call(*SEND, "--data", data)
    assert said.code == 2
    assert str(limits.MAILBOX_DATA_BYTES_MAX) in said.err
    assert entries(store) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("send", RUN, "pay"),
        ("answer", RUN, "approval", "approve"),
        ("resolve", RUN, "/asking.1", "--again"),
        ("cancel", RUN),
        ("revive", RUN),
    ],
)
def test_a_file_that_does_not_exist_is_an_error_and_is_not_made(
    path: Path, call: Any, arguments: tuple[str, ...]
) -> None:
    """A typing error must not leave a new file behind, in which an event waits for ever."""
    said = call(*arguments)
    assert said.code == 2
    assert "there is no such file" in said.err
    assert list(path.parent.iterdir()) == []


def test_a_file_of_another_program_is_left_alone(path: Path, call: Any) -> None:
    """Nothing is written to it."""
    connection = apsw.Connection(str(path))
    connection.execute("create table songs (id)")
    connection.close()
    before = path.read_bytes()
    assert call(*SEND).code == 2
    assert path.read_bytes() == before


@pytest.mark.parametrize("status", ["done", "failed", "error", "cancelled", "lost", "drifted"])
def test_a_run_that_is_not_live_takes_nothing(path: Path, call: Any, status: str) -> None:
    """A negative answer: code 1, no entry, and what makes it live again if anything does."""
    revivable = status in ("error", "lost", "drifted")
    with open_store(path) as store:
        add(store, status=status)
        for arguments in (SEND, ("answer", RUN, "g", "e"), ("cancel", RUN)):
            said = call(*arguments)
            assert (said.code, said.out) == (1, "")
            assert f"is {status}, expected a live run" in said.err
            assert ("`snapshots revive` makes it live again" in said.err) == revivable
        assert call("resolve", RUN, "/asking.1", "--again").code == 1
        assert entries(store) == []


@pytest.mark.parametrize("status", ["live", "done", "failed", "cancelled"])
def test_a_run_that_was_not_set_aside_is_not_revived(path: Path, call: Any, status: str) -> None:
    """One that is live needs it not, one that came to its end is over."""
    with open_store(path) as store:
        add(store, status=status)
        said = call("revive", RUN)
        assert (said.code, said.out) == (1, "")
        assert f"is {status}: " in said.err
        assert entries(store) == []


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("nothing.1", "has no effect 'nothing.1'"),
        ("/asking.0", "is done: only an effect in doubt"),
        ("/asking.3", "is intent: only an effect in doubt"),
    ],
)
def test_an_effect_that_cannot_be_in_doubt_is_not_settled(
    store: SqliteSnapshotStore, call: Any, name: str, part: str
) -> None:
    """There is none of that name, it has an outcome, or its call did not leave."""
    said = call("resolve", RUN, name, "--again")
    assert said.code == 1
    assert part in said.err
    assert entries(store) == []


def test_the_attempt_that_was_seen_goes_with_a_decision(path: Path, call: Any) -> None:
    """So that it is not taken for another call of the same effect."""
    value = run_value(effects=[effect("asking.1", "unknown", attempt=3)])
    with open_store(path) as store:
        add(store, blob=encoded(value))
        call("resolve", RUN, "/asking.1", "--again", *AT_ONCE)
        (entry,) = entries(store)
    assert json.loads(entry.data)["attempt"] == 3


def test_a_delivery_that_a_finished_run_had_is_taken_before(path: Path, call: Any) -> None:
    """Its sender did not hear of it, and does now, without an entry; another one is refused."""
    with open_store(path) as store:
        add(store, status="done")
        said = call(*SEND, "--delivery", "evt-81")
        assert (said.code, said.out, said.err) == (0, "taken before\n", "")
        assert call(*SEND, "--delivery", "evt-82").code == 1
        assert entries(store) == []


def test_a_run_whose_blob_cannot_be_read_takes_an_event_but_no_decision(
    path: Path, call: Any
) -> None:
    """For the one its header is enough, a host may know more; the other must see the effect."""
    with open_store(path) as store:
        add(store, blob=b"{")
        assert call(*SEND, *AT_ONCE).code == 0
        assert call("resolve", RUN, "/asking.1", "--again").code == 2
        assert len(entries(store)) == 1


def test_a_file_that_somebody_else_writes_for_too_long_accepts_nothing(
    store: SqliteSnapshotStore, path: Path, call: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is tried for a while; then the line says what to do, and no entry is there."""
    monkeypatch.setattr("snapshots.limits.OPEN_PATIENCE_MS", 0)
    with store.transaction():
        said = call(*SEND)
    assert (said.code, said.out) == (2, "")
    assert "acceptance of an event" in said.err
    assert entries(store) == []
    assert call(*SEND, *AT_ONCE).code == 0


def test_what_was_handed_in_can_be_looked_at_again(store: SqliteSnapshotStore, call: Any) -> None:
    """The run shows its mail: what waits, and what was said against the rest."""
    call(*SEND, *AT_ONCE)
    call("cancel", RUN, *AT_ONCE)
    Mailbox(store).settle([1], "refused: not today")
    shown = json.loads(call("show", RUN, "--json").out)["mail"]
    assert [(mail["entry"], mail["kind"], mail["outcome"]) for mail in shown] == [
        (2, "cancel", None),
        (1, "send", "refused: not today"),
    ]
    text = call("show", RUN).out
    assert "waits for its host" in text
    assert "refused: not today" in text
