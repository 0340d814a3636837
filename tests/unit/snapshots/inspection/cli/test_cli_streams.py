"""Streams that take nothing, and targets beside the file: what a shell may do to a command."""

from __future__ import annotations

import pickle
import subprocess
from pathlib import Path

import pytest

from snapshots.errors import StorageError
from snapshots.inspection.copies.forking import fork
from snapshots.inspection.text.screen import OutputError
from snapshots.opening import open_store
from snapshots.store import backup
from tests.unit.snapshots.inspection.cli.command_line import COMMAND, environment
from tests.unit.snapshots.inspection.stored_runs import (
    DIGEST,
    MACHINE,
    RUN,
    SHAPE,
    encoded,
    run_value,
)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return a file with one run that nobody has open."""
    place = tmp_path / "runs.db"
    with open_store(place) as store:
        store.create(
            run_id=RUN,
            machine=MACHINE,
            digest=DIGEST,
            shape=encoded(SHAPE),
            blob=encoded(run_value()),
        )
    return place


def shell(redirections: str, *arguments: str | Path) -> tuple[str, str]:
    """Run the command with its streams redirected; return its exit code and what it told."""
    script = f'exec 9>&1; "$@" {redirections}; echo $? >&9'
    done = subprocess.run(
        ["/bin/bash", "-c", script, "bash", *COMMAND, *map(str, arguments)],
        capture_output=True,
        check=True,
        encoding="utf-8",
        env=environment(),
        timeout=25,
    )
    return done.stdout.strip(), done.stderr


@pytest.mark.parametrize("arguments", [("runs",), ("export", RUN)])
def test_output_that_cannot_be_written_is_one_line(place: Path, arguments: tuple[str, ...]) -> None:
    """A full disk behind standard output is an error that says so, not an unexpected one."""
    code, told = shell(">/dev/full", *arguments, place)
    assert code == "2"
    assert told.startswith("snapshots: the output cannot be written (No space left on device)")
    assert told.count("\n") == 1


def test_a_command_whose_errors_cannot_be_told_keeps_its_code(place: Path) -> None:
    """Nobody can be told of it; the code says that it failed."""
    assert shell("2>/dev/full", "show", "nobody", place) == ("2", "")


def test_a_command_works_without_any_standard_stream(place: Path, tmp_path: Path) -> None:
    """What is printed goes nowhere, and never into a file that got a closed stream's number."""
    target = tmp_path / "copy.db"
    assert shell("<&- >&- 2>&-", "backup", target, place) == ("0", "")
    assert shell("<&- >&- 2>&-", "doctor", "--deep", target)[0] == "0"
    assert target.read_bytes().startswith(b"SQLite format 3\0")


@pytest.mark.parametrize("part", ["-wal", "-shm", "-journal", ".lock"])
def test_no_copy_becomes_a_part_of_its_file(place: Path, tmp_path: Path, part: str) -> None:
    """SQLite would play it into the file or remove it, a host would lock it; by any name."""
    other = tmp_path / "other"
    other.symlink_to(tmp_path)
    target = other / f"runs.db{part}"
    for copy in (lambda: backup(place, target), lambda: fork(place, RUN, target)):
        with pytest.raises(StorageError, match="taken for a part of"):
            copy()
    assert not target.exists()


def test_a_journal_that_a_failed_backup_left_goes_with_the_next_failure(
    place: Path, tmp_path: Path
) -> None:
    """SQLite leaves one beside its draft where a write fails; no backup leaves it there."""
    target, log = tmp_path / "there" / "copy.db", tmp_path / "there" / "copy.db-wal"
    target.parent.mkdir()
    log.touch()
    Path(f"{target}.unfinished-backup-journal").write_bytes(b"left")
    with pytest.raises(StorageError, match=r"copy\.db-wal"):
        backup(place, target)
    assert list(target.parent.iterdir()) == [log]


def test_an_interrupt_while_modules_are_loaded_is_none_of_a_traceback(tmp_path: Path) -> None:
    """Ctrl-C right behind the return key: code 130, and nothing is told."""
    (tmp_path / "typer.py").write_text("raise KeyboardInterrupt\n")
    done = subprocess.run(
        [*COMMAND, "runs"],
        capture_output=True,
        check=False,
        env=environment(PYTHONPATH=str(tmp_path)),
        timeout=25,
    )
    assert (done.returncode, done.stderr) == (130, b"")


def test_an_output_error_survives_pickling() -> None:
    """With the field that it was made of."""
    error = pickle.loads(pickle.dumps(OutputError("no room")))  # noqa: S301 - our own bytes
    assert (error.reason, "no room" in str(error)) == ("no room", True)
