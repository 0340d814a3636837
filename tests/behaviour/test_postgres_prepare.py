"""What `prepare_storage` refuses, and that it has then changed nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg import sql

from snapshots.errors import InvalidKeyError, MigrationError, StorageError
from snapshots.opening import prepare_storage
from tests.behaviour import servers
from tests.behaviour.servers import Server

SCHEMAS = "select count(*) from pg_namespace where nspname = 'snapshots'"


@pytest.fixture
def blank(postgres_server: str) -> Iterator[Server]:
    """A database without our schema."""
    with servers.database(postgres_server) as server:
        yield server


@pytest.fixture
def superuser(blank: Server) -> Iterator[psycopg.Connection]:
    """A connection that may do anything."""
    with closing(psycopg.connect(blank.superuser, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def unbound(blank: Server, superuser: psycopg.Connection) -> Iterator[str]:
    """A role that bypasses row-level security, and is no superuser."""
    name = f"{blank.role}_unbound"
    superuser.execute(sql.SQL("create role {} bypassrls").format(sql.Identifier(name)))
    yield name
    superuser.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


def test_a_role_that_no_policy_applies_to_is_refused(
    blank: Server, superuser: psycopg.Connection, unbound: str
) -> None:
    """A superuser, or one with BYPASSRLS: row-level security would separate nobody."""
    for role in (superuser.info.user, unbound):
        with pytest.raises(MigrationError) as caught:
            prepare_storage(blank.owner, role=role)
        assert f"role {role!r} is a superuser or has BYPASSRLS" in caught.value.reason
    assert superuser.execute(SCHEMAS).fetchone() == (0,)
    prepare_storage(blank.owner, role=blank.role)


def test_a_role_that_is_not_there_is_asked_for(
    blank: Server, superuser: psycopg.Connection
) -> None:
    """The error says to create it, and the database is as it was."""
    with pytest.raises(MigrationError) as caught:
        prepare_storage(blank.owner, role="nobody here")
    assert "there is no role 'nobody here'" in caught.value.reason
    assert "create it first" in caught.value.reason
    for wrong in ("half \ud800", "a\x00"):
        with pytest.raises(InvalidKeyError):
            prepare_storage(blank.owner, role=wrong)
    assert superuser.execute(SCHEMAS).fetchone() == (0,)


@pytest.mark.parametrize(
    ("place", "shown"),
    [
        ("state.db", "state.db"),
        ("sqlite:///state.db", "sqlite://…"),
        ("host=db password=hush", "…"),
        ("mysql://me:hush@db/app", "mysql://…"),
    ],
)
def test_only_a_database_of_postgresql_is_prepared(place: str, shown: str) -> None:
    """Any other place is named, without what may be a password in it."""
    with pytest.raises(StorageError) as caught:
        prepare_storage(place)
    assert caught.value.path == shown
    assert "only a database of PostgreSQL is prepared" in caught.value.hint
    assert "hush" not in str(caught.value)
