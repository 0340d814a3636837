"""Lists of runs by what their headers say, the newest first, however many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from snapshots.heads import packed, unpack_head
from snapshots.limits import REVISION_FIRST
from snapshots.records import STATUSES, RunHeader
from snapshots.store.reading import is_text, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from snapshots.database import Row
    from snapshots.inspection.queries.files import RunFile
    from snapshots.records import Status

_ROW_MAX: Final = 2**63 - 1
_OPERATION: Final = "list runs"
_TEXTS: Final = "select id, run_id, machine, digest, status, reason,"
_BYTES: Final = """select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob),
  status, cast(reason as blob),"""

# None of them names the blob, which is a row's last column: its pages are not read. A page of fifty
# is made in four fifths of the time if SQLite takes the head apart.
_LIST: Final = """
select id, run_id, machine, digest, status, reason, cast(substr(runs.head, 1, 16) as integer),
  created_ms, cast(substr(runs.head, 18, 16) as integer), ended_ms,
  cast(substr(runs.head, 35, 16) as integer), cast(substr(runs.head, 52) as integer)"""

HEAD_OF: Final = "select runs.head from runs where id = ?"

LIST: Final = f"""{_LIST}
from runs where id < ? order by id desc limit ?"""

LIST_SOME: Final = f"""{_LIST}
from runs where id < ?1 and (?3 is null or machine = ?3)
  and (?4 is null or substr(runs.head, 18, 16) >= ?4)
  and (?5 is null or substr(runs.head, 18, 16) <= ?5)
  and status in (?6, ?7, ?8, ?9, ?10, ?11, ?12)
order by id desc limit ?2"""

# `indexed by`: by itself SQLite would walk all rows to find the few that are live.
LIST_LIVE: Final = f"""{_LIST}
from runs indexed by runs_live where status = 'live' and id < ? order by id desc limit ?"""

LIST_SOME_LIVE: Final = f"""{_LIST}
from runs indexed by runs_live where status = 'live' and id < ?1
  and (?3 is null or machine = ?3)
  and (?4 is null or substr(runs.head, 18, 16) >= ?4)
  and (?5 is null or substr(runs.head, 18, 16) <= ?5)
  and (?6 is null or substr(runs.head, 52) = ?6)
  and (?7 is null or substr(runs.head, 35, 16) < ?7)
order by id desc limit ?2"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Which runs a list has; what is empty or None leaves none out.

    `since_ms` and `until_ms` are the first and the last moment at which a run may have been
    written last, in Unix milliseconds. `parked` chooses runs that only wait, or those that do
    not, `due_before_ms` those whose nearest timer is due before: only live runs have either.
    """

    statuses: tuple[Status, ...] = ()
    machine: str | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    parked: bool | None = None
    due_before_ms: int | None = None

    @property
    def leaves_out_none(self) -> bool:
        """Whether every run is chosen."""
        is_any = not self.statuses and self.machine is None and not self.is_of_live_runs
        return is_any and self.since_ms is None and self.until_ms is None

    @property
    def is_of_live_runs(self) -> bool:
        """Whether only live runs can be chosen."""
        is_asked = self.parked is not None or self.due_before_ms is not None
        return is_asked or self.statuses == ("live",)

    @property
    def is_of_none(self) -> bool:
        """Whether no run can be chosen: its parts contradict each other, or name no text."""
        if self.machine is not None and not is_text(self.machine):
            return True
        return self.is_of_live_runs and bool(self.statuses) and "live" not in self.statuses


EVERY_RUN: Final = RunFilter()
_LIVE_RUNS: Final = RunFilter(statuses=("live",))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPage:
    """The runs of one page of a list, and whether it goes on behind the last of them."""

    headers: tuple[RunHeader, ...]
    has_more: bool


def list_runs(
    file: RunFile,
    chosen: RunFilter = EVERY_RUN,
    *,
    rows_max: int,
    before_row: int | None = None,
) -> RunPage:
    """Return the newest runs of `chosen`, at most `rows_max`; no blob is read.

    `before_row` is the row of the last header of the page before. Raises `StorageError` where the
    file fails or the answer takes too long.
    """
    if chosen is not EVERY_RUN and chosen.is_of_none:
        return RunPage(headers=(), has_more=False)
    before = _ROW_MAX if before_row is None else before_row
    # One more than is shown tells whether there are more.
    headers = _headers(file, *_question(chosen, before, rows_max + 1))
    has_more = len(headers) > rows_max
    if has_more:
        headers.pop()
    return RunPage(headers=tuple(headers), has_more=has_more)


def _question(chosen: RunFilter, before: int, limit: int) -> tuple[str, tuple[object, ...]]:
    """Return the statement that reads no more than it must, and its values."""
    if chosen is EVERY_RUN or chosen.leaves_out_none:
        return LIST, (before, limit)
    if chosen == _LIVE_RUNS:
        return LIST_LIVE, (before, limit)
    # From 0 on a head's number is in its own order in that of its bytes, too.
    since, until, due_before = (
        None if at_ms is None else packed(at_ms)
        for at_ms in (chosen.since_ms, chosen.until_ms, chosen.due_before_ms)
    )
    shared = (before, limit, chosen.machine, since, until)
    if chosen.is_of_live_runs:
        parked = None if chosen.parked is None else b"%d" % chosen.parked
        return LIST_SOME_LIVE, (*shared, parked, due_before)
    wanted = chosen.statuses or STATUSES
    filled = (*wanted, *(wanted[-1:] * (len(STATUSES) - len(wanted))))
    return LIST_SOME, (*shared, *filled)


def _headers(file: RunFile, sql: str, bindings: tuple[object, ...]) -> list[RunHeader]:
    try:
        headers = file.made(_OPERATION, sql, bindings, _made)
    except UnicodeDecodeError:
        # Damaged UTF-8 in one row hides no other: all are read as bytes, at twice the price.
        headers = _made(map(_with_texts, file.ask(_OPERATION, as_bytes(sql), bindings)))
    for place, header in enumerate(headers):
        at_ms = header.created_ms
        if header.revision < REVISION_FIRST or header.updated_ms < at_ms or header.due_ms < at_ms:
            headers[place] = _looked_at(file, header)
    return headers


def _looked_at(file: RunFile, header: RunHeader) -> RunHeader:
    """Return a header whose numbers are odd, as they are where SQLite reads on through damage."""
    found = file.ask(_OPERATION, HEAD_OF, (header.row,))
    if not found:
        return header  # swept in this moment
    revision, updated_ms, due_ms, parked = unpack_head(found[0][0])
    return header._replace(revision=revision, updated_ms=updated_ms, due_ms=due_ms, parked=parked)


def _made(rows: Iterable[Row]) -> list[RunHeader]:
    """Make headers of rows as they come, for half of what `header_of` takes for each."""
    make: Callable[[type[RunHeader], tuple[object, ...]], RunHeader] = tuple.__new__
    return [
        make(RunHeader, (a, b, c, d, e, f, g, h, i, j, k, parked == 1))
        for a, b, c, d, e, f, g, h, i, j, k, parked in rows
    ]


def _with_texts(row: Row) -> Row:
    run_id, machine, digest, status, reason = row[1:6]
    told = None if reason is None else text_of(reason)
    return (row[0], text_of(run_id), text_of(machine), text_of(digest), status, told, *row[6:])


def as_bytes(sql: str) -> str:
    """Return a statement of this module with the texts that people chose as bytes."""
    assert _TEXTS in sql, "it begins as all of them do"
    return sql.replace(_TEXTS, _BYTES)
