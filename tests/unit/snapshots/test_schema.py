"""The form of a file: made whole or not at all, and known by its number."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import ForeignFileError, Mailbox, NewerFileError, StorageError, open_store
from snapshots.database import Database, open_database
from snapshots.schema import APPLICATION_ID, SCHEMA_VERSION, STEPS, migrate

OBJECTS = "select type, name from sqlite_schema where name not like 'sqlite_%' order by name"
COLUMNS = "select name, type, \"notnull\" from pragma_table_info('runs') order by cid"
NUMBER = len(STEPS) + 1
NEXT = ("create table plans (id integer primary key) strict", f"pragma user_version = {NUMBER}")


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """A new file, before its first step."""
    path = tmp_path / "state.db"
    with open_database(path, application_id=APPLICATION_ID, known_schema=NUMBER) as opened:
        yield opened


def version(database: Database) -> object:
    """The number of the schema that the file has."""
    return database.connection.pragma("user_version")


def test_a_new_file_has_the_tables_and_indexes_of_the_design(database: Database) -> None:
    """Those of the runs and their mailbox, of keys, leases and carry state, of workspaces."""
    migrate(database)
    assert database.rows("look", OBJECTS) == [
        ("table", "carry"),
        ("table", "keyed"),
        ("index", "keyed_expiring"),
        ("table", "lease_floors"),
        ("table", "leases"),
        ("index", "leases_expiring"),
        ("table", "mailbox"),
        ("index", "mailbox_pending"),
        ("index", "mailbox_settled"),
        ("table", "owner"),
        ("table", "runs"),
        ("index", "runs_ended"),
        ("index", "runs_live"),
        ("table", "shapes"),
        ("index", "workspace_audience"),
        ("table", "workspace_entities"),
        ("table", "workspace_history"),
        ("index", "workspace_labels"),
        ("table", "workspace_log"),
        ("table", "workspaces"),
    ]
    assert version(database) == SCHEMA_VERSION
    assert database.connection.pragma("application_id") == APPLICATION_ID


def test_the_blob_is_the_last_column_of_a_run(database: Database) -> None:
    """A header is read without it, and what a save changes has one width, never NULL."""
    migrate(database)
    columns = database.rows("look", COLUMNS)
    assert columns[-1] == ("blob", "BLOB", 1)
    by_name = {name: (kind, required) for name, kind, required in columns}
    assert by_name["head"] == ("BLOB", 1)


@pytest.mark.parametrize("status", ["", "Live", "finished", None])
def test_a_status_that_nobody_knows_is_refused_by_the_file(
    database: Database, status: str | None
) -> None:
    """Whatever writes a row, its status is one of the seven."""
    migrate(database)
    insert = "insert into runs values (null, 'a', 'm', 'd', ?, null, 1, null, zeroblob(52), x'')"
    with pytest.raises(StorageError, match="constraint"), database.transaction("write"):
        database.run(insert, (status,))


def test_a_file_that_is_current_is_not_written_when_it_is_opened(tmp_path: Path) -> None:
    """Opening a file a second time takes no lock and writes no byte."""
    open_store(tmp_path / "state.db").close()
    before = (tmp_path / "state.db").read_bytes()
    seen: list[str] = []
    path = tmp_path / "state.db"
    with open_database(
        path, application_id=APPLICATION_ID, known_schema=SCHEMA_VERSION
    ) as database:
        database.trace_statements(lambda sql, _: seen.append(sql))
        migrate(database)
        database.trace_statements(None)
        assert database.stats().wal_bytes == 0
    assert seen
    assert all(statement.startswith("select") for statement in seen)
    assert (tmp_path / "state.db").read_bytes() == before


def test_a_step_and_its_record_are_one_transaction(database: Database) -> None:
    """A step that fails at its last statement leaves the file as it was, number included."""
    migrate(database)
    broken = (*NEXT[:1], "create table plans (id integer primary key) strict", NEXT[1])
    with pytest.raises(StorageError, match=f"schema {NUMBER}"):
        migrate(database, (*STEPS, broken))
    assert version(database) == SCHEMA_VERSION
    assert ("table", "plans") not in database.rows("look", OBJECTS)
    migrate(database, (*STEPS, NEXT))
    assert version(database) == NUMBER
    assert ("table", "plans") in database.rows("look", OBJECTS)


def test_a_step_must_end_with_its_own_number(database: Database) -> None:
    """A step that forgets its record is found when it is first taken, and undone."""
    with pytest.raises(AssertionError, match=f"step {NUMBER}"):
        migrate(database, (*STEPS, NEXT[:1]))
    assert version(database) == SCHEMA_VERSION
    assert ("table", "plans") not in database.rows("look", OBJECTS)


def test_a_file_that_went_ahead_meanwhile_is_refused(database: Database) -> None:
    """Between the first look and the lock a later release may have taken its own step."""
    migrate(database, (*STEPS, NEXT))
    with pytest.raises(NewerFileError) as caught:
        migrate(database, STEPS)
    assert (caught.value.found, caught.value.known) == (NUMBER, SCHEMA_VERSION)


def test_a_file_of_each_earlier_schema_is_brought_to_the_last(tmp_path: Path) -> None:
    """What an earlier release stored is there afterwards, and found by the new indexes."""
    for number in range(1, SCHEMA_VERSION):
        path = tmp_path / f"{number}.db"
        with open_database(path, application_id=APPLICATION_ID, known_schema=number) as database:
            migrate(database, STEPS[:number])
            with database.transaction("hand in"):
                database.run(
                    "insert into mailbox (run_id, kind, data, created_ms, outcome, settled_ms)"
                    " values ('a', 'send', x'7b7d', 1, null, null),"
                    " ('b', 'send', x'7b7d', 1, 'taken', 2)"
                )
        with open_store(path) as store:
            assert version(store.database) == SCHEMA_VERSION
            mailbox = Mailbox(store)
            assert [found.run_id for found in mailbox.pending()] == ["a"]
            assert mailbox.sweep(3) == 1


@pytest.mark.parametrize("statement", ["create table songs (id)", "pragma application_id = 77"])
def test_a_file_that_became_anothers_meanwhile_is_left_alone(
    database: Database, statement: str
) -> None:
    """The first step is taken only in a file that is still blank, looked at under the lock."""
    with database.transaction("as another program"):
        database.run(statement)
    with pytest.raises(ForeignFileError):
        migrate(database)
    assert version(database) == 0
    assert ("table", "runs") not in database.rows("look", OBJECTS)


KILLED = """
import os, signal, sys
from snapshots.database import open_database
from snapshots.schema import APPLICATION_ID, migrate
left = int(sys.argv[2])

def count(sql, bindings):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

database = open_database(sys.argv[1], application_id=APPLICATION_ID, known_schema=99)
database.trace_statements(count)
migrate(database)
print("done", flush=True)
os._exit(0)
"""


def test_a_process_that_is_killed_in_a_step_leaves_a_whole_file(tmp_path: Path) -> None:
    """Killed before any statement of a step, the file is as it was; after it, at the next."""
    whole = {0: 0, 1: 6, 2: 8, 3: 14, 4: 19, 5: 20, 6: 20}
    assert len(whole) == SCHEMA_VERSION + 1
    statement, done = 0, False
    while not done:
        statement += 1
        path = tmp_path / f"{statement}.db"
        process = subprocess.run(
            [sys.executable, "-c", KILLED, os.fspath(path), str(statement)],
            capture_output=True,
            text=True,
            check=False,
            cwd=Path(__file__).parents[3],
        )
        assert process.stderr == ""
        done = process.stdout == "done\n"
        with open_database(path, application_id=APPLICATION_ID, known_schema=99) as database:
            assert (version(database), len(database.rows("look", OBJECTS))) in whole.items()
            migrate(database)
            assert version(database) == SCHEMA_VERSION
            assert len(database.rows("look", OBJECTS)) == whole[SCHEMA_VERSION]
    assert statement > sum(map(len, STEPS))
