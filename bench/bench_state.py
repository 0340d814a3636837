"""What each verb of a storage costs on each backend, and when a follower hears of a commit."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import pytest

from bench.following import (
    FollowedHere,
    FollowedThere,
    Latencies,
    followed_here,
    followed_there,
)
from bench.verbs import Carry, Keyed, Leases
from bench.workspace_verbs import InWorkspace
from snapshots import open_storage
from snapshots.storage import Backend, Scope
from tests.behaviour import servers

if TYPE_CHECKING:
    from bench.beside import Arm

pytest_plugins = ("bench.beside",)

BACKENDS: Final = ("memory", "sqlite", "postgres")
CAPABILITIES: Final = {
    "keyed": Keyed,
    "lease": Leases,
    "carry": Carry,
    "workspace": InWorkspace,
}
VERBS: Final = [
    (capability, verb)
    for capability, made in CAPABILITIES.items()
    for verb in vars(made)
    if not verb.startswith("_")
]
HERE: Final = "commit to follower, same process"
THERE: Final = "commit to follower, another process"
ROUNDS: Final = 300
LATENCY_ROUNDS: Final = 60
WARMUP_ROUNDS: Final = 2
_US_PER_S: Final = 1_000_000
# Of PostgreSQL: a commit is on disk when it returns, as a server does it unless told otherwise.
_DURABLE: Final = "-csynchronous_commit=on"


class Table:
    """The medians, one line for a verb and one column for a backend."""

    def __init__(self) -> None:
        self.us: dict[str, dict[str, float]] = {}

    def note(self, line: str, column: str, us: float) -> None:
        """Fill a cell."""
        self.us.setdefault(line, {})[column] = us

    def note_latency(self, line: str, column: str, latencies: Latencies, benchmark: Any) -> None:
        """Fill a cell with the median latency, and one below with the longest, if it was timed."""
        if benchmark.stats is not None:
            found = benchmark.extra_info["latency_us"] = latencies.us[WARMUP_ROUNDS:]
            self.note(line, column, median(found))
            self.note(f"{line}, slowest", column, max(found))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the lines, if anything was timed."""
        if not self.us:
            return
        terminalreporter.section("medians in microseconds")
        terminalreporter.write_line(f"{'':46}" + "".join(f"{name:>10}" for name in BACKENDS))
        for verb, times in self.us.items():
            cells = [f"{times[name]:,.1f}" if name in times else "" for name in BACKENDS]
            terminalreporter.write_line(f"{verb:46}" + "".join(f"{cell:>10}" for cell in cells))


@pytest.fixture(scope="module")
def table(pytestconfig: pytest.Config) -> Table:
    """The table of this run, which is printed at its end."""
    made = Table()
    pytestconfig.pluginmanager.register(made)
    return made


@pytest.fixture(scope="module")
def postgres() -> Iterator[tuple[str, Backend]]:
    """A database whose tables its user does not own, opened once: its address, and the storage."""
    with servers.running() as server, servers.prepared(server) as database:
        place = servers.address(database.user, options=_DURABLE)
        with open_storage(place) as backend:
            yield place, backend


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """The storage under measurement, and a scope that nobody used before: a server stays."""

    name: str
    place: str
    backend: Backend
    scope: Scope


@pytest.fixture(params=BACKENDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    """One storage of each kind."""
    name: str = request.param
    scope = Scope(tenant=f"tenant-{uuid.uuid4().hex}", workspace="home", workflow="flow")
    if name == "postgres":
        place, backend = request.getfixturevalue("postgres")
        yield Storage(name=name, place=place, backend=backend, scope=scope)
        return
    place = "memory:" if name == "memory" else str(tmp_path / "state.db")
    with open_storage(place) as backend:
        yield Storage(name=name, place=place, backend=backend, scope=scope)


def label(verb: tuple[str, str]) -> str:
    """Return what the table calls a verb."""
    return f"{verb[0]}: {verb[1].replace('_', ' ')}"


@pytest.mark.parametrize("verb", VERBS, ids=label)
def test_verb(
    verb: tuple[str, str],
    storage: Storage,
    benchmark: Any,
    alone: Callable[[Arm, int], None],
    table: Table,
) -> None:
    """One verb, called as an application calls it, each time in a transaction of its own."""
    capability, name = verb
    benchmark.group = capability
    alone(getattr(CAPABILITIES[capability](storage.backend, storage.scope), name)(), ROUNDS)
    if benchmark.stats is not None:
        us = [seconds * _US_PER_S for seconds in benchmark.stats.stats.data]
        table.note(label(verb), storage.name, median(us))


def test_a_follower_in_the_same_process(storage: Storage, benchmark: Any, table: Table) -> None:
    """From the commit of one task to another task of its loop."""
    with followed_here(storage.backend, storage.scope) as latencies:
        measure(latencies, benchmark)
    table.note_latency(HERE, storage.name, latencies, benchmark)


@pytest.mark.parametrize("storage", BACKENDS[1:], indirect=True)
def test_a_follower_in_another_process(storage: Storage, benchmark: Any, table: Table) -> None:
    """From a commit of this process to one that polls a file, or is notified by a server."""
    with followed_there(storage.backend, storage.place, storage.scope) as latencies:
        measure(latencies, benchmark)
    table.note_latency(THERE, storage.name, latencies, benchmark)


def measure(latencies: FollowedHere | FollowedThere, benchmark: Any) -> None:
    """Commit again and again; the times of pytest-benchmark are those of a commit and its entry."""
    benchmark.group = "following"
    benchmark.pedantic(
        latencies.act, setup=latencies.prepare, rounds=LATENCY_ROUNDS, warmup_rounds=WARMUP_ROUNDS
    )
    latencies.check()
