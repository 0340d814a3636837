"""Backups beside a busy writer, killed at any moment: whole or not there, and no save fails."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from snapshots import backup, open_store

ROOT = Path(__file__).resolve().parents[2]
RUNS = 24
UNFINISHED = ".unfinished-backup"

# Saves run after run in turn, each with the number of the save in it, and says what is committed.
WRITER = f"""
import sys
from snapshots import open_store
with open_store(sys.argv[1]) as store:
    headers = [store.resolve(f"run-{{n:02}}") for n in range({RUNS})]
    headers = [store.load(run).header for run in headers]
    number = 0
    while True:
        number += 1
        turn = number % {RUNS}
        blob = number.to_bytes(8, "big") + bytes([number % 256]) * (20_000 + number % 977)
        headers[turn] = store.save(headers[turn], blob)
        print(number, flush=True)
"""

BACKUPS = """
import itertools, sys
from snapshots import backup
for number in itertools.count():
    print(number, flush=True)
    backup(sys.argv[1], f"{sys.argv[2]}/copy-{number}.db")
"""

# Stands still at one moment of a backup, until it is killed there.
STOPPED = """
import os, sys, time
from snapshots import backup, limits
moment, path, target = sys.argv[1:]
limits.BACKUP_PROGRESS_STEPS = 10

def stop(*_):
    print("here", flush=True)
    time.sleep(60)

def after_link(*names):
    link(*names)
    stop()

link = os.link
if moment == "synced":
    os.link = stop
elif moment == "named":
    os.link = after_link
elif moment == "written":
    os.fsync = stop
backup(path, target, progress=stop if moment == "copying" else None)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Make a file of runs, one half of it free, and return where it lies."""
    path = tmp_path / "state.db"
    with open_store(path) as store:
        with store.transaction():
            for number in range(200):
                store.create(
                    run_id=f"run-{number:02}",
                    machine="m",
                    digest="d",
                    shape=b"{}",
                    blob=bytes(8) + os.urandom(20_000),
                )
        with store.transaction():
            store.database.run("delete from runs where id > ?", (2 * RUNS,))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder for backups."""
    folder = tmp_path / "backups"
    folder.mkdir()
    return folder


def start(script: str, *arguments: str | Path) -> subprocess.Popen[str]:
    """Start a script in a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def line_of(process: subprocess.Popen[str]) -> str:
    """Wait for the next line that a process prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def end(process: subprocess.Popen[str]) -> tuple[list[str], str]:
    """Kill a process; return the lines that were not read yet, and its complaints."""
    process.kill()
    out, err = process.communicate()
    assert process.returncode == -signal.SIGKILL, err
    # What was being printed in this moment is no line.
    return [line for line in out.split("\n")[:-1] if line], err


@contextmanager
def writer(path: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Save at full speed to `path` for the length of the block."""
    said = folder.parent / "said"
    with said.open("w") as out:
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        while acknowledged(folder) == 0:
            assert process.poll() is None, process.communicate()[1]
        yield process
    finally:
        alive = process.poll() is None
        process.kill()
        _, complaints = process.communicate()
    assert alive, f"a save failed: {complaints}"


def acknowledged(folder: Path) -> int:
    """Return the number of the last save that the writer says is committed."""
    with (folder.parent / "said").open("rb") as said:
        said.seek(max(0, said.seek(0, os.SEEK_END) - 40))
        lines = said.read().split(b"\n")[1:-1]
    return int(lines[-1]) if lines else 0


def prefix_of(copy: Path) -> int:
    """Return the number of the last save in a copy, which must have all before it and no other."""
    with closing(sqlite3.connect(f"file:{copy}?immutable=1", uri=True)) as connection:
        assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert connection.execute("pragma freelist_count").fetchone() == (0,)
        rows = connection.execute(
            "select cast(substr(run_id, 5) as integer), blob from runs where id <= ?", (RUNS,)
        ).fetchall()
    numbers = {turn: int.from_bytes(blob[:8], "big") for turn, blob in rows}
    assert len(numbers) == RUNS
    last = max(numbers.values())
    for turn, number in numbers.items():
        expected = last - (last - turn) % RUNS
        assert number == max(expected, 0), f"run {turn} has save {number} in a copy up to {last}"
    for _, blob in rows:
        number = int.from_bytes(blob[:8], "big")
        if number:
            assert blob[8:] == bytes([number % 256]) * (20_000 + number % 977)
    return last


def unfinished(folder: Path) -> list[Path]:
    """Return what backups that died have left."""
    return sorted(folder.glob(f"*{UNFINISHED}"))


def test_a_backup_is_an_exact_prefix_of_the_saves(path: Path, folder: Path) -> None:
    """It has every save before some moment and none behind, a moment between its start and end."""
    with writer(path, folder):
        for number in range(8):
            before = acknowledged(folder)
            made = backup(path, folder / f"copy-{number}.db")
            after = acknowledged(folder)
            # The writer may have committed one that it has not said yet.
            assert before <= prefix_of(Path(made.path)) <= after + 1
            assert made.bytes < made.source_bytes
    assert len(list(folder.iterdir())) == 8


@pytest.mark.parametrize("seed", range(4))
def test_a_kill_leaves_whole_backups_or_none(path: Path, folder: Path, seed: int) -> None:
    """Whatever has a backup's name is one, and the next backup cleans up after the last."""
    chance = random.Random(seed)
    with writer(path, folder):
        for turn in range(5):
            place = folder / f"turn-{turn}"
            place.mkdir()
            process = start(BACKUPS, path, place)
            assert line_of(process) == "0"
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(chance.random() * 0.2)
            said, _ = end(process)
            last = int(said[-1]) if said else 0
            for number in range(last):
                prefix_of(place / f"copy-{number}.db")
            copy = place / f"copy-{last}.db"
            leftovers = unfinished(place)
            assert leftovers in ([], [Path(f"{copy}{UNFINISHED}")])
            if copy.exists():
                prefix_of(copy)
                copy.unlink()
            backup(path, copy)
            prefix_of(copy)
            assert len(list(place.iterdir())) == last + 1


@pytest.mark.parametrize("moment", ["copying", "written", "synced", "named"])
def test_a_backup_that_was_killed_at_a_moment_is_cleaned_up(
    path: Path, folder: Path, moment: str
) -> None:
    """While it is copied, before it is synced, before and after it has its name."""
    copy = folder / "copy.db"
    process = start(STOPPED, moment, path, copy)
    assert line_of(process) == "here"
    end(process)
    assert unfinished(folder) == [Path(f"{copy}{UNFINISHED}")]
    assert copy.exists() is (moment == "named")
    if moment == "named":
        assert prefix_of(copy) == 0
        copy.unlink()
    backup(path, copy)
    assert prefix_of(copy) == 0
    assert list(folder.iterdir()) == [copy]


def test_a_person_can_interrupt_a_backup(path: Path, folder: Path) -> None:
    """SIGINT ends it in the middle of its one long statement, and leaves nothing behind."""
    script = STOPPED.replace("time.sleep(60)", "os.kill(os.getpid(), 2)")
    process = start(script, "copying", path, folder / "copy.db")
    _, complaints = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in complaints
    assert list(folder.iterdir()) == []
