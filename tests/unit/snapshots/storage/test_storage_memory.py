"""Storage in memory: one thread in a room at a time, and none for ever."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from snapshots import StorageBusyError, limits, open_storage
from snapshots.storage import Scope

SCOPE = Scope()


def test_a_workspace_that_is_held_for_too_long_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread gives up, and has changed nothing; another workspace does not wait."""
    monkeypatch.setattr(limits, "WORKSPACE_WAIT_MS_MAX", 20)
    with open_storage("memory:") as storage, ThreadPoolExecutor(1) as thread:
        with storage.transaction(SCOPE):
            with pytest.raises(StorageBusyError):
                thread.submit(storage.keyed.put, SCOPE, "a", b"1").result()
            thread.submit(storage.keyed.put, Scope(workspace="other"), "a", b"1").result()
        assert storage.keyed.get(SCOPE, "a") is None
        thread.submit(storage.keyed.put, SCOPE, "a", b"1").result()
        assert storage.keyed.get(SCOPE, "a") == b"1"


def test_a_call_of_another_thread_is_no_part_of_a_transaction() -> None:
    """It waits for the end, and is kept although the transaction is not."""
    inside = threading.Event()
    with open_storage("memory:") as storage, ThreadPoolExecutor(1) as thread:

        def fail() -> None:
            with storage.transaction(SCOPE):
                storage.keyed.put(SCOPE, "a", b"1")
                inside.set()
                raise KeyError

        failing = thread.submit(fail)
        assert inside.wait(10)
        storage.keyed.put(SCOPE, "b", b"1")
        assert isinstance(failing.exception(), KeyError)
        assert [entry.key for entry in storage.keyed.list(SCOPE)] == ["b"]


FORK = """
import os
from snapshots import StorageForkedError, open_storage
from snapshots.storage import Scope
storage = open_storage("memory:")
storage.keyed.put(Scope(), "a", b"1")
if os.fork() == 0:
    for use in (lambda: storage.keyed.get(Scope(), "a"), storage.sweep, storage.stats):
        try:
            use()
        except StorageForkedError as error:
            print("refused", error.pid == os.getpid() != error.opener_pid, flush=True)
    os._exit(0)
os.wait()
print(storage.keyed.get(Scope(), "a"))
"""


def test_a_fork_may_not_go_on_with_a_copy() -> None:
    """What it wrote, nobody would see."""
    process = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[4],
    )
    assert process.stderr == ""
    assert process.stdout.splitlines() == [*["refused True"] * 3, "b'1'"]
