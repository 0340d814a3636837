"""Events from other processes: accepted on disk, settled once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import FencedError, LimitError, SqliteSnapshotStore, limits, open_store
from snapshots.mailbox import ENTRY, PENDING, SETTLE, Mailbox
from snapshots.testing import START_MS, ManualClock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSnapshotStore]:
    """A store on a file."""
    with open_store(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def mailbox(store: SqliteSnapshotStore) -> Mailbox:
    """Its mailbox, at a time that stands still."""
    return Mailbox(store, clock=ManualClock())


def test_an_accepted_event_is_on_disk_for_another_process(
    store: SqliteSnapshotStore, mailbox: Mailbox
) -> None:
    """What `put` has returned for, a reader of the file sees whole."""
    entry = mailbox.put("run-1", "send", b'{"event":"pay"}', "evt-81")
    with open_store(store.path, read_only=True) as reader:
        (found,) = Mailbox(reader, clock=ManualClock()).pending()
    assert (found.entry, found.run_id, found.kind) == (entry, "run-1", "send")
    assert (found.data, found.delivery) == (b'{"event":"pay"}', "evt-81")
    assert (found.created_ms, found.outcome, found.settled_ms) == (START_MS, None, None)


def test_pending_events_come_in_the_order_of_their_acceptance(mailbox: Mailbox) -> None:
    """Oldest first, beyond the entry that the reader has seen, in slices."""
    entries = [mailbox.put("run-1", "send", b"{}") for _ in range(limits.MAILBOX_SLICE_ROWS + 1)]
    first = mailbox.pending()
    assert [found.entry for found in first] == entries[:-1]
    assert [found.entry for found in mailbox.pending(first[-1].entry)] == entries[-1:]
    assert mailbox.pending(entries[-1]) == []


def test_a_settled_event_is_pending_no_more_and_settled_once(mailbox: Mailbox) -> None:
    """The first outcome stands, and whoever comes second is told that it changed nothing."""
    first, second = mailbox.put("run-1", "send", b"{}"), mailbox.put("run-1", "send", b"{}")
    assert mailbox.settle([first], "taken") == 1
    assert mailbox.settle([first, second], "refused") == 1
    assert mailbox.pending() == []
    outcomes = [found.outcome for entry in (first, second) if (found := mailbox.entry(entry))]
    assert outcomes == ["taken", "refused"]
    assert mailbox.entry(99) is None


def test_an_event_is_settled_with_the_save_that_holds_it(
    store: SqliteSnapshotStore, mailbox: Mailbox
) -> None:
    """In one transaction either both are there or neither is."""
    header = store.create(run_id="run-1", machine="m", digest="d", shape=b"{}", blob=b"[]")
    entry = mailbox.put("run-1", "send", b"{}")

    def save_and_stop() -> None:
        with store.transaction():
            store.save(header, b"[1]")
            mailbox.settle([entry], "taken")
            raise LookupError

    with pytest.raises(LookupError):
        save_and_stop()
    assert [found.entry for found in mailbox.pending()] == [entry]
    assert store.load("run-1").header == header
    with store.transaction():
        header = store.save(header, b"[1]")
        mailbox.settle([entry], "taken")
    assert mailbox.pending() == []
    assert store.load("run-1").header == header


def test_a_fenced_owner_neither_settles_nor_accepts(
    store: SqliteSnapshotStore, mailbox: Mailbox
) -> None:
    """After a takeover the former owner drains nothing; who holds no term hands in as before."""
    store.take_over("host-a")
    entry = mailbox.put("run-1", "send", b"{}")
    with open_store(store.path) as other:
        other.take_over("host-b")
        with pytest.raises(FencedError, match="host-b"):
            mailbox.settle([entry], "taken")
        with pytest.raises(FencedError, match="host-b"):
            mailbox.put("run-1", "send", b"{}")
        assert [found.entry for found in mailbox.pending()] == [entry]
        assert Mailbox(other, clock=ManualClock()).settle([entry], "taken") == 1
    with open_store(store.path) as visitor:
        assert Mailbox(visitor, clock=ManualClock()).put("run-1", "send", b"{}") > entry


def test_an_event_may_be_as_long_as_its_limit_and_no_longer(mailbox: Mailbox) -> None:
    """One byte more is refused, with nothing accepted."""
    mailbox.put("run-1", "send", bytes(limits.MAILBOX_DATA_BYTES_MAX))
    with pytest.raises(LimitError) as caught:
        mailbox.put("run-1", "send", bytes(limits.MAILBOX_DATA_BYTES_MAX + 1))
    assert caught.value.run_id == "run-1"
    assert len(mailbox.pending()) == 1


@pytest.mark.parametrize("sql", [PENDING, ENTRY, SETTLE])
def test_no_statement_of_the_mailbox_scans(store: SqliteSnapshotStore, sql: str) -> None:
    """Each finds its rows by their key."""
    bindings = (0,) * sql.count("?")
    plan = [row[3] for row in store.database.rows("plan", f"explain query plan {sql}", bindings)]
    assert all(step.startswith("SEARCH mailbox USING INTEGER PRIMARY KEY") for step in plan), plan
