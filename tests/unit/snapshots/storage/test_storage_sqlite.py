"""Storage in the file of the runs: their transactions, their term, their writers."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from snapshots import (
    FencedError,
    RunNotFoundError,
    SqliteSnapshotStore,
    StorageBusyError,
    StorageClosedError,
    StorageError,
    open_storage,
    open_store,
)
from snapshots.schema import SCHEMA_VERSION
from snapshots.storage import Backend, Scope
from snapshots.storage.backends.sqlite import carry, keyed, leases
from snapshots.testing import ManualClock
from snapshots.testing.suite.acting import refused

SCOPE = Scope()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that is not there yet."""
    return tmp_path / "state.db"


@pytest.fixture
def clock() -> ManualClock:
    """The clock of store and storage."""
    return ManualClock()


@pytest.fixture
def store(path: Path, clock: ManualClock) -> Iterator[SqliteSnapshotStore]:
    """A store of runs."""
    with open_store(path, clock=clock) as opened:
        yield opened


@pytest.fixture
def storage(store: SqliteSnapshotStore, clock: ManualClock) -> Backend:
    """A storage on the store's own connection."""
    return open_storage(store, clock=clock)


def create(store: SqliteSnapshotStore, run_id: str) -> None:
    """Store a run."""
    store.create(run_id=run_id, machine="m", digest="d", shape=b"s", blob=b"b")


def test_a_keyed_write_and_a_runs_first_save_commit_together(
    store: SqliteSnapshotStore, storage: Backend
) -> None:
    """In one transaction of the store, and another connection sees both or neither."""
    with open_storage(store.path) as other:
        with store.transaction():
            storage.keyed.put(SCOPE, "a", b"1")
            create(store, "run-1")
            assert storage.keyed.get(SCOPE, "a") == b"1"
            assert other.keyed.get(SCOPE, "a") is None
        assert other.keyed.get(SCOPE, "a") == b"1"
    assert store.load("run-1").blob == b"b"


def test_a_second_handle_on_one_store_begins_no_transaction_inside_the_first(
    store: SqliteSnapshotStore, storage: Backend
) -> None:
    """It would be a part of the first, and be taken back with it; calls of its own are one."""
    other = open_storage(store)
    with storage.transaction(SCOPE):
        for one in (other, other.keyed, other.leases, other.carry):
            with refused("NestedTransactionError"), one.transaction(SCOPE):
                pass
        other.keyed.put(SCOPE, "a", b"1")
    with other.transaction(SCOPE):
        assert storage.keyed.get(SCOPE, "a") == b"1"
    assert not store.is_lent


def test_a_second_handle_on_one_store_keeps_to_the_workspace_of_the_first(
    store: SqliteSnapshotStore, storage: Backend
) -> None:
    """A call for another workspace is no part of the transaction, whichever handle makes it."""
    other, elsewhere = open_storage(store), replace(SCOPE, workspace="other")
    with storage.transaction(SCOPE):
        with refused("OtherWorkspaceError"):
            other.keyed.put(elsewhere, "a", b"1")
        with refused("OtherWorkspaceError"):
            other.keyed.get(elsewhere, "a")
    other.keyed.put(elsewhere, "a", b"1")
    assert storage.keyed.get(elsewhere, "a") == b"1"


def test_a_keyed_write_and_a_runs_first_save_fail_together(
    store: SqliteSnapshotStore, storage: Backend
) -> None:
    """Whichever of the two raises, neither is left."""
    create(store, "taken")
    with refused("InvalidKeyError"), store.transaction():
        create(store, "run-1")
        storage.keyed.put(SCOPE, "", b"1")
    with refused("InvalidKeyError"), store.transaction():
        storage.keyed.put(SCOPE, "a", b"1")
        create(store, "")
    assert storage.keyed.list(SCOPE) == []
    with pytest.raises(RunNotFoundError):
        store.load("run-1")


def test_a_storages_transaction_is_a_part_of_the_stores(
    store: SqliteSnapshotStore, storage: Backend
) -> None:
    """It ends with that one; a run that is saved in a storage's own goes with it as well."""
    with refused("InvalidKeyError"), store.transaction():
        with storage.transaction(SCOPE):
            storage.keyed.put(SCOPE, "a", b"1")
        create(store, "")
    assert not storage.keyed.exists(SCOPE, "a")
    with storage.transaction(SCOPE):
        create(store, "run-1")
        storage.keyed.put(SCOPE, "a", b"1")
    assert store.load("run-1").header.run_id == "run-1"
    assert storage.keyed.exists(SCOPE, "a")


def test_a_lease_can_be_required_where_a_run_is_saved(
    store: SqliteSnapshotStore, storage: Backend
) -> None:
    """The store's transaction is one in which nobody else claims the name."""
    lease = storage.leases.acquire(SCOPE, "lock", ttl_ms=1_000)
    assert lease is not None
    with store.transaction():
        storage.leases.require(lease)
        create(store, "run-1")
    assert store.load("run-1").header.run_id == "run-1"


WRITES: dict[str, Callable[[Backend], object]] = {
    "put": lambda storage: storage.keyed.put(SCOPE, "b", b"1"),
    "put if absent": lambda storage: storage.keyed.put_if_absent(SCOPE, "b", b"1"),
    "replace": lambda storage: storage.keyed.replace(SCOPE, "a", b"2"),
    "delete": lambda storage: storage.keyed.delete(SCOPE, "a"),
    "acquire": lambda storage: storage.leases.acquire(SCOPE, "other", ttl_ms=10),
    "renew": lambda storage: storage.leases.renew(held(storage), ttl_ms=10),
    "release": lambda storage: storage.leases.release(held(storage)),
    "save": lambda storage: storage.carry.save(
        SCOPE, "b", contract_version=1, payload=b"", expected_revision=0
    ),
    "clear": lambda storage: storage.carry.clear(SCOPE, "a"),
    "sweep": lambda storage: storage.sweep(),
    "transaction": lambda storage: storage.transaction(SCOPE).__enter__(),
}


def held(storage: Backend) -> leases.Lease:
    """The lease that the fixture below took."""
    lease = storage.leases.read(SCOPE, "lock")
    assert lease is not None
    return lease


@pytest.mark.parametrize("verb", WRITES)
def test_a_former_owner_of_the_file_writes_nothing(
    store: SqliteSnapshotStore, storage: Backend, clock: ManualClock, verb: str
) -> None:
    """Every write of a storage carries the store's term; reads do not."""
    store.take_over("host-a")
    storage.keyed.put(SCOPE, "a", b"1")
    storage.keyed.put(SCOPE, "swept", b"1", ttl_ms=1)
    assert storage.leases.acquire(SCOPE, "lock", ttl_ms=1_000) is not None
    storage.carry.save(SCOPE, "a", contract_version=1, payload=b"", expected_revision=0)
    clock.advance(1)
    with open_store(store.path) as successor:
        successor.take_over("host-b")
        with pytest.raises(FencedError):
            WRITES[verb](storage)
        left = successor.database.row("look", "select count(*) from keyed")
        assert left == (2,)
        assert not successor.database.rows("look", "select * from leases where name = 'other'")
        assert successor.database.row("look", "select count(*) from carry") == (1,)
    assert storage.keyed.get(SCOPE, "a") == b"1"


def test_a_storage_without_a_term_writes_beside_a_host(
    store: SqliteSnapshotStore,
) -> None:
    """A process that only approves or claims something is not the owner of the file."""
    store.take_over("host-a")
    with open_storage(store.path) as beside:
        assert beside.keyed.put_if_absent(SCOPE, "a", b"1")
    create(store, "run-1")


def test_a_borrowed_store_stays_open(store: SqliteSnapshotStore, storage: Backend) -> None:
    """Closing the storage ends the storage alone; closing the store ends both."""
    storage.close()
    with pytest.raises(StorageClosedError):
        storage.keyed.get(SCOPE, "a")
    create(store, "run-1")
    anew = open_storage(store)
    store.close()
    with pytest.raises(StorageClosedError):
        anew.keyed.put(SCOPE, "a", b"1")


@pytest.mark.parametrize("form", ["{}", "sqlite:///{}"])
def test_a_path_opens_or_creates_a_file_of_runs(path: Path, form: str) -> None:
    """With or without its kind in front; the store then opens it too."""
    with open_storage(form.format(path)) as storage:
        assert storage.path == os.fspath(path)
        storage.keyed.put(SCOPE, "a", b"1")
    with open_store(path) as store:
        assert open_storage(store).keyed.get(SCOPE, "a") == b"1"


def test_an_address_of_another_kind_is_refused_without_being_shown() -> None:
    """What stands behind the kind may hold a password."""
    with pytest.raises(StorageError, match="expected memory:") as caught:
        open_storage("mysql://me:hush@host/db")
    assert "hush" not in repr(vars(caught.value))


@pytest.mark.parametrize(
    "address", ["sqlite:a.db", "sqlite:/a.db", "SQLite:a.db", "memory", "postgresql:/me:hush@host"]
)
def test_an_address_that_is_not_written_out_makes_no_file(
    path: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """It is refused like an unknown kind; a file of that name is given with its folder."""
    monkeypatch.chdir(path.parent)
    with pytest.raises(StorageError, match="expected memory:") as caught:
        open_storage(address)
    assert "hush" not in repr(vars(caught.value))
    assert list(path.parent.iterdir()) == []


def test_a_file_may_be_called_like_an_address(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its folder before it, behind `sqlite:///`, or as a path."""
    monkeypatch.chdir(path.parent)
    for place in ("./sqlite:a.db", "sqlite:///memory", Path("postgres:b.db")):
        with open_storage(place) as storage:
            storage.keyed.put(SCOPE, "a", b"1")
    assert sorted(each.name for each in path.parent.iterdir()) == [
        "memory",
        "postgres:b.db",
        "sqlite:a.db",
    ]


def test_two_storages_in_memory_share_nothing() -> None:
    """Each ends with its handle."""
    with open_storage("memory:") as one, open_storage("memory:") as other:
        one.keyed.put(SCOPE, "a", b"1")
        assert other.keyed.get(SCOPE, "a") is None


@pytest.mark.parametrize(
    ("sql", "index"),
    [
        (keyed.GET, "sqlite_autoindex_keyed_1"),
        (keyed.EXISTS, "sqlite_autoindex_keyed_1"),
        (keyed.REPLACE, "sqlite_autoindex_keyed_1"),
        (keyed.DELETE, "sqlite_autoindex_keyed_1"),
        (keyed.LIST, "sqlite_autoindex_keyed_1"),
        (keyed.SWEEP, "keyed_expiring"),
        (leases.RENEW, "sqlite_autoindex_leases_1"),
        (leases.READ, "sqlite_autoindex_leases_1"),
        (leases.SWEEP, "leases_expiring"),
        (carry.LOAD, "sqlite_autoindex_carry_1"),
        (carry.SAVE, "sqlite_autoindex_carry_1"),
        (carry.CLEAR, "sqlite_autoindex_carry_1"),
    ],
)
def test_no_statement_walks_over_a_table(store: SqliteSnapshotStore, sql: str, index: str) -> None:
    """Each finds its rows by an index, and none sorts."""
    bindings = ("",) * sql.count("?")
    plan = [row[3] for row in store.database.rows("plan", f"explain query plan {sql}", bindings)]
    assert any(index in step for step in plan)
    assert not any(step.startswith("SCAN") or "TEMP B-TREE" in step for step in plan)


def test_a_list_by_prefix_reads_its_range_alone(store: SqliteSnapshotStore) -> None:
    """Both ends of a prefix bound the index."""
    bindings = ("",) * keyed.LIST.count("?")
    (step,) = store.database.rows("plan", f"explain query plan {keyed.LIST}", bindings)
    assert "key>? AND key<?" in step[3]


RACER = """
import sys
from snapshots import open_storage
from snapshots.errors import StorageBusyError
from snapshots.storage import Scope
from snapshots.testing import ManualClock, START_MS
path, number = sys.argv[1:]
with open_storage(path, clock=ManualClock(START_MS + 10)) as storage:
    print("ready", flush=True)
    sys.stdin.readline()
    for round_ in range(40):
        while True:
            try:
                won = storage.keyed.put_if_absent(Scope(), f"key-{round_}", number.encode())
                lease = storage.leases.acquire(Scope(), f"lock-{round_}", ttl_ms=1_000)
            except StorageBusyError:
                continue
            break
        print(round_, int(won), 0 if lease is None else lease.token, flush=True)
"""


def test_of_several_processes_one_wins_each_expired_key(path: Path) -> None:
    """Four of them, on keys and leases that have expired: one winner in each round."""
    rounds, processes = 40, 4
    with open_storage(path, clock=ManualClock()) as storage:
        for number in range(rounds):
            storage.keyed.put(SCOPE, f"key-{number}", b"old", ttl_ms=10)
            assert storage.leases.acquire(SCOPE, f"lock-{number}", ttl_ms=10) is not None
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, os.fspath(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[4],
        )
        for number in range(processes)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    answers = [racer.communicate("go\n", timeout=20)[0].split() for racer in racers]
    wins = [[int(word) for word in answer[1::3]] for answer in answers]
    tokens = [[int(word) for word in answer[2::3]] for answer in answers]
    assert [sum(each) for each in zip(*wins, strict=True)] == [1] * rounds
    assert [sorted(each) for each in zip(*tokens, strict=True)] == [[0, 0, 0, 2]] * rounds


def test_a_file_that_another_process_writes_for_long_is_busy(
    store: SqliteSnapshotStore, storage: Backend
) -> None:
    """A write gives up after the time that one statement waits, a read does not wait."""
    with open_store(store.path) as other, other.transaction():
        with pytest.raises(StorageBusyError):
            storage.keyed.put(SCOPE, "a", b"1")
        assert storage.keyed.get(SCOPE, "a") is None
    storage.keyed.put(SCOPE, "a", b"1")


def test_its_sizes_are_those_of_the_file(store: SqliteSnapshotStore, storage: Backend) -> None:
    """What was deleted is free, and shown as such."""
    for number in range(4):
        storage.keyed.put(SCOPE, f"key-{number}", bytes(100_000), ttl_ms=1)
    for number in range(4):
        storage.keyed.delete(SCOPE, f"key-{number}")
    stats, file = storage.stats(), store.stats()
    assert stats.total_bytes == file.page_bytes * file.page_count
    assert stats.free_bytes == file.page_bytes * file.free_pages
    assert stats.free_bytes > 300_000
    assert SCHEMA_VERSION >= 3
