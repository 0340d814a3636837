"""The command `snapshots runs`: what is chosen, page by page, and what is read for it."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from snapshots import open_store
from snapshots.clock import SystemClock
from snapshots.heads import pack_head
from snapshots.inspection.cli import run
from snapshots.inspection.queries import listing
from snapshots.inspection.queries.files import RunFile, open_run_file
from snapshots.inspection.queries.listing import EVERY_RUN, RunFilter, list_runs
from snapshots.limits import HEADERS_ROWS_MAX, NO_TIMER_MS, REVISION_FIRST
from snapshots.records import STATUSES
from snapshots.testing import ManualClock
from tests.unit.snapshots.inspection.cli.command_line import command, on_terminal, without_styles
from tests.unit.snapshots.inspection.stored_runs import DIGEST, MACHINE, encoded, run_value

MINUTE = 60_000
HOUR = 60 * MINUTE
MANY = 100_000
STATEMENTS = {
    "all": listing.LIST,
    "some": listing.LIST_SOME,
    "live": listing.LIST_LIVE,
    "some live": listing.LIST_SOME_LIVE,
    "all as bytes": listing.as_bytes(listing.LIST),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a file of six runs, written 0, 1, ... 5 hours ago; the newest is `run-0`."""
    path = tmp_path / "runs.db"
    now = SystemClock().now_ms()
    clock = ManualClock(now - 5 * HOUR)
    with open_store(path, clock=clock) as store:
        for number in range(5, -1, -1):
            is_live = number % 2 == 0
            store.create(
                run_id=f"run-{number}",
                machine="door" if number < 2 else MACHINE,
                digest=DIGEST,
                shape=b"{}",
                blob=b"not even JSON",
                status="live" if is_live else "lost" if number == 1 else "done",
                reason="its session is gone" if number == 1 else None,
                parked=number == 2,
                due_ms=now + (HOUR if number == 2 else -HOUR),
            )
            clock.advance(HOUR)
    return path


def listed(capsys: pytest.CaptureFixture[str], *options: str | Path, code: int = 0) -> list[str]:
    """Return the ids of the runs that the command lists."""
    assert run(["runs", "--json", *map(str, options)]) == code
    return [found["run"][-1] for found in json.loads(capsys.readouterr().out)["runs"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), "012345"),
        (("--status", "live"), "024"),
        (("--status", "done", "--status", "lost"), "135"),
        (("--status", "live", "--status", "lost", "--machine", "door"), "01"),
        (("--since", "90m"), "01"),
        (("--until", "150m"), "345"),
        (("--since", "210m", "--until", "90m"), "23"),
        (("--since", "210m", "--status", "live"), "02"),
        (("--until", "2001-01-01"), ""),
        (("--waiting",), "2"),
        (("--busy",), "04"),
        (("--overdue",), "04"),
        (("--overdue", "--since", "30m"), "0"),
        (("--waiting", "--status", "live"), "2"),
        (("--waiting", "--status", "done"), ""),
        (("--machine", "\udcff"), ""),
    ],
)
def test_runs_are_chosen_by_what_their_headers_say(
    path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], expected: str
) -> None:
    """The newest first, no blob is needed, and none is exit code 1."""
    found = listed(capsys, *options, path, code=0 if expected else 1)
    assert "".join(found) == expected


def test_pages_follow_each_other(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each page says what the next one goes on behind; together they have every run once."""
    found, behind = "", None
    for _ in range(4):
        options = ["--limit", "2", *(("--after", behind) if behind else ())]
        assert run(["runs", str(path), "--json", *options]) == 0
        page = json.loads(capsys.readouterr().out)
        found += "".join(run["run"][-1] for run in page["runs"])
        assert page["more"] is (page["next"] is not None)
        behind = page["next"]
        if behind is None:
            break
    assert found == "012345"


def test_a_person_is_told_how_to_get_the_next_page(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On stderr, so that the list itself can be piped; the last page says nothing."""
    assert run(["runs", str(path), "--limit", "4"]) == 0
    assert "the 4 newest are listed, there are more: add --after run-3" in capsys.readouterr().err
    assert run(["runs", str(path), "--limit", "4", "--after", "run-3"]) == 0
    said = capsys.readouterr()
    assert (len(said.out.splitlines()), said.err) == (3, "")
    assert run(["runs", str(path), "--after", "run-5"]) == 0
    assert capsys.readouterr().out == "no more runs\n"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--since", "yesterday"), "expected a number and a unit"),
        (("--until", "5"), "expected a number and a unit"),
        (("--waiting", "--busy"), "leave no run"),
        (("--after", ""), "--after is empty"),
        (("--after", "nobody"), "is not in"),
        (("--limit", str(HEADERS_ROWS_MAX)), "999"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    """Exit code 2, and what was expected."""
    assert run(["runs", str(path), *options]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert said in err


def test_damaged_text_hides_no_page(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A machine's name that is no UTF-8 any more is listed with escapes, and the others as ever."""
    with closing(sqlite3.connect(path)) as damage:
        damage.execute("update runs set machine = cast(x'ff' as text) where run_id = 'run-3'")
        damage.commit()
    assert run(["runs", str(path), "--json"]) == 0
    found = {one["run"]: one["machine"] for one in json.loads(capsys.readouterr().out)["runs"]}
    assert (len(found), found["run-3"], found["run-2"]) == (6, r"\xff", MACHINE)


SOUND = pack_head(REVISION_FIRST + 4, SystemClock().now_ms(), NO_TIMER_MS, parked=False)


@pytest.mark.parametrize(
    ("head", "saves"),
    [
        (b"x" * len(SOUND), None),
        (bytes(len(SOUND)), None),
        (b"00000085x" + SOUND[9:], None),
        (SOUND[:22] + b"x" + SOUND[23:], 5),
        (SOUND[:17] + bytes(35), 5),
    ],
    ids=["all of it", "all zeros", "its revision", "its time", "all but its revision"],
)
def test_what_a_damaged_head_cannot_say_is_shown_as_not_known(
    path: Path, capsys: pytest.CaptureFixture[str], head: bytes, saves: int | None
) -> None:
    """As many saves as it says, no time of 1970, no timer; the list, the run and their JSON."""
    with closing(sqlite3.connect(path)) as damage:
        damage.execute("update runs set head = ? where run_id = 'run-4'", (head,))
        damage.commit()
    assert run(["runs", str(path), "--json"]) == 0
    found = {one["run"]: one for one in json.loads(capsys.readouterr().out)["runs"]}
    said = {name: found["run-4"][name] for name in ("saves", "updated_ms", "due_ms", "parked")}
    assert said == {"saves": saves, "updated_ms": None, "due_ms": None, "parked": False}
    assert (len(found), found["run-2"]["saves"]) == (6, 1)
    assert run(["show", "run-4", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["run"] == found["run-4"]
    shown = "not known" if saves is None else str(saves)
    (line,) = [each for each in command("runs", path).stdout.splitlines() if "run-4" in each]
    assert line.split() == f"run-4 live {MACHINE} {shown} not known its head is damaged".split()
    assert f"updated not known, saves: {shown}" in " ".join(
        command("show", "run-4", path).stdout.split()
    )


@pytest.mark.parametrize("columns", [80, 200])
def test_a_terminal_shows_reasons_and_what_is_due(path: Path, columns: int) -> None:
    """Nothing is lost on a narrow screen, and no line is longer than it."""
    shown = on_terminal("runs", path, columns=columns)
    plain = without_styles(shown)
    assert shown != plain
    assert max(map(len, plain.splitlines())) <= columns
    flat = " ".join(plain.split())
    said = ("its session is gone", "only waits, timer in", "timer overdue by", "run-5", "lost")
    for part in said:
        assert part in flat
    assert ("NOTE" in plain) is (columns == 200)


def test_without_color_it_is_the_same_text(path: Path) -> None:
    """`NO_COLOR` on a terminal, and a pipe, whose lines are never wrapped."""
    shown = on_terminal("runs", path, columns=80, NO_COLOR="1")
    assert shown == without_styles(shown)
    piped = command("runs", path).stdout.splitlines()
    assert len(piped) == 7
    assert "its session is gone" in piped[2]


# -- a hundred thousand runs ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def crowded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file of a hundred thousand runs; the first and the last hundred have long blobs."""
    path = tmp_path_factory.mktemp("crowded") / "runs.db"
    content = random.Random(1).randbytes(100_000)
    now = SystemClock().now_ms()
    row = "(?, ?, 'm', 'd', ?, null, ?, ?, ?, ?)"
    head = pack_head(REVISION_FIRST, now, NO_TIMER_MS, parked=True)
    with open_store(path):
        pass
    with closing(sqlite3.connect(path)) as file:
        file.executemany(
            f"insert into runs values {row}",  # noqa: S608 - a constant
            (
                (
                    *(number, f"run-{number:06}", "live" if number % 1_000 == 0 else "done"),
                    *(now, None if number % 1_000 == 0 else now, head),
                    content[: 100_000 if number < 100 or number > MANY - 100 else 40],
                )
                for number in range(1, MANY + 1)
            ),
        )
        file.commit()
    return path


@pytest.fixture
def file(crowded: Path) -> Iterator[RunFile]:
    """Open the crowded file to look at it."""
    with open_run_file(crowded) as opened:
        yield opened


def pages_read(file: RunFile) -> int:
    """How many pages the connection has fetched so far that it had not kept."""
    return file._database.connection.status(apsw.SQLITE_DBSTATUS_CACHE_MISS)[0]


@pytest.mark.parametrize("sql", STATEMENTS.values(), ids=STATEMENTS)
def test_no_statement_of_a_list_names_the_blob_or_sorts(file: RunFile, sql: str) -> None:
    """The blob is the row's last column; the order is that of the rows themselves."""
    assert "blob" not in sql.replace(" as blob)", ")")
    bindings = (1,) * (sql.count("?") if "?2" not in sql else 12 if "?12" in sql else 7)
    steps = [row[3] for row in file.ask("plan", f"explain query plan {sql}", bindings)]
    assert len(steps) == 1
    assert steps[0].startswith("SEARCH runs USING")
    assert ("runs_live" in steps[0]) is ("status = 'live'" in sql)


@pytest.mark.parametrize(
    ("chosen", "statement"),
    [
        (EVERY_RUN, listing.LIST),
        (RunFilter(statuses=("live",)), listing.LIST_LIVE),
        (RunFilter(parked=True), listing.LIST_SOME_LIVE),
        (RunFilter(statuses=("done", "lost")), listing.LIST_SOME),
    ],
)
def test_a_page_is_one_statement_that_reads_no_blob(
    file: RunFile, chosen: RunFilter, statement: str
) -> None:
    """Of a hundred thousand runs; the newest hundred have blobs of 25 pages each."""
    list_runs(file, chosen, rows_max=1)  # how the file is to be read is asked once
    seen: list[str] = []
    file._database.trace_statements(lambda sql, _: seen.append(sql))
    before = pages_read(file)
    page = list_runs(file, chosen, rows_max=50)
    fetched = pages_read(file) - before
    file._database.trace_statements(None)
    assert (len(page.headers), page.has_more, seen) == (50, True, [statement])
    assert fetched < 200, "a few pages a run"


def test_all_pages_read_no_blob(file: RunFile) -> None:
    """Page by page to the end: each row is read once, and the pages of long blobs are not."""
    before, rows, row = pages_read(file), 0, None
    while True:
        page = list_runs(file, rows_max=999, before_row=row)
        rows += len(page.headers)
        row = page.headers[-1].row
        if not page.has_more:
            break
    whole = file.sizes().page_count
    assert rows == MANY
    # The two hundred long blobs have 25 pages each, of which only the first is the row's own.
    assert pages_read(file) - before < whole - 200 * 20


def test_the_command_lists_a_crowded_file(crowded: Path) -> None:
    """The page that a person sees first."""
    done = command("runs", crowded)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 51)
    assert "add --after run-099951" in done.stderr


def test_every_status_fits_the_statement() -> None:
    """It has a place for each, so that any number of them can be chosen."""
    assert listing.LIST_SOME.partition("status in ")[2].count("?") - 1 == len(STATUSES)


def test_a_filter_that_names_all_leaves_out_none(file: RunFile) -> None:
    """All statuses by name are the same page as no status at all."""
    chosen: Any = RunFilter(statuses=STATUSES)
    assert list_runs(file, chosen, rows_max=60) == list_runs(file, rows_max=60)


def test_json_keeps_whether_a_run_is_parked(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A truth value, whatever the column holds."""
    with open_store(path) as store:
        blob = encoded(run_value(run="p"))
        store.create(run_id="p", machine="m", digest="d", shape=b"{}", blob=blob, parked=True)
    assert run(["runs", str(path), "--json", "--limit", "2"]) == 0
    assert [one["parked"] for one in json.loads(capsys.readouterr().out)["runs"]] == [True, False]
