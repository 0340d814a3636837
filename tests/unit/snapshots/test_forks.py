"""A forked child may use nothing of its parent's file, and harms nothing by ending."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

# Scripts of their own: a child that ends in the usual way would end the test run, and threads
# of the test run make a fork in it unsafe.
START = """
import gc, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside a thread: the subject
from snapshots import StorageForkedError, open_store

def refused(work):
    try:
        work()
    except StorageForkedError as error:
        assert (error.opener_pid, error.pid) == (os.getppid(), os.getpid())
        return
    raise AssertionError("not refused")

path = sys.argv[1]
store = open_store(path)
header = store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"[0]")

def end_of(child):
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, status
    assert os.stat(path + "-wal").st_size > 0
"""

USE = """
if (child := os.fork()) == 0:
    refused(lambda: store.load("a"))
    refused(lambda: store.save(header, b"[1]"))
    refused(lambda: store.take_over("child"))
    refused(lambda: store.stats())
    refused(lambda: list(store.live()))
    refused(lambda: open_store(path))
    refused(lambda: open_store(path, read_only=True))
    store.close()  # does nothing here
    sys.exit(0)
end_of(child)
header = store.save(header, b"[1]")
"""

FORGET = """
def held():
    entries = [os.path.realpath("/proc/self/fd/" + entry) for entry in os.listdir("/proc/self/fd")]
    return sum(entry.startswith(os.path.realpath(path)) for entry in entries)

before, references = held(), sys.getrefcount(store.database.connection)
if (child := os.fork()) == 0:
    # One more than anybody here will give back, so that not even the interpreter's end closes it.
    assert sys.getrefcount(store.database.connection) == references + 1
    del store
    gc.collect()
    assert held() == before > 0, "a connection of the parent was closed"
    sys.exit(0)
end_of(child)
header = store.save(header, b"[1]")
"""

END = """
if (child := os.fork()) == 0:
    sys.exit(0)  # the interpreter drops every object, the connections too
end_of(child)
header = store.save(header, b"[1]")
"""

INSIDE = """
opener = os.getpid()
with store.transaction():
    header = store.save(header, b"[1]")
    if (child := os.fork()) == 0:
        try:
            with store.transaction():
                pass
        except StorageForkedError:
            pass
if os.getpid() != opener:
    assert store.database.connection.in_transaction, "the parent's transaction was touched"
    sys.exit(0)
end_of(child)
"""

AFTER = """
from subprocess import run
look = (
    "import sys; from snapshots import open_store;"
    "print(open_store(sys.argv[1], read_only=True).load('a').blob)"
)
command = [sys.executable, "-W", "ignore", "-c", look, path]
seen = run(command, capture_output=True, text=True).stdout
assert seen == "b'[1]'\\n", seen
assert store.load("a").header == header
assert store.database.rows("check", "pragma integrity_check") == [("ok",)]
store.close()
print("whole")
"""

ANOTHER_FILE = """
store.close()
if (child := os.fork()) == 0:
    with open_store(path) as again:  # nothing of it was open when the fork was made
        again.save(header, b"[1]")
    sys.exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
store = open_store(path)
header = store.load("a").header
"""


def run_script(script: str, folder: Path) -> str:
    """Run a script on a new file, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-c", script, os.fspath(folder / "state.db")],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[3],
    )
    assert done.stderr == ""
    return done.stdout


@pytest.mark.parametrize(
    "fork",
    [
        pytest.param(USE, id="uses it"),
        pytest.param(FORGET, id="forgets it"),
        pytest.param(END, id="ends"),
        pytest.param(INSIDE, id="leaves its block"),
        pytest.param(ANOTHER_FILE, id="opens it anew after the parent closed it"),
    ],
)
def test_a_fork_is_refused_and_leaves_the_parents_file_whole(tmp_path: Path, fork: str) -> None:
    """Whatever a child tries, it is refused by name; the parent's log and next save are there."""
    assert run_script(START + fork + AFTER, tmp_path) == "whole\n"


LOCKS = """
import os, subprocess, sys
from snapshots import open_store
path = sys.argv[1]
# As any other program would: the last one to close a file deletes its log.
visit = (
    "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]);"
    "c.execute('select * from runs'); c.close()"
)

def come_and_go(times):
    for _ in range(times):
        open_store(path).close()
        open_store(path, read_only=True).close()
    entries = [os.path.realpath("/proc/self/fd/" + entry) for entry in os.listdir("/proc/self/fd")]
    return entries.count(os.path.realpath(path))

with open_store(path) as store:
    header = store.create(run_id="a", machine="m", digest="d", shape=b"{}", blob=b"[0]")
    few, many = come_and_go(2), come_and_go(20)
    subprocess.run([sys.executable, "-c", visit, path], check=True)
    assert os.path.exists(path + "-wal"), "the visitor believed to be alone"
    header = store.save(header, b"[1]")
    print(many - few)
with open_store(path) as store:
    assert store.load("a").blob == b"[1]"
"""


def test_closing_one_handle_keeps_the_locks_of_another(tmp_path: Path) -> None:
    """Handles that come and go drop no lock of one that stays, and collect no descriptors."""
    assert run_script(LOCKS, tmp_path) == "0\n"
