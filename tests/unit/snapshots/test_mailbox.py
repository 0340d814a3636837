"""What other processes hand in: accepted on disk, settled once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from machines.limits import DELIVERY_CHARS_MAX
from snapshots import (
    FencedError,
    InvalidKeyError,
    LimitError,
    Mailbox,
    SqliteSnapshotStore,
    limits,
    open_store,
)
from snapshots.mailbox import ENTRY, PENDING, REFUSED, SETTLE, SWEEP, TAKEN, reason_of
from snapshots.testing import START_MS, ManualClock


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSnapshotStore]:
    """A store on a file."""
    with open_store(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def clock() -> ManualClock:
    """A time that stands still."""
    return ManualClock()


@pytest.fixture
def mailbox(store: SqliteSnapshotStore, clock: ManualClock) -> Mailbox:
    """The mailbox of the store."""
    return Mailbox(store, clock=clock)


def pending(mailbox: Mailbox, after: int = 0) -> list[int]:
    """The numbers of what is pending."""
    return [found.entry for found in mailbox.pending(after)]


def test_an_accepted_event_is_on_disk_for_another_process(
    store: SqliteSnapshotStore, mailbox: Mailbox
) -> None:
    """What `put` has returned for, a reader of the file sees whole."""
    entry = mailbox.put("run-1", "send", b'{"event":"pay"}', "evt-81")
    with open_store(store.path, read_only=True) as reader:
        (waiting,) = Mailbox(reader).pending()
        found = Mailbox(reader).entry(waiting.entry)
    assert (waiting.entry, waiting.run_id) == (entry, "run-1")
    assert found is not None
    assert (found.entry, found.run_id, found.kind) == (entry, "run-1", "send")
    assert (found.data, found.delivery) == (b'{"event":"pay"}', "evt-81")
    assert (found.created_ms, found.outcome, found.settled_ms) == (START_MS, None, None)


def test_a_mailbox_goes_by_the_wall_clock_unless_it_is_given_another(
    store: SqliteSnapshotStore,
) -> None:
    """Built from a store alone, its times are those of the machine."""
    found = Mailbox(store).entry(Mailbox(store).put("run-1", "send", b"{}"))
    assert found is not None
    assert found.created_ms > START_MS


def test_pending_events_come_in_the_order_of_their_acceptance(mailbox: Mailbox) -> None:
    """Oldest first, beyond the entry that the reader has seen, in slices."""
    entries = [mailbox.put("run-1", "send", b"{}") for _ in range(limits.MAILBOX_SLICE_ROWS + 1)]
    first = pending(mailbox)
    assert first == entries[:-1]
    assert pending(mailbox, first[-1]) == entries[-1:]
    assert pending(mailbox, entries[-1]) == []


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
    assert pending(mailbox) == [entry]
    assert store.load("run-1").header == header
    with store.transaction():
        header = store.save(header, b"[1]")
        mailbox.settle([entry], "taken")
    assert mailbox.pending() == []
    assert store.load("run-1").header == header


def test_a_fenced_owner_neither_settles_nor_accepts_nor_sweeps(
    store: SqliteSnapshotStore, mailbox: Mailbox
) -> None:
    """After a takeover the former owner writes nothing; who holds no term hands in as before."""
    store.take_over("host-a")
    settled, entry = mailbox.put("run-1", "send", b"{}"), mailbox.put("run-1", "send", b"{}")
    mailbox.settle([settled], "taken")
    with open_store(store.path) as other:
        other.take_over("host-b")
        with pytest.raises(FencedError, match="host-b"):
            mailbox.settle([entry], "taken")
        with pytest.raises(FencedError, match="host-b"):
            mailbox.put("run-1", "send", b"{}")
        with pytest.raises(FencedError, match="host-b"):
            mailbox.sweep(START_MS + 1)
        assert mailbox.entry(settled) is not None
        assert pending(mailbox) == [entry]
        assert Mailbox(other).settle([entry], "taken") == 1
    with open_store(store.path) as visitor:
        assert Mailbox(visitor).put("run-1", "send", b"{}") > entry


def test_an_event_may_be_as_long_as_its_limit_and_no_longer(mailbox: Mailbox) -> None:
    """One byte more is refused, with nothing accepted."""
    mailbox.put("run-1", "send", bytes(limits.MAILBOX_DATA_BYTES_MAX))
    with pytest.raises(LimitError) as caught:
        mailbox.put("run-1", "send", bytes(limits.MAILBOX_DATA_BYTES_MAX + 1))
    assert caught.value.run_id == "run-1"
    assert len(mailbox.pending()) == 1


def test_a_delivery_that_no_run_could_keep_is_not_accepted(mailbox: Mailbox) -> None:
    """The same ids are refused here and by a run: too long, empty, or not to be printed."""
    assert limits.MAILBOX_DELIVERY_CHARS_MAX == DELIVERY_CHARS_MAX
    mailbox.put("run-1", "send", b"{}", "x" * limits.MAILBOX_DELIVERY_CHARS_MAX)
    for wrong in ("", "x" * (limits.MAILBOX_DELIVERY_CHARS_MAX + 1), "a\nb", "\ud800"):
        with pytest.raises(InvalidKeyError):
            mailbox.put("run-1", "send", b"{}", wrong)
    assert len(mailbox.pending()) == 1


@pytest.mark.parametrize("run_id", ["", "x" * 201, "a\nb", "\ud800"])
def test_an_id_that_no_run_could_have_is_not_accepted(mailbox: Mailbox, run_id: str) -> None:
    """What no store would create a run under is no run's, and half a character is no text."""
    with pytest.raises(InvalidKeyError):
        mailbox.put(run_id, "send", b"{}")
    with pytest.raises(InvalidKeyError):
        mailbox.put("run-1", "\ud800", b"{}")
    mailbox.put("x" * 200, "send", b"{}")
    assert len(mailbox.pending()) == 1


def test_the_sweep_deletes_what_was_settled_long_ago_in_slices(
    mailbox: Mailbox, clock: ManualClock
) -> None:
    """What is pending stays, however old it is, and so does what was settled just then."""
    entries = [mailbox.put("run-1", "send", b"{}") for _ in range(6)]
    mailbox.settle(entries[:4], "taken")
    clock.advance(1)
    mailbox.settle(entries[4:5], "taken")
    assert mailbox.sweep(START_MS) == 0
    assert [mailbox.sweep(START_MS + 1, slice_rows=3) for _ in range(3)] == [3, 1, 0]
    assert [mailbox.entry(entry) is not None for entry in entries] == [False] * 4 + [True] * 2
    assert pending(mailbox) == entries[5:]


def test_a_number_that_is_given_again_is_pending_like_any_other(mailbox: Mailbox) -> None:
    """Once the newest rows were swept their numbers come back, and nothing hides behind them."""
    entries = [mailbox.put("run-1", "send", b"{}") for _ in range(3)]
    mailbox.settle(entries, "taken")
    mailbox.sweep(START_MS + 1)
    again = mailbox.put("run-2", "send", b"{}")
    assert again in entries
    assert pending(mailbox) == [again]


def test_a_reason_is_read_out_of_a_refusal_alone() -> None:
    """The other outcomes have none."""
    assert reason_of(f"{REFUSED}it is shut") == "it is shut"
    assert reason_of(TAKEN) is None


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteSnapshotStore]:
    """A file with a few pending entries among thousands that are settled, looked at once."""
    content = random.Random(1)
    with open_store(tmp_path_factory.mktemp("crowded") / "state.db") as store:
        mailbox = Mailbox(store, clock=ManualClock())
        with store.transaction():
            for number in range(3_000):
                entry = mailbox.put(f"run-{number}", "send", content.randbytes(200))
                if number % 500:
                    mailbox.settle([entry], "taken")
        with store.database.transaction("analyze"):
            store.database.run("analyze")
        yield store


@pytest.mark.parametrize("empty", [True, False])
@pytest.mark.parametrize("sql", [PENDING, ENTRY, SETTLE, SWEEP])
def test_no_statement_of_the_mailbox_scans(
    store: SqliteSnapshotStore, crowded: SqliteSnapshotStore, sql: str, *, empty: bool
) -> None:
    """Each finds its rows by their key or by the index of what it asks for, and sorts nothing."""
    database = (store if empty else crowded).database
    bindings = (0,) * sql.count("?")
    plan = [row[3] for row in database.rows("plan", f"explain query plan {sql}", bindings)]
    assert plan
    assert [step for step in plan if "SCAN" in step or "TEMP B-TREE" in step] == [], plan
    by = {PENDING: "mailbox_pending", SWEEP: "mailbox_settled"}.get(sql, "INTEGER PRIMARY KEY")
    assert any(by in step for step in plan), plan


def test_looking_for_what_is_pending_reads_nothing_that_was_settled(
    crowded: SqliteSnapshotStore,
) -> None:
    """Among thousands of settled entries SQLite takes some steps for each pending one."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection = crowded.database.connection
    connection.set_progress_handler(count, 1)
    try:
        found = Mailbox(crowded).pending()
    finally:
        connection.set_progress_handler(None)
    assert len(found) == 6
    assert steps < 20 * len(found)
