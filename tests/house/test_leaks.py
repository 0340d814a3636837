"""The watch over leaks has teeth: each thing that a test can leave behind makes that test fail."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.house.sources import ROOT

LEAKS = """
import asyncio
import threading

import apsw
import pytest

KEPT = []
END = threading.Event()


@pytest.fixture(scope="module", autouse=True)
def cleaned_up():
    yield
    END.set()


def wait_for_the_end(**options):
    thread = threading.Thread(target=END.wait, **options)
    thread.start()


def test_leaves_a_thread():
    wait_for_the_end(name="stranger")


def test_leaves_a_daemon_of_ours():
    wait_for_the_end(name="snapshots-checkpoints", daemon=True)


async def test_leaves_a_task():
    KEPT.append(asyncio.get_running_loop().create_task(asyncio.sleep(60)))


def test_leaves_a_database(tmp_path):
    connection = apsw.Connection(str(tmp_path / "left.db"))
    connection.execute("create table t (a)")
    KEPT.append(connection)


def test_leaves_a_log(tmp_path):
    KEPT.append((tmp_path / "left.db-wal").open("wb"))


def test_leaves_a_file_unclosed(tmp_path):
    (tmp_path / "text").open("w")


def test_warns():
    import warnings

    warnings.warn("old", DeprecationWarning)
"""

CLEAN = """
import asyncio
import threading

import apsw
import pytest


@pytest.fixture(scope="module")
def shared_database(tmp_path_factory):
    connection = apsw.Connection(str(tmp_path_factory.mktemp("shared") / "shared.db"))
    connection.execute("create table t (a)")
    yield connection
    connection.close()


@pytest.fixture
async def task():
    running = asyncio.get_running_loop().create_task(asyncio.sleep(60))
    yield running
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


def test_joins_its_thread():
    thread = threading.Thread(target=int, name="snapshots-checkpoints", daemon=True)
    thread.start()
    thread.join()


def test_closes_its_database(tmp_path):
    connection = apsw.Connection(str(tmp_path / "closed.db"))
    connection.execute("create table t (a)")
    connection.close()


def test_uses_a_database_of_a_wider_scope(shared_database):
    assert list(shared_database.execute("select 1")) == [(1,)]


async def test_has_a_task_that_its_fixture_ends(task):
    assert not task.done()


async def test_calls_into_a_thread_of_its_loop():
    assert await asyncio.to_thread(threading.current_thread) is not threading.main_thread()
"""


def outcomes(folder: Path, module: str) -> dict[str, str]:
    """Run a module of tests under the real conftest; return the worst word said of each test."""
    (folder / "conftest.py").write_bytes((ROOT / "tests" / "conftest.py").read_bytes())
    (folder / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    (folder / "test_module.py").write_text(module, encoding="utf-8")
    finished = subprocess.run(
        (sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", "test_module.py"),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    said = re.findall(
        r"^test_module.py::(\w+) (PASSED|FAILED|ERROR)", finished.stdout, re.MULTILINE
    )
    assert said, finished.stdout + finished.stderr
    return dict(said)


def test_a_test_that_leaves_something_behind_fails(tmp_path: Path) -> None:
    """A thread, a task, a database, its log, an unclosed file and a warning are each noticed."""
    found = outcomes(tmp_path, LEAKS)
    assert {name for name, word in found.items() if word == "PASSED"} == set()
    assert len(found) == LEAKS.count("def test_")


def test_a_test_that_cleans_up_passes(tmp_path: Path) -> None:
    """What is closed, joined or awaited, or belongs to a wider scope, is no leak."""
    found = outcomes(tmp_path, CLEAN)
    assert found == dict.fromkeys(found, "PASSED")
    assert len(found) == CLEAN.count("def test_")
