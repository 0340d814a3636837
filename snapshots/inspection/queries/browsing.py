"""What is asked of a file beside lists and runs: ids by their beginning, machines, shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from snapshots.heads import unpack_head
from snapshots.inspection.queries.listing import RunPage
from snapshots.store.reading import after, header_of, is_text, text_of

if TYPE_CHECKING:
    from snapshots.inspection.queries.files import RunFile

_LIST_RUNS: Final = "list runs"

# Texts that people chose are cast, so that damaged UTF-8 in one row hides no other.
# In the order of ids, so that no more rows are read than are shown.
SEARCH: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, runs.head
from runs where run_id >= ?1 and run_id < ?2
  and (?3 is null or machine = ?3) and (?4 is null or status = ?4)
order by run_id desc limit ?5"""

IDS: Final = """
select cast(run_id as blob), cast(machine as blob), status from runs
where run_id >= ? and run_id < ? order by run_id desc limit ?"""

MACHINES: Final = """
select distinct cast(machine as blob) from shapes order by 1 limit ?"""

HEADS: Final = "select runs.head, status from runs where run_id = ?"

SHAPE: Final = "select cast(digest as blob), shape from shapes where digest = ?"
# Each shape is stored once, when it is first seen: the last one stored is the newest.
NEWEST: Final = """
select cast(digest as blob), shape from shapes where machine = ? order by rowid desc limit 1"""

OUTCOME: Final = "select cast(outcome as blob) from mailbox where id = ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredShape:
    """A shape as the file holds it, by its digest."""

    digest: str
    shape: bytes


def search_runs(
    file: RunFile,
    prefix: str,
    *,
    status: str | None = None,
    machine: str | None = None,
    rows_max: int,
) -> RunPage:
    """Return the runs whose ids begin with `prefix`, the last of them by their ids first.

    None for `status` or `machine` leaves none out. No blob is read. Raises `StorageError` where
    the file fails or the answer takes too long.
    """
    if not is_text(machine or "") or not is_text(prefix):
        return RunPage(headers=(), has_more=False)
    # One more than is shown tells whether there are more.
    bindings = (prefix, after(prefix), machine, status, rows_max + 1)
    headers = [header_of(row) for row in file.ask(_LIST_RUNS, SEARCH, bindings)]
    return RunPage(headers=tuple(headers[:rows_max]), has_more=len(headers) > rows_max)


def ids_of(file: RunFile, prefix: str, *, rows_max: int) -> list[tuple[str, str, str]]:
    """Return the ids that begin with `prefix`, the last of them first, each with what it is of.

    That is a machine and a status. In the order of ids, so that no other row is read.
    """
    if not is_text(prefix):
        return []
    rows = file.ask(_LIST_RUNS, IDS, (prefix, after(prefix), rows_max))
    return [(text_of(run), text_of(machine), status) for run, machine, status in rows]


def machines_of(file: RunFile, *, rows_max: int) -> list[str]:
    """Return the names of the machines that the file has shapes of, in the order of names."""
    return [text_of(row[0]) for row in file.ask("list machines", MACHINES, (rows_max,))]


def head_of(file: RunFile, run_id: str) -> tuple[int, str] | None:
    """Return a run's revision and status, None if it is not stored: cheap enough to ask often."""
    rows = file.ask("look at run", HEADS, (run_id,)) if is_text(run_id) else []
    return (unpack_head(rows[0][0])[0], rows[0][1]) if rows else None


def shape_of(file: RunFile, digest: str) -> StoredShape | None:
    """Return the shape that is stored under a digest."""
    return _shape(file, SHAPE, digest)


def newest_shape(file: RunFile, machine: str) -> StoredShape | None:
    """Return the shape of a machine that was stored last: of two releases, the later one's."""
    return _shape(file, NEWEST, machine)


def _shape(file: RunFile, sql: str, key: str) -> StoredShape | None:
    rows = file.ask("read shape", sql, (key,)) if is_text(key) else []
    return StoredShape(digest=text_of(rows[0][0]), shape=rows[0][1]) if rows else None


def outcome_of(file: RunFile, entry: int) -> str | None:
    """Return the outcome of an entry of the mailbox, None while it waits or where it is gone."""
    rows = file.ask("read mail", OUTCOME, (entry,))
    return text_of(rows[0][0]) if rows and rows[0][0] is not None else None
