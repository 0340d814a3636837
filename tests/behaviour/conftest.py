"""What each behaviour is shown on: a storage of each kind, by a clock that the test turns."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest

from snapshots.opening import open_storage
from snapshots.storage import Backend, Scope
from snapshots.testing import ManualClock
from tests.behaviour import servers
from tests.behaviour.servers import Server

BACKENDS = ("memory", "sqlite", "postgres")
PROPERTY = "backend"


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The address of a server, as a superuser: started once, when a test first needs it."""
    with servers.running() as address:
        yield address


@pytest.fixture(scope="session")
def postgres(postgres_server: str) -> Iterator[Server]:
    """A database that was prepared, for all tests together: each has a tenant of its own."""
    with servers.prepared(postgres_server) as server:
        yield server


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the storage under test."""
    return ManualClock()


@pytest.fixture(params=BACKENDS)
def kind(request: pytest.FixtureRequest, record_property: Callable[[str, object], None]) -> str:
    """The kind of the storage under test."""
    chosen: str = request.param
    record_property(PROPERTY, chosen)
    return chosen


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    """What this test opens, closed at its end, the last one first."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def place(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """Where the storage under test is, as `open_storage` takes it."""
    if kind == "memory":
        return "memory:"
    if kind == "sqlite":
        return str(tmp_path / "state.db")
    server: Server = request.getfixturevalue("postgres")
    return server.user


@pytest.fixture
def backend(place: str, clock: ManualClock, opened: ExitStack) -> Backend:
    """A storage: the same three for every behaviour."""
    return opened.enter_context(open_storage(place, clock=clock))


@pytest.fixture
def another(
    kind: str, place: str, backend: Backend, clock: ManualClock
) -> Callable[[], AbstractContextManager[Backend]]:
    """Opens a further handle on the storage under test, for another thread.

    What is in memory has one handle, which is for any thread.
    """
    if kind == "memory":
        return lambda: nullcontext(backend)
    return lambda: open_storage(place, clock=clock)


@pytest.fixture
def scope() -> Scope:
    """A scope of this test alone: a server outlives the test."""
    return Scope(tenant=f"tenant-{uuid.uuid4().hex}", workspace="home", workflow="flow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many behaviours each backend has shown."""
    shown: Counter[str] = Counter()
    for report in terminalreporter.getreports("passed"):
        shown.update(str(value) for name, value in report.user_properties if name == PROPERTY)
    if shown:
        counts = " · ".join(f"{name} {shown[name]}" for name in BACKENDS)
        terminalreporter.section("behaviours")
        terminalreporter.write_line(counts)
