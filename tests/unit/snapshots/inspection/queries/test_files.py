"""A file that is looked at for a while: what becomes of it meanwhile is seen, or told."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from snapshots import open_store

LOOKS = """
import os
import sys
from pathlib import Path
from snapshots import StorageUnavailableError
from snapshots.inspection.queries.files import open_run_file
from snapshots.inspection.queries.listing import list_runs
if os.getuid() == 0:  # whom no mode keeps from anything
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
with open_run_file(Path(sys.argv[1])) as file:
    for line in sys.stdin:
        for ask in (file.counts, file.version, lambda: list_runs(file, rows_max=10)):
            try:
                ask()
                print("ok", end=" ")
            except StorageUnavailableError as error:
                print("told" if "begun to write" in str(error) else error, end=" ")
        print(flush=True)
"""


@contextmanager
def looking(path: Path) -> Iterator[Callable[[], list[str]]]:
    """Have a user who may not write a file look at it three times for each call of what is given.

    In the end the file may be written.
    """
    for folder in (path.parent, path.parent.parent, path.parent.parent.parent):
        folder.chmod(0o755)
    path.chmod(0o444)
    with subprocess.Popen(
        [sys.executable, "-c", LOOKS, os.fspath(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[5],
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        out = process.stdout

        def look() -> list[str]:
            print(file=process.stdin, flush=True)
            return out.readline().split()

        assert look() == ["ok"] * 3
        path.chmod(0o644)
        yield look
        process.stdin.close()
        assert process.wait() == 0


def test_a_file_at_rest_that_somebody_begins_to_write_is_not_read_any_further(
    tmp_path: Path,
) -> None:
    """Who may not write it reads it without a log, and would never see what is in one."""
    path = tmp_path / "state.db"
    open_store(path).close()
    with looking(path) as look, open_store(path) as store:
        assert look() == ["told"] * 3
        store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"{}")
        assert look() == ["told"] * 3


def test_a_file_that_was_written_between_two_looks_is_not_read_any_further(tmp_path: Path) -> None:
    """Its log came and went meanwhile; some pages are known from before, and others are not."""
    path = tmp_path / "state.db"
    open_store(path).close()
    with looking(path) as look:
        with open_store(path) as store:
            store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"{}")
        assert look() == ["told"] * 3


def test_an_index_that_was_left_without_its_log_is_no_writer(tmp_path: Path) -> None:
    """The file is read as one at rest; whoever writes it then makes the log, and is seen."""
    path = tmp_path / "state.db"
    open_store(path).close()
    Path(f"{path}-shm").touch()
    with looking(path) as look, open_store(path):
        assert look() == ["told"] * 3
