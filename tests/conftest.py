"""What every test is held to: when it ends, nothing that it started is left behind.

Warnings are errors (see the pytest section of `pyproject.toml`), a `ResourceWarning` among them;
here the threads, asyncio tasks and database files are counted that no warning would tell of.
"""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import stat
import threading
from collections.abc import AsyncIterator, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import settings

# No test asserts a time; an example's deadline would, and fail where the machine is busy.
settings.register_profile("house", deadline=None)
settings.load_profile("house")

# A shell that starts us in the background has us ignore it, and those that we start would too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A thread of ours carries its package's name, so that it is known even where it is a daemon.
OUR_THREADS = ("snapshots-", "machines-")
OPEN_FILES = Path("/proc/self/fd")
BROWSER_TESTS = Path(__file__).parent / "browser"
BESIDE_A_DATABASE = ("-wal", "-shm", "-journal", ".lock")
DATABASE_HEADER = b"SQLite format 3\x00"


def lasting_threads() -> set[threading.Thread]:
    """Return the threads that would outlive their test: those not daemons, and ours in any case."""
    return {
        thread
        for thread in threading.enumerate()
        if not thread.daemon or thread.name.startswith(OUR_THREADS)
    }


def is_database_file(descriptor: int, path: str) -> bool:
    """Whether an open descriptor is a database, its log, its index or its lock.

    The file is never opened anew: closing any descriptor on it would drop SQLite's POSIX locks
    (https://sqlite.org/howtocorrupt.html, section 2.2), so its header is read through the
    descriptor that is there.
    """
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        if path.removesuffix(" (deleted)").endswith(BESIDE_A_DATABASE):
            return True
        return os.pread(descriptor, len(DATABASE_HEADER), 0) == DATABASE_HEADER
    except OSError:  # closed since it was listed, or open for writing only, as no database is
        return False


def open_databases() -> set[tuple[int, str]]:
    """Return the open descriptors of database files; empty where the system does not list them."""
    found: set[tuple[int, str]] = set()
    if not OPEN_FILES.is_dir():
        return found
    for entry in os.listdir(OPEN_FILES):  # noqa: PTH208 - iterdir() keeps a descriptor of its own
        try:
            path = os.readlink(OPEN_FILES / entry)  # noqa: PTH115 - a socket's name is no path
        except OSError:  # the descriptor of the listing itself
            continue
        if is_database_file(int(entry), path):
            found.add((int(entry), path))
    return found


@pytest.fixture(autouse=True)
def nothing_leaks() -> Iterator[None]:
    """Fail the test that leaves a thread, an open database file or an unclosed resource behind.

    Fixtures of a wider scope are set up before this one, so what they hold is not counted.
    """
    threads, databases = lasting_threads(), open_databases()
    yield
    gc.collect(1)  # an unclosed resource warns now, while its test can be named
    left = [f"thread {thread.name!r}" for thread in lasting_threads() - threads]
    left += [f"database file {path!r}" for _, path in sorted(open_databases() - databases)]
    if left:
        pytest.fail(f"the test left behind: {', '.join(left)}", pytrace=False)


@pytest.fixture
async def no_task_leaks() -> AsyncIterator[None]:
    """Fail the test that leaves an asyncio task running; every asynchronous test is given this."""
    tasks = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - tasks - {asyncio.current_task()}
    if left:
        names = ", ".join(sorted(repr(task.get_coro()) for task in left if task is not None))
        pytest.fail(f"the test left tasks running: {names}", pytrace=False)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Look into no test of the browser where they are left out and their extra is not installed.

    Whoever asks for them (`pytest -m browser`) is told what is missing, as ever.
    """
    left_out = collection_path == BROWSER_TESTS and config.getoption("markexpr") == "not browser"
    return True if left_out and find_spec("playwright") is None else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each asynchronous test the check of its tasks, directly behind the check of the rest.

    It is not autouse itself, as it would then make an event loop for every synchronous test.
    """
    for item in items:
        if item.get_closest_marker("asyncio") is None:
            continue
        names: list[str] = getattr(item, "fixturenames", [])
        if nothing_leaks.__name__ in names:
            names.insert(names.index(nothing_leaks.__name__) + 1, no_task_leaks.__name__)
