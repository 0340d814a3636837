"""The questions that a file of runs answers; none of them reads a finished run's blob."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from snapshots import limits
from snapshots.errors import AmbiguousRunError, LimitError, RunNotFoundError
from snapshots.heads import unpack_head
from snapshots.records import LiveRows, Owner, RunHeader, StoredRun, WaitingRuns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.database import Database, Row
    from snapshots.records import Status

_HEADER_COLUMNS: Final = 9
_ROW_MAX: Final = 2**63 - 1
_HEADERS_ASKED: Final = "the number of headers asked for"

# Texts that people chose are cast, so that damaged UTF-8 in one row hides no other.
LOAD: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, head, blob
from runs where run_id = ?"""

# `indexed by`: a walk of all rows in the order of their key would give the same answer, and
# read each finished one to find that it is finished. A statement that cannot avoid it fails.
LIVE: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, head,
  case substr(head, 52) when x'31' then x'' else blob end
from runs indexed by runs_live where status = 'live' and id > ? order by id limit ?"""

AT: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, head, blob
from runs indexed by runs_live where status = 'live' and id = ?"""

# The blob is the row's last column: the pages that a long one fills are not read.
SURVEY: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), head
from runs indexed by runs_live where status = 'live' and id > ? order by id limit ?"""

HEADERS: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, head
from runs where id < ? order by id desc limit ?"""

HEADERS_LIVE: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, head
from runs indexed by runs_live where status = 'live' and id < ? order by id desc limit ?"""

HEADERS_ENDED: Final = """
select id, cast(run_id as blob), cast(machine as blob), cast(digest as blob), status,
  cast(reason as blob), created_ms, ended_ms, head
from runs where id < ? and status = ? order by id desc limit ?"""

FIND: Final = """
select cast(run_id as blob) from runs where run_id >= ? and run_id < ?
order by run_id limit ?"""

EXISTS: Final = "select 1 from runs where run_id = ?"
SHAPE: Final = "select shape from shapes where digest = ?"
OWNER: Final = "select term, holder from owner where id = 1"


def header_of(row: Row) -> RunHeader:
    """Make a header of the first nine columns, in the order that every statement has."""
    revision, updated_ms, due_ms, parked = unpack_head(row[8])
    return RunHeader(
        row=row[0],
        run_id=text_of(row[1]),
        machine=text_of(row[2]),
        digest=text_of(row[3]),
        status=row[4],
        reason=None if row[5] is None else text_of(row[5]),
        revision=revision,
        created_ms=row[6],
        updated_ms=updated_ms,
        ended_ms=row[7],
        due_ms=due_ms,
        parked=parked,
    )


def load(database: Database, run_id: str) -> StoredRun:
    """Return one run by its whole id, or raise `RunNotFoundError`."""
    row = database.row("load", LOAD, (run_id,)) if is_text(run_id) else None
    if row is None:
        raise RunNotFoundError(run_id, database.path)
    return StoredRun(header=header_of(row), blob=row[_HEADER_COLUMNS])


def live(database: Database) -> Iterator[StoredRun]:
    """Yield the live runs by row, each slice read to its end before the first is yielded."""
    last = 0
    while rows := database.rows("read live runs", LIVE, (last, limits.LIVE_SLICE_ROWS)):
        for row in rows:
            stored = StoredRun(header=header_of(row), blob=row[_HEADER_COLUMNS])
            if not stored.blob and not stored.header.parked:
                # SQL and `unpack_head` see something else in a head that is damaged.
                stored = live_at(database, row[0]) or stored
            yield stored
        last = rows[-1][0]


def live_at(database: Database, row: int) -> StoredRun | None:
    """Return the live run of a row, None if there is none any more."""
    found = database.row("read a live run", AT, (row,))
    return None if found is None else StoredRun(header=header_of(found), blob=found[-1])


def survey(database: Database) -> Iterator[LiveRows]:
    """Yield all live rows without blobs, slice by slice; nothing is kept of their pages."""
    last = 0
    with database.keeping_few_pages():
        while rows := database.rows("survey", SURVEY, (last, limits.SURVEY_SLICE_ROWS)):
            yield _parted(rows)
            last = rows[-1][0]


def _parted(rows: list[Row]) -> LiveRows:
    active: dict[int, str] = {}
    waiting: dict[tuple[bytes, bytes], WaitingRuns] = {}
    for row, run_id, machine, digest, head in rows:
        _, _, due_ms, parked = unpack_head(head)
        name = run_id.decode("utf-8", "backslashreplace")
        if not parked:
            active[row] = name
            continue
        of_kind = waiting.get((machine, digest))
        if of_kind is None:
            of_kind = waiting[machine, digest] = WaitingRuns(
                machine=text_of(machine), digest=text_of(digest), run_ids=[], due_ms={}
            )
        of_kind.run_ids.append(name)
        if due_ms != limits.NO_TIMER_MS:
            of_kind.due_ms[name] = due_ms
    return LiveRows(waiting=tuple(waiting.values()), active=active)


def headers(
    database: Database, status: Status | None, limit: int, before_row: int | None
) -> list[RunHeader]:
    """Return the newest headers of all runs, or of those in one status."""
    if limit > limits.HEADERS_ROWS_MAX:
        raise LimitError(_HEADERS_ASKED, limits.HEADERS_ROWS_MAX, limit)
    before = _ROW_MAX if before_row is None else before_row
    if status is None:
        rows = database.rows("list runs", HEADERS, (before, limit))
    elif not is_text(status):
        rows = []
    elif status == "live":
        rows = database.rows("list runs", HEADERS_LIVE, (before, limit))
    else:
        rows = database.rows("list runs", HEADERS_ENDED, (before, status, limit))
    return [header_of(row) for row in rows]


def find(database: Database, prefix: str) -> tuple[str, ...]:
    """Return the first run ids that start with `prefix`, by a range of the unique index."""
    if not is_text(prefix):
        return ()
    bindings = (prefix, after(prefix), limits.FIND_RUNS_MAX)
    return tuple(text_of(row[0]) for row in database.rows("find runs", FIND, bindings))


def resolve(database: Database, prefix: str) -> str:
    """Return the run that is meant by a whole id or by a prefix of only one."""
    if is_text(prefix) and database.row("find runs", EXISTS, (prefix,)) is not None:
        return prefix
    candidates = find(database, prefix)
    if not candidates:
        raise RunNotFoundError(prefix, database.path)
    if len(candidates) > 1:
        raise AmbiguousRunError(prefix, candidates)
    return candidates[0]


def shape(database: Database, digest: str) -> bytes | None:
    """Return a stored shape."""
    row = database.row("read a shape", SHAPE, (digest,)) if is_text(digest) else None
    return None if row is None else row[0]


def owner(database: Database) -> Owner | None:
    """Return the file's owner."""
    row = database.row("read the owner", OWNER)
    return None if row is None else Owner(term=row[0], holder=row[1])


def after(prefix: str) -> str | bytes:
    """Return a bound above all texts that start with `prefix`, and above no others.

    SQLite compares UTF-8 bytes, whose order is that of code points; a blob is above every
    text. Code points that are surrogates have no UTF-8 and are stepped over.
    """
    text = prefix.rstrip(chr(0x10FFFF))
    if not text:
        return b""
    following = ord(text[-1]) + 1
    return text[:-1] + chr(0xE000 if following == 0xD800 else following)  # noqa: PLR2004 - Unicode


def text_of(data: bytes) -> str:
    r"""Return a text that was read as bytes, with what is no UTF-8 in it as escapes (`\xff`)."""
    return data.decode("utf-8", "backslashreplace")


def is_text(key: str) -> bool:
    """Whether SQLite can take `key` as text: a lone surrogate has no UTF-8."""
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True
