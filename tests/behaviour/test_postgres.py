"""What only a server can do to a storage: break connections, let it wait, have another form."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import psycopg
import pytest
from psycopg import sql

from snapshots import limits
from snapshots.errors import (
    MigrationError,
    NewerFileError,
    StorageBusyError,
    StorageError,
    StorageUnavailableError,
)
from snapshots.opening import open_storage, prepare_storage
from snapshots.storage import Scope
from snapshots.storage.backends.postgres import PostgresBackend, prepare
from snapshots.storage.backends.postgres.schema import LEAST_KNOWN, SCHEMA_VERSION, STEPS
from snapshots.testing import ManualClock
from snapshots.testing.suite.acting import refused
from tests.behaviour import servers
from tests.behaviour.servers import Server

BREAK = """
select count(pg_terminate_backend(pid)) from pg_stat_activity
where datname = current_database() and application_name = 'machine-snapshots'"""
WAITING = """
select count(*) from pg_stat_activity
where datname = current_database() and application_name = 'machine-snapshots'
  and wait_event_type = 'Lock'"""
LOCK = "select 1 from snapshots.workspaces where tenant = %s and workspace = %s for update"
RECORDS = "select number, least_known from snapshots.steps order by number"
NEXT = ("create table snapshots.plans (id bigint primary key)",)


@pytest.fixture
def storage(postgres: Server) -> Iterator[PostgresBackend]:
    """A storage by the server's own clock."""
    with open_storage(postgres.user) as opened:
        assert isinstance(opened, PostgresBackend)
        yield opened


@pytest.fixture
def superuser(postgres: Server) -> Iterator[psycopg.Connection]:
    """A connection that may do anything to the others."""
    with closing(psycopg.connect(postgres.superuser, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def blank(postgres_server: str) -> Iterator[Server]:
    """A database without our schema."""
    with servers.database(postgres_server) as server:
        yield server


def test_the_servers_clock_counts_where_none_is_injected(
    storage: PostgresBackend, superuser: psycopg.Connection, scope: Scope
) -> None:
    """Expiry is the server's time and the time to live; an hour has not passed since."""
    row = superuser.execute("select snapshots.now_ms(null)").fetchone()
    assert row is not None
    storage.keyed.put(scope, "a", b"1", ttl_ms=3_600_000)
    (entry,) = storage.keyed.list(scope)
    assert entry.expires_ms is not None
    assert 0 <= entry.expires_ms - 3_600_000 - row[0] < 60_000
    assert not storage.keyed.put_if_absent(scope, "a", b"2")
    assert storage.leases.acquire(scope, "lock", ttl_ms=3_600_000) is not None
    assert storage.leases.acquire(scope, "lock", ttl_ms=3_600_000) is None


def test_connections_that_broke_while_idle_are_replaced(
    storage: PostgresBackend, superuser: psycopg.Connection, scope: Scope
) -> None:
    """A server that was started anew is not noticed by the next call."""
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda key: storage.keyed.put(scope, key, b"1"), "abcd"))
    assert superuser.execute(BREAK).fetchone() != (0,)
    for key in "abcd":
        assert storage.keyed.get(scope, key) == b"1"


def test_a_connection_that_breaks_in_a_transaction_undoes_it(
    storage: PostgresBackend, superuser: psycopg.Connection, scope: Scope
) -> None:
    """The next call in the block says so, and may be tried again: nothing was written."""
    with refused("StorageUnavailableError"), storage.transaction(scope):
        storage.keyed.put(scope, "a", b"1")
        superuser.execute(BREAK)
        storage.keyed.put(scope, "b", b"1")
    assert storage.keyed.list(scope) == []


def test_a_connection_that_breaks_before_the_commit_says_that_nobody_knows(
    storage: PostgresBackend, superuser: psycopg.Connection, scope: Scope
) -> None:
    """Whether it was written cannot be told from here, so the error asks to read it again."""
    with refused("StorageUnavailableError") as refusal, storage.transaction(scope):
        storage.keyed.put(scope, "a", b"1")
        superuser.execute(BREAK)
    assert "may have been written or not" in str(refusal.error)
    assert storage.keyed.list(scope) == []


def test_an_error_that_was_swallowed_in_a_transaction_comes_out_at_its_end(
    storage: PostgresBackend, scope: Scope
) -> None:
    """The server would answer the commit with a rollback and no error."""
    with refused("StorageError") as first, storage._connections.transaction(scope) as work:
        storage.keyed.put(scope, "a", b"1")
        with suppress(psycopg.Error):
            work.connection.execute("select 1 / 0")
    assert "swallowed" in str(first.error)
    with refused("StorageError") as second, storage._connections.transaction(scope) as work:
        with suppress(psycopg.Error):
            work.connection.execute("select 1 / 0")
        storage.keyed.put(scope, "a", b"1")
    assert "swallowed" in str(second.error)
    assert storage.keyed.list(scope) == []


def test_a_workspace_that_is_held_for_too_long_is_busy(
    storage: PostgresBackend,
    superuser: psycopg.Connection,
    scope: Scope,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its writes and transactions give up; reads, carry state and other workspaces go on."""
    monkeypatch.setattr(limits, "WORKSPACE_WAIT_MS_MAX", 50)
    storage.keyed.put(scope, "a", b"1")
    lease = storage.leases.acquire(scope, "lock", ttl_ms=3_600_000)
    assert lease is not None
    writes: tuple[Callable[[], object], ...] = (
        lambda: storage.keyed.put(scope, "a", b"2"),
        lambda: storage.keyed.put_if_absent(scope, "b", b"2"),
        lambda: storage.keyed.replace(scope, "a", b"2"),
        lambda: storage.keyed.delete(scope, "a"),
        lambda: storage.leases.acquire(scope, "other", ttl_ms=10),
        lambda: storage.leases.renew(lease, ttl_ms=10),
        lambda: storage.leases.release(lease),
        lambda: storage.transaction(scope).__enter__(),
    )
    with superuser.transaction():
        superuser.execute(LOCK, (scope.tenant, scope.workspace))
        for write in writes:
            with pytest.raises(StorageBusyError):
                write()
        assert storage.keyed.get(scope, "a") == b"1"
        storage.carry.save(scope, "a", contract_version=1, payload=b"", expected_revision=0)
        storage.keyed.put(Scope(tenant=scope.tenant, workspace="other"), "a", b"2")
        assert storage.leases.read(scope, "lock") == lease
    storage.keyed.put(scope, "a", b"2")


def test_a_put_if_absent_in_vain_writes_nothing(
    storage: PostgresBackend, superuser: psycopg.Connection, scope: Scope
) -> None:
    """It locks neither the key's row nor the workspace's, and waits for nobody who has those."""
    storage.keyed.put(scope, "a", b"1")
    storage.keyed.put(scope, "expired", b"1", ttl_ms=1)

    def marks() -> list[tuple[object, ...]]:
        """What each change, and each lock, of a row leaves in it."""
        keyed = superuser.execute(
            "select key, xmin::text, xmax::text from snapshots.keyed"
            " where tenant = %s and workspace = %s order by key",
            (scope.tenant, scope.workspace),
        ).fetchall()
        workspace = superuser.execute(
            "select xmin::text, xmax::text from snapshots.workspaces"
            " where tenant = %s and workspace = %s",
            (scope.tenant, scope.workspace),
        ).fetchall()
        return [*keyed, *workspace]

    before = marks()
    assert not storage.keyed.put_if_absent(scope, "a", b"2")
    assert marks() == before
    with superuser.transaction():
        superuser.execute(LOCK, (scope.tenant, scope.workspace))
        assert not storage.keyed.put_if_absent(scope, "a", b"2")
    with storage.transaction(scope):
        assert not storage.keyed.put_if_absent(scope, "a", b"2")
        assert storage.keyed.put_if_absent(scope, "b", b"2")
    while storage.keyed.exists(scope, "expired"):
        pass
    assert storage.keyed.put_if_absent(scope, "expired", b"2")
    assert marks() != before


def test_time_is_read_behind_what_was_waited_for(
    postgres: Server, superuser: psycopg.Connection, scope: Scope
) -> None:
    """What a call writes lives from when it had the workspace, not from when it asked for it."""
    clock = ManualClock()
    with open_storage(postgres.user, clock=clock) as storage:
        storage.keyed.put(scope, "a", b"1")
        with ThreadPoolExecutor(1) as thread:
            with superuser.transaction():
                superuser.execute(LOCK, (scope.tenant, scope.workspace))
                waiting = thread.submit(storage.keyed.put, scope, "a", b"2", ttl_ms=10)
                with closing(psycopg.connect(postgres.superuser, autocommit=True)) as other:
                    while other.execute(WAITING).fetchone() == (0,):
                        threading.Event().wait(0.002)
                clock.advance(1_000)
            waiting.result()
        (entry,) = storage.keyed.list(scope)
        assert entry.expires_ms == clock.now_ms() + 10


def test_a_server_that_is_not_there_is_named_without_its_password(postgres: Server) -> None:
    """The address in the error has host and database, and no secret in any field."""
    url = servers.address(postgres.user, host="/nowhere", password="hush")  # noqa: S106 - the secret
    with pytest.raises(StorageUnavailableError) as caught:
        open_storage(url)
    assert "/nowhere" in caught.value.path
    assert "hush" not in str(caught.value)
    assert "hush" not in repr(vars(caught.value))


def test_several_at_once_make_one_schema(blank: Server) -> None:
    """Each of four takes its turn; every step is taken and recorded once."""
    start = threading.Barrier(4)

    def make(_: int) -> None:
        start.wait(20)
        prepare_storage(blank.owner, role=None)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(make, range(4)))
    with closing(psycopg.connect(blank.owner)) as connection:
        records = connection.execute(RECORDS).fetchall()
    assert records == list(enumerate(LEAST_KNOWN, 1))
    assert len(records) == SCHEMA_VERSION


def test_one_role_can_do_it_all(blank: Server, scope: Scope) -> None:
    """Opening as the owner of a blank database is enough; it sees its own scope, forced."""
    with open_storage(blank.owner) as storage:
        storage.keyed.put(scope, "a", b"1")
        assert storage.keyed.get(scope, "a") == b"1"


def test_a_role_that_may_not_take_the_steps_is_told_who_may(blank: Server) -> None:
    """On a blank database, and on one that was prepared for others."""
    for _ in range(2):
        with pytest.raises(MigrationError, match="prepare the storage"):
            open_storage(blank.user)
        prepare_storage(blank.owner)


def test_a_step_and_its_record_are_one_transaction(blank: Server) -> None:
    """A step that fails at its last statement leaves the database as it was."""
    prepare(blank.owner)
    broken = (*NEXT, "create table snapshots.plans (id bigint primary key)")
    with pytest.raises(StorageError):
        prepare(blank.owner, steps=(*STEPS, broken), least_known=(*LEAST_KNOWN, 1))
    with closing(psycopg.connect(blank.owner)) as connection:
        assert len(connection.execute(RECORDS).fetchall()) == SCHEMA_VERSION
    prepare(blank.owner, steps=(*STEPS, NEXT), least_known=(*LEAST_KNOWN, 1))
    with closing(psycopg.connect(blank.owner)) as connection:
        assert len(connection.execute(RECORDS).fetchall()) == SCHEMA_VERSION + 1


def test_this_release_goes_on_beside_a_later_one(blank: Server, scope: Scope) -> None:
    """After a step that lets it; one that does not is refused by its number."""
    prepare(blank.owner, role=blank.role)
    with open_storage(blank.user) as before:
        before.keyed.put(scope, "a", b"1")
        later = (*STEPS, NEXT)
        prepare(blank.owner, role=blank.role, steps=later, least_known=(*LEAST_KNOWN, 1))
        assert before.keyed.get(scope, "a") == b"1"
        with open_storage(blank.user) as anew:
            assert anew.keyed.get(scope, "a") == b"1"
    number = SCHEMA_VERSION + 2
    prepare(blank.owner, steps=(*later, ("select 1",)), least_known=(*LEAST_KNOWN, 1, number))
    with pytest.raises(NewerFileError) as caught:
        open_storage(blank.user)
    assert (caught.value.found, caught.value.known) == (number, SCHEMA_VERSION)


def test_a_database_of_another_encoding_is_refused(blank: Server) -> None:
    """Its texts would not be ordered by code points."""
    name = sql.Identifier(f"{blank.role}_ascii")
    with closing(psycopg.connect(blank.superuser, autocommit=True)) as connection:
        make = "create database {} encoding 'SQL_ASCII' locale 'C' template template0"
        connection.execute(sql.SQL(make).format(name))
        try:
            with pytest.raises(StorageError, match="UTF8"):
                open_storage(servers.address(blank.superuser, dbname=f"{blank.role}_ascii"))
        finally:
            connection.execute(sql.SQL("drop database {} with (force)").format(name))
