"""Workspaces on a server: hints across processes, a listener that is killed, foreign rows."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import LiteralString

import psycopg
import pytest
from psycopg import errors, sql

from snapshots import limits
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.storage.backends.postgres import PostgresBackend, prepare, workspaces
from snapshots.storage.backends.postgres.schema import LEAST_KNOWN, STEPS
from snapshots.storage.workspaces import Fact, Subscription, Workspace, Workspaces
from snapshots.testing import ManualClock
from tests.behaviour import servers
from tests.behaviour.servers import Server

TABLES = ("workspace_entities", "workspace_log", "workspace_history")
SETTINGS = """
select set_config('snapshots.tenant', %s, true), set_config('snapshots.workspace', %s, true)"""
LISTENERS = """
select pid from pg_stat_activity
where datname = current_database() and application_name = 'machine-snapshots listener'"""
# So long that nothing in a test comes by it: what comes earlier came by a hint.
NEVER_MS = limits.LOG_POLL_MS_MAX
WAIT_S_MAX = 20


def opened(storage: PostgresBackend, scope: Scope) -> Workspace:
    """Return a handle on a workspace."""
    return Workspaces(storage.workspaces).open(scope.workspace, tenant=scope.tenant)


@pytest.fixture
def storage(postgres: Server) -> Iterator[PostgresBackend]:
    """The storage of whoever follows."""
    with open_storage(postgres.user, clock=ManualClock()) as backend:
        assert isinstance(backend, PostgresBackend)
        yield backend


@pytest.fixture
def elsewhere(postgres: Server) -> Iterator[PostgresBackend]:
    """A storage that shares nothing with the first but the database, as another process does."""
    with open_storage(postgres.user, clock=ManualClock()) as backend:
        assert isinstance(backend, PostgresBackend)
        yield backend


@pytest.fixture
def superuser(postgres: Server) -> Iterator[psycopg.Connection]:
    """A connection that may do anything to the others."""
    with closing(psycopg.connect(postgres.superuser, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def follow() -> Iterator[Callable[[Subscription], Callable[[], int]]]:
    """Has a thread wait for the next entry of a subscription; returns what gives its seq."""
    with ThreadPoolExecutor(1) as thread:

        def begin(subscription: Subscription) -> Callable[[], int]:
            waiting = thread.submit(lambda: next(subscription).seq)

            def end() -> int:
                try:
                    return waiting.result(WAIT_S_MAX)
                finally:
                    if not waiting.done():
                        subscription.stop()

            return end

        yield begin


def listener(superuser: psycopg.Connection, apart_from: int | None = None) -> int:
    """Return the process of the server that the listener is connected to, once there is one."""
    while True:
        pids = [row[0] for row in superuser.execute(LISTENERS).fetchall()]
        found = [pid for pid in pids if pid != apart_from]
        if found:
            return found[0]
        threading.Event().wait(0.002)


def test_a_write_elsewhere_wakes_who_waits(
    storage: PostgresBackend,
    elsewhere: PostgresBackend,
    superuser: psycopg.Connection,
    scope: Scope,
    follow: Callable[[Subscription], Callable[[], int]],
) -> None:
    """By NOTIFY, long before the follower would have looked by itself."""
    with opened(storage, scope).subscribe(poll_ms=NEVER_MS) as subscription:
        listener(superuser)
        for seq in (1, 2):
            next_seq = follow(subscription)
            opened(elsewhere, scope).create("note", {})
            assert next_seq() == seq


def test_a_listener_that_is_killed_loses_nothing(
    storage: PostgresBackend,
    elsewhere: PostgresBackend,
    superuser: psycopg.Connection,
    scope: Scope,
    follow: Callable[[Subscription], Callable[[], int]],
) -> None:
    """It connects again, and whoever waits looks again: what came in between is found."""
    with opened(storage, scope).subscribe(poll_ms=NEVER_MS) as subscription:
        for seq in range(1, 4):
            pid = listener(superuser)
            next_seq = follow(subscription)
            superuser.execute("select pg_terminate_backend(%s)", (pid,))
            opened(elsewhere, scope).create("note", {})
            assert next_seq() == seq
            listener(superuser, apart_from=pid)


def test_who_hears_nothing_looks_by_itself(
    storage: PostgresBackend,
    elsewhere: PostgresBackend,
    scope: Scope,
    follow: Callable[[Subscription], Callable[[], int]],
) -> None:
    """Where nobody listens, an entry comes with the next look."""
    with opened(storage, scope).subscribe(poll_ms=5) as subscription:
        storage.workspaces.close()
        next_seq = follow(subscription)
        opened(elsewhere, scope).create("note", {})
        assert next_seq() == 1


def test_a_hint_says_nothing_about_whose_it_is(
    elsewhere: PostgresBackend, postgres: Server, scope: Scope
) -> None:
    """Any role of the database may listen: it hears a mark, never a name."""
    with closing(psycopg.connect(postgres.user, autocommit=True)) as connection:
        connection.execute("listen snapshots_workspaces")
        opened(elsewhere, scope).create("secret type", {"secret": 1}, artifact="secret id")
        (heard,) = connection.notifies(timeout=WAIT_S_MAX, stop_after=1)
    assert len(heard.payload) == 64
    for word in (scope.tenant, scope.workspace, "secret"):
        assert word not in heard.payload


def test_what_cannot_be_told_is_stored_all_the_same(
    storage: PostgresBackend, scope: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hint that fails behind the commit fails no write."""
    monkeypatch.setattr(workspaces, "NOTIFY", "select 1 / 0, %s")
    assert opened(storage, scope).create("note", {}, artifact="a").revision == 1
    assert opened(storage, scope).seq() == 1


def test_a_listener_ends_with_its_storage(
    postgres: Server, superuser: psycopg.Connection, scope: Scope
) -> None:
    """Its thread and its connection; one that nobody asked for never was."""
    before = threading.active_count()
    with open_storage(postgres.user) as storage:
        assert isinstance(storage, PostgresBackend)
        workspace = opened(storage, scope)
        workspace.create("note", {})
        assert superuser.execute(LISTENERS).fetchall() == []
        with workspace.subscribe() as subscription:
            assert len(subscription.take()) == 1
            listener(superuser)
    assert threading.active_count() <= before
    while superuser.execute(LISTENERS).fetchall():
        threading.Event().wait(0.002)


def test_a_fork_leaves_its_parents_listener_alone(
    storage: PostgresBackend,
    elsewhere: PostgresBackend,
    scope: Scope,
    follow: Callable[[Subscription], Callable[[], int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a child closes is the child's: the parent goes on hearing."""
    with opened(storage, scope).subscribe(poll_ms=NEVER_MS) as subscription:
        with monkeypatch.context() as patched:
            patched.setattr("os.getpid", lambda: 0)
            storage.close()
        next_seq = follow(subscription)
        opened(elsewhere, scope).create("note", {})
        assert next_seq() == 1


@pytest.fixture
def theirs(scope: Scope) -> Scope:
    """Another workspace of the same tenant."""
    return Scope(tenant=scope.tenant, workspace="theirs")


@pytest.fixture(params=["user", "owner"])
def raw(
    request: pytest.FixtureRequest,
    postgres: Server,
    storage: PostgresBackend,
    scope: Scope,
    theirs: Scope,
) -> Iterator[psycopg.Connection]:
    """A connection that goes around this package, where both workspaces have rows of each table."""
    for each in (scope, theirs):
        workspace = opened(storage, each)
        workspace.open_thread("t")
        assert workspace.claim_thread("t", "r") is not None
        workspace.record(Fact(thread="t", run="r", name="said"), history=b"1")
    with closing(psycopg.connect(getattr(postgres, request.param))) as connection:
        yield connection


def count(connection: psycopg.Connection, table: str) -> int:
    """How many rows of a table a connection sees."""
    statement = sql.SQL("select count(*) from snapshots.{}").format(sql.Identifier(table))
    row = connection.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def test_who_does_not_say_whose_rows_it_wants_sees_none(
    raw: psycopg.Connection, scope: Scope
) -> None:
    """As the role that uses the tables, and as the one that owns them; before and after."""
    assert [count(raw, table) for table in TABLES] == [0, 0, 0]
    raw.execute(SETTINGS, (scope.tenant, scope.workspace))
    assert [count(raw, table) for table in TABLES] == [2, 2, 1]
    raw.commit()
    assert [count(raw, table) for table in TABLES] == [0, 0, 0]


def test_rows_of_another_workspace_can_be_neither_changed_nor_made(
    raw: psycopg.Connection, scope: Scope, theirs: Scope
) -> None:
    """Asked for by name there are none, and what names another's place is refused."""
    for table in TABLES:
        name = sql.Identifier(table)
        raw.execute(SETTINGS, (scope.tenant, scope.workspace))
        for text in (
            "delete from {} where workspace = %s",
            "update {} set tenant = tenant where workspace = %s",
        ):
            target = sql.SQL("snapshots.") + name
            statement = sql.SQL(text).format(target)
            assert raw.execute(statement, (theirs.workspace,)).rowcount == 0
        move = sql.SQL("update snapshots.{} set workspace = %s").format(name)
        with pytest.raises(errors.InsufficientPrivilege):
            raw.execute(move, (theirs.workspace,))
        raw.rollback()
    raw.execute(SETTINGS, (theirs.tenant, theirs.workspace))
    assert [count(raw, table) for table in TABLES] == [2, 2, 1]


def test_the_first_release_goes_on_where_workspaces_were_added(
    postgres_server: str, scope: Scope
) -> None:
    """What it makes of the row of a workspace, which is its lock, is a log without entries."""
    with servers.database(postgres_server) as server:
        first, known = STEPS[:1], LEAST_KNOWN[:1]
        prepare(server.owner, role=server.role, steps=first, least_known=known)
        prepare(server.owner, role=server.role)
        with closing(psycopg.connect(server.user)) as connection:
            connection.execute(SETTINGS, (scope.tenant, scope.workspace))
            make = "insert into snapshots.workspaces (tenant, workspace) values (%s, %s)"
            connection.execute(make, (scope.tenant, scope.workspace))
            connection.commit()
        with open_storage(server.user) as storage:
            assert isinstance(storage, PostgresBackend)
            workspace = opened(storage, scope)
            assert workspace.seq() == 0
            workspace.create("note", {})
            assert [entry.seq for entry in workspace.read()] == [1]


def test_an_earlier_release_writes_lines_that_are_found_by_their_thread(
    postgres_server: str, scope: Scope
) -> None:
    """Those from before the step and those that code which does not know it writes after it."""
    line = """
insert into snapshots.workspace_log
  (tenant, workspace, seq, kind, subject, thread, run, at_ms, data)
values (%s, %s, %s, %s, 's', %s, null, 1, '{}')"""
    with servers.database(postgres_server) as server:
        prepare(server.owner, role=server.role, steps=STEPS[:2], least_known=LEAST_KNOWN[:2])

        def write(first: int) -> None:
            lines = (("fact", "t"), ("fact", "s"), ("artifact.created", "s"), ("fact", None))
            with closing(psycopg.connect(server.user)) as connection:
                connection.execute(SETTINGS, (scope.tenant, scope.workspace))
                for number, (kind, thread) in enumerate(lines, first):
                    place = (scope.tenant, scope.workspace)
                    connection.execute(line, (*place, number, kind, thread))
                connection.commit()

        write(1)
        prepare(server.owner, role=server.role)
        write(5)
        with open_storage(server.user) as storage:
            assert isinstance(storage, PostgresBackend)
            for newest in (False, True):
                found = storage.workspaces.delivered(
                    scope, "t", after_seq=0, limit=9, newest=newest
                )
                assert [row.seq for row in found] == [1, 3, 5, 7]


@pytest.mark.parametrize("statement", [workspaces.OLDEST, workspaces.NEWEST])
def test_a_threads_lines_are_found_by_an_index(
    postgres: Server,
    superuser: psycopg.Connection,
    storage: PostgresBackend,
    scope: Scope,
    statement: LiteralString,
) -> None:
    """Of a long log as many lines are read as are returned, under row-level security."""
    opened(storage, scope).create("note", {})
    superuser.execute(
        "insert into snapshots.workspace_log"
        " (tenant, workspace, seq, kind, subject, thread, run, at_ms, data)"
        " select %s, %s, n, 'fact', 's', case when n %% 1000 = 0 then 't' else 'other' end, 'r', 1,"
        " '{}' from generate_series(2, 5000) n",
        (scope.tenant, scope.workspace),
    )
    superuser.execute("analyze snapshots.workspace_log")
    values = {"tenant": scope.tenant, "workspace": scope.workspace, "thread": "t"}
    with closing(psycopg.connect(postgres.user)) as connection:
        connection.execute(SETTINGS, (scope.tenant, scope.workspace))
        explain: LiteralString = "explain (analyze, costs off, timing off, summary off) "
        found = connection.execute(
            explain + statement, {**values, "after_seq": 0, "limit": 3}
        ).fetchall()
    plan = [str(row[0]) for row in found]
    read = [float(told) for step in plan for told in re.findall(r"Scan.* rows=([\d.]+)", step)]
    assert sum("using workspace_audience" in step for step in plan) == 2, plan
    assert sum(read) <= 6, plan
    assert not any("Removed by Filter" in step for step in plan), plan


def test_a_listener_may_be_closed_at_any_moment(
    postgres: Server, superuser: psycopg.Connection, scope: Scope
) -> None:
    """While it connects, while it waits to connect again after a loss, or while it hears."""
    kill = "select pg_terminate_backend(%s)"
    for moment in range(12):
        with open_storage(postgres.user) as storage:
            assert isinstance(storage, PostgresBackend)
            with opened(storage, scope).subscribe():
                if moment % 3:
                    superuser.execute(kill, (listener(superuser),))
                threading.Event().wait(moment / 500)
