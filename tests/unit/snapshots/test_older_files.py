"""Files that an earlier release wrote: nothing of them is lost, and looking changes none."""

from __future__ import annotations

import fcntl
import json
import random
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import apsw
import pytest

from snapshots import (
    Mailbox,
    MigrationError,
    SqliteSnapshotStore,
    StorageBusyError,
    limits,
    open_store,
)
from snapshots.database import open_database
from snapshots.heads import HEADS_SINCE_SCHEMA, NUMBER_MAX
from snapshots.inspection.cli import run
from snapshots.inspection.queries.files import open_run_file
from snapshots.limits import NO_TIMER_MS, REVISION_FIRST
from snapshots.opening import open_store_for_mail
from snapshots.records import RunHeader, StoredRun
from snapshots.schema import APPLICATION_ID, MAIL_SINCE_SCHEMA, STEPS, migrate

WITH_COLUMNS = """
insert into runs (id, run_id, machine, digest, status, reason, revision, created_ms, updated_ms,
  ended_ms, due_ms, parked, blob)
values (?, ?, 'm', 'd', ?, ?, ?, ?, ?, ?, ?, ?, ?)"""


def rows() -> list[StoredRun]:
    """Return runs of every kind: long and short, waiting, ended, and gaps between their rows."""
    chance = random.Random(1)
    found = []
    for number in range(60):
        status = "live" if number % 3 else chance.choice(("done", "error", "lost"))
        header = RunHeader(
            row=3 * number + 1,
            run_id=f"run-{number:02}",
            machine="m",
            digest="d",
            status=status,  # type: ignore[arg-type]  # one of the seven
            reason=None if status == "live" else f"because {number}",
            revision=REVISION_FIRST + chance.randrange(10**6),
            created_ms=number,
            updated_ms=1_764_460_800_000 + number,
            ended_ms=None if status == "live" else 1_764_460_900_000,
            due_ms=chance.choice((NO_TIMER_MS, 1_764_460_800_500 + number)),
            parked=number % 2 == 0,
        )
        length = chance.choice((10, 3_000, 200_000))
        found.append(StoredRun(header=header, blob=chance.randbytes(length)))
    return found


def written(path: Path, schema: int, runs: list[StoredRun]) -> None:
    """Write a file as the release did that made this schema."""
    with open_database(path, application_id=APPLICATION_ID, known_schema=schema) as database:
        migrate(database, STEPS[:schema])
        with database.transaction("as an earlier release"):
            for stored in runs:
                row, run_id, _, _, status, reason, revision, *times, due_ms, parked = stored.header
                values = (row, run_id, status, reason, revision, *times, due_ms, int(parked))
                database.run(WITH_COLUMNS, (*values, stored.blob))


@pytest.mark.parametrize("schema", range(1, HEADS_SINCE_SCHEMA))
def test_every_run_of_an_older_file_is_there_after_its_migration(
    tmp_path: Path, schema: int
) -> None:
    """Under its row, with its revision and times, byte for byte; and it is saved again."""
    runs = rows()
    written(tmp_path / "state.db", schema, runs)
    with open_store(tmp_path / "state.db") as store:
        for stored in runs:
            assert store.load(stored.header.run_id) == stored
        live = [stored for stored in runs if stored.header.status == "live"]
        assert [found.header for found in store.live()] == [stored.header for stored in live]
        assert store.headers("live", limit=100)[::-1] == [stored.header for stored in live]
        header = store.save(live[5].header, b"[]")
        assert header.revision == live[5].header.revision + 1
        assert store.database.rows("check", "pragma integrity_check") == [("ok",)]


def test_a_timer_too_far_away_for_a_head_is_migrated(tmp_path: Path) -> None:
    """Nobody will see it fire, and it keeps no file from being opened."""
    stored = rows()[1]
    far = StoredRun(header=stored.header._replace(due_ms=2**62), blob=stored.blob)
    written(tmp_path / "state.db", 5, [far])
    with open_store(tmp_path / "state.db") as store:
        assert store.load(stored.header.run_id).header.due_ms == NUMBER_MAX


@pytest.mark.parametrize("schema", [1, HEADS_SINCE_SCHEMA - 1])
@pytest.mark.parametrize(
    "words",
    [
        ["runs", "--limit", "100"],
        ["runs", "--status", "live", "--limit", "100"],
        ["runs", "--waiting", "--limit", "100"],
        ["runs", "--busy", "--overdue", "--limit", "100"],
        ["runs", "--since", "2025-11-29T00:00:00Z", "--limit", "100"],
    ],
    ids=" ".join,
)
def test_an_older_file_is_listed_as_it_will_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], schema: int, words: list[str]
) -> None:
    """Each filter finds what it finds once the file is migrated; it is not migrated for that."""
    path = tmp_path / "state.db"
    written(path, schema, rows())
    before = path.read_bytes()
    shown = []
    for _ in range(2):
        run([*words, str(path), "--json"])
        shown.append(json.loads(capsys.readouterr().out))
        if len(shown) == 1:
            assert path.read_bytes() == before
            open_store(path).close()
    older, current = shown
    assert older["runs"], "the filter chose none"
    assert older["runs"] == current["runs"]


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file as a host does, whatever its release."""
    with Path(f"{path}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 7 on elsewhere")
        lock.flush()
        yield


def schema_of(path: Path) -> int:
    """Return the schema that a file says it has."""
    connection = apsw.Connection(str(path))
    found: int = connection.pragma("user_version")
    connection.close()
    return found


def test_the_host_of_an_older_file_keeps_its_form(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could write nothing to another one: who opens the file beside it is told so."""
    monkeypatch.setattr(limits, "OPEN_PATIENCE_MS", 20)
    path = tmp_path / "state.db"
    written(path, HEADS_SINCE_SCHEMA - 1, rows())
    with held(path):
        with pytest.raises(StorageBusyError, match="process 7 on elsewhere holds it") as caught:
            open_store(path)
        assert "earlier release" in caught.value.hint
        assert schema_of(path) == HEADS_SINCE_SCHEMA - 1
    open_store(path).close()
    assert schema_of(path) == HEADS_SINCE_SCHEMA
    with held(path):
        open_store(path).close()


@pytest.mark.parametrize("is_held", [False, True])
def test_what_is_handed_in_leaves_an_older_file_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_held: bool
) -> None:
    """The host that takes it may be one of the earlier release."""
    path = tmp_path / "state.db"
    written(path, HEADS_SINCE_SCHEMA - 1, rows())
    with held(path) if is_held else nullcontext():
        assert run(["send", "run-01", "go", str(path), "--wait", "0"]) == 0
        assert run(["cancel", "run-02", str(path), "--wait", "0"]) == 0
    assert "accepted as 1" in capsys.readouterr().out
    assert schema_of(path) == HEADS_SINCE_SCHEMA - 1
    with open_store(path) as store:
        handed = [(entry.run_id, entry.kind) for entry in Mailbox(store).pending()]
    assert handed == [("run-01", "send"), ("run-02", "cancel")]


def test_what_is_handed_in_gives_a_file_a_mailbox_and_no_more(tmp_path: Path) -> None:
    """The host that has it open can still save its runs: their columns are those that it knows."""
    path = tmp_path / "state.db"
    written(path, 1, rows())
    with held(path):
        assert run(["send", "run-01", "go", str(path), "--wait", "0"]) == 0
    assert schema_of(path) == MAIL_SINCE_SCHEMA
    with open_store(path) as store:
        assert [entry.run_id for entry in Mailbox(store).pending()] == ["run-01"]


ABOUT_RUNS: dict[str, Callable[[SqliteSnapshotStore, RunHeader], object]] = {
    "load": lambda store, header: store.load(header.run_id),
    "live": lambda store, _: [*store.live()],
    "live_at": lambda store, header: store.live_at(header.row),
    "survey": lambda store, _: [*store.survey()],
    "headers": lambda store, _: store.headers("live"),
    "create": lambda store, _: store.create(
        run_id="new", machine="m", digest="d", shape=b"{}", blob=b""
    ),
    "save": lambda store, header: store.save(header, b"[]"),
    "mark": lambda store, header: store.mark(header, "lost", None),
    "migrate": lambda store, header: store.migrate(
        header, b"[]", machine="m", digest="d", shape=b"{}"
    ),
}


@pytest.mark.parametrize("about", ABOUT_RUNS)
def test_who_opened_an_older_file_for_its_mailbox_is_told_why_no_run_is_read(
    tmp_path: Path, about: str
) -> None:
    """By a typed error that says what to do; ids and mail are there, and nothing has changed."""
    path, stored = tmp_path / "state.db", rows()[1]
    written(path, HEADS_SINCE_SCHEMA - 1, [stored])
    with open_store_for_mail(path) as store:
        with pytest.raises(MigrationError, match="open_store") as caught:
            ABOUT_RUNS[about](store, stored.header)
        assert caught.value.subject == store.path
        assert store.resolve("run-") == stored.header.run_id
        assert Mailbox(store).put("run-01", "send", b"{}") == 1
    with open_store(path) as store:
        assert [*store.live()] == [stored]
    with open_store_for_mail(path) as store:
        assert store.load("run-01") == stored


def damaged(path: Path, before: bytes, after: bytes) -> None:
    """Write over bytes of a file that nobody has open, as a fault of its disk would."""
    content = path.read_bytes()
    assert content.count(before) == 1
    path.write_bytes(content.replace(before, after))


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (b"run-07mdlive", b"run-07mdlivf", "row 22, run 'run-07': its status is 'livf'"),
        (b"run-07mdlive", b"run-08mdlive", "row 25, run 'run-08': another row has that id"),
        (b"run-07mdlive", b"run-\xff7mdlive", None),
    ],
    ids=["a status", "an id that is there twice", "an id that is no text"],
)
def test_a_run_that_keeps_an_older_file_from_being_copied_is_named(
    tmp_path: Path, before: bytes, after: bytes, told: str | None
) -> None:
    """And the file stays as it was, for the release that runs all others."""
    path = tmp_path / "state.db"
    written(path, HEADS_SINCE_SCHEMA - 1, rows())
    damaged(path, before, after)
    if told is None:
        open_store(path).close()
        assert schema_of(path) == HEADS_SINCE_SCHEMA
        return
    with pytest.raises(MigrationError, match=re.escape(told)):
        open_store(path)
    assert schema_of(path) == HEADS_SINCE_SCHEMA - 1


@pytest.mark.parametrize(
    "damage",
    [
        "update runs set revision = 1 << 62 where id = 22",
        "update runs set updated_ms = 1 << 62 where id = 22",
        "update runs set due_ms = -(1 << 62) where id = 22",
        "update runs set parked = 10 where id = 22",
    ],
)
def test_a_number_that_no_head_can_hold_is_named_too(tmp_path: Path, damage: str) -> None:
    """No release has written one: nobody can say what it was."""
    path = tmp_path / "state.db"
    written(path, HEADS_SINCE_SCHEMA - 1, rows())
    connection = apsw.Connection(str(path))
    connection.execute(damage)
    connection.close()
    with pytest.raises(MigrationError, match=r"row 22, run 'run-07': .* is out of bounds"):
        open_store(path)
    assert schema_of(path) == HEADS_SINCE_SCHEMA - 1


def test_a_blob_that_breaks_off_is_named_too(tmp_path: Path) -> None:
    """The page that its first one names is none of the file."""
    path = tmp_path / "state.db"
    runs = rows()
    written(path, HEADS_SINCE_SCHEMA - 1, runs)
    long = next(stored for stored in runs if len(stored.blob) > 100_000)
    content = bytearray(path.read_bytes())
    # A page behind the first of a long row: the number of the next one, then 4,092 bytes of it.
    middle = content.find(long.blob[50_000:50_100])
    page = middle // limits.PAGE_BYTES * limits.PAGE_BYTES
    content[page : page + 4] = b"\xff" * 4
    path.write_bytes(content)
    with pytest.raises(MigrationError, match=f"run '{long.header.run_id}': it cannot be read"):
        open_store(path)
    assert schema_of(path) == HEADS_SINCE_SCHEMA - 1


def test_a_file_that_is_migrated_while_it_is_looked_at_is_looked_at_anew(tmp_path: Path) -> None:
    """Between two questions, and in the middle of one."""
    path = tmp_path / "state.db"
    written(path, HEADS_SINCE_SCHEMA - 1, rows())
    seen: list[str] = []

    def migrate_now(sql: str, _values: object) -> None:
        if "printf" in sql and not seen:
            seen.append(sql)
            open_store(path).close()

    with open_run_file(path) as file:
        before = file.find("run-01")
        file._database.trace_statements(migrate_now)
        assert file.find("run-01") == before
        assert seen, "the file was not migrated in between"
        assert file.find("run-01") == before
