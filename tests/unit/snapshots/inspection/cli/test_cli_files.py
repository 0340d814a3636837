"""The commands about a file as a whole: what they print, and what they refuse."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import SqliteSnapshotStore, open_store
from snapshots.inspection.cli import run
from snapshots.inspection.printable import size
from snapshots.inspection.queries.files import open_run_file
from tests.unit.snapshots.inspection.cli.command_line import command, on_terminal, without_styles
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SHAPE,
    encoded,
    run_value,
)


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSnapshotStore]:
    """Hold a file open for writing, as a host would: two live runs, one ended, free pages."""
    with open_store(path) as opened:
        for number in range(60):
            run_id = RUN if number == 0 else f"run-{number}"
            opened.create(
                run_id=run_id,
                machine=MACHINE,
                digest=DIGEST,
                shape=encoded(SHAPE),
                blob=encoded(run_value(run=run_id, input={"text": "x" * 10_000})),
                status="done" if number == 1 else "live",
            )
        with opened.transaction():
            opened.database.run("delete from runs where id > 3")
        yield opened


def call(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    """Run a command in this process; return its exit code and what it printed."""
    code = run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


# -- backup ---------------------------------------------------------------------------------------


def test_a_live_file_is_backed_up_from_another_process(
    store: SqliteSnapshotStore, tmp_path: Path
) -> None:
    """The command says in a line what it made, and the copy shows the run."""
    target = tmp_path / "copy.db"
    done = command("backup", target, store.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"{target}: 3 runs, ")
    assert done.stdout.endswith(", verified\n")
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    shown = command("show", RUN, target)
    assert (shown.returncode, shown.stderr) == (0, "")


def test_a_backup_as_json(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One document has the copy's path, both sizes, and the rows of each table."""
    target = tmp_path / "copy.db"
    code, out, err = call(capsys, "backup", target, store.path, "--json")
    document = json.loads(out)
    assert (code, err, out.count("\n")) == (0, "", 1)
    assert document["path"] == str(target)
    assert document["bytes"] == target.stat().st_size < document["source_bytes"]
    assert document["rows"]["runs"] == 3


def test_the_file_may_come_from_the_environment(store: SqliteSnapshotStore, tmp_path: Path) -> None:
    """As for every command the file is the last argument, else the variable."""
    done = command("backup", "copy.db", cwd=tmp_path, SNAPSHOTS_FILE=store.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "copy.db").exists()


def test_a_target_that_exists_is_an_error_and_stays(
    store: SqliteSnapshotStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line says so, exit code 2, and nothing is written over."""
    target = tmp_path / "copy.db"
    target.write_bytes(b"mine")
    code, out, err = call(capsys, "backup", target, store.path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "exists" in err
    assert target.read_bytes() == b"mine"


@pytest.mark.parametrize("target", ["", ".", ":memory:", "missing/copy.db"])
def test_what_is_no_target_is_an_error(
    store: SqliteSnapshotStore,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    target: str,
) -> None:
    """One line, exit code 2, and no file."""
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    code, out, err = call(capsys, "backup", target, store.path)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_missing_file_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither the file nor the target comes to be."""
    code, out, err = call(capsys, "backup", tmp_path / "copy.db", tmp_path / "none.db")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert list(tmp_path.iterdir()) == []


def test_a_terminal_is_shown_how_far_it_is_and_a_pipe_is_not(path: Path, tmp_path: Path) -> None:
    """The line of progress goes to stderr, away in the end, and is nowhere in what is piped."""
    with open_store(path) as store, store.transaction():
        for number in range(400):
            blob = b'{"v":1}' + b" " * 10_000
            store.create(run_id=f"r{number}", machine="m", digest="d", shape=b"{}", blob=blob)
    piped = command("backup", tmp_path / "piped.db", path)
    assert (piped.returncode, piped.stderr) == (0, "")
    # Here stderr is piped and stdout a terminal: still nobody looks at stderr.
    shown = without_styles(on_terminal("backup", tmp_path / "shown.db", path, columns=80))
    assert shown.endswith("verified\n")
    assert "%" not in shown


# -- stats ----------------------------------------------------------------------------------------


def test_stats_show_runs_sizes_and_free_pages(
    store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a backup would leave out can be seen before it is made."""
    code, out, err = call(capsys, "stats", store.path)
    assert (code, err) == (0, "")
    told = dict(line.split(maxsplit=1) for line in out.splitlines())
    known = store.stats()
    assert told["runs"] == "2 live, 1 ended"
    assert f"in {known.page_count} pages" in told["file"]
    share = 100 * known.free_pages // known.page_count
    assert f"in {known.free_pages} pages ({share} %)" in told["free"]
    assert share > 50
    assert told["log"] == size(known.wal_bytes)


def test_stats_as_json(store: SqliteSnapshotStore, capsys: pytest.CaptureFixture[str]) -> None:
    """One document has the same as numbers."""
    code, out, _ = call(capsys, "stats", store.path, "--json")
    known = store.stats()
    assert code == 0
    assert json.loads(out) == {
        "bytes": known.page_count * 4_096,
        "free_bytes": known.free_pages * 4_096,
        "wal_bytes": known.wal_bytes,
        "page_bytes": 4_096,
        "pages": known.page_count,
        "free_pages": known.free_pages,
        "live": 2,
        "ended": 1,
    }


def test_counting_runs_reads_no_row(store: SqliteSnapshotStore, path: Path) -> None:
    """Both numbers come off an index, however large the blobs are."""
    told: list[str] = []
    with open_run_file(path) as stored:
        stored._database.trace_statements(lambda sql, _: told.append(sql))
        assert (stored.counts().live, stored.counts().ended) == (2, 1)
        stored._database.trace_statements(None)
    plan = store.database.rows("explain", f"explain query plan {told[0]}")
    steps = [row[3] for row in plan]
    assert [step for step in steps if "runs" in step] == [
        "SCAN runs USING COVERING INDEX runs_live",
        "SCAN runs USING COVERING INDEX sqlite_autoindex_runs_1",
    ]


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 bytes"),
        (1_023, "1023 bytes"),
        (1_024, "1.0 KiB"),
        (1_536, "1.5 KiB"),
        (5 * 1_024**2, "5.0 MiB"),
        (3 * 1_024**3, "3.0 GiB"),
        (2_048 * 1_024**4, "2048.0 TiB"),
    ],
)
def test_a_size_is_told_in_the_largest_unit_that_it_fills(count: int, told: str) -> None:
    """Units are those of the IEC, as a person compares them with `ls -h`."""
    assert size(count) == told
