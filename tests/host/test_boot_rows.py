"""A boot reads live rows only: shown by the statements that ran and the pages that they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import pytest

import machines.host.host
from snapshots import SnapshotStore, open_store
from snapshots.heads import pack_head
from snapshots.limits import NO_TIMER_MS, REVISION_FIRST
from tests.host.charts import Door, waiter
from tests.host.world import World, settled

FINISHED = """
with recursive counted(n) as (select 1 union all select n + 1 from counted where n < ?)
insert into runs (run_id, machine, digest, status, reason, created_ms, ended_ms, head, blob)
select printf('old-%08d', n), 'Door', ?, case n % 3 when 0 then 'done' when 1 then 'error'
  else 'cancelled' end, null, ?, ?, ?, zeroblob(?)
from counted"""

DAMAGE = """
update runs set {} = cast(x'ff41' as text), head = cast(substr(head, 1, 51) || ? as blob)
where run_id = ?"""
"""Text that is no UTF-8: SQLite keeps it all the same."""


def add_finished(world: World, count: int, blob_bytes: int) -> None:
    """Put finished runs into the file, in one transaction; their blobs are no snapshots."""
    now_ms = world.clock.now_ms()
    head = pack_head(REVISION_FIRST, now_ms, NO_TIMER_MS, parked=False)
    with world.opened(read_only=False) as store:
        database = store.database
        with database.transaction("add finished runs"):
            database.run(FINISHED, (count, "0" * 12, now_ms, now_ms, head, blob_bytes))


class Watched:
    """What the store of a booting host does: its statements, and the pages that it reads."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.store: Any = None

    def open_store(self, *args: Any, **options: Any) -> SnapshotStore:
        """Open a store and watch it from its first statement on."""
        self.store = open_store(*args, **options)
        self.store.database.trace_statements(lambda sql, _: self.statements.append(sql))
        self._pages_at_first = self._pages_read()
        return self.store

    def _pages_read(self) -> int:
        connection: apsw.Connection = self.store.database.connection
        return connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]

    def pages_read(self) -> int:
        """Return how many pages were read from the file since it was opened."""
        return self._pages_read() - self._pages_at_first

    def plans(self, about: Callable[[str], bool]) -> dict[str, str]:
        """Return the query plan of each watched statement that is of interest."""
        self.store.database.trace_statements(None)
        connection: apsw.Connection = self.store.database.connection
        found = {}
        for sql in dict.fromkeys(filter(about, self.statements)):
            bindings = (1,) * sql.count("?")
            rows = connection.execute(f"explain query plan {sql}", bindings).fetchall()
            found[sql] = "; ".join(row[3] for row in rows)
        return found


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Return what watches the next host's store."""
    watched = Watched()
    monkeypatch.setattr(machines.host.host, "open_own_store", watched.open_store)
    return watched


def reads_blobs(sql: str) -> bool:
    """Whether a statement reads the blob of a run."""
    return "from runs" in sql and "blob" in sql


async def live_runs(world: World, count: int) -> list[str]:
    """Leave live runs behind, half of them with a timer."""
    chart = waiter(60)
    async with world.host(Door, chart) as host:
        return [
            await host.start(Door if number % 2 else chart, run_id=f"live-{number:03d}")
            for number in range(count)
        ]


async def boot(world: World, watched: Watched, runs: list[str]) -> None:
    """Boot a host, and look at what its store did for it."""
    async with world.host(Door, waiter(60)) as host:
        read = watched.pages_read()
        assert sorted(host.report.resumed) == sorted(runs)
        plans = watched.plans(reads_blobs)
        assert plans, "the boot read no live run"
        for sql, plan in plans.items():
            assert "status = 'live'" in sql
            assert "USING INDEX runs_live" in plan
        pages = watched.store.database.connection.pragma("page_count")
        assert read < pages / 10, f"{read} of {pages} pages were read"
        await settled()


async def test_a_boot_reads_no_blob_of_a_finished_run(world: World, watched: Watched) -> None:
    """3,000 finished runs of 6 KB: the one statement that reads blobs walks the live index."""
    runs = await live_runs(world, 100)
    add_finished(world, 3_000, 6_000)
    watched.statements.clear()
    await boot(world, watched, runs)


async def test_a_boot_with_a_hundred_thousand_finished_runs_reads_live_rows_only(
    world: World, watched: Watched
) -> None:
    """100 live ones among 100,000 that ended: the same statements, and hardly a page more."""
    runs = await live_runs(world, 100)
    add_finished(world, 100_000, 200)
    watched.statements.clear()
    await boot(world, watched, runs)


async def test_parked_runs_are_read_without_their_blobs(world: World, watched: Watched) -> None:
    """A boot of parked runs decodes nothing: bad blobs are not even looked at."""
    runs = await live_runs(world, 40)
    for run in runs:
        world.overwrite(run, b"\x00" * 50_000)
    watched.statements.clear()
    async with world.host(Door, waiter(60)) as host:
        read = watched.pages_read()
        assert sorted(host.report.resumed) == sorted(runs)
        pages = watched.store.database.connection.pragma("page_count")
        assert read < pages / 4, f"{read} of {pages} pages were read"


@pytest.mark.parametrize("parked", [False, True])
@pytest.mark.parametrize("damaged", ["run_id", "machine", "digest", "reason"])
async def test_text_that_is_no_utf_8_stops_no_boot(
    world: World, damaged: str, *, parked: bool
) -> None:
    """The run of that row is reported or goes on, and the others go on."""
    _, bad, _, good = await live_runs(world, 4)
    with world.opened(read_only=False) as store, store.transaction():
        store.database.run(DAMAGE.format(damaged), (str(int(parked)), bad))
    named = r"\xffA" if damaged == "run_id" else bad
    async with world.host(Door, waiter(60)) as host:
        report = host.report
        assert good in report.resumed
        assert await host.send(good, "push") == "pushed by nobody"
        assert named in [header.run_id for header in await host.runs()]
        # A parked row is taken by its header, and nothing there is wrong with its digest.
        goes_on = damaged == "reason" or (damaged == "run_id" and parked)
        assert (named in report.resumed) == goes_on
        assert list(report.unresumed | report.drifted) == ([] if goes_on else [named])
