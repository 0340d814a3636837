"""`snapshots export` and `snapshots fork`: one run taken out of a file, which nobody disturbs."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from snapshots.database import open_database
from snapshots.inspection.cli import run
from snapshots.opening import open_store
from snapshots.schema import APPLICATION_ID, STEPS, migrate
from snapshots.store import SqliteSnapshotStore
from tests.unit.snapshots.inspection.cli.command_line import (
    COMMAND,
    command,
    environment,
    on_terminal,
)
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SHAPE,
    add,
    encoded,
    run_of,
    run_value,
)

EVIL = "\x1b]0;owned\x07\u202e"


def told(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run a command; return its code and what it printed and told."""
    code = run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


# -- export -----------------------------------------------------------------------------------


def test_an_export_is_the_whole_run_as_one_document(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Row, blob as it is read, shape: what a program needs to know of the run."""
    code, out, err = told(capsys, "export", RUN[:8], store.path)
    assert (code, err, out.count("\n")) == (0, "", 1)
    document = json.loads(out)
    assert document.keys() == {
        *("format", "exported_ms", "run", "row", "unreadable", "blob", "shape", "mail"),
    }
    assert document["run"]["run"] == RUN
    assert document["shape"] == SHAPE
    assert document["unreadable"] is None
    assert document["blob"]["root"]["context"]["amount"] == {"$": "decimal", "v": "1.20"}
    assert [timer["id"] for timer in document["blob"]["timers"]] == ["t2", "t1"]
    assert document["row"]["bytes"] == len(encoded(run_value()))


def test_raw_is_the_blob_byte_for_byte(store: SqliteSnapshotStore) -> None:
    """Also one that is no JSON, and no text."""
    blob = bytes(range(256))
    add(store, "raw", blob=blob)
    done = subprocess.run(
        [*COMMAND, "export", "raw", store.path, "--raw"],
        capture_output=True,
        check=True,
        env=environment(),
        timeout=25,
    )
    assert (done.stdout, done.stderr) == (blob, b"")


def test_raw_bytes_go_to_no_terminal(store: SqliteSnapshotStore) -> None:
    """Nothing in a blob is for a terminal to obey."""
    add(store, "raw", blob=EVIL.encode())
    assert on_terminal("export", "raw", store.path, "--raw", columns=80) == ""
    assert "\x1b" not in on_terminal("export", "raw", store.path, columns=80)


def test_an_export_of_what_cannot_be_read_holds_its_bytes(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1, the reason, and all that is there, in base64."""
    add(store, "bad", blob=b"{\x00" + EVIL.encode())
    code, out, _ = told(capsys, "export", "bad", store.path)
    document = json.loads(out)
    assert code == 1
    assert document["blob"] is None
    assert "JSON" in document["unreadable"]
    assert base64.b64decode(document["raw"]) == b"{\x00" + EVIL.encode()


def test_nothing_in_a_document_is_obeyed_by_a_terminal(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever texts a run holds, the document has printable characters only."""
    add(store, "evil", machine=EVIL, blob=encoded(run_of(EVIL, "evil")))
    _, out, _ = told(capsys, "export", "evil", store.path)
    assert out.rstrip("\n").isprintable()
    assert json.loads(out)["blob"]["input"] == {EVIL: EVIL}


def test_an_output_is_for_its_owners_eyes_and_replaces_nothing(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Mode 0600; an existing file is refused until it is forced, and stays whole till then."""
    target = tmp_path / "run.json"
    code, out, err = told(capsys, "export", RUN, store.path, "--output", target)
    assert (code, out) == (0, "")
    assert str(target) in err
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    assert json.loads(target.read_bytes())["run"]["run"] == RUN
    target.write_text("mine")
    code, out, err = told(capsys, "export", RUN, store.path, "--output", target)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--force" in err
    assert target.read_text() == "mine"
    assert told(capsys, "export", RUN, store.path, "--output", target, "--force")[0] == 0
    assert json.loads(target.read_bytes())["run"]["run"] == RUN
    assert not [path for path in tmp_path.iterdir() if "unfinished" in path.name]


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal", ".lock"])
def test_an_output_never_lands_on_the_file_of_runs(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], suffix: str
) -> None:
    """Neither by its name nor by a link to it, even if it is forced."""
    own = Path(f"{store.path}{suffix}")
    # By inode: to read it here would drop the locks that this process has on it.
    before = own.stat().st_ino if own.exists() else None
    link = tmp_path / "link"
    link.symlink_to(own)
    for target in (own, link):
        code, _, err = told(capsys, "export", RUN, store.path, "--output", target, "--force")
        assert code == 2
        assert "file of runs itself" in err
    assert (own.stat().st_ino if own.exists() else None) == before
    assert store.load(RUN).header.run_id == RUN


@pytest.mark.parametrize(
    "options",
    [("--force",), ("--output", "no/such/folder"), ("--output", "."), ("--output", "x" * 300)],
)
def test_an_output_that_cannot_be_is_one_line(
    store: SqliteSnapshotStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
) -> None:
    """No folder, a folder, a name too long, nothing to force: exit code 2 and what to do."""
    monkeypatch.chdir(tmp_path)
    code, out, err = told(capsys, "export", RUN, store.path, *options)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "unexpected" not in err


def test_a_full_disk_leaves_no_half_of_an_export(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """A write that the system refuses is a typed error, and nothing has the name."""
    code, out, err = told(capsys, "export", RUN, store.path, "--output", "/dev/full/x")
    assert (code, out) == (2, "")
    assert "unexpected" not in err


# -- fork -------------------------------------------------------------------------------------


def test_a_fork_says_what_became_of_the_run(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, or as a document; the new file is shown as any other."""
    code, out, err = told(capsys, "fork", RUN, tmp_path / "a.db", store.path)
    assert (code, err) == (0, "")
    assert out == (
        f"{tmp_path}/a.db: run {RUN} (live), 2 effects in doubt, 1 invoke ended,"
        " 1 invoke not begun, 2 timers held, 2 queued events held\n"
    )
    code, out, _ = told(
        capsys, "fork", RUN, tmp_path / "b.db", store.path, "--as", "mine", "--json"
    )
    document = json.loads(out)
    assert (document["run"], document["source_run"]) == ("mine", RUN)
    assert document["in_doubt"] == ["mine/asking.3", "mine/asking.4"]
    _, shown, _ = told(capsys, "show", "mine", tmp_path / "b.db")
    assert f"fork of run '{RUN}'" in shown
    assert shown.count("in doubt") > 2


def test_a_fork_is_made_of_a_file_that_another_process_writes(
    store: SqliteSnapshotStore, tmp_path: Path
) -> None:
    """The command reads beside the writer, whose transaction it neither sees nor waits for."""
    with store.transaction():
        add(store, "new")
        done = command("fork", RUN, tmp_path / "a.db", store.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert stat.S_IMODE((tmp_path / "a.db").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("a.")) == [
        "a.db"
    ]


@pytest.mark.parametrize(
    ("blob", "why"),
    [(b"nonsense", "JSON"), (encoded(run_value(run="other")), "another row")],
)
def test_a_run_that_cannot_be_read_is_not_forked(
    store: SqliteSnapshotStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    blob: bytes,
    why: str,
) -> None:
    """One line that says why, and no file."""
    add(store, "bad", blob=blob)
    code, out, err = told(capsys, "fork", "bad", tmp_path / "a.db", store.path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert why in err
    assert not (tmp_path / "a.db").exists()


def test_a_fork_refuses_a_target_and_an_id_that_cannot_be(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What exists is not replaced, a dangling link is not followed, an id has its rules."""
    (tmp_path / "link.db").symlink_to(tmp_path / "nowhere.db")
    for target in (store.path, tmp_path / "link.db", tmp_path):
        code, _, err = told(capsys, "fork", RUN, target, store.path)
        assert code == 2
        assert "exists" in err
    for name in ("", EVIL, "x" * 300):
        code, _, err = told(capsys, "fork", RUN, tmp_path / "a.db", store.path, "--as", name)
        assert code == 2, name
        assert err.rstrip("\n").isprintable()
    assert not (tmp_path / "a.db").exists()
    assert not (tmp_path / "nowhere.db").exists()


def test_a_fork_of_a_shape_that_is_not_stored_is_told_so(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The run itself needs no shape to be forked, nor to be shown."""
    with store.transaction():
        store.database.run("delete from shapes")
    assert told(capsys, "fork", RUN, tmp_path / "a.db", store.path)[0] == 0
    code, shown, _ = told(capsys, "show", RUN, tmp_path / "a.db", "--json")
    assert code == 0
    assert json.loads(shown)["chart"]["shaped"] is False


def test_an_older_file_is_forked_into_one_of_today(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading asks for no migration of the original."""
    old = tmp_path / "old.db"
    with open_database(old, application_id=APPLICATION_ID, known_schema=1) as database:
        migrate(database, STEPS[:1])
        with database.transaction("as an older release"):
            database.run(
                "insert into runs values (null, ?, ?, ?, 'live', null, 8589934592, 1, 1, null,"
                " 4102444800000, 1, ?)",
                (RUN, MACHINE, DIGEST, encoded(run_value())),
            )
    assert told(capsys, "fork", RUN, tmp_path / "a.db", old)[0] == 0
    with open_store(tmp_path / "a.db") as made:
        assert made.load(RUN).header.status == "live"
    with open_database(
        old, application_id=APPLICATION_ID, known_schema=9, read_only=True
    ) as database:
        assert database.connection.pragma("user_version") == 1


def test_a_copy_that_may_only_be_read_is_exported_and_forked(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever debugs may have no right to write where the copy lies."""
    folder = tmp_path / "theirs"
    folder.mkdir()
    store.backup(folder / "copy.db")
    (folder / "copy.db").chmod(0o400)
    folder.chmod(0o500)
    try:
        assert told(capsys, "export", RUN, folder / "copy.db")[0] == 0
        assert told(capsys, "fork", RUN, tmp_path / "a.db", folder / "copy.db")[0] == 0
        assert os.listdir(folder) == ["copy.db"]  # noqa: PTH208 - only names are wanted
    finally:
        folder.chmod(0o700)
