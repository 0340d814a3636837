"""The form of a file: numbered steps forward, each in one transaction with its own record."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from snapshots.errors import (
    ForeignFileError,
    MigrationError,
    NewerFileError,
    StorageCorruptError,
    StorageError,
)
from snapshots.heads import HEAD, HEAD_BYTES, HEAD_OF_COLUMNS, HEADS_SINCE_SCHEMA
from snapshots.limits import DAMAGE_SHOWN_MAX
from snapshots.records import STATUSES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from snapshots.database import Database

# "Snap": tells a file of ours from any other SQLite database, `file(1)` included.
APPLICATION_ID: Final = 0x536E6170

_FIRST: Final = (
    "pragma application_id = 1399742832",
    # Columns that every save writes come before the blob, and all keep their width, so that
    # SQLite can overwrite the row in place. The blob is last: reading a header stops before.
    """create table runs (
  id integer primary key,
  run_id text not null unique,
  machine text not null,
  digest text not null,
  status text not null check
    (status in ('live', 'done', 'failed', 'error', 'cancelled', 'lost', 'drifted')),
  reason text,
  revision integer not null,
  created_ms integer not null,
  updated_ms integer not null,
  ended_ms integer,
  due_ms integer not null,
  parked integer not null,
  blob blob not null
) strict""",
    "create index runs_live on runs(id) where status = 'live'",
    "create index runs_ended on runs(ended_ms) where status <> 'live'",
    """create table shapes (
  digest text primary key,
  machine text not null,
  shape blob not null
) strict""",
    """create table owner (
  id integer primary key check (id = 1),
  term integer not null,
  holder text not null
) strict""",
    """create table mailbox (
  id integer primary key,
  run_id text not null,
  kind text not null,
  data blob not null,
  delivery text,
  created_ms integer not null,
  outcome text,
  settled_ms integer
) strict""",
    "pragma user_version = 1",
)

_MAILBOX: Final = (
    # A host looks for entries without an outcome several times a second, and keys are given
    # again once the newest rows were swept: it cannot remember where it has looked.
    "create index mailbox_pending on mailbox(id) where outcome is null",
    "create index mailbox_settled on mailbox(settled_ms) where settled_ms is not null",
    "pragma user_version = 2",
)

_STORAGE: Final = (
    # The value is last, so that a look at a row's expiry does not read it.
    """create table keyed (
  tenant text not null,
  workspace text not null,
  workflow text not null,
  key text not null,
  expires_ms integer,
  value blob not null,
  primary key (tenant, workspace, workflow, key)
) strict""",
    "create index keyed_expiring on keyed(expires_ms) where expires_ms is not null",
    """create table leases (
  tenant text not null,
  workspace text not null,
  workflow text not null,
  name text not null,
  token integer not null,
  holder text not null,
  expires_ms integer not null,
  primary key (tenant, workspace, workflow, name)
) strict""",
    "create index leases_expiring on leases(expires_ms)",
    # The greatest token of the leases that were swept: a token is never given again.
    """create table lease_floors (
  tenant text not null,
  workspace text not null,
  token integer not null,
  primary key (tenant, workspace)
) strict, without rowid""",
    """create table carry (
  tenant text not null,
  workspace text not null,
  workflow text not null,
  key text not null,
  contract_version integer not null,
  revision integer not null check (revision >= 1),
  updated_ms integer not null,
  payload blob not null,
  primary key (tenant, workspace, workflow, key)
) strict""",
    "pragma user_version = 3",
)

_WORKSPACES: Final = (
    # One row is all that a look for news reads; `seq` is that of the log's newest line.
    """create table workspaces (
  id integer primary key,
  tenant text not null,
  workspace text not null,
  seq integer not null,
  unique (tenant, workspace)
) strict""",
    """create table workspace_entities (
  workspace integer not null,
  kind text not null,
  key text not null,
  label text not null,
  revision integer not null check (revision >= 1),
  created_ms integer not null,
  updated_ms integer not null,
  data blob not null,
  primary key (workspace, kind, key)
) strict""",
    "create index workspace_labels on workspace_entities(workspace, kind, label, key)",
    # Lines lie in the order in which they are read.
    """create table workspace_log (
  workspace integer not null,
  seq integer not null check (seq >= 1),
  kind text not null,
  subject text not null,
  thread text,
  run text,
  at_ms integer not null,
  data blob not null,
  primary key (workspace, seq)
) strict, without rowid""",
    """create table workspace_history (
  workspace integer not null,
  thread text not null,
  seq integer not null,
  run text not null,
  segment integer not null check (segment >= 1),
  at_ms integer not null,
  payload blob not null,
  primary key (workspace, thread, seq)
) strict""",
    "pragma user_version = 4",
)

# Whose line it is: a thread's name, nothing for one that is for every thread, null for one that
# is for none. The rule is `snapshots.storage.workspaces.rules.delivered_to`; one that changes
# takes a step here.
_AUDIENCES: Final = (
    """alter table workspace_log add column audience text generated always as (
  case when kind in ('artifact.created', 'artifact.changed', 'proposal.made',
    'proposal.accepted', 'proposal.rejected') then '' else thread end) virtual""",
    "create index workspace_audience on workspace_log(workspace, audience, seq)",
    "pragma user_version = 5",
)

# A save of a long run overwrites its head and a part of its blob where they lie; `snapshots.heads`
# says why the four numbers are written out for that. The head stands before the blob, as a column
# that is added would not: so the rows are copied once, and the log grows by as much meanwhile.
_HEADS: Final = (
    """create table runs_with_heads (
  id integer primary key,
  run_id text not null unique,
  machine text not null,
  digest text not null,
  status text not null check
    (status in ('live', 'done', 'failed', 'error', 'cancelled', 'lost', 'drifted')),
  reason text,
  created_ms integer not null,
  ended_ms integer,
  head blob not null check (length(head) = 52),
  blob blob not null
) strict""",
    """insert into runs_with_heads
select id, run_id, machine, digest, status, reason, created_ms, ended_ms,
  cast(printf('%016d %016d %016d %d', revision, updated_ms, min(due_ms, 9999999999999999), parked)
    as blob), blob
from runs order by id""",
    "drop table runs",
    "alter table runs_with_heads rename to runs",
    "create index runs_live on runs(id) where status = 'live'",
    "create index runs_ended on runs(ended_ms) where status <> 'live'",
    "pragma user_version = 6",
)

# Step n takes a file from schema n - 1 to n and ends with the record of it. A released step
# is never edited: files that it made are out there.
STEPS: Final[tuple[tuple[str, ...], ...]] = (
    *(_FIRST, _MAILBOX, _STORAGE, _WORKSPACES, _AUDIENCES),
    *(_HEADS,),
)
SCHEMA_VERSION: Final = len(STEPS)
MAIL_SINCE_SCHEMA: Final = 2
"""From there on a mailbox takes what this release hands in."""

_RUNS: Final = """
select id, cast(run_id as blob), status, length(runs.head) from runs order by id"""
_WHOLE: Final = "select * from runs where id = ?"
_HINT: Final = (
    "The earlier release still runs all others: with it, take these runs from a backup, or delete"
    " their rows"
)
_READ_VERSION: Final = "select user_version from pragma_user_version"
_READ_APPLICATION: Final = "select application_id from pragma_application_id"
_COUNT_TABLES: Final = "select count(*) from sqlite_schema"


def migrate(database: Database, steps: tuple[tuple[str, ...], ...] = STEPS) -> None:
    """Bring a file that is blank or ours to the last of `steps`.

    Several processes may do so at once: each takes the write lock, looks where the file
    stands, and does what is left. Raises `NewerFileError` or `ForeignFileError`, and then
    has written nothing.
    """
    if _version(database) < len(steps):
        _take_steps(database, steps)
    found = _version(database)
    if found > len(steps):
        raise NewerFileError(database.path, found, len(steps))
    if _application(database) != APPLICATION_ID:
        raise ForeignFileError(database.path)


def migrate_for_mail(database: Database) -> None:
    """Bring a file to where it has a mailbox, and no further: its host may be of that release.

    A blank file, which no host can have open, is brought to the last step. Raises as `migrate`.
    """
    if is_older(database):
        _take_steps(database, STEPS[:MAIL_SINCE_SCHEMA])
    else:
        migrate(database)


def is_older(database: Database) -> bool:
    """Whether an earlier release has made the file, so that one may have it open."""
    return 0 < _version(database) < SCHEMA_VERSION


def require_current(database: Database) -> None:
    """Raise `MigrationError` if a file that may only be read is not at the last step."""
    found = _version(database)
    if found < SCHEMA_VERSION:
        reason = f"it has schema {found}, expected {SCHEMA_VERSION}: open it for writing once"
        raise MigrationError(database.path, reason)


def _take_steps(database: Database, steps: tuple[tuple[str, ...], ...]) -> None:
    for number in range(1, len(steps) + 1):
        try:
            _take_step(database, steps, number)
        except StorageError as error:
            # Neither a lock nor a disk without room: something in the file is in the way.
            if type(error) not in (StorageError, StorageCorruptError):
                raise
            damaged = list(islice(_damaged(database), DAMAGE_SHOWN_MAX)) if number > 1 else []
            if not damaged:
                raise
            raise MigrationError(database.path, f"{'; '.join(damaged)}. {_HINT}") from error


def _take_step(database: Database, steps: tuple[tuple[str, ...], ...], number: int) -> None:
    if _version(database) < number:
        with database.transaction(f"migrate to schema {number}"):
            if _version(database) >= number:
                return
            if number == 1:
                _require_blank(database)
            for statement in steps[number - 1]:
                database.run(statement)
            assert _version(database) == number, f"step {number} does not end with its record"


def _damaged(database: Database) -> Iterator[str]:
    """Say of each run that keeps a file from being copied what is damaged of it."""
    seen: set[bytes] = set()
    try:
        has_heads = _version(database) >= HEADS_SINCE_SCHEMA
        sql = _RUNS if has_heads else _RUNS.replace(HEAD, HEAD_OF_COLUMNS)
        rows = database.rows("look for damage", sql)
    except StorageError as error:
        yield f"the runs cannot be listed ({error.detail})"
        return
    for row, run_id, status, head_bytes in rows:
        name = f"row {row}" if run_id is None else f"row {row}, run {_shown(run_id)}"
        if run_id in seen:
            yield f"{name}: another row has that id"
        elif status not in STATUSES:
            yield f"{name}: its status is {_shown(status)}"
        elif head_bytes != HEAD_BYTES:
            yield f"{name}: its revision, a time of it, or whether it waits is out of bounds"
        else:
            try:
                database.row("look for damage", _WHOLE, (row,))
            except StorageError as error:
                yield f"{name}: it cannot be read ({error.detail})"
        seen.add(run_id)


def _shown(text: object) -> str:
    return repr(text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text)


def _require_blank(database: Database) -> None:
    """Raise `ForeignFileError` if another program has got there in the meantime."""
    tables = database.row("migrate", _COUNT_TABLES)
    if _application(database) != 0 or tables != (0,):
        raise ForeignFileError(database.path)


def _version(database: Database) -> int:
    return _number(database, _READ_VERSION)


def _application(database: Database) -> int:
    return _number(database, _READ_APPLICATION)


def _number(database: Database, sql: str) -> int:
    row = database.row("read the schema", sql)
    assert row is not None, "a pragma has one row"
    return int(row[0])
