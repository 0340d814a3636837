"""The lock beside the file: by its real path, and not kept by a child of the process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from machines import HostLockedError
from machines.lock import FileLock
from snapshots import StorageError


def test_the_lock_of_a_link_is_the_lock_of_the_file(tmp_path: Path) -> None:
    """Two names of one file have one lock, and the refusal names the holder."""
    (tmp_path / "link.db").symlink_to(tmp_path / "state.db")
    held = pytest.raises(HostLockedError, match=f"process {os.getpid()}")
    with FileLock(str(tmp_path / "state.db")).take(), held:
        FileLock(str(tmp_path / "link.db")).take()
    with FileLock(str(tmp_path / "link.db")).take() as again:
        assert again.held


def test_who_holds_the_lock_in_the_same_process_is_told_so(tmp_path: Path) -> None:
    """A host left open in a notebook, or by a test, is not looked for among other processes."""
    path = str(tmp_path / "state.db")
    with (
        FileLock(path).take(),
        pytest.raises(HostLockedError, match=f"{os.getpid()} on .*, in this very process; "),
    ):
        FileLock(path).take()
    with (
        FileLock(path).take(shared=True),
        pytest.raises(HostLockedError, match="without a host, in this very process; "),
    ):
        FileLock(path).take()


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    """A worker process that outlives its host keeps no other host out."""
    path = str(tmp_path / "state.db")
    lock = FileLock(path).take()
    descriptor = lock.descriptor
    assert descriptor is not None
    reader, writer = os.pipe()
    began, begun = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.write(begun, b"!")
        os.read(reader, 1)  # lives until the parent lets it go
        os._exit(0)
    try:
        os.read(began, 1)
        os.close(descriptor)  # as the death of this process would, without giving the lock back
        with FileLock(path).take() as again:
            assert again.held
    finally:
        lock.descriptor = None
        os.close(began)
        os.close(begun)
        os.close(reader)
        os.close(writer)
        os.waitpid(child, 0)


def test_runs_without_a_host_share_and_keep_a_host_out(tmp_path: Path) -> None:
    """Two shared locks are held at once; a host is told that runs are open."""
    path = str(tmp_path / "state.db")
    held = pytest.raises(HostLockedError, match="opened without a host")
    with FileLock(path).take(shared=True), FileLock(path).take(shared=True), held:
        FileLock(path).take()


def test_a_missing_folder_is_a_typed_error(tmp_path: Path) -> None:
    """It says what to do, as opening the store there would."""
    with pytest.raises(StorageError):
        FileLock(str(tmp_path / "nowhere" / "state.db")).take()
