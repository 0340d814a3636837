"""What a page of a list of 100,000 runs costs, beside the bare select of the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final

import apsw
import pytest

from bench.payloads import blobs
from snapshots import open_store
from snapshots.inspection.queries.files import RunFile, open_run_file
from snapshots.inspection.queries.listing import EVERY_RUN, RunFilter, RunPage, list_runs
from snapshots.limits import HEADERS_ROWS_MAX

if TYPE_CHECKING:
    from bench.beside import Arm, Beside

pytest_plugins = ("bench.beside",)

TIMED_RUNS: Final = 100_000
PLAIN_RUNS: Final = 2_000
LIVE_EVERY: Final = 50
PAGE_ROWS: Final = 50
LONG_PAGE_ROWS: Final = HEADERS_ROWS_MAX - 1
COLUMNS: Final = """
select id, run_id, machine, digest, status, reason, cast(substr(head, 1, 16) as integer),
  created_ms, cast(substr(head, 18, 16) as integer), ended_ms,
  cast(substr(head, 35, 16) as integer), substr(head, 52) from runs """
SELECT: Final = COLUMNS + "order by id desc limit ?"
SELECT_LIVE: Final = COLUMNS + "indexed by runs_live where status = 'live' order by id desc limit ?"
SELECT_NONE: Final = COLUMNS + "where status = 'lost' order by id desc limit ?"


class Lists:
    """Lists a page of runs."""

    def __init__(self, file: RunFile, name: str, chosen: RunFilter, rows: int) -> None:
        self.name = name
        self._file = file
        self._chosen = chosen
        self._rows = rows
        self.page = RunPage(headers=(), has_more=False)

    def prepare(self) -> None:
        """Do nothing: a list changes nothing."""

    def act(self) -> None:
        """List them."""
        self.page = list_runs(self._file, self._chosen, rows_max=self._rows)

    def check(self) -> None:
        """Assert that they are the runs that were chosen, in their order."""
        found = [header.run_id for header in self.page.headers]
        assert found == sorted(found, reverse=True)
        is_of_none = self._chosen.statuses == ("lost",)
        expected = (0,) if is_of_none else (self._rows, PLAIN_RUNS // LIVE_EVERY)
        assert len(found) in expected


class Selects:
    """Takes the same rows through the driver alone, as they come."""

    def __init__(self, connection: apsw.Connection, sql: str, rows: int) -> None:
        self.name = "bare select"
        self._execute = connection.cursor().execute
        self._sql = sql
        self._rows = rows
        self.found: list[apsw.SQLiteValues] = []

    def prepare(self) -> None:
        """Do nothing: a select changes nothing."""

    def act(self) -> None:
        """Fetch them."""
        # One more, as a list asks for to know whether there are more.
        self.found = self._execute(self._sql, (self._rows + 1,)).fetchall()

    def check(self) -> None:
        """Assert that it had as many rows."""
        assert len(self.found) <= self._rows + 1


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """Return a file of runs, few of them live; as many as are claimed where it is timed."""
    is_timed = request.config.getoption("benchmark_only", default=False)
    path, content = tmp_path_factory.mktemp("list") / "runs.db", blobs(1_000)
    with open_store(path) as store, store.transaction():
        for number in range(TIMED_RUNS if is_timed else PLAIN_RUNS):
            store.create(
                run_id=f"0199b1c2-7e1c-7b1e-9b3f-{number:012x}",
                machine="checkout",
                digest="3f2a9c01b7de",
                shape=b"{}",
                blob=next(content),
                status="live" if number % LIVE_EVERY == 0 else "done",
            )
    return path


@pytest.fixture
def file(path: Path) -> Iterator[RunFile]:
    """Open the file to look at it."""
    with open_run_file(path) as opened:
        yield opened


@pytest.fixture
def connection(path: Path) -> Iterator[apsw.Connection]:
    """Open the file through the driver alone."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as opened:
        yield opened


CASES: Final = {
    "a page of all": (EVERY_RUN, SELECT, PAGE_ROWS, 200),
    "the longest page of all": (EVERY_RUN, SELECT, LONG_PAGE_ROWS, 100),
    "a page of the live ones": (RunFilter(statuses=("live",)), SELECT_LIVE, PAGE_ROWS, 200),
    "a page of a status that no run has": (
        RunFilter(statuses=("lost",)),
        SELECT_NONE,
        PAGE_ROWS,
        30,
    ),
}


@pytest.mark.benchmark(group="list")
@pytest.mark.parametrize("case", CASES)
def test_a_page_of_runs(
    file: RunFile, connection: apsw.Connection, beside: Beside, case: str
) -> None:
    """A page, beside the bare select of its rows."""
    chosen, sql, rows, rounds = CASES[case]
    beside(Lists(file, case, chosen, rows), Selects(connection, sql, rows), rounds=rounds)


@pytest.mark.benchmark(group="list")
def test_pages_alone(file: RunFile, alone: Callable[[Arm, int], None]) -> None:
    """Pages, one directly after the other."""
    alone(Lists(file, "a page of all", EVERY_RUN, PAGE_ROWS), 200)
