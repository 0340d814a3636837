"""Checks of what lies in a file: its pages, its tables, its shapes, its mailbox, its timers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots.database import Row, open_database
from snapshots.database.places import MEMORY
from snapshots.heads import packed, unpack_head
from snapshots.inspection.doctor.findings import Finding, problem, warning, well
from snapshots.inspection.doctor.identity import SCHEMA
from snapshots.inspection.doctor.limits import FAULTS_MAX, ITEMS_MAX, PATIENCE_MS
from snapshots.inspection.printable import relative, span, visible
from snapshots.inspection.queries.files import TooLongError
from snapshots.schema import APPLICATION_ID, SCHEMA_VERSION, STEPS, migrate
from snapshots.store.reading import text_of

if TYPE_CHECKING:
    from snapshots.database import Row
    from snapshots.errors import StorageError
    from snapshots.inspection.queries.files import RunFile

QUICK: Final = "select quick_check from pragma_quick_check limit ?"
INTEGRITY: Final = "select integrity_check from pragma_integrity_check limit ?"
# What SQLite makes by itself, statistics and the indexes of keys, has names of its own.
OBJECTS: Final = r"""
select cast(type || ' ' || name as blob), cast(sql as blob), cast(tbl_name as blob)
from sqlite_schema where name not like 'sqlite\_%' escape '\' order by rowid limit ?"""
# The columns before a row's blob: its pages are not read.
SHAPELESS: Final = """
select cast(digest as blob), cast(min(machine) as blob), count(*), sum(status = 'live')
from runs where digest not in (select digest from shapes) group by digest limit ?"""
MAIL: Final = """
select cast(run_id as blob), cast(kind as blob), created_ms from mailbox
where outcome is null order by id limit ?"""
OVERDUE: Final = """
select cast(run_id as blob), runs.head from runs indexed by runs_live
where status = 'live' and substr(runs.head, 35, 16) < ?
order by substr(runs.head, 35, 16) limit ?"""

_SOUND: Final = [("ok",)]
_RESTORE: Final = "stop the host, keep a copy of the file and its -wal, and restore a backup"


def pages(stored: RunFile, *, is_deep: bool) -> Finding:
    """Check the file's structure, as far as there is time: SQLite's own check."""
    name, sql = ("integrity check", INTEGRITY) if is_deep else ("quick check", QUICK)
    try:
        rows = stored.ask(name, sql, (FAULTS_MAX,))
    except TooLongError:
        told = f"SQLite's {name} was given up after a while; what it saw until then was sound"
        return warning("pages", told, "run doctor --deep, which takes as long as it takes")
    if rows != _SOUND:
        faults = tuple(visible(str(row[0])) for row in rows)
        return Finding(
            check="pages",
            verdict="problem",
            told=f"SQLite's {name} finds the file damaged",
            remedy=_RESTORE,
            items=faults,
            count=len(faults),
        )
    rest = "" if is_deep else "; --deep compares indexes with their rows too"
    return well("pages", f"SQLite's {name} finds nothing amiss{rest}")


def tables(stored: RunFile) -> Finding:
    """Check that the file has the tables and indexes of its schema, and no others on them.

    What somebody has added to a table may do more than it seems to: a trigger writes with every
    save, and an index over a head or a blob keeps long runs from being saved. Tables beside them,
    which replication tools keep there, are nobody's business.
    """
    ((version,),) = stored.ask("read the schema", SCHEMA)
    made = _made_by(version)
    known: dict[bytes, bytes] = {name: sql for name, sql, _ in made}
    ours = {table for _, _, table in made}
    rows = stored.ask("list the tables", OBJECTS, (ITEMS_MAX,))
    found: dict[bytes, bytes] = {name: sql for name, sql, table in rows if table in ours}
    items = [f"{_shown(name)} is missing" for name in known.keys() - found.keys()]
    items += [f"{_shown(name)} is none of this program's" for name in found.keys() - known.keys()]
    changed = (name for name in known.keys() & found.keys() if known[name] != found[name])
    items += [f"{_shown(name)} is not as this program makes it" for name in changed]
    if not items:
        return well("tables", f"the tables and indexes are those of schema {version}")
    return Finding(
        check="tables",
        verdict="problem",
        told=f"the tables and indexes are not those of schema {version}",
        remedy="take back what was changed by hand while no host lives, or restore a backup",
        items=tuple(sorted(items)),
        count=len(items),
    )


def _made_by(version: int) -> list[Row]:
    """Return the rows of `OBJECTS` for what this program makes of a new file in so many steps."""
    with open_database(
        MEMORY, application_id=APPLICATION_ID, known_schema=SCHEMA_VERSION
    ) as database:
        migrate(database, STEPS[:version])
        return database.rows("list the tables", OBJECTS, (ITEMS_MAX,))


def _shown(name: bytes) -> str:
    return visible(text_of(name))


def shapes(stored: RunFile) -> Finding:
    """Check that the shape of each run's chart is stored: drift is told by it, and pictures."""
    rows = stored.ask("look for shapes", SHAPELESS, (ITEMS_MAX,))
    if not rows:
        return well("shapes", "the shape of each run's chart is stored")
    runs = sum(row[2] for row in rows)
    return Finding(
        check="shapes",
        verdict="warning",
        told=f"the shapes of {len(rows)} digests, of {runs} runs, are not stored",
        remedy=(
            "nothing is lost but pictures and the words for drift; a host with the chart of that"
            " digest stores it with the next run that it starts"
        ),
        items=tuple(f"{visible(text_of(row[0]))} of {visible(text_of(row[1]))}" for row in rows),
        count=len(rows),
    )


def mailbox(stored: RunFile, *, is_alive: bool, now_ms: int) -> Finding:
    """Check whether what was handed in is taken."""
    rows = stored.ask("read the mailbox", MAIL, (ITEMS_MAX,))
    if not rows:
        return well("mailbox", "nothing waits")
    age_ms = now_ms - min(row[2] for row in rows)
    what = "1 entry waits" if len(rows) == 1 else f"{_many(rows)} entries wait"
    told = f"{what}, the oldest since {span(max(age_ms, 0))}"
    if not is_alive:
        remedy = "start a host: it takes them"
    elif age_ms <= PATIENCE_MS:
        return well("mailbox", told)
    else:
        remedy = "see the host's log and report: it lives, and does not take them"
    return Finding(
        check="mailbox",
        verdict="warning",
        told=told,
        remedy=remedy,
        items=tuple(f"{visible(text_of(row[0]))}: {visible(text_of(row[1]))}" for row in rows),
        count=len(rows),
    )


def timers(stored: RunFile, *, is_alive: bool, now_ms: int) -> Finding:
    """Check whether timers are overdue while a host lives, whose alarm should have rung."""
    rows = stored.ask("look for overdue timers", OVERDUE, (packed(now_ms), ITEMS_MAX))
    if not rows:
        return well("timers", "none is overdue")
    due = [(visible(text_of(run)), unpack_head(head)[2]) for run, head in rows]
    late_ms = now_ms - due[0][1]
    what = "1 run has" if len(rows) == 1 else f"{_many(rows)} runs have"
    told = f"{what} an overdue timer, the oldest since {span(late_ms)}"
    if not is_alive:
        return well("timers", f"{told}; it fires when a host starts")
    if late_ms <= PATIENCE_MS:
        return well("timers", told)
    return Finding(
        check="timers",
        verdict="problem",
        told=f"{told}, and a host is alive",
        remedy="see host.report: what was not resumed does not fire; a host that is stuck, neither",
        items=tuple(f"{run}: due {relative(due_ms - now_ms)}" for run, due_ms in due),
        count=len(rows),
    )


def _many(rows: list[Row]) -> str:
    return f"{len(rows)} or more" if len(rows) == ITEMS_MAX else str(len(rows))


def unended(check: str, error: StorageError) -> Finding:
    """Return the finding of a check that the file, or its time, did not let end."""
    if isinstance(error, TooLongError):
        told = "the question was given up after a while"
        return warning(check, told, "run doctor --deep, which takes as long as it takes")
    return problem(check, visible(error.detail or str(error)), visible(error.hint))
