"""Long rows that are written over, a thousand times a second: nobody ever sees half a save."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from snapshots import StoredRun, limits, open_store
from snapshots.inspection.queries.files import open_run_file

LENGTH = 5 * limits.OVERWRITTEN_BYTES_MIN
WIDTH = 12
PLACES = (0, 100, 4_090, 8_180, *range(20_000, LENGTH - WIDTH, 30_011), LENGTH - WIDTH)
"""Where the number of the save stands: some lie across the border of two pages."""
WRITER = f"""
import sys
from snapshots import open_store
places = {PLACES!r}
with open_store(sys.argv[1]) as store:
    stored = store.load("a")
    header, blob, number = stored.header, bytearray(stored.blob), int(stored.blob[:{WIDTH}])
    while True:
        number += 1
        changed = []
        for start in places:
            blob[start : start + {WIDTH}] = b"%0{WIDTH}d" % number
            changed.append((start, start + {WIDTH}))
        header = store.save(header, blob, due_ms=number, changed=changed, sync=number % 512 == 0)
        sys.stdout.write(f"{{number}}\\n")
        sys.stdout.flush()
"""


@contextmanager
def writing(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Have a process save one run after the other, until it is killed."""
    words = (sys.executable, "-c", WRITER, str(path))
    with subprocess.Popen(words, stdout=subprocess.PIPE, encoding="utf-8") as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file with one long run in it."""
    place = tmp_path / "state.db"
    with open_store(place) as store:
        blob = bytearray(random.Random(1).randbytes(LENGTH))
        for start in PLACES:
            blob[start : start + WIDTH] = b"%0*d" % (WIDTH, 0)
        store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=blob, due_ms=0)
    return place


def number_of(stored: StoredRun) -> int:
    """Return of which save a row is: all of it is of that one."""
    numbers = {int(stored.blob[start : start + WIDTH]) for start in PLACES}
    assert len(numbers) == 1, f"a mixture of the saves {sorted(numbers)}"
    header = stored.header
    assert numbers == {header.due_ms}
    assert numbers == {header.revision - limits.REVISION_FIRST}
    return header.due_ms


def test_a_kill_leaves_the_last_save_that_returned_or_the_one_after_it(path: Path) -> None:
    """Ten processes, each killed in the middle of its saves."""
    chance, last = random.Random(2), 0
    for _ in range(10):
        with writing(path) as process:
            assert process.stdout is not None
            for _ in range(chance.randrange(1, 900)):
                last = int(process.stdout.readline())
            process.kill()
            for line in process.stdout:
                last = int(line) if line.endswith("\n") else last
        with open_store(path) as store:
            assert number_of(store.load("a")) in (last, last + 1)
            last = number_of(store.load("a"))
            assert store.database.rows("check", "pragma integrity_check") == [("ok",)]
    assert last > 1_000


def test_a_reader_sees_whole_saves_alone(path: Path) -> None:
    """What it reads is never older than what had been acknowledged before."""
    with writing(path) as process, open_run_file(path) as file, open_store(path) as store:
        assert process.stdout is not None
        seen: list[int] = []
        while len(set(seen)) < 100:
            last = int(process.stdout.readline())
            found = file.find("a")
            seen.append(number_of(StoredRun(header=found.header, blob=found.blob)))
            assert seen[-1] >= last
            assert number_of(store.load("a")) >= seen[-1]
    assert seen == sorted(seen)
