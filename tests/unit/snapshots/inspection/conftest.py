"""What the tests of inspection share: a file of runs, and a folder that can be shut."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from snapshots import SqliteSnapshotStore, open_store
from tests.unit.snapshots.inspection.stored_runs import add


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the file of a test lies."""
    return tmp_path / "runs.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteSnapshotStore]:
    """Hold a file with one live run open for writing, as a host would."""
    with open_store(path) as opened:
        add(opened)
        yield opened


@pytest.fixture
def shut() -> Iterator[Path]:
    """Return a folder that anybody may look into, and that a test keeps from being written to."""
    folder = Path(tempfile.mkdtemp(prefix="snapshots-test-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)
