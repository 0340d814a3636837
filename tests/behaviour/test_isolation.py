"""Row-level security: what a connection sees of a workspace that is not its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg import errors, sql

from snapshots import limits
from snapshots.errors import InvalidKeyError
from snapshots.opening import open_storage
from snapshots.storage import Scope
from snapshots.storage.backends.postgres import PostgresBackend, backend, carry, keyed, leases
from snapshots.testing import ManualClock
from tests.behaviour.servers import Server

TABLES = """
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'snapshots' and c.relkind = 'r' and c.relname <> 'steps' order by 1"""
UNGUARDED = """
select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
where n.nspname = 'snapshots' and c.relkind = 'r' and c.relname <> 'steps'
  and not (c.relrowsecurity and c.relforcerowsecurity)"""
ROLES = "select rolsuper, rolbypassrls from pg_roles where rolname = current_user"
OWNED = """
select count(*) from pg_tables where schemaname = 'snapshots' and tableowner = current_user"""
# The collation of each text column of each index.
COLLATIONS = """
select c.relname, a.attname, co.collname
from pg_index i
join pg_class c on c.oid = i.indrelid
join pg_namespace n on n.oid = c.relnamespace
cross join generate_series(0, i.indnkeyatts - 1) as part
join pg_attribute a on a.attrelid = c.oid and a.attnum = i.indkey[part]
left join pg_collation co on co.oid = i.indcollation[part]
where n.nspname = 'snapshots' and a.atttypid = 'text'::regtype"""
SETTINGS = """
select set_config('snapshots.tenant', %s, true), set_config('snapshots.workspace', %s, true)"""
LEFT = "select current_setting('snapshots.tenant'), current_setting('snapshots.workspace')"
FILLED = ("carry", "keyed", "lease_floors", "leases", "workspaces")


@pytest.fixture
def theirs(scope: Scope) -> Scope:
    """Another workspace of the same tenant."""
    return Scope(tenant=scope.tenant, workspace="theirs", workflow=scope.workflow)


@pytest.fixture
def storage(postgres: Server, scope: Scope, theirs: Scope) -> Iterator[PostgresBackend]:
    """A storage with a row of each kind in both workspaces, by a clock behind all expiries."""
    clock = ManualClock()
    with open_storage(postgres.user, clock=clock) as opened:
        assert isinstance(opened, PostgresBackend)
        for each in (scope, theirs):
            assert opened.leases.acquire(each, "swept", ttl_ms=10) is not None
        clock.advance(10)
        while opened.sweep():
            pass
        for each in (scope, theirs):
            opened.keyed.put(each, "a", b"1")
            opened.keyed.put(each, "expired", b"1", ttl_ms=1)
            assert opened.leases.acquire(each, "lock", ttl_ms=10) is not None
            opened.carry.save(each, "a", contract_version=1, payload=b"", expected_revision=0)
        clock.advance(10)
        yield opened


@pytest.fixture(params=["user", "owner"])
def raw(
    request: pytest.FixtureRequest, postgres: Server, storage: PostgresBackend
) -> Iterator[psycopg.Connection]:
    """A connection that goes around this package, as the role that uses the tables or owns them."""
    assert storage.path
    with closing(psycopg.connect(getattr(postgres, request.param))) as connection:
        yield connection


def count(connection: psycopg.Connection, table: str, where: LiteralString = "true") -> int:
    """How many rows of a table a connection sees."""
    statement = sql.SQL("select count(*) from snapshots.{} where {}")
    row = connection.execute(statement.format(sql.Identifier(table), sql.SQL(where))).fetchone()
    assert row is not None
    return int(row[0])


def scoped(connection: psycopg.Connection, scope: Scope) -> None:
    """Begin a transaction of a workspace."""
    connection.rollback()
    connection.execute(SETTINGS, (scope.tenant, scope.workspace))


def test_the_role_under_test_is_an_ordinary_one(postgres: Server) -> None:
    """It owns no table and bypasses nothing; the owner does not bypass either."""
    with closing(psycopg.connect(postgres.user)) as connection:
        assert connection.execute(ROLES).fetchone() == (False, False)
        assert connection.execute(OWNED).fetchone() == (0,)
    with closing(psycopg.connect(postgres.owner)) as connection:
        assert connection.execute(ROLES).fetchone() == (False, False)
        assert connection.execute(OWNED).fetchone() != (0,)


def test_every_table_is_guarded_even_from_its_owner(postgres: Server) -> None:
    """Row-level security is enabled and forced on all tables that hold anybody's rows."""
    with closing(psycopg.connect(postgres.user)) as connection:
        assert set(FILLED) <= {row[0] for row in connection.execute(TABLES)}
        assert connection.execute(UNGUARDED).fetchall() == []


def test_every_text_of_a_key_is_ordered_by_code_points(postgres: Server) -> None:
    """The catalogue gives collation "C" for each text column of each index.

    The test server has no linguistic locale whose order would show another one.
    """
    with closing(psycopg.connect(postgres.user)) as connection:
        found = connection.execute(COLLATIONS).fetchall()
    assert {("keyed", "key", "C"), ("leases", "name", "C"), ("carry", "key", "C")} <= set(found)
    assert [row for row in found if row[2] != "C"] == []


def test_without_a_workspace_nothing_is_seen(raw: psycopg.Connection) -> None:
    """A connection that has not said whose it is sees no row and changes none."""
    tables = [row[0] for row in raw.execute(TABLES)]
    for table in tables:
        assert count(raw, table) == 0
        deleted = raw.execute(sql.SQL("delete from snapshots.{}").format(sql.Identifier(table)))
        assert deleted.rowcount == 0


@pytest.mark.parametrize("setting", [("", ""), (None, None), ("%", "%")])
def test_a_workspace_that_says_nothing_is_none(
    raw: psycopg.Connection, setting: tuple[str | None, str | None]
) -> None:
    """An empty setting, one of null, a wildcard: each shows nothing."""
    raw.execute(SETTINGS, setting)
    assert [count(raw, table) for table in FILLED] == [0] * len(FILLED)


def test_a_workspace_sees_its_own_rows_only(
    raw: psycopg.Connection, scope: Scope, theirs: Scope
) -> None:
    """Each of the two sees one row where both have one; so does its tenant alone, none."""
    for mine in (scope, theirs):
        scoped(raw, mine)
        for table in FILLED:
            assert count(raw, table) >= 1
            assert count(raw, table, "workspace <> current_setting('snapshots.workspace')") == 0
    raw.rollback()
    raw.execute("select set_config('snapshots.tenant', %s, true)", (scope.tenant,))
    assert [count(raw, table) for table in FILLED] == [0] * len(FILLED)


def test_a_row_cannot_be_given_to_another_workspace(
    raw: psycopg.Connection, scope: Scope, theirs: Scope
) -> None:
    """Neither by writing it there nor by moving one's own."""
    insert = "insert into snapshots.keyed values (%s, %s, 'flow', 'planted', null, '')"
    for statement, values in (
        (insert, (theirs.tenant, theirs.workspace)),
        ("update snapshots.keyed set workspace = %s", (theirs.workspace,)),
        ("update snapshots.carry set workspace = %s", (theirs.workspace,)),
        ("update snapshots.leases set workspace = %s", (theirs.workspace,)),
    ):
        scoped(raw, scope)
        with pytest.raises(errors.InsufficientPrivilege):
            raw.execute(statement, values)


def test_a_workspace_ends_with_its_transaction(raw: psycopg.Connection, scope: Scope) -> None:
    """The same connection sees nothing in the next one, whether it committed or not."""
    for end in (raw.commit, raw.rollback):
        scoped(raw, scope)
        assert count(raw, "keyed") >= 1
        end()
        assert [count(raw, table) for table in FILLED] == [0] * len(FILLED)


# What every verb of the backend runs, with the values of another workspace.
READS = {
    "get": keyed.GET,
    "exists": keyed.EXISTS,
    "list": keyed.LIST,
    "read a lease": leases.READ,
    "load": carry.LOAD,
    "actual": carry.ACTUAL,
}
CHANGES = {
    "replace": keyed.REPLACE,
    "delete": keyed.DELETE,
    "renew": leases.RENEW,
    "save": carry.SAVE,
    "clear": carry.CLEAR,
    "sweep keys": backend.SWEEP_KEYED,
}
WRITES = {
    "put": keyed.PUT,
    "put if absent": keyed.PUT_IF_ABSENT,
    "acquire": leases.ACQUIRE,
    "create": carry.CREATE,
    "raise a floor": backend.RAISE_FLOOR,
}


def values(scope: Scope, key: str = "a") -> dict[str, Any]:
    """Values for every statement of the backend."""
    place = {"tenant": scope.tenant, "workspace": scope.workspace, "workflow": scope.workflow}
    lease = {"name": "lock", "holder": "h", "token": 2, "ttl": 10}
    listed = {"prefix": "", "after": "", "end": "b", "limit": 10}
    state = {"value": b"2", "payload": b"2", "contract_version": 1, "expected": 1}
    return {**place, **lease, **listed, **state, "key": key, "now": 0}


@pytest.mark.parametrize("verb", [*READS, *CHANGES])
def test_a_verb_finds_nothing_in_another_workspace(
    raw: psycopg.Connection, scope: Scope, theirs: Scope, verb: str
) -> None:
    """Even a statement that asks for another's row by name gets none, and changes none."""
    statement = {**READS, **CHANGES}[verb]
    scoped(raw, theirs)
    assert raw.execute(statement, values(theirs)).rowcount >= (verb != "sweep keys")
    scoped(raw, scope)
    assert raw.execute(statement, values(theirs)).rowcount == 0


@pytest.mark.parametrize("verb", WRITES)
def test_a_verb_writes_nothing_into_another_workspace(
    raw: psycopg.Connection, scope: Scope, theirs: Scope, verb: str
) -> None:
    """A statement that names another's place is refused, whether a row is there or not."""
    for key in ("a", "new"):
        scoped(raw, scope)
        with pytest.raises(errors.InsufficientPrivilege):
            raw.execute(WRITES[verb], values(theirs, key))


def test_a_sweep_may_look_at_what_has_expired_and_touch_nothing(
    raw: psycopg.Connection, scope: Scope
) -> None:
    """Of another workspace it sees expired rows only, and can change none of them."""
    show = "select set_config('snapshots.swept_ms', %s, true)"
    raw.execute(show, (str(2**62),))
    mine: LiteralString = "expires_ms is not null"
    assert count(raw, "keyed", mine) == count(raw, "keyed") >= 2
    assert count(raw, "leases") >= 2
    for table in ("carry", "lease_floors", "workspaces"):
        assert count(raw, table) == 0
    for table in ("keyed", "leases"):
        for text in ("delete from snapshots.{}", "update snapshots.{} set workspace = 'mine'"):
            statement = sql.SQL(text).format(sql.Identifier(table))
            assert raw.execute(statement).rowcount == 0
    raw.commit()
    assert count(raw, "keyed") == 0
    assert scope


def test_a_pooled_connection_remembers_nobody(
    postgres: Server, scope: Scope, theirs: Scope, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same connection serves one workspace, then another, then none: nothing leaks."""
    monkeypatch.setattr(limits, "POSTGRES_CONNECTIONS_MAX", 1)
    with open_storage(postgres.user) as opened:
        assert isinstance(opened, PostgresBackend)
        connections = opened._connections
        with connections.working(scope, "look") as work:
            first = work.connection
        opened.keyed.put(scope, "a", b"mine")
        assert opened.keyed.get(theirs, "a") is None
        opened.keyed.put(theirs, "a", b"theirs")
        assert [entry.value for entry in opened.keyed.list(scope)] == [b"mine"]
        assert [entry.value for entry in opened.keyed.list(theirs)] == [b"theirs"]
        with pytest.raises(InvalidKeyError), opened.transaction(scope):
            opened.keyed.put(scope, "", b"refused, and the block with it")
        with connections.connected("look") as connection:
            assert connection is first
            assert [count(connection, table) for table in FILLED] == [0] * len(FILLED)
        assert opened.keyed.get(theirs, "a") == b"theirs"
        # As the pool gives it out, before anybody has said whose it is.
        with connections._pool.connection() as connection:
            assert connection is first
            assert connection.execute(LEFT).fetchone() == ("", "")
            assert [count(connection, table) for table in FILLED] == [0] * len(FILLED)
        assert opened.keyed.get(theirs, "a") == b"theirs"
