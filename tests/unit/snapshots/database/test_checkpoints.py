"""Checkpoints beside the writer: the log stays bounded, saves do not wait, nothing is swallowed."""

from __future__ import annotations

import random
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from snapshots import (
    RunHeader,
    SqliteSnapshotStore,
    StorageError,
    StorageUnavailableError,
    limits,
    open_store,
)
from snapshots.database import checkpoints as checkpoints_module
from snapshots.database.checkpoints import Checkpoints

PAGES_PER_SAVE = 8
WAIT_S = 20.0
CLOSED = 1_000_000  # a descriptor that no file has


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteSnapshotStore]:
    """A store whose thread checkpoints as it does in use."""
    with open_store(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqliteSnapshotStore]:
    """A store whose thread never wakes by itself, so that a test can do its work in its place."""
    monkeypatch.setattr(limits, "CHECKPOINT_IDLE_MS", 3_600_000)
    monkeypatch.setattr(limits, "CHECKPOINT_PAGES", 1_000_000_000)
    monkeypatch.setattr(limits, "WAL_RESTART_COMMITS", 0)
    with open_store(tmp_path / "state.db") as opened:
        yield opened


def checkpoints_of(store: SqliteSnapshotStore) -> Checkpoints:
    """The part of the store under test."""
    assert store.database.checkpoints is not None
    return store.database.checkpoints


def create(store: SqliteSnapshotStore) -> RunHeader:
    """One run, as long as its saves."""
    return store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=blob(0))


def blob(seed: int) -> bytes:
    """Content that differs in every page: what does not change is not logged."""
    return random.Random(seed).randbytes(PAGES_PER_SAVE * limits.PAGE_BYTES)


def save(store: SqliteSnapshotStore, header: RunHeader, times: int) -> RunHeader:
    """Write the run again and again."""
    for number in range(times):
        header = store.save(header, blob(number))
    return header


def wal_bytes(store: SqliteSnapshotStore) -> int:
    """The length of the log, as the file system has it."""
    return Path(f"{store.path}-wal").stat().st_size


def wait_until(happened: Callable[[], bool]) -> None:
    """Wait for a thread: at most `WAIT_S`, and no longer than it takes."""
    pause = threading.Event()
    for _ in range(int(WAIT_S * 1_000)):
        if happened():
            return
        pause.wait(0.001)
    pytest.fail("it did not happen")


def test_the_log_stays_bounded_under_a_busy_writer(store: SqliteSnapshotStore) -> None:
    """Eleven times its cap in saves never makes the log several times as long as its cap."""
    header, longest = create(store), 0
    for number in range(5_000):
        header = store.save(header, blob(number % 100))
        longest = max(longest, wal_bytes(store))
    assert limits.WAL_RESTART_BYTES / 2 < longest < 2 * limits.WAL_BYTES_MAX
    stats = store.stats()
    assert stats.checkpoints > 10
    assert stats.longest_checkpoint_stall_ms > 0
    assert store.load("a").header == header


def test_no_save_checkpoints_by_itself(quiet: SqliteSnapshotStore) -> None:
    """While the thread does nothing the log only grows: a commit never does its work."""
    header, grown = create(quiet), []
    before = Path(quiet.path).stat()
    for _ in range(5):
        header = save(quiet, header, 100)
        grown.append(wal_bytes(quiet))
    assert grown == sorted(set(grown))
    assert grown[-1] > 500 * PAGES_PER_SAVE * limits.PAGE_BYTES
    after = Path(quiet.path).stat()
    assert (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)


def test_the_thread_begins_at_the_thousandth_page(store: SqliteSnapshotStore) -> None:
    """Enough new pages wake the thread, and less than that let it sleep."""
    header = create(store)
    header = save(store, header, 60)
    assert store.stats().checkpoints == 0
    save(store, header, limits.CHECKPOINT_PAGES // PAGES_PER_SAVE)
    wait_until(lambda: store.stats().checkpoints > 0)


def test_a_checkpoint_below_the_cap_keeps_the_gate_open(quiet: SqliteSnapshotStore) -> None:
    """What is copied early costs no save anything."""
    save(quiet, create(quiet), 50)
    checkpoints_of(quiet).advance()
    assert quiet.stats().checkpoints == 1
    assert quiet.stats().longest_checkpoint_stall_ms == 0
    assert Path(quiet.path).stat().st_size > PAGES_PER_SAVE * limits.PAGE_BYTES


def test_past_the_cap_the_next_save_starts_the_log_anew(
    quiet: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the gate the log is copied to its end, so that its beginning is written again."""
    header = save(quiet, create(quiet), 50)
    monkeypatch.setattr(limits, "WAL_RESTART_BYTES", 50 * limits.PAGE_BYTES)
    checkpoints_of(quiet).advance()
    length = wal_bytes(quiet)
    header = save(quiet, header, 20)
    assert wal_bytes(quiet) == length
    assert quiet.stats().longest_checkpoint_stall_ms > 0
    assert quiet.load("a").header == header


@pytest.mark.parametrize(
    ("commits", "long_pages", "is_restarted"),
    [(51, 1_000, True), (52, 1_000, False), (52, 50, True)],
    ids=["enough commits", "one too few", "too few, and too long a log"],
)
def test_a_log_of_few_commits_is_started_anew_only_if_it_is_long(
    quiet: SqliteSnapshotStore,
    monkeypatch: pytest.MonkeyPatch,
    *,
    commits: int,
    long_pages: int,
    is_restarted: bool,
) -> None:
    """Saves wait at the gate once in so many, also beside somebody who writes much at a time."""
    monkeypatch.setattr(limits, "WAL_RESTART_BYTES", 50 * limits.PAGE_BYTES)
    monkeypatch.setattr(limits, "WAL_RESTART_COMMITS", commits)
    monkeypatch.setattr(limits, "WAL_LONG_BYTES", long_pages * limits.PAGE_BYTES)
    checkpoints_of(quiet)._commits_before = checkpoints_of(quiet)._commits
    save(quiet, create(quiet), 50)
    checkpoints_of(quiet).advance()
    assert quiet.stats().checkpoints >= 1
    assert (quiet.stats().longest_checkpoint_stall_ms > 0) == is_restarted


@pytest.mark.parametrize(("saves", "is_restarted"), [(39, False), (40, True)])
def test_commits_are_counted_from_where_the_log_began(
    quiet: SqliteSnapshotStore,
    monkeypatch: pytest.MonkeyPatch,
    *,
    saves: int,
    is_restarted: bool,
) -> None:
    """A log that was started anew waits for as many commits as the one before it."""
    monkeypatch.setattr(limits, "WAL_RESTART_BYTES", 50 * limits.PAGE_BYTES)
    monkeypatch.setattr(limits, "WAL_RESTART_COMMITS", 40)
    checkpoints = checkpoints_of(quiet)
    header = save(quiet, create(quiet), 50)
    checkpoints.advance()
    assert checkpoints.longest_stall_ns > 0
    checkpoints.longest_stall_ns = 0
    save(quiet, header, saves)
    checkpoints.advance()
    assert (checkpoints.longest_stall_ns > 0) == is_restarted


def test_a_writer_waits_where_the_log_is_full(
    quiet: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However late the thread is, the log is longer than its cap by one commit at most."""
    most = 50 * limits.PAGE_BYTES
    monkeypatch.setattr(limits, "WAL_BYTES_MAX", most)
    monkeypatch.setattr(limits, "WAL_RESTART_BYTES", most // 2)
    monkeypatch.setattr(limits, "WAL_FULL_WAIT_MS", WAIT_S * 1_000)
    header = create(quiet)
    for number in range(100):
        header = save(quiet, header, 1)
        assert wal_bytes(quiet) < most + (PAGES_PER_SAVE + 3) * limits.PAGE_BYTES, number
    assert quiet.stats().longest_checkpoint_stall_ms > 0
    assert quiet.load("a").header == header


def test_a_writer_does_not_wait_for_a_reader_where_the_log_is_full(
    quiet: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One look by the thread tells that somebody pins the log; saves then go on past the cap."""
    most = 100 * limits.PAGE_BYTES
    monkeypatch.setattr(limits, "WAL_BYTES_MAX", most)
    monkeypatch.setattr(limits, "WAL_FULL_WAIT_MS", WAIT_S * 1_000)
    header = save(quiet, create(quiet), 1)
    with closing(apsw.Connection(quiet.path, flags=apsw.SQLITE_OPEN_READONLY)) as reader:
        reader.execute("begin")
        reader.execute("select * from runs").fetchall()
        header = save(quiet, header, 40)
        assert wal_bytes(quiet) > 3 * most
        # The reader's own snapshot was copied, and no further attempt was made.
        assert quiet.stats().checkpoints == 1
        reader.execute("rollback")
    assert quiet.load("a").header == header


def test_a_log_that_was_started_anew_is_not_copied_again_at_once(
    quiet: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was copied behind the gate counts as seen: the next attempt waits for new pages."""
    monkeypatch.setattr(limits, "WAL_RESTART_BYTES", 50 * limits.PAGE_BYTES)
    header = save(quiet, create(quiet), 50)
    checkpoints_of(quiet).advance()
    assert checkpoints_of(quiet)._pages_attempted == checkpoints_of(quiet)._pages
    save(quiet, header, 1)
    assert checkpoints_of(quiet)._pages < 2 * PAGES_PER_SAVE + 3


def test_a_save_waits_at_a_closed_gate(quiet: SqliteSnapshotStore) -> None:
    """No save runs while the gate is closed, and the one that waited runs when it opens."""
    header, gate = create(quiet), quiet.database.gate
    saved = threading.Event()

    def save_elsewhere() -> None:
        quiet.save(header, blob(1))
        saved.set()

    thread = threading.Thread(target=save_elsewhere)
    with gate.closed():
        thread.start()
        assert not saved.wait(0.05)
        assert quiet.load("a").header == header
    assert saved.wait(WAIT_S)
    thread.join()


def test_a_gate_waits_for_the_save_that_runs(quiet: SqliteSnapshotStore) -> None:
    """A checkpoint does not come between the statements of a transaction."""
    header = save(quiet, create(quiet), 5)
    copied = threading.Event()

    def truncate() -> None:
        checkpoints_of(quiet).truncate()
        copied.set()

    thread = threading.Thread(target=truncate)
    with quiet.transaction():
        quiet.save(header, blob(1))
        thread.start()
        assert not copied.wait(0.05)
    assert copied.wait(WAIT_S)
    thread.join()


def test_a_reader_that_pins_the_log_stops_no_save(store: SqliteSnapshotStore) -> None:
    """Under one open SELECT the log grows past its cap; saves go on, and none waits for it."""
    header = create(store)
    with closing(apsw.Connection(store.path, flags=apsw.SQLITE_OPEN_READONLY)) as reader:
        reader.execute("begin")
        reader.execute("select * from runs").fetchall()
        header = save(store, header, 1_000)
        assert wal_bytes(store) > limits.WAL_BYTES_MAX
        wait_until(lambda: store.stats().checkpoints > 0)
        stats = store.stats()
        assert stats.longest_checkpoint_stall_ms == 0
        # An attempt at each thousandth page, and not one after another.
        assert stats.checkpoints <= 1_000 * (PAGES_PER_SAVE + 1) / limits.CHECKPOINT_PAGES + 1
        reader.execute("rollback")
    for _ in range(20):
        header = save(store, header, 200)
        if wal_bytes(store) <= limits.WAL_BYTES_MAX:
            break
    assert wal_bytes(store) <= limits.WAL_BYTES_MAX
    assert store.load("a").header == header


def test_an_idle_log_is_cut_to_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once nobody writes any more the space of a long log is given back, and saves go on."""
    monkeypatch.setattr(limits, "CHECKPOINT_IDLE_MS", 1)
    # Long in one commit: of many the thread might cut the first, and leave a short rest alone.
    long = random.Random(0).randbytes(2 * limits.WAL_IDLE_BYTES)
    with open_store(tmp_path / "state.db") as store:
        header = store.save(create(store), long)
        wait_until(lambda: wal_bytes(store) == 0)
        header = store.save(header, long[::-1])
        wait_until(lambda: wal_bytes(store) == 0)
        assert store.load("a").header == header


def test_a_short_idle_log_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting a log makes the next save wait for the disk, so it must be worth it."""
    monkeypatch.setattr(limits, "CHECKPOINT_IDLE_MS", 1)
    with open_store(tmp_path / "state.db") as store:
        checkpoints = checkpoints_of(store)
        save(store, create(store), 3)
        wait_until(lambda: checkpoints.is_resting)
        assert wal_bytes(store) > 0
        assert store.stats().checkpoints == 0


def test_a_long_log_that_a_killed_process_left_is_cut_when_idle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an earlier process has written is not forgotten because this one writes nothing."""
    (tmp_path / "crashed").mkdir()
    with open_store(tmp_path / "state.db") as store:
        header = save(store, create(store), 60)
        for name in ("state.db", "state.db-wal"):
            (tmp_path / "crashed" / name).write_bytes((tmp_path / name).read_bytes())
    monkeypatch.setattr(limits, "CHECKPOINT_IDLE_MS", 1)
    with open_store(tmp_path / "crashed" / "state.db") as store:
        wait_until(lambda: wal_bytes(store) == 0)
        assert store.load("a").header == header


def test_closing_empties_the_log_and_ends_the_thread(tmp_path: Path) -> None:
    """After the last handle is closed the file alone holds everything."""
    with open_store(tmp_path / "state.db") as store:
        header = save(store, create(store), 10)
    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]
    assert "snapshots-checkpoints" not in {thread.name for thread in threading.enumerate()}
    with open_store(tmp_path / "state.db", read_only=True) as reader:
        assert reader.load("a").header == header


def test_closing_beside_another_handle_leaves_it_an_empty_log(store: SqliteSnapshotStore) -> None:
    """The handle that stays goes on with a log of no bytes."""
    with open_store(store.path) as other:
        header = save(other, create(other), limits.VISIT_COMMITS_MAX)
    assert wal_bytes(store) == 0
    assert store.save(header, blob(1)).revision == header.revision + 1


def test_a_visitor_leaves_the_log_as_it_is_and_synced(
    quiet: SqliteSnapshotStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who commits little takes no lock to empty the log of who stays, and loses nothing."""
    synced: list[str] = []
    header = save(quiet, create(quiet), 20)
    before = wal_bytes(quiet)
    with open_store(quiet.path) as other:
        header = save(other, header, limits.VISIT_COMMITS_MAX)
        sync = checkpoints_module._SYNC

        def noted(descriptor: int) -> None:
            synced.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
            sync(descriptor)

        monkeypatch.setattr(checkpoints_module, "_SYNC", noted)
        # The writer's lock is held: nobody who closes may need it.
        with quiet.transaction():
            quiet.database.run("delete from shapes where digest = 'none'", ())
            other.close()
    assert wal_bytes(quiet) > before
    assert synced == ["state.db-wal"]
    assert quiet.load("a").header == header


def test_a_visitor_that_is_the_last_one_leaves_the_file_alone(tmp_path: Path) -> None:
    """SQLite empties and removes the log as the last connection closes."""
    with open_store(tmp_path / "state.db") as store:
        header = create(store)
    assert [path.name for path in tmp_path.iterdir()] == ["state.db"]
    with open_store(tmp_path / "state.db", read_only=True) as reader:
        assert reader.load("a").header == header


def test_another_process_that_writes_makes_a_checkpoint_wait_for_its_turn(
    quiet: SqliteSnapshotStore,
) -> None:
    """Busy is no failure: nothing is raised, and the next attempt does it."""
    save(quiet, create(quiet), 10)
    with closing(apsw.Connection(quiet.path)) as other:
        other.wal_autocheckpoint(0)
        other.execute("begin immediate")
        checkpoints_of(quiet).truncate()
        assert wal_bytes(quiet) > 0
        other.execute("rollback")
    checkpoints_of(quiet).truncate()
    assert wal_bytes(quiet) == 0
    checkpoints_of(quiet).raise_failure()


@pytest.mark.parametrize(
    ("descriptor", "expected"),
    [(CLOSED, StorageUnavailableError), ("no descriptor", StorageError)],
    ids=["the disk refuses", "a bug"],
)
def test_what_fails_in_the_thread_is_raised_by_the_next_save_once(
    store: SqliteSnapshotStore, descriptor: object, expected: type[StorageError]
) -> None:
    """An error of the thread reaches a caller, with nothing written; then saves go on."""
    checkpoints, header = checkpoints_of(store), create(store)
    kept, checkpoints._descriptor = checkpoints._descriptor, descriptor  # type: ignore[assignment]  # the fault

    def save_until_it_is_told() -> None:
        nonlocal header
        for number in range(10_000):
            header = store.save(header, blob(number % 100))

    with pytest.raises(StorageError, match="checkpoint") as caught:
        save_until_it_is_told()
    assert type(caught.value) is expected
    assert caught.value.__cause__ is not None
    checkpoints._descriptor = kept
    assert store.load("a").header == header
    store.save(header, blob(1))


def test_what_fails_at_the_end_is_raised_by_closing_once(tmp_path: Path) -> None:
    """`close()` closes everything and then tells; closing again is harmless."""
    store = open_store(tmp_path / "state.db")
    header = save(store, create(store), limits.VISIT_COMMITS_MAX)
    checkpoints_of(store)._descriptor = CLOSED
    with pytest.raises(StorageUnavailableError, match="checkpoint"):
        store.close()
    store.close()
    with open_store(tmp_path / "state.db") as again:
        assert again.load("a").header == header


def is_refused(store: SqliteSnapshotStore, headers: list[RunHeader]) -> bool:
    """Save once more, and tell whether that was refused because the file is gone."""
    try:
        headers.append(store.save(headers[-1], blob(len(headers))))
    except StorageUnavailableError as error:
        return "moved, removed or replaced" in str(error)
    return False


@pytest.mark.parametrize("part", ["", "-wal", "-shm"])
def test_a_file_that_is_moved_away_takes_no_saves_until_it_is_back(
    store: SqliteSnapshotStore, part: str
) -> None:
    """Its path leads elsewhere, and what was saved would end with the process."""
    headers = [create(store)]
    place, aside = Path(f"{store.path}{part}"), Path(f"{store.path}.aside")
    place.rename(aside)
    wait_until(lambda: is_refused(store, headers))
    assert all(is_refused(store, headers) for _ in range(5))
    aside.rename(place)
    assert not is_refused(store, headers)
    assert store.load("a").header == headers[-1]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_who_closes_a_file_that_is_gone_is_told(tmp_path: Path, *, is_replaced: bool) -> None:
    """The last saves, too, are not lost without a word; who saved nothing has lost nothing."""
    path = tmp_path / "state.db"
    open_store(path).close()
    reader, writer = open_store(path), open_store(path)
    create(writer)
    path.rename(tmp_path / "aside.db")
    if is_replaced:
        path.write_bytes(b"another")
    with pytest.raises(StorageUnavailableError, match="moved, removed or replaced"):
        writer.close()
    reader.close()


@pytest.mark.parametrize("saves", [0, 1])
def test_who_closes_a_file_that_was_gone_and_has_lost_nothing_is_told_nothing(
    tmp_path: Path, saves: int
) -> None:
    """It was seen to be gone, and is back; or nothing was saved by this handle."""
    path, aside = tmp_path / "state.db", tmp_path / "aside.db"
    open_store(path).close()
    store = open_store(path)
    path.rename(aside)
    for _ in range(saves):
        create(store)
    checkpoints = checkpoints_of(store)
    checkpoints._wake.set()
    wait_until(lambda: checkpoints._failure is not None)
    if saves:
        aside.rename(path)
    store.close()
    assert path.exists() == bool(saves)


def test_a_second_library_that_closes_the_file_in_this_process_is_found_out(
    tmp_path: Path,
) -> None:
    """It sees none of the locks, believes to be the last one, and removes the log."""
    store = open_store(tmp_path / "state.db")
    headers = [create(store)]
    with closing(sqlite3.connect(store.path)) as other:
        assert other.execute("select count(*) from runs").fetchall() == [(1,)]
    assert not Path(f"{store.path}-wal").exists()
    wait_until(lambda: is_refused(store, headers))
    with pytest.raises(StorageUnavailableError, match="moved, removed or replaced"):
        store.close()
