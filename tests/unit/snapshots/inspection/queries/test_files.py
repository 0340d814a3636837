"""A file that is looked at for a while: what becomes of it meanwhile is seen, or told."""

from __future__ import annotations

import os
import subprocess
import sys
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


def test_a_file_at_rest_that_somebody_begins_to_write_is_not_read_any_further(
    tmp_path: Path,
) -> None:
    """Who may not write it reads it without a log, and would never see what is in one."""
    for folder in (tmp_path, tmp_path.parent, tmp_path.parent.parent):
        folder.chmod(0o755)
    path = tmp_path / "state.db"
    open_store(path).close()
    path.chmod(0o444)
    command = [sys.executable, "-c", LOOKS, os.fspath(path)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[5],
    ) as looking:
        assert looking.stdin is not None
        assert looking.stdout is not None

        def look() -> list[str]:
            print(file=looking.stdin, flush=True)
            return looking.stdout.readline().split() if looking.stdout else []

        assert look() == ["ok"] * 3
        path.chmod(0o644)
        with open_store(path) as store:
            assert look() == ["told"] * 3
            store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"{}")
            assert look() == ["told"] * 3
        looking.stdin.close()
        assert looking.wait() == 0
