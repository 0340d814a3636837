"""Backups: one moment of a live file, compact, and whole under its name or not there."""

from __future__ import annotations

import errno
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from snapshots import (
    ForeignFileError,
    NetworkFileSystemError,
    NewerFileError,
    RunHeader,
    SqliteSnapshotStore,
    StorageBusyError,
    StorageClosedError,
    StorageCorruptError,
    StorageError,
    StorageFullError,
    StorageUnavailableError,
    TargetExistsError,
    backup,
    limits,
    open_storage,
    open_store,
)
from snapshots.database import places
from snapshots.schema import SCHEMA_VERSION
from snapshots.storage import Scope

TAKE_THE_LOCK = """
import sqlite3, sys
sqlite3.connect(sys.argv[1], timeout=0).execute("begin immediate")
"""
BLOB_BYTES = 20_000
PAGE = 4_096


def add(store: SqliteSnapshotStore, number: int) -> RunHeader:
    """Create one run whose blob takes some pages."""
    return store.create(
        run_id=f"run-{number:04}",
        machine="m",
        digest="d",
        shape=b"{}",
        blob=number.to_bytes(4, "big") * (BLOB_BYTES // 4),
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file of a test lies: in a folder of its own."""
    folder = tmp_path / "live"
    folder.mkdir()
    return folder / "state.db"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return where its backup is to be written: in a folder of its own."""
    folder = tmp_path / "backups"
    folder.mkdir()
    return folder / "copy.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSnapshotStore]:
    """Hold a file with some runs open, as a host does."""
    with open_store(path) as opened:
        with opened.transaction():
            for number in range(60):
                add(opened, number)
        yield opened


def blobs(path: Path) -> dict[str, bytes]:
    """Return what a file has for each run, read by nobody of ours."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        return dict(connection.execute("select run_id, blob from runs"))


def left(target: Path) -> list[str]:
    """Return all that lies where backups go."""
    return sorted(entry.name for entry in target.parent.iterdir())


# -- what a copy is -------------------------------------------------------------------------------


def test_a_backup_is_one_file_with_all_that_was_committed(
    store: SqliteSnapshotStore, target: Path
) -> None:
    """What is in the log counts as well, and nothing else lies beside the copy."""
    made = store.backup(target)
    assert (made.path, made.bytes) == (str(target), target.stat().st_size)
    assert made.rows["runs"] == 60
    assert left(target) == ["copy.db"]
    assert blobs(target) == {
        f"run-{number:04}": number.to_bytes(4, "big") * (BLOB_BYTES // 4) for number in range(60)
    }


def test_a_backup_is_readable_by_its_owner_alone_from_the_start(
    store: SqliteSnapshotStore, target: Path
) -> None:
    """Neither the file that grows nor the one that has its name can be read by others."""
    modes: set[int] = set()

    def look(_done: int, _expected: int) -> None:
        modes.update(stat.S_IMODE(entry.stat().st_mode) for entry in target.parent.iterdir())

    old = os.umask(0)
    try:
        for number in range(400):
            add(store, 1_000 + number)
        store.backup(target, progress=look)
    finally:
        os.umask(old)
    assert modes | {stat.S_IMODE(target.stat().st_mode)} == {0o600}


def test_a_backup_leaves_free_pages_out(store: SqliteSnapshotStore, target: Path) -> None:
    """Of a file that is free by a third the copy is smaller by that, and has no free page."""
    with store.transaction():
        store.database.run("delete from runs where id % 3 = 0")
    free = store.stats().free_pages
    made = store.backup(target)
    assert free > store.stats().page_count // 4
    assert made.source_bytes == store.stats().page_count * PAGE
    assert made.bytes <= made.source_bytes - (free - 2) * PAGE
    with open_store(target, read_only=True) as copy:
        assert copy.stats().free_pages == 0


def test_a_backup_opens_as_any_file_and_gets_its_log(
    store: SqliteSnapshotStore, target: Path
) -> None:
    """It is in rollback mode until a store opens it to write."""
    store.backup(target)
    with closing(sqlite3.connect(target)) as connection:
        assert connection.execute("pragma journal_mode").fetchone() == ("delete",)
    with open_store(target) as copy:
        assert copy.database.connection.pragma("journal_mode") == "wal"
        header = copy.load("run-0007").header
        assert header == store.load("run-0007").header
        copy.save(header, b"[1]")


def test_a_copy_has_the_owner_and_its_own_terms_from_there_on(
    store: SqliteSnapshotStore, target: Path
) -> None:
    """Whoever takes the copy over fences nobody on the file."""
    store.take_over("first")
    header = add(store, 100)
    store.backup(target)
    with open_store(target) as copy:
        assert copy.owner() == store.owner()
        assert copy.take_over("second") == 2
        copy.save(copy.load("run-0100").header, b"[2]")
    assert store.save(header, b"[1]").revision == header.revision + 1


def test_a_backup_has_what_lies_beside_the_runs(path: Path, target: Path) -> None:
    """Keyed values of the same file are copied with it."""
    with open_store(path) as store, open_storage(store) as storage:
        storage.keyed.put(Scope(), "k", b"1")
        store.backup(target)
    with open_storage(target) as storage:
        assert storage.keyed.get(Scope(), "k") == b"1"


def test_a_backup_of_a_backup_is_the_same(store: SqliteSnapshotStore, target: Path) -> None:
    """A file that nobody has open is copied too."""
    store.backup(target)
    again = backup(target, target.with_name("again.db"))
    assert again.rows == store.backup(target.with_name("third.db")).rows
    assert blobs(Path(again.path)) == blobs(target)


def test_a_file_of_an_earlier_schema_is_copied_as_it_is(
    store: SqliteSnapshotStore, path: Path, target: Path
) -> None:
    """One can back up before an upgrade, with the program that will do it."""
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"pragma user_version = {SCHEMA_VERSION - 1}")
    backup(path, target)
    with closing(sqlite3.connect(target)) as connection:
        assert connection.execute("pragma user_version").fetchone() == (SCHEMA_VERSION - 1,)


def test_what_is_no_utf_8_is_copied_as_it_is(store: SqliteSnapshotStore, target: Path) -> None:
    """One damaged text keeps no file from being backed up."""
    with store.transaction():
        store.database.run(
            "update runs set machine = cast(x'ff41' as text) where run_id = 'run-0003'"
        )
    store.backup(target)
    with closing(sqlite3.connect(target)) as connection:
        found = connection.execute(
            "select cast(machine as blob) from runs where run_id = 'run-0003'"
        )
        assert found.fetchone() == (b"\xffA",)


# -- beside a writer ------------------------------------------------------------------------------


def test_saves_go_on_while_a_backup_is_written(store: SqliteSnapshotStore, target: Path) -> None:
    """Between any two steps of a backup runs can be saved, and it has none of that."""
    for number in range(400):
        add(store, 1_000 + number)
    headers = store.headers(limit=1_000)
    expected = {header.run_id: store.load(header.run_id).blob for header in headers}
    header, saved = store.load("run-0000").header, 0

    def save(_done: int, _expected: int) -> None:
        nonlocal header, saved
        header, saved = store.save(header, b"[]"), saved + 1

    store.backup(target, progress=save)
    assert saved > 0
    assert blobs(target) == expected


def test_the_rows_are_counted_at_the_moment_of_the_copy(
    store: SqliteSnapshotStore, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever is committed between two steps, the counts are those of the copy."""
    monkeypatch.setattr(limits, "BACKUP_PROGRESS_STEPS", 1)
    monkeypatch.setattr(limits, "BACKUP_PROGRESS_MS", 0)
    numbers = iter(range(5_000, 5_200))

    def commit(_done: int, _expected: int) -> None:
        number = next(numbers, None)
        if number is not None:
            add(store, number)

    made = store.backup(target, progress=commit)
    assert next(numbers, None) is None
    assert made.rows["runs"] == len(blobs(target))
    assert 60 <= made.rows["runs"] < 260


def test_a_thread_may_back_up_what_another_one_writes(
    store: SqliteSnapshotStore, target: Path
) -> None:
    """From an event loop a backup runs in a thread, and the loop goes on saving."""
    made: list[int] = []
    thread = threading.Thread(target=lambda: made.append(store.backup(target).rows["runs"]))
    thread.start()
    header = store.load("run-0000").header
    while thread.is_alive():
        header = store.save(header, b"[]")
    thread.join()
    assert made == [60]


def test_the_writers_locks_outlive_a_backup_in_its_process(
    store: SqliteSnapshotStore, path: Path, target: Path
) -> None:
    """A backup closes no descriptor of the live file, which would drop the locks on it."""
    with store.transaction():
        backup(path, target)
        # Another process, since locks hold between processes.
        tried = subprocess.run(
            [sys.executable, "-c", TAKE_THE_LOCK, path], capture_output=True, text=True, check=False
        )
    assert "locked" in tried.stderr
    add(store, 200)


# -- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_target_that_exists_is_left_alone(
    store: SqliteSnapshotStore, target: Path, suffix: str
) -> None:
    """So is one beside which lies what SQLite would take for the copy's log."""
    found = target.with_name(target.name + suffix)
    found.write_bytes(b"mine")
    with pytest.raises(TargetExistsError, match="exists") as raised:
        store.backup(target)
    assert (raised.value.path, raised.value.found) == (str(target), str(found))
    assert left(target) == [found.name]
    assert found.read_bytes() == b"mine"


def test_a_link_to_nowhere_is_a_target_that_exists(
    store: SqliteSnapshotStore, target: Path, tmp_path: Path
) -> None:
    """A backup does not follow a link out of the folder that was named."""
    target.symlink_to(tmp_path / "elsewhere.db")
    with pytest.raises(TargetExistsError):
        store.backup(target)
    assert not (tmp_path / "elsewhere.db").exists()


def test_a_target_that_comes_to_be_meanwhile_is_left_alone(
    store: SqliteSnapshotStore, target: Path
) -> None:
    """Of two that write one name the first has it, and the other is told."""
    for number in range(400):
        add(store, 1_000 + number)
    with pytest.raises(TargetExistsError):
        store.backup(target, progress=lambda *_: target.write_bytes(b"theirs"))
    assert left(target) == ["copy.db"]
    assert target.read_bytes() == b"theirs"


def test_a_file_in_memory_is_refused_by_name(store: SqliteSnapshotStore, target: Path) -> None:
    """Neither can it be copied, nor is it a place for a copy."""
    with open_store(":memory:") as memory, pytest.raises(StorageError, match=":memory:"):
        memory.backup(target)
    with pytest.raises(StorageError, match=":memory:"):
        store.backup(":memory:")


def test_a_network_file_system_is_refused_by_name(
    store: SqliteSnapshotStore, target: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is written there; the copy can be copied there once it is made."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 0 0:1 / {target.parent} rw - nfs4 server:/share rw\n")
    monkeypatch.setattr(places, "_MOUNTS", mounts)
    with pytest.raises(NetworkFileSystemError, match="nfs4"):
        store.backup(target)
    assert left(target) == []


def test_a_folder_that_is_not_there_is_an_error_of_the_target(
    store: SqliteSnapshotStore, target: Path
) -> None:
    """It is not made."""
    missing = target.parent / "missing" / "copy.db"
    with pytest.raises(StorageUnavailableError, match="folder") as raised:
        store.backup(missing)
    assert raised.value.path == str(missing)


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        (("create table t (a)",), ForeignFileError),
        (("pragma application_id = 1399742832", "pragma user_version = 99"), NewerFileError),
    ],
)
def test_a_file_that_is_not_ours_is_refused(
    path: Path, target: Path, statements: tuple[str, ...], error: type[Exception]
) -> None:
    """Another program's file and one of a later release are no matter of ours."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in ("create table first (a)", *statements):
            connection.execute(statement)
        connection.commit()
    with pytest.raises(error):
        backup(path, target)
    assert left(target) == []


def test_a_file_without_runs_is_refused(path: Path, target: Path) -> None:
    """An empty file, which a mistyped name often is, makes no backup."""
    path.touch()
    with pytest.raises(ForeignFileError, match="no run was ever saved"):
        backup(path, target)
    assert left(target) == []


def test_a_missing_file_is_not_made(path: Path, target: Path) -> None:
    """A backup only reads."""
    with pytest.raises(StorageUnavailableError):
        backup(path, target)
    assert not path.exists()


def test_a_closed_store_makes_no_backup(store: SqliteSnapshotStore, target: Path) -> None:
    """A handle that is closed is closed for this as well."""
    store.close()
    with pytest.raises(StorageClosedError):
        store.backup(target)


# -- what goes wrong ------------------------------------------------------------------------------


def test_a_damaged_file_makes_no_backup(
    store: SqliteSnapshotStore, path: Path, target: Path
) -> None:
    """A row that its index does not have is found, and no copy is left that hides it."""
    store.close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute(
            "update sqlite_schema set sql = replace(sql, 'text not null', 'integer not null')"
            " where name = 'shapes'"
        )
        connection.commit()
    with pytest.raises(StorageCorruptError, match="no copy was made") as raised:
        backup(path, target)
    assert raised.value.path == str(path)
    assert left(target) == []


def test_a_torn_file_makes_no_backup(store: SqliteSnapshotStore, path: Path, target: Path) -> None:
    """A file that was cut is refused, whoever notices first."""
    store.close()
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)
    with pytest.raises(StorageCorruptError):
        backup(path, target)
    assert left(target) == []


def test_a_disk_without_room_is_refused_before_a_byte_is_written(
    store: SqliteSnapshotStore, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log of the live file may need what a backup would take."""
    needed = (store.stats().page_count - store.stats().free_pages) * PAGE + limits.WAL_BYTES_MAX
    disk = os.statvfs(target.parent)

    def with_room(room: int) -> None:
        fields = list(disk)
        fields[1], fields[4] = 1, room  # f_frsize, f_bavail
        monkeypatch.setattr(os, "statvfs", lambda _: os.statvfs_result(fields))

    with_room(needed - 1)
    with pytest.raises(StorageFullError, match=str(needed)) as raised:
        store.backup(target)
    assert raised.value.path == str(target)
    assert left(target) == []
    with_room(needed)
    store.backup(target)


class FullFile(apsw.VFSFile):
    """A file on a disk that is full after some writes."""

    def __init__(self, flags: list[int], name: apsw.URIFilename | str, disk: FullDisk) -> None:
        super().__init__("unix", name, flags)
        self.disk = disk
        self.is_copy = "backup" in (name if isinstance(name, str) else name.filename())

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802 - SQLite's name
        """Write, unless the disk is full."""
        if self.is_copy:
            self.disk.left -= 1
            if self.disk.left < 0:
                raise apsw.FullError
        super().xWrite(data, offset)


class FullDisk(apsw.VFS):
    """A disk that has room for so many writes of a copy."""

    def __init__(self, room: int) -> None:
        self.left = room
        super().__init__("full-disk", "unix", makedefault=True)

    def xOpen(self, name: apsw.URIFilename | str | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        """Open a file on this disk."""
        assert name is not None
        return FullFile(flags, name, self)


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_disk_that_fills_up_leaves_nothing_behind(
    store: SqliteSnapshotStore, target: Path, room: int
) -> None:
    """Wherever it is full: a typed error, no file, and the store saves on."""
    disk = FullDisk(room)
    try:
        with pytest.raises(StorageFullError, match="room"):
            store.backup(target)
    finally:
        disk.unregister()
    assert disk.left == -1
    assert left(target) == []
    add(store, 300)
    assert store.backup(target).rows["runs"] == 61


def test_a_disk_without_hard_links_is_refused_by_what_it_lacks(
    store: SqliteSnapshotStore, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without them a file could be replaced that came to lie there meanwhile."""

    def link(*_: str) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    with pytest.raises(StorageError, match="hard link"):
        store.backup(target)
    assert left(target) == []


def test_a_disk_that_does_not_sync_makes_no_backup(
    store: SqliteSnapshotStore, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What may not be on the disk gets no name."""

    def fsync(_descriptor: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fsync)
        with pytest.raises(StorageUnavailableError, match="backup failed"):
            store.backup(target)
    assert left(target) == []


class StopError(Exception):
    """What a caller ends a backup with."""


def test_whoever_watches_a_backup_can_end_it(store: SqliteSnapshotStore, target: Path) -> None:
    """What `progress` raises comes out as it is, and nothing is left behind."""
    for number in range(400):
        add(store, 1_000 + number)

    def stop(_done: int, _expected: int) -> None:
        raise StopError

    with pytest.raises(StopError):
        store.backup(target, progress=stop)
    assert left(target) == []


def test_progress_approaches_what_is_expected(
    store: SqliteSnapshotStore, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows from nothing to about the size that the copy has in the end."""
    for number in range(400):
        add(store, 1_000 + number)
    monkeypatch.setattr(limits, "BACKUP_PROGRESS_MS", 0)
    told: list[tuple[int, int]] = []
    made = store.backup(target, progress=lambda done, expected: told.append((done, expected)))
    done = [of for of, _ in told]
    assert done == sorted(done)
    assert done[-1] == made.bytes
    assert len({expected for _, expected in told}) == 1
    assert abs(told[0][1] - made.bytes) <= 4 * PAGE


# -- what is left of one that died ----------------------------------------------------------------


def test_what_a_dead_backup_left_is_removed_by_the_next_one(
    store: SqliteSnapshotStore, target: Path
) -> None:
    """A file of that name that nobody has locked belongs to nobody."""
    target.with_name(target.name + places.UNFINISHED).write_bytes(b"half")
    store.backup(target)
    assert left(target) == ["copy.db"]


def test_a_backup_in_progress_is_not_disturbed(store: SqliteSnapshotStore, target: Path) -> None:
    """A second one to the same target is told so, and the first one ends well."""
    for number in range(400):
        add(store, 1_000 + number)
    refused: list[StorageError] = []

    def again(_done: int, _expected: int) -> None:
        with pytest.raises(StorageBusyError, match="another copy") as raised:
            backup(store.path, target)
        refused.append(raised.value)

    store.backup(target, progress=again)
    assert refused
    assert left(target) == ["copy.db"]


def test_a_link_by_the_unfinished_name_is_not_followed(
    store: SqliteSnapshotStore, target: Path, tmp_path: Path
) -> None:
    """Nobody can have a backup write over, or remove, a file elsewhere."""
    other = tmp_path / "other"
    other.write_bytes(b"theirs")
    target.with_name(target.name + places.UNFINISHED).symlink_to(other)
    with pytest.raises(StorageError):
        store.backup(target)
    assert other.read_bytes() == b"theirs"


def test_the_error_of_a_target_survives_pickling() -> None:
    """It crosses processes whole, as every error of the tree does."""
    error = TargetExistsError("backup", "/data/copy.db", "/data/copy.db-wal")
    back = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes, the claim itself
    assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))
    assert "'/data/copy.db-wal'" in str(error)
